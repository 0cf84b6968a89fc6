"""The `ledger` stage: one chain per study, from the records of its simulations, and a table of its blocks.

The order is the study's: seeds outermost, then conditions, then the sessions of a simulation. Neither times nor
machines are in it: the same records give the same bytes.
"""

import logging
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from parley import paths
from parley.analysis.tables import names_of, write_table
from parley.errors import RecordError, UsageError
from parley.files import write_atomically
from parley.identity import canonical_json
from parley.ledger import check
from parley.ledger.block import GENESIS, make_block
from parley.play.record import read_trace
from parley.play.record_store import played_part, read_records
from parley.study import Study
from parley.text import one_line, table

_log = logging.getLogger(__name__)

TABLE = "ledger"


def build(study: Study) -> pd.DataFrame:
    """Write the ledger of a study and the table of its blocks, and return the table.

    It is of what is played; damaged records are named and left out. Raises UsageError if its game keeps no ledger,
    RecordError if nothing is played, or a record tells of sessions that no chain can hold.
    """
    rows: list[dict[str, Any]] = []
    chain = paths.ledger(study.name)

    def write(file: BinaryIO) -> None:
        for _, row, line in links(study):
            file.write(line)
            rows.append(row)

    write_atomically(chain, write)
    last = rows[-1]["hash"] if rows else GENESIS
    write_atomically(paths.ledger_head(chain), lambda file: file.write(check.head_line(len(rows), last)))
    table = pd.DataFrame(rows, columns=names_of(TABLE, study.axes, study.game))
    write_table(table, study, TABLE)
    limit, sizes = study.content.ledger.block_limit, table["block_bytes"]
    if limit is not None and (over := int((sizes > limit).sum())):
        most = f"{sizes.max():,}"
        _log.warning("%s of %s blocks have more than block_limit (%s bytes), up to %s", over, len(sizes), limit, most)
    return table


def check_against_records(study: Study) -> check.ChainChecker:
    """Check the ledger of a study, and that it is the one of its records; raises RecordError for a bad place."""
    chain, checker = paths.ledger(study.name), check.ChainChecker()
    again = "if the study changed since, run: parley ledger build"
    for height, (line, made) in enumerate(zip_longest(check.checked_lines(chain, checker), links(study))):
        if made is None:
            raise RecordError(f"{chain}: block {height}: the study's records give {height} blocks only; {again}")
        where, _, right = made
        if line is None:
            raise RecordError(f"{chain}: ends before block {height} ({where}); {again}")
        if line != right:
            raise RecordError(f"{chain}: block {height}: not what {where} gives; {again}")
    return checker


def links(study: Study) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Yield of each block of a study's chain which record and session it is of, its row, and the block as stored.

    Raises as `build`.
    """
    game, checker = study.game, check.ChainChecker()
    if not game.evidence.keeps_ledger:
        raise UsageError(f"{study.file}: its game, {game.name}, keeps no ledger")
    records = read_records(played_part(study))
    for simulation, summary in zip(records.simulations, records.summaries, strict=True):
        record = simulation.record(study.name)
        try:
            for number, session in enumerate(game.evidence.sessions(summary.outcome, read_trace(record))):
                block = make_block(game.name, simulation.id, number, session, checker.blocks, checker.last)
                line = check.block_line(block)
                checker.add(line)  # a game of the user's own may tell of sessions that no chain can hold
                row = {
                    **simulation.condition.axes,
                    "seed": simulation.seed,
                    "height": block["height"],
                    "session": number,
                    "agreed": block["agreed"],
                    "agents": len(block["agents"]),
                    "utterances": block["spoken"],
                    "rounds": len({said.round for said in session.utterances}),
                    "block_bytes": len(line),
                    "hash": block["hash"],
                    "spec": simulation.condition.spec,
                    "id": simulation.id,
                }
                yield f"{record}, session {number}", row, line
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RecordError(f"{record}: cannot be chained: {one_line(str(error), 200)}") from None


_HEADER = ("block", "simulation", "session", "agreed", "agents", "utterances", "bytes", "verdict", "hash")


def overview(path: Path) -> list[str]:
    """Return the lines of a table of the blocks of a chain, whose shape alone is checked; raises RecordError."""
    rows = []
    with check.open_chain(path) as file:
        for height, line in enumerate(check.lines(file)):
            try:
                block = check.parse_block(line)
            except ValueError as error:
                raise RecordError(f"{path}: block {height}: {error}") from None
            agreed, verdict = "yes" if block.agreed else "hung", canonical_json(block.verdict)
            begins = (block.height, block.simulation[:12], block.session, agreed, len(block.agents), block.spoken)
            rows.append((*begins, len(line), verdict, block.hash[:12]))
    return table(_HEADER, rows)
