"""Deliberation through the whole pipeline: studies, identity, records, replay, one simulation's study file."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.play.record import read_record
from parley.play.replay import replay
from parley.study import load_study
from parley.study.recorded import rebuilt
from parley.workflow.run import require_means
from support import REPOSITORY
from support.studies import StudyFactory, play_all, summarized

pytestmark = pytest.mark.promise(
    "The identity of a deliberation is the content of its problems; a record replays without their file."
)

SOLVERS = {
    "model": {"name": "solver", "accuracy": 0.6},
    "n": 4,
    "b": [0, 1],
    "byzantine": "stubborn",
    "prompt": "improve",
}


def questions(folder: Path, numbers: range) -> Path:
    """Write a small file of problems in the form of GSM8K, and return it."""
    lines = [
        {"question": f"What is {i} + 1?", "answer": f"It is <<{i}+1={i + 1}>>{i + 1}.\n#### {i + 1}"} for i in numbers
    ]
    file = folder / "problems.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def gsm8k(file: Path, **more: Any) -> dict[str, Any]:
    return {"problems": {"kind": "gsm8k", "path": str(file), **more}}


def test_a_record_replays_without_the_file_of_its_problems(tmp_path: Path, study_factory: StudyFactory) -> None:
    file = questions(tmp_path, range(20))
    records = play_all(study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file)))
    file.unlink()
    for record in records:
        assert replay(record).difference is None
        summary, _ = read_record(record)
        assert rebuilt(record, summary.simulation).id == summary.simulation["id"]
        assert summary.simulation["material"]["question"].startswith("What is ")
        assert str(tmp_path) not in json.dumps(summary.simulation)
        problems = summary.simulation["parameters"]["problems"]
        assert problems["kind"] == "gsm8k"
        assert "path" not in problems


def test_a_placebo_replays_with_the_problem_that_its_record_has(tmp_path: Path, study_factory: StudyFactory) -> None:
    file = questions(tmp_path, range(20))
    parameters = {**gsm8k(file), "hears": "another_problem"}
    records = play_all(study_factory(SOLVERS, game="deliberation", seeds=2, parameters=parameters))
    file.unlink()
    assert {replay(record).difference for record in records} == {None}
    alone = {**gsm8k(questions(tmp_path, range(1))), "hears": "another_problem"}
    study = study_factory(SOLVERS, game="deliberation", parameters=alone)
    with pytest.raises(UsageError, match="no two different problems"):
        play_all(study)


def test_a_time_limit_is_replayed_with_the_recorded_times(study_factory: StudyFactory) -> None:
    study = study_factory(SOLVERS, game="deliberation", seeds=2, parameters={"time_limit": 1})
    assert {replay(record).difference for record in play_all(study)} == {None}


@pytest.mark.slow
def test_conditions_about_other_problems_are_no_pairs(study_factory: StudyFactory) -> None:
    grid = {
        **SOLVERS,
        "b": 0,
        "vary": {"problems": ["arithmetic", {"kind": "arithmetic", "order": 1}], "turns": [1, 2]},
    }
    study = study_factory(grid, game="deliberation", seeds=4)
    table = read_table(summarized(study).name, "contrasts")
    rates = table[table["kind"] == "indicator"]
    assert set(rates[rates["axis"] == "turns"]["test"]) == {"McNemar"}
    assert set(rates[rates["axis"] == "problems"]["test"]) == {"chi-squared"}
    assert (rates[rates["axis"] == "problems"]["pairs"] == 0).all()


def test_the_paper_s_study_has_its_agents_turns_and_problems() -> None:
    """Its data are the user's: named by their hash, it can be planned without them."""
    study = load_study(REPOSITORY / "config" / "deliberation.yaml")
    axes = {name: {condition.axes[name] for condition in study.conditions} for name in ("n", "turns", "problems", "b")}
    assert (axes["n"], axes["turns"], axes["b"]) == ({3, 4, 5}, {2, 3}, {0, 1})
    assert axes["problems"] == {"arithmetic", "gsm8k-test", "delidata", "policies"}
    with pytest.raises(UsageError, match=r"data/\w+: no such file or folder"):
        require_means(study, {str(simulation.record(study.name)) for simulation in study.simulations()})
