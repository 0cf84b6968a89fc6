"""What is made of a study that is not played to its end: of what is there, and said so."""

import json

import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.play.record_store import part_of_tables
from parley.play.simulate import simulate
from parley.study import Study
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "Tables, figures and report of a part of a study say of how much they are, and no run takes them for all of it."
)

QUESTION = {"name": "size", "outcome": "valid_consensus", "compare": "n", "smallest": 0.1}
SAID = "6 of 8 planned simulations are played."
STAGES = ("tables", "figures", "report")


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    """A study of two conditions and a third of which nothing is played."""
    made = study_factory({"n": [3, 4]}, {"n": 5, "seeds": 2}, seeds=3, questions=[QUESTION])
    play(made, 3, 4)
    return made


def play(study: Study, *numbers: int) -> None:
    for simulation in study.simulations():
        if simulation.condition.axes["n"] in numbers:
            simulate(study, simulation.record(study.name), [], 0.0)


def made(study: Study) -> list[bool]:
    """Whether a run would find each stage made for the study."""
    return [paths.stamp(study.name, stage, study.plan).exists() for stage in STAGES]


@pytest.mark.slow
def test_all_that_is_made_of_a_part_says_so(study: Study, parley: Parley) -> None:
    ran = parley("summarize", "small.yaml")
    assert (ran.status, ran.out.splitlines()[0]) == (0, f"6 simulations in 2 conditions; {SAID}")
    conditions = pq.read_table(paths.table("small", "conditions", ".parquet")).to_pylist()
    assert [(row["n"], row["simulations"], row["planned"]) for row in conditions] == [(3, 3, 3), (4, 3, 3)]
    # A question whose conditions are not played stays in its family.
    questions = pq.read_table(paths.table("small", "questions", ".parquet")).to_pylist()
    assert [(row["to"], row["pairs"]) for row in questions] == [("4", 3), ("5", 0)]
    play(study, 5)  # meanwhile
    for command in ("figures", "report"):
        assert parley(command, "small.yaml").status == 0
    page = paths.report("small").read_text()
    assert page.count(SAID) >= 3  # the first sentence, the warning, the methods
    assert "nothing yet of model=majority, n=5" in page
    for figure in json.loads(paths.figure_list("small").read_text()):
        assert figure["notes"].startswith(SAID)
    assert part_of_tables(study).shortfall == SAID


@pytest.mark.slow
def test_no_run_takes_a_part_for_the_whole(study: Study, parley: Parley) -> None:
    for command in ("summarize", "figures", "report"):
        assert parley(command, "small.yaml").status == 0
    assert made(study) == [False, False, False]
    assert part_of_tables(study).conditions[-1].axes["n"] != 5
    play(study, 5)
    assert parley("summarize", "small.yaml").status == 0
    assert made(study) == [True, False, False]
    assert part_of_tables(study) is study
    assert "parley figures small" in one_line_error(parley("report", "small.yaml"), 1)
    for command in ("figures", "report"):
        assert parley(command, "small.yaml").status == 0
    assert made(study) == [True, True, True]
    assert "planned simulations are played" not in paths.report("small").read_text()
