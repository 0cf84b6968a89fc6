"""Files of tables: written as Parquet and as CSV with the types that their columns declare, and read again."""

import re
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley import paths
from parley.analysis.columns import declared, describe
from parley.errors import RecordError
from parley.files import write_atomically
from parley.study import Study
from parley.study.study import COLUMN

_FORMULA = re.compile(r"^[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(/\d+)?")
# Of an estimate: processors add in different orders, and differ in the sixteenth. Tables are the same on all of them.
_DIGITS = 10


def write_table(frame: pd.DataFrame, study: Study, name: str) -> None:
    """Write a table as Parquet and as CSV.

    Raises RecordError if the disk refuses, or if a column does not hold what it is declared to.
    """
    table = marked(typed(rounded(frame) if declared(name).estimates else frame, study, name), study)
    write_atomically(paths.table(study.name, name, ".parquet"), partial(pq.write_table, table))
    write_atomically(paths.table(study.name, name, ".csv"), lambda file: file.write(csv_text(table).encode()))


def typed(frame: pd.DataFrame, study: Study, name: str) -> pa.Table:
    """Return a table whose columns have their declared types; those that nobody declared keep what they have."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for place, field in enumerate(table.schema):
        column = describe(name, field.name, study)
        if column is None or column.arrow in (None, field.type):
            continue
        try:
            table = table.set_column(place, field.name, table.column(place).cast(column.arrow))
        except pa.ArrowInvalid as error:
            raise RecordError(f"{paths.table(study.name, name, '.parquet')}: {field.name}: {error}") from None
    return table


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of estimates with 10 significant digits; through text: to scale and back is itself not exact."""
    estimates = frame.select_dtypes("float64")
    return frame.assign(**estimates.map(lambda number: float(f"{number:.{_DIGITS}g}"), na_action="ignore"))


def marked(table: pa.Table, study: Study) -> pa.Table:
    """Return a table of a study; of an unfinished one it says so, in its last column and in its metadata."""
    if study.unfinished is None:
        return table
    said = pa.array([study.unfinished.label] * len(table), pa.string())
    metadata = {**(table.schema.metadata or {}), b"parley.unfinished": study.unfinished.sentence.encode()}
    return table.append_column(COLUMN, said).replace_schema_metadata(metadata)


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


def read_table(study: str, name: str, columns: list[str] | None = None) -> pd.DataFrame:
    """Return a table that `summarize` wrote, or these columns; raises RecordError if it is not there, or not whole."""
    path: Path = paths.table(study, name, ".parquet")
    if not path.is_file():
        made_by = "parley ledger build" if name == "ledger" else "parley summarize"
        raise RecordError(f"{path}: no such table; run: {made_by}")
    try:
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError) as error:  # pyarrow's are both
        raise RecordError(f"{path}: cut short or no table; run: parley summarize") from error
