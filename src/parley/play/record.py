"""The record of a simulation: one Parquet file, a row per attempt, the rest as JSON in its metadata.

The file appears by an atomic rename, complete or not at all. The metadata is under a checksum, and has two of the
rows: of what they hold, however a file stores it, and of the bytes that hold it, which costs no unpacking. They find
damage and careless edits; who changes a record with intent can make them anew, and what shows that is a replay.

`peek_summary` reads the metadata alone; `read_summary` checks the rows, too; `read_record` returns them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.errors import MissingRecordError, RecordError
from parley.files import read_regular, write_atomically
from parley.play.journal import Entry
from parley.play.parquet import (
    BadParquetError,
    ParquetFile,
    data_end,
    finished,
    parquet_file,
    read_rows,
    rows_checksum,
    values,
    write_parquet,
)
from parley.play.record_content import SCHEMA, SCHEMA_2, attempt_rows, describe, telemetry
from parley.play.record_limits import MAX_BYTES, META_BYTES, META_VALUES, bounded_json, limits_of
from parley.play.record_shape import problem_of
from parley.play.runner import Play
from parley.study.condition import Simulation

FORMAT = 3
_FORMATS = (2, FORMAT)  # of 2: no checksum of the rows; `seed` for `request_seed`, and no identity in the rows
_KEY = b"parley"
_TRACE_KEY = b"parley_trace"
CHECK_KEY = b"parley_sha256"  # over both; Parquet has checksums for its pages, but none for its metadata


@dataclass(frozen=True)
class Summary:
    """What a record says of its simulation as a whole (all of it JSON values)."""

    simulation: Mapping[str, Any]  # id, seed, game, axes, spec, parameters, groups, prompt
    outcome: Mapping[str, Any]  # parley.games.base.Outcome without its trace
    telemetry: Mapping[
        str, Any
    ]  # calls, tokens, failures by class, times, degenerate replies (older records lack some)
    digest: str  # content digest
    provenance: Mapping[str, Any]
    rows: Mapping[str, str] = field(default_factory=dict)  # checksums of the rows; older records have none

    @property
    def has_checksum(self) -> bool:
        """Whether the rows are under a checksum."""
        return bool(self.rows)


def write_record(path: Path, simulation: Simulation, play: Play, provenance: Mapping[str, Any]) -> None:
    """Write the record of a finished simulation; raises RecordError if the disk refuses."""
    outcome = play.outcome.as_json()
    trace = outcome.pop("trace")
    players = simulation.players(simulation.game())
    meta = {
        "format": FORMAT,
        "simulation": describe(simulation),
        "outcome": outcome,
        "telemetry": telemetry(play, players),
        "digest": play.digest,
        "provenance": dict(provenance),
    }
    content = packed(attempt_rows(simulation, play, players), meta, trace)
    write_atomically(path, lambda file: file.write(content))


def packed(rows: pa.Table, meta: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the file that holds these rows and this metadata, with the checksums of both."""
    data, footer = write_parquet(rows.replace_schema_metadata(None))
    checked = {**meta, "rows": {"sha256": rows_checksum(rows), "bytes_sha256": hashlib.sha256(data).hexdigest()}}
    metadata = {_KEY: json.dumps(checked).encode(), _TRACE_KEY: json.dumps(trace).encode()}
    metadata[CHECK_KEY] = checksum(metadata)
    return finished(data, footer, rows.schema.with_metadata(metadata))


def peek_summary(path: Path) -> Summary:
    """Return the summary of a record, with no look at its rows; raises RecordError as `read_summary`."""
    return _summary(path, _open(path))


def read_summary(path: Path) -> Summary:
    """Return the summary of a record whose rows were looked at, too: all of it is as it was written.

    Raises RecordError naming a file that is cut short, changed or foreign. The rows of a record of an older version
    have no checksum (`Summary.has_checksum`); a replay checks them.
    """
    file = _open(path)
    summary = _summary(path, file)
    if summary.has_checksum and hashlib.sha256(file.data).hexdigest() != summary.rows["bytes_sha256"]:
        _rows_of(path, file, summary)  # stored in another way, perhaps
    return summary


def read_description(path: Path) -> Mapping[str, Any]:
    """Return what a record says of its simulation (`describe`), with an id and a seed; its rows are not looked at.

    Raises RecordError for what is no record.
    """
    try:
        described = peek_summary(path).simulation
        if isinstance(described["id"], str) and type(described["seed"]) is int:
            return described
    except (LookupError, TypeError, RecursionError):
        pass
    raise RecordError(f"{path}: describes no simulation; move it away")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the game's trace, one mapping per round; its rows are not looked at. Raises as `read_summary`."""
    file = _open(path)
    most = limits_of(_summary(path, file).simulation, len(file.content))
    trace = _json(path, file, _TRACE_KEY, most.trace_bytes, most.trace_values)
    if not isinstance(trace, list):
        raise RecordError(f"{path}: not a record of Parley; move it away")
    return trace


_REPLAYED = (
    *("round", "phase", "agent", "attempt", "seed", "ask", "text", "finish_reason"),
    *("prompt_tokens", "completion_tokens", "cached_tokens", "seconds", "served_model", "system_fingerprint"),
    *("reasoning", "reasoning_tokens"),
)


def read_record(path: Path) -> tuple[Summary, list[Entry]]:
    """Return the summary and every recorded reply, in order; the checksums of rows and pages are verified."""
    file = _open(path)
    summary = _summary(path, file)
    rows = _rows_of(path, file, summary)
    try:
        columns: dict[str, Any] = {name: values(rows.column(name)) for name in _REPLAYED if name in rows.column_names}
    except (ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    none = [None] * rows.num_rows
    replies = zip(*(columns.get(name, none) for name in _REPLAYED), strict=True)
    return summary, [Entry(**dict(zip(_REPLAYED, reply, strict=True)), started=0.0) for reply in replies]


def read_attempts(path: Path, names: Sequence[str]) -> tuple[Summary, pa.Table]:
    """Return the summary of a record and some columns of SCHEMA, texts in dictionaries; the others are not unpacked.

    A column that an older version did not have is empty. Raises RecordError as `read_summary`, which looks at as much.
    """
    file = _open(path)
    summary = _summary(path, file)
    same = summary.has_checksum and hashlib.sha256(file.data).hexdigest() == summary.rows["bytes_sha256"]
    rows = _rows_of(path, file, summary, [name for name in names if name in file.schema.names] if same else None)
    own: dict[str, Any] = {"id": summary.simulation.get("id"), "simulation_seed": summary.simulation.get("seed")}
    columns = []
    for name in names:
        stored = "seed" if name == "request_seed" else name  # as `_rows_of` calls it
        if stored in rows.column_names:
            columns.append(rows.column(stored))
        else:
            kind = SCHEMA.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            columns.append(pa.repeat(pa.scalar(own.get(name), kind), rows.num_rows))
    return summary, pa.table(columns, names=list(names))


def read_columns(path: Path, names: Sequence[str]) -> list[list[Any]]:
    """Return columns of a record of whatever version, whether or not it can be used.

    Raises OSError, ValueError or KeyError for a file without them, or whose rows were changed.
    """
    file = parquet_file(read_regular(path, MAX_BYTES))
    most = limits_of({}, len(file.content))
    rows = read_rows(file, most.rows, most.text_bytes)
    with suppress(RecordError):  # of a version whose metadata is not read
        summary = peek_summary(path)
        if summary.has_checksum and rows_checksum(rows) != summary.rows["sha256"]:
            raise ValueError("its rows were changed")
    return [values(rows.column(name)) for name in names]


def _rows_of(path: Path, file: ParquetFile, summary: Summary, names: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a record, with the names that `Entry` has; raises RecordError if they are not its own.

    With `names`, which a file whose bytes were checked may have, only those columns.
    """
    _check_columns(path, file.schema, SCHEMA if summary.has_checksum else SCHEMA_2)
    most = limits_of(summary.simulation, len(file.content))
    try:
        rows = read_rows(file, most.rows, most.text_bytes, names)
        if names is None and summary.has_checksum and rows_checksum(rows) != summary.rows["sha256"]:
            raise RecordError(f"{path}: its rows were changed; delete it and run the study again")
    except BadParquetError as error:
        raise RecordError(
            f"{path}: larger than its study can make it: {error}; delete it and run the study again"
        ) from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    return rows.rename_columns(["seed" if name == "request_seed" else name for name in rows.column_names])


def _check_columns(path: Path, found: pa.Schema, known: pa.Schema) -> None:
    """Raise RecordError unless these are columns of a record; one that may be empty may be missing: it came later."""
    names = set(found.names)
    needed = {field.name for field in known if not field.nullable}
    # By type, too: a damaged footer can make bytes of texts.
    if (
        len(names) < len(found.names)
        or not needed <= names <= set(known.names)
        or any(not field.equals(known.field(field.name)) for field in found)
    ):
        raise RecordError(f"{path}: not a record of this version of Parley; move it away")


def checksum(metadata: Mapping[bytes, bytes]) -> bytes:
    """Return the SHA-256 over what Parley put into a file's metadata, as it stands there."""
    parts = metadata.get(_KEY, b"") + b"\0" + metadata.get(_TRACE_KEY, b"")
    return hashlib.sha256(parts).hexdigest().encode()


def _open(path: Path) -> ParquetFile:
    """Return the file, after a check that its metadata is as it was written and that nothing is cut off."""
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise MissingRecordError(f"{path}: no such file; run the study to make it") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        file = parquet_file(content)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    if _KEY not in file.metadata:
        raise RecordError(f"{path}: not a record of Parley; move it away")
    if file.metadata.get(CHECK_KEY) != checksum(file.metadata):
        raise RecordError(f"{path}: damaged metadata; delete it and run the study again")
    if data_end(file.footer) != len(file.data):
        raise RecordError(f"{path}: cut short in its rows; delete it and run the study again")
    return file


def _unreadable(path: Path, error: Exception) -> RecordError:
    reason = str(error).splitlines()[0][:150]
    ours = path.name.startswith("seed=") and path.is_file()  # else it may be anything, which nobody should delete
    remedy = "delete it and run the study again" if ours else "name a record, which is called seed=N.parquet"
    return RecordError(f"{path}: cut short or not Parquet ({reason}); {remedy}")


def _summary(path: Path, file: ParquetFile) -> Summary:
    meta = _json(path, file, _KEY, META_BYTES, META_VALUES)
    if not isinstance(meta, dict) or meta.get("format") not in _FORMATS:
        raise RecordError(f"{path}: not a record of this version of Parley; move it away")
    if meta["format"] == 2:
        meta = {**meta, "rows": {}}
    elif not isinstance(rows := meta.get("rows"), dict) or set(rows) != {"sha256", "bytes_sha256"}:
        raise RecordError(f"{path}: damaged: its rows have no checksum; delete it and run the study again")
    if problem := problem_of(meta):
        raise RecordError(f"{path}: damaged: {problem}; delete it and run the study again")
    return Summary(**{key: meta[key] for key in Summary.__dataclass_fields__})


def _json(path: Path, file: ParquetFile, key: bytes, most_bytes: int, most_values: int) -> Any:
    text = file.metadata.get(key)
    if text is None:
        raise RecordError(f"{path}: not a record of Parley; move it away")
    try:
        return bounded_json(text, most_bytes, most_values)
    except ValueError as error:
        raise RecordError(f"{path}: damaged metadata ({error}); delete it and run the study again") from None
