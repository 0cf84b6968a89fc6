"""A block: one session of one simulation, its signed utterances if it agreed, and its hash.

A block is stored as one line, its canonical JSON. The hash covers all but itself: the utterances through the Merkle
root over them, the rest directly.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from parley.games.evidence import Session
from parley.identity import canonical_json, digest
from parley.ledger.signing import AgentKey
from parley.study.study_file import LEDGER_FORMAT
from parley.text.yamlfile import StrictModel

_BLOCK_DOMAIN = "parley/block/1"
_NOT_IN_HEADER = ("hash", "utterances")
_NOT_SIGNED = (*_NOT_IN_HEADER, "nonce")
# What the first block of a chain names as the block before: a hash over what all its blocks share.
GENESIS = digest(
    {"domain": "parley/genesis/1", "format": LEDGER_FORMAT, "hash": "sha256", "signature": "ed25519", "difficulty": 0}
)

_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
_Count = Annotated[int, Field(ge=0, le=2**63)]
_Zero = Annotated[int, Field(ge=0, le=0)]  # format 2 has room for a proof of work, which no chain has; false is no 0


class BlockSigner(StrictModel):
    """An agent who took part, its public key, and its signature of the block."""

    name: _Name
    key: _Hash
    signature: _Signature


class SignedUtterance(StrictModel):
    """What one agent said in one round, and its signature."""

    round: _Count
    agent: _Name
    content: dict[str, Any]
    signature: _Signature


class Block(StrictModel):
    """A block as it stands on the chain. `spoken` counts the utterances of the session, on the chain or not."""

    format: Literal[2]
    game: _Name
    height: _Count
    previous: _Hash
    simulation: _Hash
    session: _Count
    subject: dict[str, Any]
    parameters: dict[str, Any]
    agents: list[BlockSigner]
    agreed: bool
    verdict: dict[str, Any]
    spoken: _Count
    utterances: list[SignedUtterance]
    merkle_root: _Hash
    difficulty: _Zero
    nonce: _Zero
    hash: _Hash


def make_block(
    game: str, simulation: str, number: int, session: Session, height: int, previous: str, spoken: int | None = None
) -> dict[str, Any]:
    """Return the block of a session as JSON values, signed by each agent (section VII.3).

    That of a session that did not agree has no utterances, only the parameters of the deliberation (section VI);
    `spoken` is then what a block that is checked says itself: how many utterances there were. Raises ValueError for
    strangers, TypeError for what is no JSON.
    """
    keys = {name: AgentKey(simulation, name) for name in session.agents}
    if len(keys) < len(session.agents):
        raise ValueError("an agent is named twice")
    if strangers := {said.agent for said in session.utterances}.difference(keys):
        raise ValueError(f"{min(strangers)} speaks and takes no part")
    utterances = [
        {
            "round": said.round,
            "agent": said.agent,
            "content": dict(said.content),
            "signature": keys[said.agent].sign(number, said.round, said.content),
        }
        for said in session.utterances
        if session.agreed
    ]
    block: dict[str, Any] = {
        "format": LEDGER_FORMAT,
        "game": game,
        "height": height,
        "previous": previous,
        "simulation": simulation,
        "session": number,
        "subject": dict(session.subject),
        "parameters": dict(session.parameters),
        "agents": [{"name": key.agent, "key": key.public} for key in keys.values()],
        "agreed": session.agreed,
        "verdict": dict(session.verdict),
        "spoken": len(session.utterances) if spoken is None or session.agreed else spoken,
        "utterances": utterances,
        "merkle_root": utterances_root(simulation, number, utterances),
        "difficulty": 0,
        "nonce": 0,
    }
    signed = digest({key: value for key, value in block.items() if key not in _NOT_SIGNED})
    for signer, key in zip(block["agents"], keys.values(), strict=True):
        signer["signature"] = key.sign_block(signed)
    return {**block, "hash": block_hash(block)}


def block_hash(block: Mapping[str, Any]) -> str:
    """Return the hash of a block, 64 hexadecimal digits; what stands under `hash` is left aside."""
    header = {key: value for key, value in block.items() if key not in _NOT_IN_HEADER}
    return digest({"domain": _BLOCK_DOMAIN, **header})


def utterances_root(simulation: str, session: int, utterances: Sequence[Mapping[str, Any]]) -> str:
    """Return the Merkle root over signed utterances as they are sent: with where they belong."""
    place = {"simulation": simulation, "session": session}
    return merkle_root([leaf_hash(canonical_json({**said, **place}).encode("ascii")) for said in utterances]).hex()


# The Merkle tree of RFC 6962 (section 2.1). Leaves and inner nodes are hashed in domains of their own, so that none
# passes for the other. A tree whose leaves are no power of two is split, not filled up: where the last leaf is counted
# twice, lists of other lengths have the same root (CVE-2012-2459).


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over the hashes of leaves (`leaf_hash`), 32 bytes; that of no leaf is the hash of nothing."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1  # the largest power of two below their number
    return hashlib.sha256(b"\x01" + merkle_root(leaves[:left]) + merkle_root(leaves[left:])).digest()
