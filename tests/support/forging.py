"""Records that somebody changed: with intent, so that all checksums are right again, or without."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parley.play import record
from parley.play.record_content import SCHEMA

Rows = Callable[[list[dict[str, Any]]], Any]
Meta = Callable[[dict[str, Any]], Any]
FORMER = [
    pa.field("seed", pa.int64(), nullable=False) if column.name == "request_seed" else column
    for column in SCHEMA
    if column.name not in ("id", "simulation_seed", "model", "system_fingerprint")
]


def forge(path: Path, rows: Rows | None = None, meta: Meta | None = None) -> Path:
    """Change the rows or the metadata of a record, and make its checksums anew."""
    table = pq.read_table(path, partitioning=None)
    found = table.to_pylist()
    described, trace = (json.loads(table.schema.metadata[key]) for key in (b"parley", b"parley_trace"))
    if rows is not None:
        rows(found)
    if meta is not None:
        meta(described)
    schema = table.schema.remove_metadata()
    path.write_bytes(record.packed(pa.Table.from_pylist(found, schema=schema), described, trace))
    return path


def edit(path: Path, rows: Rows) -> Path:
    """Change the rows of a record with another program, which keeps the metadata as it is."""
    table = pq.read_table(path, partitioning=None)
    found = table.to_pylist()
    rows(found)
    pq.write_table(pa.Table.from_pylist(found, schema=table.schema), path)
    return path


def make_former(path: Path) -> Path:
    """Make a record of the version before: no checksum of the rows, no identity in them, and `seed`."""
    table = pq.read_table(path, partitioning=None)
    described = json.loads(table.schema.metadata[b"parley"])
    del described["rows"]
    metadata = {**table.schema.metadata, b"parley": json.dumps({**described, "format": 2}).encode()}
    metadata[record.CHECK_KEY] = record.checksum(metadata)
    names = ["seed" if name == "request_seed" else name for name in table.column_names]
    rows = table.rename_columns(names).select([column.name for column in FORMER])
    rows = pa.Table.from_pylist(rows.to_pylist(), schema=pa.schema(FORMER))
    pq.write_table(rows.replace_schema_metadata(metadata), path, compression="zstd", write_page_checksum=True)
    return path
