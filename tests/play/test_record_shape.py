from pathlib import Path
from typing import Any

import pytest

from parley.analysis.summarize import summarize
from parley.errors import RecordError
from parley.play.record import peek_summary, read_record, write_record
from parley.play.record_shape import problem_of
from parley.play.replay import replay
from parley.play.usable import left_out_of_tables
from parley.policies import FAILURE_CLASSES
from parley.study import Study
from support.forging import forge
from support.playing import play_of
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    study = study_factory(seeds=2, parameters={"max_rounds": 2})
    for simulation in study.simulations():
        write_record(simulation.record("small"), simulation, play_of(simulation), {})
    return study


@pytest.fixture
def path(study: Study) -> Path:
    return next(study.simulations()).record("small")


def test_metadata_of_other_types_is_named_and_left_out(study: Study, path: Path) -> None:
    whole = path.read_bytes()
    forgeries: list[tuple[dict[str, Any], str]] = [
        ({"outcome": "x"}, "outcome should be a valid dictionary"),
        ({"outcome": {}}, "outcome.name is missing"),
        ({"provenance": 7}, "provenance should be"),
        ({"provenance": {"engines": ["a"]}}, "provenance.engines should be"),
        ({"provenance": {"engines": {"a": 1}}}, "provenance.engines.a should be"),
        ({"provenance": {"engines": {"a": {"versions": 1}}}}, "provenance.engines.a.versions should be"),
        ({"provenance": {"engines": {"a\x1b[31m\n": {"engine": []}}}}, "provenance.engines.a"),
        ({"provenance": {"git": "a"}}, "provenance.git should be"),
        ({"telemetry": []}, "telemetry should be"),
        ({"telemetry": {}}, "telemetry.calls is missing"),
        ({"digest": None}, "digest should be a valid string"),
        ({"simulation": []}, "simulation should be"),
    ]
    for forged, words in forgeries:
        path.write_bytes(whole)
        forge(path, meta=lambda meta, forged=forged: meta.update(forged))
        for read in (peek_summary, read_record, replay):
            with pytest.raises(RecordError) as caught:
                read(path)
            assert str(caught.value).startswith(f"{path}: damaged: {words}")
            assert str(caught.value).isprintable()
    summarize(study)
    assert left_out_of_tables(study) == [path]
    assert problem_of({}) == "simulation is missing"


def test_counts_are_counts(path: Path) -> None:
    odd: list[object] = ["many", None, -1, True, 1.5, 2**60, [], {}]
    rows = [("calls", value) for value in odd] + [(key, -1) for key in (*FAILURE_CLASSES, "cached_tokens")]
    whole = path.read_bytes()
    for key, value in rows:
        path.write_bytes(whole)
        forge(path, meta=lambda meta, key=key, value=value: meta["telemetry"].update({key: value}))
        with pytest.raises(RecordError, match=f"damaged: telemetry.{key} should be"):
            peek_summary(path)


def test_what_came_later_may_be_missing_and_what_comes_later_may_be_there(path: Path) -> None:
    later = ("degenerate", "answered", "phase_seconds", "wall_seconds")
    forge(path, meta=lambda meta: [meta["telemetry"].pop(key, None) for key in later])
    forge(path, meta=lambda meta: meta["telemetry"].update(later=[1]) or meta["outcome"].update(later="x"))
    assert peek_summary(path).telemetry["later"] == [1]
    counts = {"asked": 3, "repeated": 1}
    forge(path, meta=lambda meta: meta["telemetry"].update(degenerate=counts, answered={"a": [["b", None, 3]]}))
    assert peek_summary(path).telemetry["answered"] == {"a": [["b", None, 3]]}
    forge(path, meta=lambda meta: meta["telemetry"].update(answered={"a": [["b", None]]}))
    with pytest.raises(RecordError, match=r"damaged: telemetry\.answered\.a"):
        peek_summary(path)
