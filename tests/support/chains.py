"""Chains of sessions that tests make up, and what an attacker can do to them."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from parley import paths
from parley.games.evidence import Session, Utterance
from parley.ledger.block import SignedUtterance, block_hash, genesis, make_block, meets, sign_session, utterances_root
from parley.ledger.check import ChainChecker, block_line, head_line

Block = dict[str, Any]
SIMULATIONS = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(4)]
GAME = "council"
AGENTS = ("agent_1", "agent_2", "agent_3")


def session(
    rounds: Iterable[int] = (1,), agreed: bool = True, agents: Sequence[str] = AGENTS, **changes: Any
) -> Session:
    """Return a session in which each agent says something in each round."""
    said = [
        Utterance(number, agent, {"answer": number, "why": f"{agent}: é"}) for number in rounds for agent in agents
    ]
    parts: dict[str, Any] = {
        "subject": {"problem": 7},
        "parameters": {"turns": 2},
        "verdict": {"answer": 42},
        **changes,
    }
    return Session(agents=tuple(agents), utterances=tuple(said), agreed=agreed, **parts)


def chain(*simulations: Sequence[Session], difficulty: int = 0, game: str = GAME) -> list[bytes]:
    """Return the lines of a chain: for each simulation its sessions, in order."""
    lines: list[bytes] = []
    previous = genesis(difficulty)
    for simulation, sessions in zip(SIMULATIONS, simulations, strict=False):
        for number, one in enumerate(sessions):
            block = make_block(sign_session(game, simulation, number, one), len(lines), previous, difficulty)
            previous = block["hash"]
            lines.append(block_line(block))
    return lines


def ordinary(difficulty: int = 0) -> list[bytes]:
    """Return a chain of four blocks: agreed at once; hung, then agreed without agent_3; agreed after two rounds."""
    return chain(
        [session()],
        [session(agreed=False), session((2,), agents=AGENTS[:2])],
        [session((1, 2))],
        difficulty=difficulty,
    )


def problem(lines: Iterable[bytes]) -> str:
    """Return what is wrong with the lines of a chain; "" if nothing is."""
    checker = ChainChecker()
    try:
        for line in lines:
            checker.add(line)
    except ValueError as error:
        return str(error)
    return ""


def changed(lines: Sequence[bytes], height: int, change: Callable[[Block], object]) -> list[bytes]:
    """Return the lines with one block changed, written canonically, and no hash computed again."""
    block = json.loads(lines[height])
    change(block)
    return [*lines[:height], block_line(block), *lines[height + 1 :]]


def forged(lines: Sequence[bytes], height: int, change: Callable[[Block], object]) -> list[bytes]:
    """Return the lines with one block changed, and all roots, nonces, hashes and heights from there on made to fit."""
    blocks = [json.loads(line) for line in lines]
    change(blocks[height])
    for number, block in enumerate(blocks[height:], height):
        if number:
            block["previous"] = blocks[number - 1]["hash"]
        utterances = [SignedUtterance.model_construct(**said) for said in block["utterances"]]
        block["merkle_root"] = utterances_root(block["simulation"], block["session"], utterances)
        block["nonce"] = 0
        while not meets(block_hash(block), block["difficulty"]):
            block["nonce"] += 1
        block["hash"] = block_hash(block)
    return [*map(block_line, blocks)]


def write_chain(path: Path, lines: Sequence[bytes], head: bool = True) -> Path:
    """Write a chain, and its head beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    if head:
        paths.ledger_head(path).write_bytes(head_line(len(lines), json.loads(lines[-1])["hash"]))
    return path
