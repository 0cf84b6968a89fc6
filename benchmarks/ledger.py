"""What it costs to make and to check a ledger of 10,000 utterances.

They are made up, 600 characters of text each: what a ledger costs does not depend on what is said. They are chained
by the functions of the stage, without a study, and checked by the command.
"""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import PARLEY, Row, cheapest, temporary_folder
from parley import paths
from parley.games.evidence import Session, Utterance
from parley.ledger.block import genesis, make_block, sign_session
from parley.ledger.check import block_line, head_line

UTTERANCES = 10_000
AGENTS = tuple(f"agent_{number}" for number in range(1, 9))
ROUNDS = 5
BLOCKS = UTTERANCES // (len(AGENTS) * ROUNDS)
CHAIN = Path("chain.jsonl")


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    sessions = [_session(number) for number in range(BLOCKS)]
    start, previous, lines = time.perf_counter(), genesis(0), []
    for height, session in enumerate(sessions):
        simulation = hashlib.sha256(b"%d" % height).hexdigest()
        block = make_block(sign_session("made_up", simulation, 0, session), height, previous, 0)
        previous = block["hash"]
        lines.append(block_line(block))
    made = time.perf_counter() - start
    what = f"{UTTERANCES:,} utterances of 600 characters in {BLOCKS} blocks"
    yield Row(f"{what}: signed and chained", f"{made:.2f} s")
    size = sum(map(len, lines))
    yield Row("their ledger", f"{size / 1e6:.1f} MB, {size / BLOCKS / 1000:.1f} kB a block")
    with temporary_folder():
        CHAIN.write_bytes(b"".join(lines))
        paths.ledger_head(CHAIN).write_bytes(head_line(len(lines), previous))
        checked = cheapest(*[(*PARLEY, "ledger", "verify", str(CHAIN))] * 3)
        yield Row("`parley ledger verify` of it, as a process", checked)


def _session(number: int) -> Session:
    said = []
    for turn in range(1, ROUNDS + 1):
        for agent in AGENTS:
            argument = (f"{agent} in turn {turn}. " + "word " * 120)[:600]
            said.append(Utterance(turn, agent, {"answer": str(number), "argument": argument}))
    return Session({"problem": number}, AGENTS, {"turns": ROUNDS}, tuple(said), True, {"answer": str(number)})
