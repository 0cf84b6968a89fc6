"""Croissant: the tables of a study and all its replies, described for machines, with what responsible use needs."""

import json
import logging
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import pyarrow as pa
import pyarrow.parquet as pq

from parley import __version__, paths
from parley.analysis.columns import declared, describe
from parley.columns import Column, find
from parley.export.about import About, sha256
from parley.export.progress import told
from parley.export.responsible import responsible
from parley.play.record import read_attempts
from parley.play.record_content import COLUMNS, SCHEMA
from parley.play.record_store import Records

REPLIES = "replies"
_PARQUET = "application/x-parquet"
_NOT_DATA = ("manifest",)  # it names the records, which are not in the data set
_log = logging.getLogger(__name__)


def write_croissant(records: Records, known: About, folder: Path) -> None:
    """Write croissant.json, the tables that have rows, and the table `replies` with every attempt, as Parquet."""
    study = records.study
    tables = [name for name in paths.TABLES if name not in _NOT_DATA]
    named: dict[str, str] = {}
    for name in tables:
        source = paths.table(study.name, name, ".parquet")
        if source.is_file() and pq.read_metadata(source).num_rows:
            (folder / f"{name}.parquet").write_bytes(source.read_bytes())
            named[name] = f"One row per {declared(name).row}."
    _write_replies(records, folder / f"{REPLIES}.parquet")
    named[REPLIES] = "One row per attempt: what an agent was sent, and what it replied, word for word."
    metadata = mlc.Metadata(
        ctx=mlc.Context(conforms_to="http://mlcommons.org/croissant/1.0"),
        name=study.name,
        description=known.description,
        license=[known.license],
        creators=[mlc.Person(name=known.author)] if known.author else [],
        cite_as=None if known.paper is None else f"{known.paper.title}. {known.paper.url}",
        date_created=known.started,
        date_published=known.ended,
        keywords=["LLM agents", "multi-agent systems", study.game.name.replace("_", " "), f"Parley {__version__}"],
        version=f"1.0.0+{study.plan}",
        distribution=[_file(folder / f"{name}.parquet", text) for name, text in named.items()],
        record_sets=[_record_set(records, folder / f"{name}.parquet", text) for name, text in named.items()],
        **responsible(known),
    )
    for warning in metadata.ctx.issues.warnings:
        _log.debug("%s", warning)
    content = json.dumps(metadata.to_json(), indent=2, default=str) + "\n"
    (folder / "croissant.json").write_text(content, encoding="utf-8")


def _write_replies(records: Records, target: Path) -> None:
    """Write the attempts of all simulations into one file, texts as they came."""
    plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in SCHEMA]
    whole = pa.schema(plain)
    with pq.ParquetWriter(target, whole, compression="zstd") as file:
        for simulation in told(records.simulations, len(records.simulations), "record"):
            _, rows = read_attempts(simulation.record(records.study.name), SCHEMA.names)
            file.write_table(rows.cast(whole))


def _file(path: Path, text: str) -> mlc.FileObject:
    return mlc.FileObject(
        id=path.name,
        name=path.name,
        description=text,
        content_url=path.name,
        content_size=f"{path.stat().st_size} B",
        encoding_formats=[_PARQUET],
        sha256=sha256(path),
    )


def _record_set(records: Records, path: Path, text: str) -> mlc.RecordSet:
    name, schema = path.stem, pq.read_schema(path)
    has_id = name in ("simulations", "turns", REPLIES) and "id" in schema.names
    return mlc.RecordSet(
        id=name,
        name=name,
        description=text,
        key=f"{name}/id" if name == "simulations" else None,
        fields=[
            mlc.Field(
                id=f"{name}/{field.name}",
                name=field.name,
                description=_meaning(records, name, field.name),
                data_types=[_data_type(field.type)],
                source=mlc.Source(file_object=path.name, extract=mlc.Extract(column=field.name)),
                references=mlc.Source(field="simulations/id")
                if has_id and field.name == "id" and name != "simulations"
                else None,
            )
            for field in schema
        ],
    )


def _meaning(records: Records, table: str, name: str) -> str:
    study = records.study
    found = find(COLUMNS, name, {}) if table == REPLIES else describe(table, name, study.axes, study.game)
    return _words(found) if found else name.replace("_", " ")


def _words(column: Column) -> str:
    return f"{column.text} ({column.unit})" if column.unit else column.text


def _data_type(kind: pa.DataType) -> Any:
    """Return the type of Croissant for one of Arrow."""
    for test, found in (
        (pa.types.is_boolean, mlc.DataType.BOOL),
        (pa.types.is_integer, mlc.DataType.INTEGER),
        (pa.types.is_floating, mlc.DataType.FLOAT),
        (pa.types.is_timestamp, mlc.DataType.DATETIME),
    ):
        if test(kind):
            return found
    return mlc.DataType.TEXT
