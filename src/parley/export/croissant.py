"""Croissant: the tables of a study and all its replies, described for machines, with what responsible use needs."""

import json
import logging
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import pyarrow as pa
import pyarrow.parquet as pq

from parley import __version__, paths
from parley.analysis.tables import declared, describe
from parley.columns import find
from parley.export.about import About, with_progress
from parley.files import sha256
from parley.play.record import read_attempts
from parley.play.record_content import COLUMNS, SCHEMA
from parley.play.record_store import UsableRecords

REPLIES = "replies"
_PARQUET = "application/x-parquet"
_NOT_DATA = ("manifest",)  # it names the records, which are not in the data set
_log = logging.getLogger(__name__)


def write_croissant(records: UsableRecords, known: About, folder: Path) -> None:
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


def _write_replies(records: UsableRecords, target: Path) -> None:
    plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in SCHEMA]
    whole = pa.schema(plain)
    with pq.ParquetWriter(target, whole, compression="zstd") as file:
        for simulation in with_progress(records.simulations, len(records.simulations), "record"):
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


def _record_set(records: UsableRecords, path: Path, text: str) -> mlc.RecordSet:
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


def _meaning(records: UsableRecords, table: str, name: str) -> str:
    study = records.study
    found = find(COLUMNS, name, {}) if table == REPLIES else describe(table, name, study)
    if found is None:
        return name.replace("_", " ")
    return f"{found.text} ({found.unit})" if found.unit else found.text


def _data_type(kind: pa.DataType) -> Any:
    for test, found in (
        (pa.types.is_boolean, mlc.DataType.BOOL),
        (pa.types.is_integer, mlc.DataType.INTEGER),
        (pa.types.is_floating, mlc.DataType.FLOAT),
        (pa.types.is_timestamp, mlc.DataType.DATETIME),
    ):
        if test(kind):
            return found
    return mlc.DataType.TEXT


def responsible(known: About) -> dict[str, Any]:
    """Return the RAI properties of Croissant: collection, gaps, biases, limits, uses, people, social impact."""
    versions = ", ".join(f"{name} {version}" for name, version in known.software.items() if version)
    players = ", ".join(known.players)
    notes = [f"{name}: {note}" for name, (_, note) in known.models.items() if note]
    elsewhere = [f"{each['source']} (license: {each['license']})" for each in known.sources]
    left_out = f"{known.left_out} damaged records are left out. " if known.left_out else ""
    return {
        "data_collection": (
            f"Imported, not played by Parley: {'; '.join(elsewhere)}. Outcomes were computed again from the replies "
            "by the rules of the game."
            if elsewhere
            else "Simulated games. Parley sends each agent the messages of a prompt template, records every reply, "
            f"and computes outcomes by the rules of the game. What played: {players}. Versions: {versions}."
        ),
        "data_collection_type": ["Secondary Data Analysis"] if elsewhere else ["Experiments", "Software Collection"],
        "data_collection_timeframe": [known.started, known.ended],
        "data_collection_missing_data": f"{left_out}What is undefined or was not counted is null, never zero.",
        "data_collection_raw_data": "The replies, word for word: record set `replies`.",
        "data_preprocessing_protocol": [
            "Replies are read by fixed rules; one that cannot be read is a recorded failure, never a guess.",
            "Texts in `turns` are cleaned and stand on one line; those in `replies` are as they came.",
        ],
        "data_annotation_protocol": ["No person labeled anything: outcomes and metrics follow from the rules."],
        "data_biases": [
            "Replies carry the biases of the models that wrote them and of their training data.",
            "Prompts are in one wording each. Wording and reply format change what models answer.",
            "Conditions are those that the author chose; they are no sample of models, groups or situations.",
        ],
        "data_limitations": [
            "Results hold for these models, prompts, versions and sampling settings; others may reply otherwise.",
            "The unit of statistics is the simulation. Conditions of a study share seeds; replies of one game are not "
            "independent.",
            "Agents are programs: nothing here is evidence about people.",
            *notes,
        ],
        "data_use_cases": [
            "Studying agreement, and what breaks it, in groups of LLM agents.",
            "Not for training models to deceive, nor for judging people.",
        ],
        "data_social_impact": (
            "Shows how adversarial agents can stop or mislead a group of agents. That helps to defend such systems, "
            "and could help to attack them."
        ),
        "personal_sensitive_information": [
            "Nobody took part in the games"
            + (" as far as Parley knows" if elsewhere else "")
            + ", and nothing says who ran them or on which machine. Replies were not screened: a model may repeat "
            "personal data of its training, and prompts hold what the author put into them."
        ],
    }
