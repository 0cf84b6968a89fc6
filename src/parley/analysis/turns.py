"""The table `turns`: what each agent did in each round, from the traces of the records.

It is the largest table: it is written piece by piece, so that it never lies in memory as a whole.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.analysis.columns import columns_of
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import csv_text, marked
from parley.analysis.traces import Recorded
from parley.errors import RecordError
from parley.files import write_atomically
from parley.games.parameters import BYZANTINE
from parley.study import Study
from parley.text import one_line

NAME = "turns"
_ROWS = 50_000  # of a piece


def write_turns(study: Study, recorded: Iterable[Recorded]) -> None:
    """Write the table, a row per agent and round of each simulation; raises RecordError if the disk refuses.

    `recorded` is read to its end, once, and may yield what lies on a disk.
    """

    def write(parquet: BinaryIO) -> None:
        write_atomically(paths.table(study.name, NAME, ".csv"), lambda csv: _write(study, recorded, parquet, csv))

    write_atomically(paths.table(study.name, NAME, ".parquet"), write)


def turn_table(study: Study, recorded: Iterable[Recorded]) -> pd.DataFrame:
    """Return the table in memory; nothing is written."""
    whole: pd.DataFrame = pa.concat_tables([turn_schema(study).empty_table(), *_pieces(study, recorded)]).to_pandas()
    return whole


def _write(study: Study, recorded: Iterable[Recorded], parquet: BinaryIO, csv: BinaryIO) -> None:
    empty = marked(turn_schema(study).empty_table(), study)
    csv.write(csv_text(empty).encode())
    with pq.ParquetWriter(parquet, empty.schema) as writer:
        for table in (marked(piece, study) for piece in _pieces(study, recorded)):
            writer.write_table(table)
            csv.write(csv_text(table, header=False).encode())


def _pieces(study: Study, recorded: Iterable[Recorded]) -> Iterator[pa.Table]:
    schema = turn_schema(study)
    rows = (row for game, trace in recorded for row in turn_rows(game, trace))
    while piece := list(islice(rows, _ROWS)):
        try:
            yield pa.Table.from_pylist(piece, schema)
        except pa.ArrowException as error:
            raise RecordError(f"{study.name}: {NAME}: the game {study.game.name}: {one_line(str(error))}") from None


def turn_schema(study: Study) -> pa.Schema:
    """Return the schema of the table; it is the same for all studies of the built-in games with the same axes."""
    fields = []
    for column in columns_of(NAME, study.axes, study.game):
        values = [condition.axes[column.name] for condition in study.conditions] if column.arrow is None else []
        fields.append(pa.field(column.name, column.arrow or pa.array(values).type))
    return pa.schema(fields)


def turn_rows(game: PlayedGame, trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of one simulation, in the order of its game; raises RecordError for another game's trace."""
    simulation = game.simulation
    same = {**simulation.condition.axes, "seed": simulation.seed, "id": simulation.id}
    seats = {
        name: {"role": role, "is_byzantine": role == BYZANTINE, "player": label, **same}
        for name, (role, label) in game.seats.items()
    }
    try:
        for row in simulation.condition.game.evidence.columns.rows(game.summary.outcome, trace):
            # What an agent did comes after what it is: no game can give it another role.
            yield {key: _cell(value) for key, value in row.items()} | seats[row["agent"]]
    except (LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{simulation.id}: its trace tells of no turns: {one_line(repr(error), 150)}") from None


def _cell(value: Any) -> Any:
    """Return a value as it stands in the table: texts on one line, as they may be a model's; lists as JSON."""
    if isinstance(value, str):
        return one_line(value)
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
