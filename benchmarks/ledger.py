"""What it costs to make and to check a ledger of 10,000 utterances.

They are made up, 600 characters of text each: what a ledger costs does not depend on what is said. They are chained
by the functions of the stage, without a study, and checked by the command.
"""

import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import PARLEY, Row, best, temporary_folder
from parley import paths
from parley.files import write_atomically
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
    with temporary_folder():
        yield from _ledger()


def _ledger() -> Iterator[Row]:
    sessions = [_session(number) for number in range(BLOCKS)]
    start = time.perf_counter()
    lines = list(_chain(sessions))
    made = time.perf_counter() - start
    what = f"{UTTERANCES:,} utterances of 600 characters in {BLOCKS} blocks"
    yield Row(f"{what}: signed and chained", f"{made:.2f} s", "")
    size = sum(map(len, lines))
    write_atomically(CHAIN, lambda file: file.writelines(lines))
    last = lines[-1].split(b'"hash":"', 1)[1][:64].decode()
    write_atomically(paths.ledger_head(CHAIN), lambda file: file.write(head_line(len(lines), last)))
    yield Row("their ledger", f"{size / 1e6:.1f} MB, {size / BLOCKS / 1000:.1f} kB a block", "")
    yield Row("`parley ledger verify` of it, as a process", str(best(3, *PARLEY, "ledger", "verify", str(CHAIN))), "")
    _check_that_it_checks(lines)


def _check_that_it_checks(lines: list[bytes]) -> None:
    """Exit if the last signature is not looked at: then nothing was measured."""
    from parley.errors import RecordError
    from parley.ledger.check import check_chain

    at = lines[-1].rindex(b'"signature":"') + len(b'"signature":"')
    spoiled = lines[-1][:at] + bytes([lines[-1][at] ^ 1]) + lines[-1][at + 1 :]
    CHAIN.write_bytes(b"".join([*lines[:-1], spoiled]))
    try:
        check_chain(CHAIN)
    except RecordError:
        return
    sys.exit("a changed signature was not found")


def _simulation(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def _session(number: int) -> Session:
    said = [
        Utterance(
            turn, agent, {"answer": str(number), "argument": (f"{agent} in turn {turn}. " + "word " * 120)[:600]}
        )
        for turn in range(1, ROUNDS + 1)
        for agent in AGENTS
    ]
    return Session({"problem": number}, AGENTS, {"turns": ROUNDS}, tuple(said), True, {"answer": str(number)})


def _chain(sessions: list[Session]) -> Iterator[bytes]:
    previous = genesis(0)
    for height, session in enumerate(sessions):
        block = make_block(sign_session("made_up", _simulation(height), 0, session), height, previous, 0)
        previous = block["hash"]
        yield block_line(block)
