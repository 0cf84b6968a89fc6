"""Which models answered: in journals and records, and in the report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.analysis.made_by import answered_as, answered_warnings, made_by
from parley.analysis.summarize import summarize
from parley.play.record import read_record, read_summary
from parley.play.record_store import read_records
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import Study
from support.answering import SERVED, StandInService, as_recorded, service
from support.studies import StudyFactory

pytestmark = [
    pytest.mark.promise("A record and the report say which model really answered."),
    pytest.mark.slow,
]

DATED = SERVED + "-2026-01-31"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with service() as found:
        yield found


def make(study_factory: StudyFactory, server: StandInService, n: Any = (3, 4)) -> Study:
    entry = {"source": {"url": server.url, "served": SERVED}, "limits": {"patience_seconds": 0}}
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
        model, fingerprint = names[number % len(names)], fingerprints[number % len(fingerprints)]
        return status, reply | {"model": model, "system_fingerprint": fingerprint}

    server.answer = answer


def played(study: Study) -> None:
    for simulation in study.simulations():
        simulate(study, simulation.record("small"), [], 5.0)


def warned(study: Study) -> list[str]:
    return list(answered_warnings(study, made_by(read_records(study)).answered))


def first_record(study: Study) -> Path:
    return next(study.simulations()).record("small")


def test_each_reply_says_which_model_answered(study: Study, server: StandInService) -> None:
    naming(server, SERVED, fingerprints=("fp_1",))
    played(study)
    record = first_record(study)
    entries = read_record(record)[1]
    assert {(entry.served_model, entry.system_fingerprint) for entry in entries} == {(SERVED, "fp_1")}
    assert read_summary(record).telemetry["answered"] == {"theirs": [[SERVED, "fp_1", len(entries)]]}
    table = pq.read_table(record, partitioning=None)
    assert set(table["served_model"].to_pylist()) == {SERVED}
    assert replay(record).difference is None
    assert warned(study) == []
    assert answered_as(study, made_by(read_records(study)).answered) == {}


def test_names_are_cleaned_and_bounded(study_factory: StudyFactory, server: StandInService) -> None:
    study = make(study_factory, server, n=(12, 13))
    hostile = ("\x1b]0;title\x07" + "x" * 10**5, "<b>\n\u202eevil</b>", 7, "/home/alice/llama", "/" * 10**5)
    many = (f"{'m' * 180}{number}" for number in range(1000))  # a name for every reply
    naming(server, *hostile, *many, fingerprints=(["fp"], "a\0b"))
    played(study)
    for simulation in study.simulations():
        for entry in read_record(simulation.record("small"))[1]:
            for name in (entry.served_model, entry.system_fingerprint):
                assert name is None or (name.isprintable() and 0 < len(name) <= 200 and "alice" not in name)
    assert len(read_summary(first_record(study)).telemetry["answered"]["theirs"]) == 20
    [line] = warned(study)
    assert line.endswith(" more")
    assert line.isprintable()
    assert len(line) < 1000


def test_other_models_and_changes_are_warned_of_in_the_report(
    study: Study, server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.report.page._figures", lambda study: ())
    naming(server, DATED, "<i>else")
    played(study)
    summarize(study)
    page = report(study).read_text()
    assert "models that answered" in page
    assert "<i>else" not in page
    [other] = warned(study)
    assert f"asked for {SERVED}, answered as <i>else (" in other
