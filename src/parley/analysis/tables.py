"""Files of tables, written as Parquet and as CSV and read again, and every column of every table (`columns.yaml`).

Tables are written with the types that their columns declare. What games have of their own they declare themselves
(`games/<game>/columns.yaml`), and so do records (`parley.play.record_content`).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley import paths
from parley.columns import NUMBER, Column, described, find
from parley.errors import RecordError
from parley.files import open_regular, read_columns, write_atomically
from parley.games.base import Game
from parley.games.registry import GAMES
from parley.study import Study

# The places of columns that a study or a game has.
AXIS, METRIC, GAME_TURN, MEASURED = "<axis>", "<metric>", "<turn>", "<measured>"


@dataclass(frozen=True)
class Table:
    """A table, or something like it: what one row is, and its columns.

    `estimates`: its numbers are kept to as many digits as all processors agree on.
    """

    row: str
    columns: tuple[Column, ...]
    estimates: bool


def _columns(found: dict[str, Any]) -> tuple[Column, ...]:
    shared = described()["shared"]
    return tuple(Column(name, *(spec or shared[name])) for name, spec in found.items())


@cache
def declared(name: str) -> Table:
    """Return the table called `name`, or another thing with columns; raises KeyError for an unknown one."""
    table = {**described()["tables"], **described()["documents"]}[name]
    return Table(table["row"], _columns(table["columns"]), table.get("estimates", False))


def columns_of(name: str, axes: Iterable[str], game: type[Game]) -> list[Column]:
    """Return the columns of a table in a study of `game` with these axes, in their order.

    Names that stand for several columns, such as `<outcome>_rate`, stay as they are. An axis takes the place of any
    other column of its name.
    """
    found: dict[str, Column] = {}
    for column in _filled(declared(name), list(axes), game):
        found.setdefault(column.name, column)
    return list(found.values())


def _filled(of: Table, axes: list[str], game: type[Game]) -> Iterator[Column]:
    for column in of.columns:
        if column.name == AXIS:
            known = {axis.name: axis for axis in _columns(described()["axes"])}
            of_axes = [replace(known.get(axis, known["<parameter>"]), name=axis) for axis in axes]
            yield from (replace(axis, type=column.type or axis.type) for axis in of_axes)
        elif column.name == METRIC:
            yield from game.evidence.metrics
        elif column.name == MEASURED:
            yield from game.evidence.columns.measured
        elif column.name == GAME_TURN:
            games = [*GAMES.values(), *([] if game in GAMES.values() else [game])]
            yield from dict.fromkeys(each for of_game in games for each in of_game.evidence.columns.turns)
        else:
            yield column


def in_study(columns: Iterable[Column], study: Study) -> list[Column]:
    """Return columns with the types that they have in a study, whether or not a table has rows.

    Numbers are double where values may be fractions, axes without a declared type have that of their values.
    """
    conditions = study.conditions
    fractions = any(each.game.plays_fractions(each.parameters) for each in conditions)

    def kind(column: Column) -> Any:
        if column.type == NUMBER:
            return "double" if fractions else "int64"
        if column.type or column.name not in study.axes:
            return column.type
        return pa.array([condition.axes[column.name] for condition in conditions]).type

    return [replace(column, type=kind(column)) for column in columns]


def names_of(name: str, axes: Iterable[str], game: type[Game]) -> list[str]:
    """Return the names of the columns of a table that every study of `game` with these axes has, in their order."""
    return [column.name for column in columns_of(name, axes, game) if "<" not in column.name]


def describe(name: str, names: Iterable[str], study: Study) -> list[Column | None]:
    """Return what is declared of columns of the table `name` of a study; None for one that nobody declared."""
    columns = in_study(columns_of(name, study.axes, study.game), study)
    parts = {"outcome": [outcome.name for outcome in study.game.outcomes]}
    return [find(columns, column, parts) for column in names]


_FORMULA = re.compile(r"^[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(/\d+)?")
# Of an estimate: processors add in different orders, and differ in the sixteenth. Tables are the same on all of them.
_DIGITS = 10


def write_table(frame: pd.DataFrame, study: Study, name: str) -> None:
    """Write a table as Parquet and as CSV.

    Raises RecordError if the disk refuses, or if a column does not hold what it is declared to.
    """
    table = typed(rounded(frame) if declared(name).estimates else frame, study, name)
    write_atomically(paths.table(study.name, name, ".parquet"), partial(pq.write_table, table))
    write_atomically(paths.table(study.name, name, ".csv"), lambda file: file.write(csv_text(table).encode()))


def typed(frame: pd.DataFrame, study: Study, name: str) -> pa.Table:
    """Return a table whose columns have their declared types; those that nobody declared keep what they have.

    Texts are `string` in any case: pandas would have `large_string`, which is another type where tables are joined.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    known = describe(name, table.schema.names, study)
    for place, (field, column) in enumerate(zip(table.schema, known, strict=True)):
        plain = pa.string() if _is_text(field.type) else field.type
        try:
            table = table.set_column(place, field.name, table.column(place).cast((column and column.arrow) or plain))
        except pa.ArrowInvalid as error:
            raise RecordError(f"{paths.table(study.name, name, '.parquet')}: {field.name}: {error}") from None
    return table


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of estimates with 10 significant digits; through text: to scale and back is itself not exact."""
    estimates = frame.select_dtypes("float64")
    return frame.assign(**estimates.map(lambda number: float(f"{number:.{_DIGITS}g}"), na_action="ignore"))


def csv_text(table: pa.Table, header: bool = True) -> str:
    """Return a table as CSV: what is missing is empty, TRUE and FALSE are as R has them, no cell is a formula."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_boolean(field.type):
            table = table.set_column(place, field.name, pc.utf8_upper(column.cast(pa.string())))
        elif _is_text(field.type) and pc.any(pc.match_substring_regex(column, _FORMULA.pattern)).as_py():
            cells = [cell if cell is None else harmless(cell) for cell in column.to_pylist()]
            table = table.set_column(place, field.name, pa.array(cells, pa.string()))
    frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get, ignore_metadata=True)
    return str(frame.to_csv(index=False, header=header))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def harmless(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe goes before what might be one."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def read_table(study: str, name: str) -> pd.DataFrame:
    """Return a table that `summarize` wrote; raises RecordError if it is not there, or not whole."""
    path: Path = paths.table(study, name, ".parquet")
    if not path.is_file():
        made_by = "parley ledger build" if name == "ledger" else "parley summarize"
        raise RecordError(f"{path}: no such table; run: {made_by}")
    try:
        with open_regular(path) as file:
            found: pd.DataFrame = read_columns(file).to_pandas(use_threads=False)
            return found
    except (OSError, ValueError) as error:  # pyarrow's are both
        raise RecordError(f"{path}: cut short or no table; run: parley summarize") from error
