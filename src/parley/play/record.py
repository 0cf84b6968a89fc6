"""The record of a simulation: one Parquet file, a row per attempt, the rest as JSON in its metadata.

The file appears by an atomic rename, complete or not at all. Its footer is under a checksum, and has one of the bytes
of the rows. They find damage and careless edits; who changes a record with intent can make them anew, and what shows
that is a replay.

`peek_summary` reads the metadata alone; `read_summary` checks the rows, too; `read_record` returns them.
"""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley import __version__
from parley.engine import hardware
from parley.errors import MissingRecordError, RecordError
from parley.files import read_regular, write_atomically
from parley.play.journal import ENTRY_FIELDS, Entry
from parley.play.parquet import MAX_BYTES, ParquetFile, open_parquet, read_rows, values, write_parquet
from parley.play.record_content import SCHEMA, attempt_rows, describe, metadata_problem, telemetry
from parley.play.runner import Play
from parley.study.condition import Simulation
from parley.text import one_line

FORMAT = 3
_KEY = b"parley"
_TRACE_KEY = b"parley_trace"
_MAX_JSON_BYTES = {_KEY: 8 * 2**20, _TRACE_KEY: 64 * 2**20}
_MAX_JSON_VALUES = 4_000_000
# What is installed of these; an engine's own packages are in its part of the provenance.
_PACKAGES = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "networkx", "aiohttp", "snakemake", "dvc")


@dataclass(frozen=True)
class Summary:
    """What a record says of its simulation as a whole (all of it JSON values)."""

    simulation: Mapping[str, Any]  # id, seed, game, axes, spec, parameters, groups, prompt
    outcome: Mapping[str, Any]  # parley.games.base.Outcome without its trace
    # Calls, tokens, failures by class, times, degenerate replies; records of the findings lack some.
    telemetry: Mapping[str, Any]
    digest: str  # content digest
    provenance: Mapping[str, Any]
    rows: Mapping[str, str]  # checksum of the rows


def write_record(path: Path, simulation: Simulation, play: Play, provenance: Mapping[str, Any]) -> None:
    """Write the record of a finished simulation; raises RecordError if the disk refuses."""
    outcome = play.outcome.as_json()
    trace = outcome.pop("trace")
    players = simulation.players
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

    def metadata(pages: bytes) -> dict[bytes, bytes]:
        checked = {**meta, "rows": {"bytes_sha256": hashlib.sha256(pages).hexdigest()}}
        return {_KEY: json.dumps(checked).encode(), _TRACE_KEY: json.dumps(trace).encode()}

    return write_parquet(rows, metadata)


def peek_summary(path: Path) -> Summary:
    """Return the summary of a record, with no look at its rows; raises RecordError as `read_summary`."""
    return _summary(path, _open(path))


def read_summary(path: Path) -> Summary:
    """Return the summary of a record whose rows were looked at, too: all of it is as it was written.

    Raises RecordError naming a file that is cut short, changed or foreign.
    """
    return _checked(path)[1]


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the game's trace, one mapping per round; its rows are not looked at. Raises as `read_summary`."""
    trace: list[dict[str, Any]] = _json(path, _open(path), _TRACE_KEY, list)
    return trace


_REPLAYED = {name: "request_seed" if name == "seed" else name for name in ENTRY_FIELDS if name != "started"}


def read_record(path: Path) -> tuple[Summary, list[Entry]]:
    """Return the summary and every recorded reply, in order; raises RecordError as `read_summary`."""
    summary, rows = read_attempts(path, list(_REPLAYED.values()))
    replies = zip(*(values(rows.column(name)) for name in _REPLAYED.values()), strict=True)
    return summary, [Entry(**dict(zip(_REPLAYED, reply, strict=True)), started=0.0) for reply in replies]


def read_attempts(path: Path, names: Sequence[str]) -> tuple[Summary, pa.Table]:
    """Return the summary of a record and some columns of SCHEMA, texts in dictionaries; the others are not unpacked.

    A column that records of the findings lack is empty. Raises RecordError as `read_summary`.
    """
    file, summary = _checked(path)
    try:
        rows = read_rows(file, [name for name in names if name in file.schema.names])
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    for name in set(names).difference(rows.column_names):
        rows = rows.append_column(name, pa.nulls(rows.num_rows, SCHEMA.field(name).type))
    return summary, rows.select(list(names))


def _checked(path: Path) -> tuple[ParquetFile, Summary]:
    """Return a record and its summary; raises RecordError unless its rows are those that were written."""
    file = _open(path)
    summary = _summary(path, file)
    names = set(file.schema.names)  # a column that may be empty may be missing, as in records of the findings
    if [*file.schema] != [column for column in SCHEMA if not column.nullable or column.name in names]:
        raise _foreign(path)
    if hashlib.sha256(file.pages).hexdigest() != summary.rows["bytes_sha256"]:
        raise RecordError(f"{path}: its rows were changed; delete it and run the study again")
    return file, summary


def _open(path: Path) -> ParquetFile:
    try:
        file = open_parquet(read_regular(path, MAX_BYTES))
    except FileNotFoundError:
        raise MissingRecordError(f"{path}: no such file; run the study to make it") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            remedy = "name a record in it (seed=*.parquet)" if path.is_dir() else "look at its disk"
            raise RecordError(f"{path}: cannot be read: {error.strerror}; {remedy}") from None
        raise _unreadable(path, error) from None
    if not {_KEY, _TRACE_KEY} <= set(file.metadata):
        raise _foreign(path)
    return file


def _unreadable(path: Path, error: Exception) -> RecordError:
    reason = one_line(str(error), 150)
    return RecordError(f"{path}: cut short or not Parquet ({reason}); if it is a record, delete it and run again")


def _foreign(path: Path) -> RecordError:
    return RecordError(f"{path}: not a record of this version of Parley; move it away")


def _summary(path: Path, file: ParquetFile) -> Summary:
    meta = _json(path, file, _KEY, dict)
    if meta.get("format") != FORMAT:
        raise _foreign(path)
    if problem := metadata_problem(meta):
        raise RecordError(f"{path}: damaged: {problem}; delete it and run the study again")
    return Summary(**{key: meta[key] for key in Summary.__dataclass_fields__})


def _json(path: Path, file: ParquetFile, key: bytes, kind: type) -> Any:
    """Return the JSON under a key of the metadata; raises RecordError if it is of another kind, or too large."""
    text = file.metadata[key]
    try:
        if len(text) > _MAX_JSON_BYTES[key]:
            raise ValueError(f"{len(text):,} bytes, and it can have {_MAX_JSON_BYTES[key]:,}")
        if sum(map(text.count, (b",", b"[", b"{"))) > _MAX_JSON_VALUES:
            raise ValueError(f"more than {_MAX_JSON_VALUES:,} values")
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: damaged metadata ({error}); delete it and run the study again") from None
    if not isinstance(content, kind):
        raise _foreign(path)
    return content


# Provenance: what made a result, but cannot change it. No secrets, no names of users or hosts, no paths


def provenance(started: datetime, engines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return versions, git commit, machine, start and end (UTC), and the engines that answered."""
    return {
        "parley": __version__,
        "python": platform.python_version(),
        "packages": dict(_versions()),
        "git": git_state(),
        "machine": f"{platform.system()}, {hardware.cpu()}",
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "engines": {name: dict(engine) for name, engine in engines.items()},
    }


def provenance_warnings(made: Mapping[str, Any]) -> list[str]:
    """Return what readers of a result should be warned of, from its provenance; one line for each."""
    warnings = []
    for name, engine in sorted(made.get("engines", {}).items()):
        deterministic = engine.get("deterministic") or {}
        load = hardware.load_warning(deterministic.get("by"), engine.get("requests_at_once"))
        warnings += [f"{name}: {warning}" for warning in (deterministic.get("warning"), load) if warning]
    if imported := made.get("imported"):
        warnings.append(
            f"imported: played elsewhere, not by Parley (format {imported['format']}; source: {imported['source']}; "
            f"license: {imported['license']})"
        )
    return warnings


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


@cache
def git_state() -> dict[str, Any] | None:
    """Return the commit of Parley's own repository and whether it had changes; None outside of one.

    An archive of the source that was unpacked, or installed, inside another repository has none either.
    """
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        commit = git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
