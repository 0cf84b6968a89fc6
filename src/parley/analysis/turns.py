"""The table `turns`: what each agent did in each round, from the traces of the records.

It is the largest table: it is written piece by piece, so that it never lies in memory as a whole.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.analysis.columns import columns_of, in_study
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import csv_text, marked
from parley.errors import RecordError
from parley.files import write_atomically
from parley.games.parameters import BYZANTINE
from parley.study import Study
from parley.text import one_line

NAME = "turns"
Recorded = tuple[PlayedGame, Trace]
_ROWS = 50_000  # that are written at once


def write_turns(study: Study, pieces: Iterable[tuple[pa.Table, bytes]]) -> None:
    """Write the table from its pieces, as `turn_piece` makes them; raises RecordError if the disk refuses."""

    def write(parquet: BinaryIO) -> None:
        write_atomically(paths.table(study.name, NAME, ".csv"), lambda csv: _write(study, pieces, parquet, csv))

    write_atomically(paths.table(study.name, NAME, ".parquet"), write)


def turn_piece(study: Study, recorded: Iterable[Recorded]) -> tuple[pa.Table, bytes]:
    """Return the rows of some simulations as a table and as lines of CSV; raises as `turn_table`."""
    table = marked(turn_table(study, recorded), study)
    return table, csv_text(table, header=False).encode()


def _write(study: Study, pieces: Iterable[tuple[pa.Table, bytes]], parquet: BinaryIO, csv: BinaryIO) -> None:
    left = marked(turn_schema(study).empty_table(), study)
    csv.write(csv_text(left).encode())
    with pq.ParquetWriter(parquet, left.schema) as writer:
        for table, lines in pieces:
            csv.write(lines)
            left = pa.concat_tables([left, table]).combine_chunks()
            while len(left) >= _ROWS:
                writer.write_table(left[:_ROWS])
                left = left[_ROWS:]
        if len(left):
            writer.write_table(left)


def turn_schema(study: Study) -> pa.Schema:
    """Return the schema of the table; it is the same for all studies of the built-in games with the same axes."""
    fields = []
    for column in in_study(columns_of(NAME, study.axes, study.game), study):
        values = [condition.axes[column.name] for condition in study.conditions] if column.arrow is None else []
        fields.append(pa.field(column.name, column.arrow or pa.array(values).type))
    return pa.schema(fields)


def turn_table(study: Study, recorded: Iterable[Recorded]) -> pa.Table:
    """Return the rows of some simulations, one per agent and round; raises RecordError for another game's trace."""
    schema = turn_schema(study)
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    numbers = {field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)}
    for game, trace in recorded:
        _add(columns, numbers, game, trace)
    try:
        return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema)
    except pa.ArrowException as error:
        raise RecordError(f"{study.name}: {NAME}: the game {study.game.name}: {one_line(str(error))}") from None


def _add(columns: Mapping[str, list[Any]], numbers: Collection[str], game: PlayedGame, trace: Trace) -> None:
    """Add the rows of one simulation, in the order of its game. No game can say what an agent is."""
    simulation = game.simulation
    try:
        rows = list(simulation.condition.game.evidence.columns.rows(game.summary.outcome, trace))
        seats = [game.seats[row["agent"]] for row in rows]
        names = dict.fromkeys(chain.from_iterable(rows))
        cells = {name: [row.get(name) for row in rows] for name in names}
        cells |= {name: list(map(_cell, cells[name])) for name in names if name not in numbers}
    except (LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{simulation.id}: its trace tells of no turns: {one_line(repr(error), 150)}") from None
    same = {**simulation.condition.axes, "seed": simulation.seed, "id": simulation.id}
    cells |= {name: [value] * len(rows) for name, value in same.items()}
    cells |= {"role": [role for role, _ in seats], "player": [label for _, label in seats]}
    cells["is_byzantine"] = [role == BYZANTINE for role in cells["role"]]
    for name, column in columns.items():
        column += cells.get(name) or [None] * len(rows)


_shown = lru_cache(maxsize=10_000)(one_line)  # names and votes are the same in every row


def _cell(value: Any) -> Any:
    """Return a value as it stands in the table: texts on one line, as they may be a model's; lists as JSON."""
    if isinstance(value, str):
        return _shown(value)
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
