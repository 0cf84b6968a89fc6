"""What the explorer shows, in which files, what is made anew, and what stays."""

import pytest

from parley.play.simulate import simulate
from parley.report.explorer import selection
from parley.report.explorer.selection import select
from parley.study import Study
from support.pages import games_of, index_of, small_played, unpacked, written
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return small_played(study_factory)


@pytest.fixture
def unfinished(study_factory: StudyFactory) -> Study:
    """Two conditions of three seeds, of which the last simulation was not played."""
    made = study_factory({"n": [3, 4]}, seeds=3, parameters={"max_rounds": 1})
    for simulation in list(made.simulations())[:-1]:
        simulate(made, simulation.record(made.name), [], 0.0)
    return made


# What is chosen


def seeds(study: Study, most: int = 100) -> list[list[int]]:
    return [[found.simulation.seed for found in part.simulations] for part in select(study, most).parts]


def test_all_that_was_played_is_shown_a_file_per_condition(unfinished: Study) -> None:
    shown = select(unfinished, 100)
    assert [part.file for part in shown.parts] == ["data/0001.js", "data/0002.js"]
    assert seeds(unfinished) == [[0, 1, 2], [0, 1]]
    assert (shown.unfinished, shown.left_out) == (1, None)


def test_what_is_left_out_is_told_with_the_option_that_shows_it(unfinished: Study) -> None:
    assert seeds(unfinished, most=3) == [[0, 1], [0]]  # the lowest
    told = str(select(unfinished, 3).left_out)
    assert told.startswith("2 of 5 simulations are left out")
    assert "--most" in told


def test_a_large_condition_has_several_files(unfinished: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    size = max(found.size for part in select(unfinished, 100).parts for found in part.simulations)
    monkeypatch.setattr(selection, "_PART_BYTES", 2 * size)
    assert [part.name for part in select(unfinished, 100).parts] == ["0001-1", "0001-2", "0002"]
    assert seeds(unfinished) == [[0, 1], [2], [0, 1]]


# The folder


def test_the_page_and_its_data_files_hold_every_simulation(study: Study) -> None:
    folder = written(study)
    index = index_of((folder / "index.html").read_text())
    rows = index["simulations"]
    for place, name in enumerate(rows["id"]):
        file = index["conditions"][rows["condition"][place]]["parts"][rows["part"][place]]
        [game] = [game for game in games_of(unpacked((folder / file).read_text())) if game["id"] == name]
        assert len(game["attempts"]) == rows["replies"][place]
    # Files of an earlier view go, and others stay, whatever they are called.
    mine = {folder / "data" / "0007.js", folder / "notes.txt"}
    for file in mine:
        file.write_text("mine")
    written(study, most=2)
    assert all(file.exists() for file in mine)
    of_view = {
        folder / part for each in index_of((folder / "index.html").read_text())["conditions"] for part in each["parts"]
    }
    assert {*(folder / "data").glob("*.js")} == of_view | {folder / "data" / "0007.js"}
