"""The record of a simulation: one Parquet file, a row per attempt, the rest as JSON in its metadata.

The file appears by an atomic rename, complete or not at all. `read_summary` reads the metadata alone, `read_record`
everything.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parley.condition import Condition, Group, Player, Simulation
from parley.degenerate import count_degenerate
from parley.errors import RecordError
from parley.files import write_atomically
from parley.games.base import FAILURE_CLASSES
from parley.journal import Entry
from parley.runner import Play
from parley.timing import times

FORMAT = 2
_KEY = b"parley"
_TRACE_KEY = b"parley_trace"
CHECK_KEY = b"parley_sha256"  # over both; Parquet has checksums for its pages, but none for its metadata

SCHEMA = pa.schema(
    [
        pa.field("round", pa.int32(), nullable=False),
        pa.field("phase", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("agent", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("role", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("player", pa.dictionary(pa.int16(), pa.string()), nullable=False),
        pa.field("attempt", pa.int8(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("temperature", pa.float32(), nullable=False),
        pa.field("max_tokens", pa.int32(), nullable=False),
        pa.field("ask", pa.string(), nullable=False),  # SHA-256 of the messages and the sampling
        pa.field("system", pa.string(), nullable=False),
        pa.field("user", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("finish_reason", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("failure", pa.dictionary(pa.int8(), pa.string())),
        pa.field("failure_detail", pa.string()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("completion_tokens", pa.int32()),
        pa.field("cached_tokens", pa.int32()),
        pa.field("started", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("seconds", pa.float32(), nullable=False),
    ]
)


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


def write_record(path: Path, simulation: Simulation, play: Play, provenance: Mapping[str, Any]) -> None:
    """Write the record of a finished simulation; raises RecordError if the disk refuses."""
    outcome = play.outcome.as_json()
    trace = outcome.pop("trace")
    players = simulation.players(simulation.game())
    meta = {
        "format": FORMAT,
        "simulation": describe(simulation),
        "outcome": outcome,
        "telemetry": _telemetry(play, players),
        "digest": play.digest,
        "provenance": dict(provenance),
    }
    metadata = {_KEY: json.dumps(meta).encode(), _TRACE_KEY: json.dumps(trace).encode()}
    metadata[CHECK_KEY] = checksum(metadata)
    table = _rows(play, players).replace_schema_metadata(metadata)
    write_atomically(path, lambda file: pq.write_table(table, file, compression="zstd", write_page_checksum=True))


def describe(simulation: Simulation) -> dict[str, Any]:
    """Return what a simulation is, as plain JSON values: enough to play it again."""
    return {
        "id": simulation.id,
        "seed": simulation.seed,
        **describe_condition(simulation.condition),
        **({} if simulation.material is None else {"material": simulation.material}),
    }


def describe_condition(condition: Condition) -> dict[str, Any]:
    """Return what all simulations of a condition have in common, as plain JSON values."""
    roles = [group.role for group in condition.groups]
    return {
        "game": condition.game.name,
        "protocol_version": condition.game.protocol_version,
        "axes": dict(condition.axes),
        "spec": condition.spec,
        "parameters": condition.parameters.model_dump(mode="json"),
        "groups": [_describe_group(group) for group in condition.groups],
        "prompt": condition.prompt,
        "prompt_digests": condition.game.prompt_digests(condition.prompt, roles, condition.parameters),
    }


def _describe_group(group: Group) -> dict[str, Any]:
    player = group.player
    name = {} if player.model is None else {"model_name": player.model}
    return {"role": group.role, "count": group.count, "player": player.label, **name, **player.identity()}


def _telemetry(play: Play, players: Mapping[str, Player]) -> dict[str, Any]:
    failures = Counter(x.reply.failure for x in play.exchanges if x.reply.failure)
    entries = [x.entry for x in play.exchanges]
    of_models = [x for x in play.exchanges if players[x.ask.agent].entry is not None]
    return {
        "calls": len(entries),
        "failed_replies": sum(failures.values()),
        **{name: failures.get(name, 0) for name in FAILURE_CLASSES},
        "prompt_tokens": sum(e.prompt_tokens or 0 for e in entries),
        "completion_tokens": sum(e.completion_tokens or 0 for e in entries),
        "cached_tokens": sum(e.cached_tokens or 0 for e in entries),
        "request_seconds": round(sum(e.seconds for e in entries), 3),
        **times(entries),
        **({"degenerate": count_degenerate(of_models)} if of_models else {}),  # not in older records
    }


def _rows(play: Play, players: Mapping[str, Player]) -> pa.Table:
    rows = [
        {
            "round": x.entry.round,
            "phase": x.entry.phase,
            "agent": x.entry.agent,
            "role": x.ask.role,
            "player": players[x.ask.agent].label,
            "attempt": x.entry.attempt,
            "seed": x.entry.seed,
            "temperature": x.ask.sampling.temperature,
            "max_tokens": x.ask.sampling.max_tokens,
            "ask": x.entry.ask,
            "system": x.ask.system,
            "user": x.ask.user,
            "text": x.entry.text,
            "finish_reason": x.entry.finish_reason,
            "failure": x.reply.failure,
            "failure_detail": x.reply.detail,
            "prompt_tokens": x.entry.prompt_tokens,
            "completion_tokens": x.entry.completion_tokens,
            "cached_tokens": x.entry.cached_tokens,
            "started": round(x.entry.started * 1000),
            "seconds": x.entry.seconds,
        }
        for x in play.exchanges
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def read_summary(path: Path) -> Summary:
    """Return the summary of a record; raises RecordError naming a file that is cut short or foreign."""
    return _summary(path, _metadata(path))


def read_description(path: Path) -> Mapping[str, Any]:
    """Return what a record says of its simulation (`describe`), with an id and a seed; its rows are not looked at.

    Raises RecordError for what is no record.
    """
    if not path.is_file():  # a pipe or a device would be waited for
        raise RecordError(f"{path}: no regular file; move it away")
    try:
        described = _summary(path, _metadata(path)).simulation
        if isinstance(described["id"], str) and type(described["seed"]) is int:
            return described
    except (LookupError, TypeError, RecursionError):
        pass
    raise RecordError(f"{path}: describes no simulation; move it away")


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Return the game's trace, one mapping per round."""
    trace = _json(path, _metadata(path).get(_TRACE_KEY))
    if not isinstance(trace, list):
        raise RecordError(f"{path}: not a record of Parley; move it away")
    return trace


_REPLAYED = (
    *("round", "phase", "agent", "attempt", "seed", "ask", "text", "finish_reason"),
    *("prompt_tokens", "completion_tokens", "cached_tokens"),
)


def read_record(path: Path) -> tuple[Summary, list[Entry]]:
    """Return the summary and every recorded reply, in order; the checksums of all pages are verified."""
    summary = read_summary(path)
    try:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        # By type, too: a damaged footer can make bytes of texts.
        if not table.schema.equals(SCHEMA):
            raise RecordError(f"{path}: not a record of this version of Parley; move it away")
        rows = table.select([*_REPLAYED, "seconds"]).to_pylist()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    return summary, [Entry(**{name: row[name] for name in (*_REPLAYED, "seconds")}, started=0.0) for row in rows]


def checksum(metadata: Mapping[bytes, bytes]) -> bytes:
    """Return the SHA-256 over what Parley put into a file's metadata, as it stands there."""
    parts = metadata.get(_KEY, b"") + b"\0" + metadata.get(_TRACE_KEY, b"")
    return hashlib.sha256(parts).hexdigest().encode()


def _metadata(path: Path) -> Mapping[bytes, bytes]:
    """Return the file's own metadata, after a check that neither it nor the rows were cut or changed."""
    try:
        parquet = pq.read_metadata(path)
        size = path.stat().st_size
    except FileNotFoundError:
        raise RecordError(f"{path}: no such file; run the study to make it") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    metadata: Mapping[bytes, bytes] = parquet.metadata or {}
    if _KEY not in metadata:
        raise RecordError(f"{path}: not a record of Parley; move it away")
    if metadata.get(CHECK_KEY) != checksum(metadata):
        raise RecordError(f"{path}: damaged metadata; delete it and run the study again")
    if _rows_end(parquet) + parquet.serialized_size + _FOOTER_BYTES != size:
        raise RecordError(f"{path}: cut short in its rows; delete it and run the study again")
    return metadata


_FOOTER_BYTES = 8  # the footer's length and the closing magic


def _rows_end(parquet: pq.FileMetaData) -> int:
    """Return the offset at which the last column chunk ends."""
    end = 4  # the opening magic
    for group in range(parquet.num_row_groups):
        columns = parquet.row_group(group)
        last = columns.column(columns.num_columns - 1)
        start = last.dictionary_page_offset if last.has_dictionary_page else last.data_page_offset
        end = max(end, start + last.total_compressed_size)
    return end


def _unreadable(path: Path, error: Exception) -> RecordError:
    reason = str(error).splitlines()[0][:150]
    ours = path.name.startswith("seed=") and path.is_file()  # else it may be anything, which nobody should delete
    remedy = "delete it and run the study again" if ours else "name a record, which is called seed=N.parquet"
    return RecordError(f"{path}: cut short or not Parquet ({reason}); {remedy}")


def _summary(path: Path, metadata: Mapping[bytes, bytes]) -> Summary:
    meta = _json(path, metadata.get(_KEY))
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise RecordError(f"{path}: not a record of this version of Parley; move it away")
    try:
        return Summary(**{key: meta[key] for key in Summary.__dataclass_fields__})
    except KeyError as error:
        raise RecordError(f"{path}: damaged: {error.args[0]} is missing; delete it and run the study again") from None


def _json(path: Path, text: bytes | None) -> Any:
    if text is None:
        raise RecordError(f"{path}: not a record of Parley; move it away")
    try:
        return json.loads(text)
    except ValueError:
        raise RecordError(f"{path}: damaged metadata; delete it and run the study again") from None
