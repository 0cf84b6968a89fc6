import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from parley.identity import canonical_json
from parley.ledger.block import GENESIS, Block, block_hash, leaf_hash, merkle_root
from parley.ledger.signing import AgentKey
from support.records import AGENTS, SIMULATIONS, chain, ordinary, session

pytestmark = pytest.mark.promise(
    "Blocks, Merkle roots and signatures are those of the documented messages and of published vectors."
)


def block_of(**changes: object) -> Block:
    [line] = chain([session((1, 2), **changes)])  # type: ignore[arg-type]
    return Block.model_validate(json.loads(line))


def test_an_agreed_session_is_on_the_chain_in_full_and_a_hung_one_with_its_parameters_alone() -> None:
    agreed, hung = block_of(), block_of(agreed=False)
    assert [(said.round, said.agent) for said in agreed.utterances] == [(r, a) for r in (1, 2) for a in AGENTS]
    assert agreed.utterances[0].content == {"answer": 1, "why": "agent_1: é"}
    assert (agreed.agreed, agreed.spoken, agreed.verdict) == (True, 6, {"answer": 42})
    assert (hung.agreed, hung.spoken, hung.parameters, hung.utterances) == (False, 6, {"turns": 2}, [])
    assert [signer.name for signer in hung.agents] == list(AGENTS)
    assert hung.merkle_root == hashlib.sha256(b"").hexdigest()


def test_the_hash_is_that_of_the_documented_header() -> None:
    block = json.loads(chain([session()])[0])
    header = {key: value for key, value in block.items() if key not in ("hash", "utterances")}
    text = canonical_json({**header, "domain": "parley/block/1"})
    assert block["hash"] == hashlib.sha256(text.encode()).hexdigest() == block_hash(block)


def test_each_block_names_the_one_before_in_bytes_that_are_always_the_same() -> None:
    blocks = [json.loads(line) for line in ordinary()]
    assert [block["previous"] for block in blocks] == [GENESIS, *(block["hash"] for block in blocks[:-1])]
    assert [block["height"] for block in blocks] == [0, 1, 2, 3]
    assert ordinary() == ordinary()


# The Merkle tree


def test_the_root_is_that_of_the_test_vectors_of_certificate_transparency() -> None:
    # The inputs and roots of the reference implementation's tests (google/certificate-transparency, merkle_tree_test).
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    leaves = [leaf_hash(bytes.fromhex(text)) for text in inputs]
    for count, root in [
        (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
        (7, "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
        (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
    ]:
        assert merkle_root(leaves[:count]).hex() == root, count


# Signatures

KEY = AgentKey(SIMULATIONS[0], "agent_1")
CONTENT = {"answer": 7, "why": "a < b"}


def test_each_agent_of_each_simulation_has_a_key_of_its_own_and_always_the_same() -> None:
    again = AgentKey(SIMULATIONS[0], "agent_1")
    assert again.sign(0, 1, CONTENT) == KEY.sign(0, 1, CONTENT)
    # Written down, so that a change of how keys are derived is seen: chains that exist would no longer hold.
    assert again.public == KEY.public == "52bab441f41f3d453cd3e9b0bdfeafd9d1fdad7a248d036dab7105bb3debf857"
    keys = {AgentKey(simulation, agent).public for simulation in SIMULATIONS for agent in ("agent_1", "agent_2")}
    assert len(keys) == 2 * len(SIMULATIONS)


def test_what_is_signed_is_ed25519_of_the_documented_message() -> None:
    """Checked with the library alone, as anyone can who reads docs/reference/ledger.md."""
    message = (
        '{"agent":"agent_1","content":{"answer":7,"why":"a < b"},"domain":"parley/utterance/1","round":3,"session":2,'
        f'"simulation":"{SIMULATIONS[0]}"}}'
    )
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(KEY.public))
    public.verify(bytes.fromhex(KEY.sign(2, 3, CONTENT)), message.encode())
