"""Which simulations are shown, in which files, and what is said of those that are not."""

from pathlib import Path

import pytest

from parley import paths
from parley.errors import RecordError
from parley.play.simulate import simulate
from parley.report.view import chosen as view_chosen
from parley.report.view.chosen import chosen
from parley.study import Study
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    """Two conditions of three seeds, of which the last simulation was not played."""
    made = study_factory({"n": [3, 4]}, seeds=3, parameters={"max_rounds": 1})
    for simulation in list(made.simulations())[:-1]:
        simulate(made, simulation.record(made.name), [], 0.0)
    return made


def seeds(study: Study, most: int = 100, **where: str) -> list[list[int]]:
    return [[f.simulation.seed for f in part.simulations] for part in chosen(study, where, most, False).parts]


def test_all_that_was_played_is_shown_a_file_per_condition(study: Study) -> None:
    shown = chosen(study, {}, 100, journals=False)
    assert [part.file for part in shown.parts] == ["data/0001.js", "data/0002.js"]
    assert seeds(study) == [[0, 1, 2], [0, 1]]
    assert (shown.simulations, shown.unfinished, shown.left_out) == (5, 1, None)


def test_conditions_are_chosen_by_their_axes_and_keep_their_numbers(study: Study) -> None:
    shown = chosen(study, {"n": "4"}, 100, journals=False)
    assert [part.name for part in shown.parts] == ["0002"]
    assert shown.left_out
    assert "n=4" in shown.left_out
    assert "1 of 2" in shown.left_out
    assert "--where" in shown.left_out


def test_of_too_many_the_lowest_seeds_are_shown_and_the_rest_is_told(study: Study) -> None:
    assert seeds(study, most=3) == [[0, 1], [0]]
    told = chosen(study, {}, 3, journals=False).left_out
    assert told
    assert told.startswith("2 of 5 simulations are left out")
    assert "--where" in told
    assert "--most" in told


def test_a_large_condition_has_several_files(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    size = max(f.size for part in chosen(study, {}, 100, False).parts for f in part.simulations)
    monkeypatch.setattr(view_chosen, "_PART_BYTES", 2 * size)
    assert [part.name for part in chosen(study, {}, 100, False).parts] == ["0001-1", "0001-2", "0002"]
    assert seeds(study) == [[0, 1], [2], [0, 1]]


def test_a_study_without_results_says_how_to_get_some(study_factory: StudyFactory) -> None:
    with pytest.raises(RecordError, match=r"^small: no results yet in results/small; run it first: snakemake"):
        chosen(study_factory(), {}, 100, journals=True)


def test_journals_are_shown_where_they_are_wanted(study: Study) -> None:
    last = list(study.simulations())[-1]
    journal = paths.journal(last.record(study.name))
    journal.parent.mkdir(parents=True, exist_ok=True)
    Path(journal).write_bytes(b"")
    assert seeds(study) == [[0, 1, 2], [0, 1]]
    shown = chosen(study, {}, 100, journals=True)
    assert [f.running for f in shown.parts[1].simulations] == [False, False, True]
    assert shown.unfinished == 1
