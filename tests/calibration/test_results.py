"""What calibrations come to, and where reports find them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.calibration.arms import Arm, calibration_tables, calibrations_of, planned_report, report_plan
from parley.calibration.run import calibrate
from parley.engine.models import ModelEntry
from parley.errors import RecordError
from parley.files import mark_done
from parley.games.problems.sources import Arithmetic
from parley.progress.follow import Progress
from parley.progress.snapshot import DONE
from parley.report.page import report
from parley.study import Study, load_study
from parley.study.frozen import write_frozen
from parley.study.load import RunPlan, plan_of
from support.answering import record_with_model, standing_in
from support.commands import Parley
from support.replies import answering
from support.studies import MODELS, StudyFactory

pytestmark = pytest.mark.promise("A report shows the calibrations of its models as they are asked now.")

CONSENSUS = Arm("consensus", "json")


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"model": "tiny", "n": 3}, parameters={"max_rounds": 1})


@pytest.fixture
def calibrated(study: Study, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def make(model: str = "tiny", number: int = 4, arm: Arm = CONSENSUS) -> dict[str, Any]:
        with standing_in(tmp_path, answering(), model) as (endpoint, _):
            return calibrate(model, study.models_file, Arithmetic(), number, [arm], endpoint, 5.0)

    return make


@pytest.mark.slow
def test_a_study_finds_the_calibrations_of_its_models_by_what_they_are(
    study: Study, calibrated: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calibration_tables(study) == {"tiny": []}
    calibrated(number=4)
    calibrated("other")
    calibrated(number=6)
    (first, _), (second, rows) = calibration_tables(study)["tiny"]
    assert (first, second) == ("6 questions of arithmetic", "4 questions of arithmetic")
    assert (rows[1]["arm"], rows[1]["right"]) == ("consensus-json", "4 of 4")
    # Another name is the same model; other weights, grammars and prompts are something else.
    models = {"models": {**MODELS["models"], "renamed": MODELS["models"]["tiny"]}}
    study.models_file.write_text(yaml.safe_dump(models))
    entry = load_study(study.file).models["renamed"]
    assert len(calibrations_of(entry)) == 2
    assert calibrations_of(entry.model_copy(update={"dtype": "float32"})) == []
    with monkeypatch.context() as patch:
        patch.setattr(ModelEntry, "grammar_name", "another")
        assert calibrations_of(entry) == []
    monkeypatch.setattr("parley.calibration.arms._PLAIN_TASK", "Answer.")
    assert calibrations_of(entry) == []


def test_files_that_are_none_are_left_alone_and_damaged_ones_are_told(study: Study) -> None:
    path = paths.calibration("tiny", "0" * 12, ".json")
    path.parent.mkdir(parents=True)
    path.write_text('{"plan": "of a study called calibrations"}')
    assert calibrations_of(study.models["tiny"]) == []
    for damaged in ('{"calibration": 1, "mod', '{"calibration": 1, "identity": {}, "number": 4, "arms": [{}]}'):
        path.write_text(damaged)
        with pytest.raises(RecordError, match="parley calibrate"):
            calibrations_of(study.models["tiny"])


@pytest.mark.slow
def test_another_calibration_is_another_plan_of_the_report(
    study: Study, calibrated: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> str:
        return next(stage.state for stage in Progress(study).look().stages if stage.name == "report")

    mark_done(study.name, "report", study.plan)
    calibrated("other")  # the study does not ask that model
    assert (report_plan(study), state()) == (study.plan, DONE)
    calibrated()
    first = report_plan(study)
    assert first != study.plan
    assert state() != DONE  # the display waits for the report of now
    # All jobs of a run have one plan of the report.
    monkeypatch.setenv("PARLEY_RUN", "")
    RunPlan("token", plan_of(study), report_plan(study)).give_to_jobs()
    calibrated(arm=Arm("consensus", "text"))
    assert planned_report(study) == first
    monkeypatch.setenv("PARLEY_RUN", "")
    assert planned_report(study) == report_plan(study) != first


def test_freezing_a_study_and_changing_it_are_other_plans_of_the_report(study_factory: StudyFactory) -> None:
    asked = {"name": "n", "outcome": "valid_consensus", "compare": "n", "smallest": 0.2}
    study = study_factory({"n": [3, 4]}, questions=[asked])
    write_frozen(study)
    frozen = report_plan(study)
    paths.frozen(study.file).write_text("damaged")
    assert len({report_plan(study), frozen, study.plan}) == 3


@pytest.mark.slow
def test_the_report_shows_them_or_how_to_make_one(
    study: Study, calibrated: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.report.page._figures", lambda study: ())
    for simulation in study.simulations():
        record_with_model(simulation)
    summarize(study)
    remedy = "<code>parley calibrate tiny</code>"
    assert remedy in report(study).read_text()
    calibrated()
    page = report(study).read_text()
    assert remedy not in page
    assert "100.0% <span>[51.0, 100.0]</span>" in page  # Wilson, 4 of 4


def test_the_command_prints_the_table_and_the_file(study: Study, tmp_path: Path, parley: Parley) -> None:
    with standing_in(tmp_path, answering()) as (endpoint, _):
        options = ["--number", "4", "--game", "consensus", "--reply-format", "json", "--endpoint", endpoint]
        printed = parley("calibrate", "tiny", "--models", study.models_file, *options)
    assert printed.status == 0, printed.err
    lines = printed.out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["arm", "plain", "consensus-json"]
    assert json.loads(Path(lines[-1]).read_text())["number"] == 4
    again = json.loads(parley("calibrate", "tiny", "--models", study.models_file, *options, "--json").out)
    assert [(arm["arm"], arm["questions"]) for arm in again["arms"]] == [("plain", 4), ("consensus-json", 4)]
