"""Records that somebody changed: with intent, so that all checksums are right again, or without."""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.games.evidence import Session, Utterance
from parley.identity import machine
from parley.ledger.block import GENESIS, block_hash, make_block, utterances_root
from parley.ledger.check import ChainChecker, block_line, head_line
from parley.play import record
from parley.play.parquet import write_parquet
from support.playing import ACTIONS

Rows = Callable[[list[dict[str, Any]]], Any]
Meta = Callable[[dict[str, Any]], Any]


def forge(path: Path, rows: Rows | None = None, meta: Meta | None = None, trace: Any = None) -> Path:
    """Change the rows, the metadata or the trace of a record, and make its checksums anew."""
    table = pq.read_table(path, partitioning=None)
    found = table.to_pylist()
    described, own = (json.loads(table.schema.metadata[key]) for key in (b"parley", b"parley_trace"))
    if rows is not None:
        rows(found)
    if meta is not None:
        meta(described)
    schema = table.schema.remove_metadata()
    path.write_bytes(
        record.packed(pa.Table.from_pylist(found, schema=schema), described, own if trace is None else trace)
    )
    return path


def edit(path: Path, rows: Rows) -> Path:
    """Change the rows of a record, and keep the metadata as it is."""
    table = pq.read_table(path, partitioning=None)
    found = table.to_pylist()
    rows(found)
    changed = pa.Table.from_pylist(found, schema=table.schema.remove_metadata())
    path.write_bytes(write_parquet(changed, lambda pages: table.schema.metadata))
    return path


def with_metadata(path: Path, key: bytes, text: bytes | None, name: str = "rewritten") -> Path:
    """Write a record once more, beside it, with another text in its metadata or none, and a right checksum of that."""
    table = pq.read_table(path, partitioning=None)
    metadata = {at: value for at, value in {**table.schema.metadata, key: text}.items() if value is not None}
    other = path.with_name(f"{name}.parquet")
    other.write_bytes(write_parquet(table, lambda pages: metadata))
    return other


# Games of our own making in the formats that can be imported: words "stag", actions as letters, a round a text


FAMILIES = ("Mixtral", "Qwen", "Llama", "DeepSeek")
Change = Callable[[dict[str, Any]], object]


def payoffs(actions: Sequence[str]) -> list[int]:
    """Return what the published game pays for the actions of a round, as letters."""
    return [3 if action == "h" else 0 if "h" in actions else 10 for action in actions]


def cheap_talk(rounds: Sequence[str], adversary: int | None = None, **meta: Any) -> dict[str, Any]:
    """Return the content of a results.json; `adversary` is the number of an agent, from 1."""
    names = [f"Agent_{place + 1}" for place in range(len(rounds[0]))]
    agents = [{"name": n, "model": f"org/{f}-1", "model_family": f} for n, f in zip(names, FAMILIES, strict=False)]
    data: list[dict[str, Any]] = []
    for number, letters in enumerate(rounds, 1):
        words = dict.fromkeys(names, "stag")
        choices = {name: ACTIONS[letter] for name, letter in zip(names, letters, strict=True)}

        def decided(actions: Mapping[str, Any]) -> dict[str, Any]:
            return {
                agent["name"]: {
                    "reasoning": "so",
                    "action": actions[agent["name"]],
                    "model_family": agent["model_family"],
                }
                for agent in agents
            }

        said = {name: {"type": "communicate", "word": word} for name, word in words.items()}
        did = {name: {"choice": choice} for name, choice in choices.items()}
        data.append(
            {"round": number, "stage": "communication", "communications": words, "full_decisions": decided(said)}
        )
        data.append(
            {
                "round": number,
                "communications": words,
                "choices": choices,
                "payoffs": dict(zip(names, payoffs(letters), strict=True)),
                "full_decisions": decided(did),
            }
        )
    chosen = {} if adversary is None else {"adversary_agents": [f"Agent_{adversary}"]}
    about = {"experiment": "byzantine_cheap_talk", "rounds": len(rounds), "agents": agents, **chosen, **meta}
    return {"rounds_data": data, "metadata": about}


def write_cheap_talk(folder: Path, trial: int, content: Mapping[str, Any], change: Change | None = None) -> Path:
    """Write a game as the published code lays it out; `change` damages it."""
    file = folder / f"trial_{trial:02d}" / "results.json"
    file.parent.mkdir(parents=True)
    copy = json.loads(json.dumps(content)) | {"trial": trial}
    if change is not None:
        change(copy)
    file.write_text(json.dumps(copy), encoding="utf-8")
    return file


# Chains of sessions that tests make up, and what an attacker can do to them


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


def chain(*simulations: Sequence[Session]) -> list[bytes]:
    """Return the lines of a chain: for each simulation its sessions, in order."""
    lines: list[bytes] = []
    previous = GENESIS
    for simulation, sessions in zip(SIMULATIONS, simulations, strict=False):
        for number, one in enumerate(sessions):
            block = make_block(GAME, simulation, number, one, len(lines), previous)
            previous = block["hash"]
            lines.append(block_line(block))
    return lines


def ordinary() -> list[bytes]:
    """Return a chain of four blocks: agreed at once; hung, then agreed without agent_3; agreed after two rounds."""
    return chain(
        [session()],
        [session(agreed=False), session((2,), agents=AGENTS[:2])],
        [session((1, 2))],
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
    """Return the lines with one block changed, and all roots, hashes and heights from there on made to fit."""
    blocks = [json.loads(line) for line in lines]
    change(blocks[height])
    for number, block in enumerate(blocks[height:], height):
        if number:
            block["previous"] = blocks[number - 1]["hash"]
        block["merkle_root"] = utterances_root(block["simulation"], block["session"], block["utterances"])
        block["hash"] = block_hash(block)
    return [*map(block_line, blocks)]


def write_chain(path: Path, lines: Sequence[bytes]) -> Path:
    """Write a chain, and its head beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    paths.ledger_head(path).write_bytes(head_line(len(lines), json.loads(lines[-1])["hash"]))
    return path


# Events of processes


def write_events(
    folder: Path,
    stage: str,
    *events: Mapping[str, Any],
    host: str = "",
    pid: int = 0,
    began: float | None = None,
    at: float | None = None,
    **facts: str,
) -> Path:
    """Write what a process would tell, by default this one; `at` is when it wrote, in seconds since the epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.time() if began is None else began
    first = {"event": "began", "stage": stage, "host": host or machine(), "pid": pid or os.getpid(), **facts}
    path = folder / f"{first['host']}-{first['pid']}-{uuid.uuid4().hex}.jsonl"
    path.write_text("".join(json.dumps({"at": began, **event}) + "\n" for event in (first, *events)))
    if at is not None:
        os.utime(path, (at, at))
    return path
