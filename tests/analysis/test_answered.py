"""Which models answered: in journals and records, in the report, and what `strict_model` makes of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.analysis.answered import MAX_LINES, Answered, answered, answered_as, answered_warnings
from parley.analysis.summarize import summarize
from parley.errors import EngineError, JournalError
from parley.figures.make import figures
from parley.files import checked_line, parse_line
from parley.play.journal import journaled
from parley.play.record import CHECK_KEY, checksum, read_record, read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import Study
from support.answering import SERVED, StandInService, as_recorded, service
from support.hearing import heard
from support.studies import StudyFactory

pytestmark = pytest.mark.slow

DATED, OTHER = SERVED + "-2026-01-31", "vendor/else"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with service() as found:
        yield found


def make(study_factory: StudyFactory, server: StandInService, strict: bool = False, n: Any = (3, 4)) -> Study:
    entry = {
        "source": {"url": server.url, "served": SERVED},
        "strict_model": strict,
        "limits": {"patience_seconds": 0},
    }
    grid = {"model": "theirs", "n": list(n)}
    return study_factory(grid, models={"theirs": entry}, parameters={"max_rounds": 2}, seeds=2)


@pytest.fixture
def study(study_factory: StudyFactory, server: StandInService) -> Study:
    return make(study_factory, server)


def naming(server: StandInService, *names: Any, fingerprints: tuple[Any, ...] = (None,)) -> None:
    """Have the service answer by these names in turn, with these fingerprints."""
    asked = iter(range(10**6))

    def answer(body: dict[str, Any]) -> Any:
        status, reply = as_recorded(body)
        number = next(asked)
        return status, reply | {
            "model": names[number % len(names)],
            "system_fingerprint": fingerprints[number % len(fingerprints)],
        }

    server.answer = answer


def played(study: Study) -> list[str]:
    """Play all simulations; return what was said."""
    with heard() as said:
        for simulation in study.simulations():
            simulate(study, simulation.record("small"), [], 5.0)
    return said


def told_by_records(study: Study) -> list[Answered]:
    simulations = list(study.simulations())
    return answered(simulations, [read_summary(simulation.record("small")) for simulation in simulations])


def warned(study: Study) -> list[str]:
    return answered_warnings(told_by_records(study))


def test_each_reply_says_which_model_answered(study: Study, server: StandInService) -> None:
    naming(server, SERVED, fingerprints=("fp_1",))
    played(study)
    record = next(study.simulations()).record("small")
    entries = read_record(record)[1]
    assert {(entry.served_model, entry.system_fingerprint) for entry in entries} == {(SERVED, "fp_1")}
    assert read_summary(record).telemetry["answered"] == {"theirs": [[SERVED, "fp_1", len(entries)]]}
    assert set(pq.read_table(record, partitioning=None)["served_model"].to_pylist()) == {SERVED}
    assert replay(record).difference is None
    assert warned(study) == []


def test_names_are_cleaned_and_bounded(study: Study, server: StandInService) -> None:
    naming(
        server,
        "\x1b]0;title\x07" + "x" * 10**5,
        "<b>\n\u202eevil</b>",
        7,
        "/home/alice/llama",
        "/" * 10**5,
        fingerprints=(["fp"], "a\0b"),
    )
    played(study)
    for simulation in study.simulations():
        for entry in read_record(simulation.record("small"))[1]:
            for name in (entry.served_model, entry.system_fingerprint):
                assert name is None or (name.isprintable() and 0 < len(name) <= 200 and "alice" not in name)
    assert all(line.isprintable() and len(line) < 1000 for line in warned(study))


def test_a_name_for_every_reply_makes_no_large_record_and_no_long_list(
    study_factory: StudyFactory, server: StandInService
) -> None:
    study = make(study_factory, server, n=(24, 25))
    naming(server, *(f"{'m' * 180}{number}" for number in range(1000)))
    played(study)
    record = next(study.simulations()).record("small")
    assert len(read_summary(record).telemetry["answered"]["theirs"]) == 20
    lines = warned(study)
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("and ")
    assert max(map(len, lines)) < 1000


def test_a_plain_alias_is_a_fact_and_no_warning(study: Study, server: StandInService) -> None:
    naming(server, DATED)
    assert not any("warning" in line for line in played(study))
    assert warned(study) == []
    number = sum(len(read_record(s.record("small"))[1]) for s in study.simulations())
    assert answered_as(told_by_records(study)) == {"theirs": f"; answered as {DATED} ({number} replies)"}


def test_the_report_warns_of_other_models_and_of_changes(study: Study, server: StandInService) -> None:
    naming(server, DATED, "<i>else", fingerprints=("fp_1", "fp_2", "fp_1"))
    said = played(study)
    assert said.count(f"warning: the service for theirs was asked for {SERVED} and answered as <i>else") == 4
    summarize(study)
    figures(study)
    html = report(study).read_text()
    assert "WARNING: models that answered" in html
    assert "<i>else" not in html
    lines = warned(study)
    assert lines[0].startswith(f"theirs: asked for {SERVED}, answered as <i>else (")
    assert lines[0].endswith("in 2 of 2 conditions)")
    assert lines[1].startswith("theirs: more than one model in model=theirs, n=3, ")
    assert lines[2].startswith("theirs: more than one model in model=theirs, n=4, ")
    assert lines[3].startswith("theirs: more than one system_fingerprint in 2 of 2 conditions")
    assert len(lines) == 4


def test_without_anything_to_say_the_report_says_nothing(study: Study) -> None:
    played(study)  # by a service that names no model
    summarize(study)
    figures(study)
    assert "models that answered" not in report(study).read_text()


def test_a_change_ends_a_strict_simulation_and_loses_nothing(
    study_factory: StudyFactory, server: StandInService
) -> None:
    study = make(study_factory, server, strict=True)
    record = next(study.simulations()).record("small")
    naming(server, *[SERVED] * 4, OTHER)
    with pytest.raises(EngineError, match=f"answered as {OTHER}, which strict_model forbids"):
        played(study)
    kept = journaled(paths.journal(record))
    assert {entry.served_model for entry in kept} == {SERVED}
    naming(server, SERVED)
    assert f"going on from the journal: {len(kept)} replies" in played(study)


def test_who_becomes_strict_is_told_of_the_replies_that_are_there(
    study_factory: StudyFactory, server: StandInService
) -> None:
    naming(server, OTHER)
    server.answer, others = (lambda body: None if len(server.bodies) > 4 else others(body)), server.answer
    with pytest.raises(EngineError, match="broke the connection"):
        played(make(study_factory, server))
    strict = make(study_factory, server, strict=True)
    with pytest.raises(JournalError, match=f"holds replies of {OTHER}, and strict_model allows {SERVED} alone"):
        played(strict)


def test_strictness_and_deadlines_change_no_path(study: Study, study_factory: StudyFactory, server: Any) -> None:
    records = [simulation.record("small") for simulation in study.simulations()]
    assert [s.record("small") for s in make(study_factory, server, strict=True).simulations()] == records


# What was written before replies named their model


def test_an_older_record_is_read(study: Study, server: StandInService) -> None:
    naming(server, SERVED)
    played(study)
    record = next(study.simulations()).record("small")
    table = pq.read_table(record, partitioning=None)
    metadata = dict(table.schema.metadata)
    meta = {key: value for key, value in json.loads(metadata[b"parley"]).items() if key != "rows"}
    metadata[b"parley"] = json.dumps({**meta, "format": 2}).encode()
    metadata[CHECK_KEY] = checksum(metadata)
    later = {"served_model", "system_fingerprint", "id", "simulation_seed"}
    older = table.select([name for name in table.column_names if name not in later])
    older = older.rename_columns([{"request_seed": "seed"}.get(name, name) for name in older.column_names])
    pq.write_table(older.replace_schema_metadata(metadata), record, compression="zstd", write_page_checksum=True)
    assert {entry.served_model for entry in read_record(record)[1]} == {None}
    assert replay(record).difference is None


def test_an_older_journal_is_gone_on_from(study: Study, server: StandInService) -> None:
    server.answer = lambda body: None if len(server.bodies) > 4 else as_recorded(body)
    with pytest.raises(EngineError):
        played(study)
    journal = paths.journal(next(study.simulations()).record("small"))
    lines = [parse_line(line) for line in journal.read_bytes().splitlines(keepends=True)]
    later = ("served_model", "system_fingerprint")
    journal.write_bytes(
        b"".join(checked_line({k: v for k, v in (line or {}).items() if k not in later}) for line in lines)
    )
    assert "served_model" not in Path(journal).read_text()
    assert len(journaled(journal)) == len(lines) - 1 > 0
    naming(server, SERVED)
    assert f"going on from the journal: {len(lines) - 1} replies" in played(study)
