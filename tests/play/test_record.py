import itertools
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from parley.errors import ParleyError, RecordError
from parley.play import record
from parley.play.parquet import finished, is_text, parquet_file, read_rows, rows_checksum, write_parquet
from parley.play.record import peek_summary, read_record, read_summary, read_trace, write_record
from parley.play.record_content import SCHEMA, describe
from parley.play.replay import replay
from parley.play.runner import Play
from parley.policies import FAILURE_CLASSES
from parley.study import Study
from parley.study.condition import Simulation
from support.forging import edit, make_former
from support.playing import ListPolicy, play_of
from support.studies import StudyFactory


@pytest.fixture
def simulation(study_factory: StudyFactory) -> Simulation:
    study = study_factory({"n": 4, "b": 1, "byzantine": "random"}, parameters={"max_rounds": 2, "stop_threshold": 1})
    return next(study.simulations())


@pytest.fixture
def played(simulation: Simulation) -> Play:
    return play_of(simulation, ListPolicy("not JSON", '{"value": 99}', "\0 \u2028 é \U0001f600"))


@pytest.fixture
def path(simulation: Simulation, played: Play) -> Path:
    path = simulation.record("small")
    write_record(path, simulation, played, {"parley": "test"})
    return path


# What is in a record


def test_a_record_comes_back_as_it_was_written(path: Path, simulation: Simulation, played: Play) -> None:
    summary, entries = read_record(path)
    assert summary == read_summary(path)
    assert summary.digest == played.digest
    assert summary.simulation == describe(simulation)
    assert summary.provenance == {"parley": "test"}
    outcome = played.outcome.as_json()
    trace = outcome.pop("trace")
    assert summary.outcome == outcome
    assert read_trace(path) == trace
    assert [(*e.key, e.seed, e.ask, e.text, e.finish_reason) for e in entries] == [
        (*x.entry.key, x.entry.seed, x.entry.ask, x.entry.text, x.entry.finish_reason) for x in played.exchanges
    ]
    assert [(e.prompt_tokens, e.completion_tokens, e.cached_tokens) for e in entries] == [
        (x.entry.prompt_tokens, x.entry.completion_tokens, x.entry.cached_tokens) for x in played.exchanges
    ]


def test_every_attempt_is_a_row_with_its_question_and_failure(path: Path, played: Play) -> None:
    table = pq.read_table(path, partitioning=None)
    assert table.schema.remove_metadata() == SCHEMA
    rows = table.to_pylist()
    assert len(rows) == len(played.exchanges)
    for row, x in zip(rows, played.exchanges, strict=True):
        assert (row["system"], row["user"], row["role"]) == (x.ask.system, x.ask.user, x.ask.role)
        assert (row["failure"], row["failure_detail"]) == (x.reply.failure, x.reply.detail)
        assert row["max_tokens"] == x.ask.sampling.max_tokens
        assert row["temperature"] == pytest.approx(x.ask.sampling.temperature)
        assert row["player"] == {"honest": "majority", "byzantine": "random"}[row["role"]]
        assert row["started"].timestamp() == pytest.approx(x.entry.started, abs=0.001)


def test_calls_tokens_and_failures_are_counted_by_class(path: Path, played: Play) -> None:
    telemetry = read_summary(path).telemetry
    assert telemetry["calls"] == len(played.exchanges)
    # agent_1 fails every attempt in two rounds of two phases.
    assert telemetry["failed_replies"] == telemetry["invalid_json"] == 16
    assert (telemetry["prompt_tokens"], telemetry["completion_tokens"], telemetry["cached_tokens"]) == (1600, 112, 640)


@pytest.mark.parametrize(
    ("text", "finish", "failure"),
    [
        ("no", "stop", "invalid_json"),
        ('{"decision": "maybe"}', "stop", None),  # out of range as a vote, no proposal
        ("no", "length", "length"),
        ("no", "content_filter", "refused"),
    ],
)
def test_each_class_of_failure_has_its_own_count(
    simulation: Simulation, text: str, finish: str, failure: str | None
) -> None:
    write_record(Path("x.parquet"), simulation, play_of(simulation, ListPolicy(text, finish_reason=finish)), {})
    telemetry = read_summary(Path("x.parquet")).telemetry
    expected = {name: 16 if name == failure else 0 for name in FAILURE_CLASSES}
    if failure is None:
        expected = {**expected, "invalid_json": 8, "out_of_range": 8}
    assert {name: telemetry[name] for name in FAILURE_CLASSES} == expected
    assert telemetry["failed_replies"] == 16


def test_lone_surrogates_are_stored(simulation: Simulation) -> None:
    hostile = '{"internal_strategy": "\ud800", "value": 7, "public_reasoning": "\udfff"}'
    write_record(Path("x.parquet"), simulation, play_of(simulation, ListPolicy(hostile)), {})
    texts = {entry.text for entry in read_record(Path("x.parquet"))[1] if entry.agent == "agent_1"}
    assert texts == {hostile.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")}


def test_a_record_of_its_identity_is_enough_to_name_its_path(path: Path, simulation: Simulation) -> None:
    described = read_summary(path).simulation
    folders = "/".join(f"{axis}={value}" for axis, value in described["axes"].items())
    assert (
        str(path) == f"results/small/simulations/{folders}/spec={described['spec']}/seed={described['seed']}.parquet"
    )
    assert described["id"] == simulation.id


def test_no_temporary_file_is_left(path: Path) -> None:
    assert os.listdir(path.parent) == [path.name]


def test_a_record_that_cannot_be_written_leaves_nothing(
    simulation: Simulation, played: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    target = simulation.record("small")
    target.parent.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"seed=0\.parquet: cannot be written: No space left on device"):
        write_record(target, simulation, played, {})
    assert os.listdir(target.parent) == []


# The data set


@pytest.fixture
def data_set(study_factory: StudyFactory) -> Study:
    study = study_factory({"n": [3, 4], "prompt": ["may_exist", "none_exist"]}, seeds=2, parameters={"max_rounds": 3})
    for simulation in study.simulations():
        write_record(simulation.record("small"), simulation, play_of(simulation), {})
    return study


def test_pyarrow_reads_the_records_as_one_partitioned_data_set(data_set: Study) -> None:
    found = ds.dataset("results/small/simulations", format="parquet", partitioning="hive")
    assert {"model", "n", "b", "prompt", "spec"} <= set(found.schema.names)
    four = found.to_table(filter=(ds.field("n") == 4) & (ds.field("prompt") == "may_exist"))
    assert set(four["agent"].to_pylist()) == {f"agent_{i}" for i in range(1, 5)}
    assert set(four["model"].to_pylist()) == {"majority"}
    total = sum(len(read_record(s.record("small"))[1]) for s in data_set.simulations())
    assert found.count_rows() == total


def test_pandas_reads_the_records_as_one_partitioned_data_set(data_set: Study) -> None:
    frame = pd.read_parquet("results/small/simulations")
    assert sorted(frame["n"].astype(int).unique()) == [3, 4]
    assert sorted(frame["prompt"].astype(str).unique()) == ["may_exist", "none_exist"]
    assert len(frame) == sum(len(read_record(s.record("small"))[1]) for s in data_set.simulations())


def test_a_folder_of_records_of_both_versions_is_one_data_set(data_set: Study) -> None:
    """The columns are those of the first file; where that is an older one, it has no `id`."""
    records = sorted(simulation.record("small") for simulation in data_set.simulations())
    make_former(records[-1])
    rows = ds.dataset("results/small/simulations", format="parquet", partitioning="hive").to_table().to_pandas()
    assert {"id", "simulation_seed", "request_seed", "n", "spec"} <= set(rows)
    assert not {"seed", "id_1"} & set(rows)
    whole = rows.dropna(subset=["id"])
    assert whole.groupby("id")["simulation_seed"].nunique().eq(1).all()
    assert whole["id"].nunique() == len(records) - 1
    make_former(records[0])
    assert "seed" in pd.read_parquet("results/small/simulations")


def test_unfinished_simulations_and_journals_are_not_in_the_data_set(data_set: Study) -> None:
    rows = ds.dataset("results/small/simulations", format="parquet", partitioning="hive").count_rows()
    folder = next(data_set.simulations()).record("small").parent
    (folder / f".seed=9.parquet.{os.getpid()}.tmp").write_bytes(b"half a record")  # left by a killed process
    assert ds.dataset("results/small/simulations", format="parquet", partitioning="hive").count_rows() == rows


# Bad files


def refusal(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        read_record(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    with pytest.raises(RecordError):
        read_summary(path) if "cut short or not Parquet" in message else read_record(path)
    return message


def test_a_missing_record_is_named(path: Path) -> None:
    assert refusal(path.with_name("seed=1.parquet")).endswith("no such file; run the study to make it")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all", b"\0" * 10_000, b"PAR1" * 100])
def test_a_file_that_is_no_parquet_is_named(folder: Path, content: bytes) -> None:
    file = folder / "x.parquet"
    file.write_bytes(content)
    assert "cut short or not Parquet" in refusal(file)


def test_a_folder_in_its_place_is_named(folder: Path) -> None:
    (folder / "x.parquet").mkdir()
    assert "it is a folder" in refusal(folder / "x.parquet")


def test_a_record_cut_short_anywhere_is_named(path: Path) -> None:
    content = path.read_bytes()
    cut = path.with_name("cut.parquet")
    for end in [*range(0, len(content), 97), len(content) - 1, len(content) - 4, len(content) - 8]:
        cut.write_bytes(content[:end])
        assert "cut short or not Parquet" in refusal(cut)


def test_foreign_parquet_is_named(folder: Path) -> None:
    file = folder / "x.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(file)
    assert "not a record" in refusal(file)
    pq.write_table(pa.table({"a": [1]}), file)
    assert "not a record" in refusal(file)


def rewritten(path: Path, key: bytes, value: bytes | None) -> Path:
    table = pq.read_table(path, partitioning=None)
    changed = {**table.schema.metadata, key: value}
    metadata = {k: v for k, v in changed.items() if v is not None}
    metadata[record.CHECK_KEY] = record.checksum(metadata)
    other = path.with_name("rewritten.parquet")
    pq.write_table(table.replace_schema_metadata(metadata), other)
    return other


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b"null", b"7", b"{}", b'{"format": 999}', b'{"format": 2}', b"\xff\xfe"]
)
def test_a_record_with_damaged_metadata_is_named(path: Path, value: bytes | None) -> None:
    assert re.search("damaged|not a record", refusal(rewritten(path, b"parley", value)))


def test_a_record_of_another_version_is_named(path: Path) -> None:
    meta = json.loads(pq.read_schema(path).metadata[b"parley"])
    other = rewritten(path, b"parley", json.dumps({**meta, "format": 4}).encode())
    assert "not a record of this version of Parley; move it away" in refusal(other)


@pytest.mark.parametrize("value", [None, b"", b"{", b"{}", b"null", b"\xff"])
def test_a_record_with_a_damaged_trace_is_named(path: Path, value: bytes | None) -> None:
    other = rewritten(path, b"parley_trace", value)
    with pytest.raises(RecordError) as caught:
        read_trace(other)
    assert str(caught.value).startswith(f"{other}: ")


def test_a_record_with_other_columns_is_named(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.drop_columns(["text"]), path)
    assert "not a record of this version" in refusal(path)


@pytest.mark.parametrize("part", ["pages", "footer"])
def test_a_damaged_record_is_refused_or_reads_as_before(path: Path, part: str) -> None:
    content = path.read_bytes()
    expected = read_record(path)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    start, end = (4, footer) if part == "pages" else (footer, len(content))
    damaged = path.with_name("damaged.parquet")
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(start, end, 200):
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(changed)
        found: Any = None
        try:
            found = read_record(damaged)
        except ParleyError as error:
            assert str(error).startswith(f"{damaged}: ")  # noqa: PT017
            refused += 1
        assert found in (None, expected)
    assert refused > 20


def test_a_footer_with_a_wrong_bit_is_not_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over some bits pyarrow ends the process: nobody could be told which record it was."""
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    monkeypatch.setattr(pq, "ParquetFile", None)
    for at in range(footer, len(content) - 8, 7):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        assert "its footer is damaged" in refusal(path)


def test_a_record_from_before_footers_had_a_checksum_is_read(path: Path) -> None:
    content, expected = path.read_bytes(), read_record(path)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[: footer - 46] + content[footer:])
    assert content[footer - 46 : footer].startswith(b"parley-footer:")
    assert read_record(path) == expected


def test_a_footer_that_makes_bytes_of_texts_is_refused(path: Path) -> None:
    """Eight bits of the footer tell the type of a column, which no checksum covers."""
    content = path.read_bytes()
    expected = read_record(path)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    damaged = path.with_name("damaged.parquet")
    for at in range(footer + 30, footer + 60):
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            damaged.write_bytes(changed)
            try:
                found: Any = read_record(damaged)
            except ParleyError:
                continue
            assert found == expected


def test_a_record_that_was_copied_elsewhere_is_still_itself(path: Path) -> None:
    shutil.copy(path, "copy.parquet")
    assert read_record(Path("copy.parquet")) == read_record(path)


# The rows are under a checksum


def test_each_row_names_its_simulation(path: Path, simulation: Simulation) -> None:
    rows = pq.read_table(path, partitioning=None).to_pylist()
    assert {(row["id"], row["simulation_seed"]) for row in rows} == {(simulation.id, simulation.seed)}
    assert len({row["request_seed"] for row in rows}) == len(rows)


def test_columns_are_no_folders_of_the_data_set(simulation: Simulation) -> None:
    """A reader would find a value in the path and another in the file."""
    assert not {*simulation.condition.axes, "spec", "seed", "model", "byzantine", "topology"} & set(SCHEMA.names)


def lengthen(rows: list[dict[str, Any]]) -> None:
    rows[-1]["text"] += " "


def renamed(rows: list[dict[str, Any]]) -> None:
    rows[0]["role"] = "byzantine"


def emptied(rows: list[dict[str, Any]]) -> None:
    rows[0]["prompt_tokens"] = None


@pytest.mark.parametrize(
    "change", [lengthen, renamed, emptied, list.pop, list.reverse, lambda rows: rows.append(rows[-1])]
)
@pytest.mark.parametrize("read", [read_summary, read_record])
def test_rows_that_were_changed_are_refused(path: Path, change: Any, read: Any) -> None:
    read(edit(path, lambda rows: None))  # stored anew by another program, but the same
    edit(path, change)
    with pytest.raises(RecordError, match=r"seed=0\.parquet: its rows were changed; delete it and run the study"):
        read(path)


@pytest.mark.parametrize("read", [peek_summary, read_summary, read_trace, read_record])
def test_an_outcome_that_was_changed_is_refused(path: Path, read: Any) -> None:
    """The rows are as they were, and so is what they were written with."""
    table = pq.read_table(path, partitioning=None)
    found = json.loads(table.schema.metadata[b"parley"])
    found["outcome"]["name"] = "forged"
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"parley": json.dumps(found)}), path)
    with pytest.raises(RecordError, match="damaged metadata"):
        read(path)


def test_rows_without_their_checksum_are_refused(path: Path) -> None:
    for rows in ({}, {"sha256": "0" * 64}, None, []):
        forged = rewritten(path, b"parley", json.dumps({**metadata_of(path), "rows": rows}).encode())
        with pytest.raises(RecordError, match="damaged: its rows have no checksum"):
            read_summary(forged)


def metadata_of(path: Path) -> dict[str, Any]:
    found = json.loads(pq.read_schema(path).metadata[b"parley"])
    assert isinstance(found, dict)
    return found


def test_the_checksum_is_of_what_the_rows_hold_and_not_of_how_they_are_stored(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    expected = rows_checksum(table)
    texts = {name: table[name].cast(pa.string()) for name in table.column_names if is_text(table[name].type)}
    plain = pa.table({**{name: table[name] for name in table.column_names}, **texts})
    parts = pa.concat_tables([plain.slice(0, 3), plain.slice(3)])
    assert rows_checksum(plain) == rows_checksum(parts) == expected
    assert rows_checksum(table.select(table.column_names[::-1])) != expected
    assert rows_checksum(table.slice(1)) != expected


def test_codes_beyond_a_damaged_dictionary_are_refused() -> None:
    """How many texts a dictionary has stands before the page, where no checksum covers it."""
    table = pa.table({"text": ["a", "b"] * 3})
    data, footer = write_parquet(table)
    content = finished(data, footer, table.schema)
    refused = 0
    for at, bit in itertools.product(range(4, len(data)), range(8)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << bit
        try:
            rows_checksum(read_rows(parquet_file(bytes(damaged)), 6, 1000))
        except (OSError, ValueError):
            refused += 1
    assert refused > 500


def test_a_record_of_the_version_before_is_read_and_says_that_it_has_no_checksum(path: Path) -> None:
    expected = read_record(path)
    make_former(path)
    summary, entries = read_record(path)
    assert entries == expected[1]
    assert (summary.outcome, summary.digest) == (expected[0].outcome, expected[0].digest)
    assert (summary.has_checksum, expected[0].has_checksum) == (False, True)
    assert read_summary(path) == summary == peek_summary(path)
    assert replay(path).difference is None
    assert replay(edit(path, lengthen)).difference == "the content digests differ"
