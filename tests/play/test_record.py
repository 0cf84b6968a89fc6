import itertools
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from parley import __version__
from parley.analysis.summarize import summarize
from parley.engine import hardware
from parley.errors import ParleyError, RecordError
from parley.play import record
from parley.play.journal import Entry
from parley.play.parquet import open_parquet, read_rows, values, write_parquet
from parley.play.record import peek_summary, read_record, read_summary, read_trace, write_record
from parley.play.record_content import SCHEMA, describe, metadata_problem, times
from parley.play.record_store import left_out_of_tables
from parley.play.replay import replay
from parley.play.runner import Play
from parley.study import Study
from parley.study.condition import Simulation
from support.playing import ListPolicy, play_of
from support.records import edit, forge, with_metadata
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
    assert (summary.digest, summary.provenance) == (played.digest, {"parley": "test"})
    assert summary.simulation == describe(simulation)
    outcome = played.outcome.as_json()
    trace = outcome.pop("trace")
    assert (summary.outcome, read_trace(path)) == (outcome, trace)
    parts = ("key", "seed", "ask", "text", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens")
    assert [[getattr(entry, part) for part in parts] for entry in entries] == [
        [getattr(x.entry, part) for part in parts] for x in played.exchanges
    ]
    assert os.listdir(path.parent) == [path.name]  # no temporary file is left


def test_every_attempt_is_a_row_with_its_question_and_failure(
    path: Path, simulation: Simulation, played: Play
) -> None:
    table = pq.read_table(path, partitioning=None)
    assert table.schema.remove_metadata() == SCHEMA
    rows = table.to_pylist()
    assert {(row["id"], row["simulation_seed"]) for row in rows} == {(simulation.id, simulation.seed)}
    assert len({row["request_seed"] for row in rows}) == len(rows)
    for row, x in zip(rows, played.exchanges, strict=True):
        assert (row["system"], row["user"], row["role"]) == (x.ask.system, x.ask.user, x.ask.role)
        assert (row["failure"], row["failure_detail"]) == (x.reply.failure, x.reply.detail)
        assert row["max_tokens"] == x.ask.sampling.max_tokens
        assert row["temperature"] == pytest.approx(x.ask.sampling.temperature)
        assert row["player"] == {"honest": "majority", "byzantine": "random"}[row["role"]]
        assert row["started"].timestamp() == pytest.approx(x.entry.started, abs=0.001)
    telemetry = read_summary(path).telemetry
    assert telemetry["calls"] == len(played.exchanges)
    # agent_1 fails every attempt in two rounds of two phases.
    assert telemetry["failed_replies"] == telemetry["invalid_json"] == 16
    tokens = [telemetry[f"{kind}_tokens"] for kind in ("prompt", "completion", "cached")]
    assert tokens == [1600, 112, 640]


# The data set


@pytest.fixture
def data_set(study_factory: StudyFactory) -> Study:
    study = study_factory({"n": [3, 4], "prompt": ["may_exist", "none_exist"]}, seeds=2, parameters={"max_rounds": 3})
    for simulation in study.simulations():
        write_record(simulation.record("small"), simulation, play_of(simulation), {})
    return study


@pytest.mark.promise("Records are one partitioned data set of pyarrow and pandas.")
def test_the_records_are_one_partitioned_data_set_of_pyarrow_and_pandas(data_set: Study) -> None:
    record = next(data_set.simulations()).record("small")
    left_by_a_killed_process = record.with_name(f".seed=9.parquet.{os.getpid()}.tmp")
    left_by_a_killed_process.write_bytes(b"half a record")
    total = sum(len(read_record(s.record("small"))[1]) for s in data_set.simulations())
    found = ds.dataset("results/small/simulations", format="parquet", partitioning="hive")
    four = found.to_table(filter=(ds.field("n") == 4) & (ds.field("prompt") == "may_exist"))
    assert set(four["agent"].to_pylist()) == {f"agent_{i}" for i in range(1, 5)}
    assert found.count_rows() == total
    frame = pd.read_parquet("results/small/simulations")
    assert sorted(frame["n"].astype(int).unique()) == [3, 4]
    assert sorted(frame["prompt"].astype(str).unique()) == ["may_exist", "none_exist"]
    assert len(frame) == total


# Bad files


def refusal(path: Path, read: Callable[[Path], Any] = read_record) -> str:
    with pytest.raises(RecordError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    return message


def test_what_is_no_record_is_named(path: Path) -> None:
    assert "no such file" in refusal(path.with_name("seed=1.parquet"))
    other = Path("x.parquet")
    for content in (b"", b"not Parquet at all", b"PAR1" * 100):
        other.write_bytes(content)
        assert "cut short or not Parquet" in refusal(other)
    pd.DataFrame({"a": [1]}).to_parquet(other)
    assert "another program wrote it" in refusal(other)
    rows = pq.read_table(path, partitioning=None).drop_columns(["text"])
    path.write_bytes(write_parquet(rows, lambda pages: rows.schema.metadata))
    assert "not a record of this version" in refusal(path)


def footer_of(content: bytes) -> int:
    """Return where the footer of a file begins."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def flipped(content: bytes, at: int, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[at] ^= 1 << bit
    return bytes(damaged)


def test_metadata_that_is_damaged_or_of_another_version_is_named(path: Path) -> None:
    meta = json.loads(pq.read_schema(path).metadata[b"parley"])
    for value in (None, b"{", b"[]", b"{}", b'{"format": 999}', b"\xff\xfe"):
        said = refusal(with_metadata(path, b"parley", value))
        assert "damaged" in said or "not a record" in said, value
    other = with_metadata(path, b"parley", json.dumps({**meta, "format": 4}).encode())
    assert "not a record of this version" in refusal(other)
    forged = with_metadata(path, b"parley", json.dumps({**meta, "rows": {"sha256": "0" * 64}}).encode())
    assert "rows.bytes_sha256: Field required" in refusal(forged, read_summary)
    for value in (None, b"{", b"{}"):
        refusal(with_metadata(path, b"parley_trace", value), read_trace)


def test_a_damaged_record_is_refused_or_reads_as_before(path: Path) -> None:
    content, expected = path.read_bytes(), read_record(path)
    footer = footer_of(content)
    damaged = path.with_name("damaged.parquet")
    random = np.random.default_rng(0)
    places = [*random.integers(4, footer, 40), *random.integers(footer, len(content), 20)]
    places += [*range(footer - 46, footer, 7)]  # of the checksum of the footer
    places += [*range(footer + 30, footer + 60, 2)]  # which tell the types of columns: texts could become bytes
    refused = 0
    for at in places:
        damaged.write_bytes(flipped(content, at, int(random.integers(8))))
        found: Any = None
        try:
            found = read_record(damaged)
        except ParleyError as error:
            assert str(error).startswith(f"{damaged}: ")  # noqa: PT017
            refused += 1
        assert found in (None, expected)
    assert refused > 30


@pytest.mark.promise("A wrong bit in a footer ends in one line, not in the death of the process.")
def test_a_footer_with_a_wrong_bit_is_not_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over some bits pyarrow ends the process: nobody could be told which record it was."""
    content = path.read_bytes()
    monkeypatch.setattr(pq, "ParquetFile", None)
    for at in range(footer_of(content), len(content) - 8, 499):
        path.write_bytes(flipped(content, at, at % 8))
        assert "its footer is damaged" in refusal(path)


def test_codes_beyond_a_damaged_dictionary_are_refused() -> None:
    """How many texts a dictionary has stands before the page, where no checksum covers it."""
    content = write_parquet(pa.table({"text": ["a", "b"] * 3}), lambda pages: {})
    refused = 0
    for at, bit in itertools.product(range(4, len(open_parquet(content).pages)), range(8)):
        try:
            values(read_rows(open_parquet(flipped(content, at, bit))).column("text"))
        except (OSError, ValueError):
            refused += 1
    assert refused > 500


# The rows are under a checksum


@pytest.mark.promise("Changed rows and outcomes of a record are refused.")
def test_rows_that_were_changed_are_refused(path: Path) -> None:
    content = path.read_bytes()
    changes: list[Callable[[list[dict[str, Any]]], Any]] = [
        lambda rows: rows[-1].update(text=rows[-1]["text"] + " "),
        lambda rows: rows[0].update(role="byzantine"),
        lambda rows: rows[0].update(prompt_tokens=None),
        list.pop,
        list.reverse,
        lambda rows: rows.append(rows[-1]),
    ]
    for change in changes:
        path.write_bytes(content)
        edit(path, change)
        for read in (read_summary, read_record):
            assert "its rows were changed; delete it" in refusal(path, read)


def test_an_outcome_that_was_changed_is_refused(path: Path) -> None:
    """The rows are as they were, and so is what they were written with."""
    table = pq.read_table(path, partitioning=None)
    found = json.loads(table.schema.metadata[b"parley"])
    found["outcome"]["name"] = "forged"
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"parley": json.dumps(found)}), path)
    for read in (peek_summary, read_summary, read_trace, read_record):
        assert "another program wrote it" in refusal(path, read)


# The shape of metadata


@pytest.mark.slow
def test_metadata_of_other_types_is_named_and_left_out(data_set: Study) -> None:
    path = next(data_set.simulations()).record("small")
    whole = path.read_bytes()
    forgeries: list[tuple[dict[str, Any], str]] = [
        ({"outcome": {}}, "outcome.name: Field required"),
        ({"provenance": 7}, "provenance: Input should be"),
        ({"provenance": {"engines": {"a": {"versions": 1}}}}, "provenance.engines.a.versions: Input"),
        ({"provenance": {"engines": {"a\x1b[31m\n": {"engine": []}}}}, "provenance.engines.a"),
        ({"provenance": {"ended": []}}, "provenance.ended: Input should be"),
        ({"simulation": {"id": "x", "seed": 0, "groups": [{"role": "x"}]}}, "simulation.groups.0.player: Field"),
        ({"telemetry": {}}, "telemetry.calls: Field required"),
        ({"digest": None}, "digest: Input should be a valid string"),
    ]
    for forged, words in forgeries:
        path.write_bytes(whole)
        forge(path, meta=lambda meta, forged=forged: meta.update(forged))
        for read in (peek_summary, read_record, replay):
            said = refusal(path, read)
            assert said.startswith(f"{path}: damaged: {words}")
            assert said.isprintable()
    summarize(data_set)
    assert list(left_out_of_tables(data_set)) == [path]
    assert metadata_problem({}) == "simulation: Field required"


def test_what_came_later_may_be_missing_and_what_comes_later_may_be_there(path: Path) -> None:
    later = ("degenerate", "answered", "phase_seconds", "wall_seconds")
    forge(path, meta=lambda meta: [meta["telemetry"].pop(key, None) for key in later])
    forge(path, meta=lambda meta: meta["telemetry"].update(later=[1]) or meta["outcome"].update(later="x"))
    assert peek_summary(path).telemetry["later"] == [1]
    forge(path, meta=lambda meta: meta["telemetry"].update(answered={"a": [["b", None]]}))
    assert "damaged: telemetry.answered.a" in refusal(path, peek_summary)


# Times


def entry(number: int, phase: str, agent: str, started: float, seconds: float, attempt: int = 0) -> Entry:
    return Entry(number, phase, agent, attempt, 1, "ask", "text", "stop", 1, 1, 0, started, seconds)


def test_a_phase_takes_as_long_as_its_slowest_agent_in_each_round() -> None:
    found = times(
        [
            entry(1, "speak", "a", 0.0, 2.0),
            entry(1, "speak", "b", 0.5, 1.0),
            entry(1, "speak", "b", 1.5, 1.75, attempt=1),  # the attempts of an agent add up: 2.75
            entry(2, "speak", "a", 4.0, 0.5),
            entry(2, "judge", "a", 5.0, 0.25),
            entry(2, "judge", "b", 7.0, 0.125),
        ]
    )
    # From 0 to 3.25, from 4 to 4.5, from 5 to 7.125.
    assert found == {"phase_seconds": {"speak": 3.25, "judge": 0.25}, "wall_seconds": 5.875}


# What made it


@pytest.mark.promise("A record says what made it, without a word about who or where.")
def test_provenance_names_versions_machine_and_times() -> None:
    started = datetime.now(UTC) - timedelta(minutes=1)
    found = record.provenance(started, {"tiny": {"engine": "vllm"}})
    assert found["parley"] == __version__
    assert set(found["packages"]) == {
        *("numpy", "pandas", "pyarrow", "pydantic", "scipy", "networkx", "aiohttp", "snakemake", "dvc"),
    }
    assert hardware.cpu() in found["machine"]
    assert found["engines"] == {"tiny": {"engine": "vllm"}}
    assert datetime.fromisoformat(found["started"]) == started.replace(microsecond=0)
    assert started < datetime.fromisoformat(found["ended"]) + timedelta(seconds=1)


def test_readers_are_warned_of_each_engine_and_of_its_load() -> None:
    invariant = {"by": hardware.determinism(True, False, (hardware.Gpu("A100", "1", (8, 0)),)).by, "warning": "a beta"}
    engines = {
        "b": {"deterministic": invariant, "requests_at_once": 64},
        "a": {"deterministic": {"by": "float32", "warning": "no proof"}, "requests_at_once": 64},
        "c": {"deterministic": None},
        "d": {"deterministic": {**invariant, "warning": None}, "requests_at_once": 1},
        "e": {"deterministic": {**invariant, "warning": None}, "requests_at_once": "64"},
        "f": {},
    }
    found = record.provenance_warnings({"engines": engines})
    assert found[:2] == ["a: no proof", "b: a beta"]
    assert found[2].startswith("b: up to 64 requests at once")
    assert len(found) == 3
