"""The folder of the explorer: what is in it, what is made anew, and what stays."""

from pathlib import Path

import pytest

from parley.report.view import folder as view_folder
from parley.study import Study
from support.demo_study import files_in
from support.forging import forge
from support.studies import StudyFactory
from support.viewed import games_of, index_of, small_played, unpacked, written


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return small_played(study_factory)


def test_the_page_and_its_data_files_hold_every_simulation(study: Study) -> None:
    folder = written(study)
    index = index_of((folder / "index.html").read_text())
    rows = index["simulations"]
    for place, name in enumerate(rows["id"]):
        file = index["conditions"][rows["condition"][place]]["parts"][rows["part"][place]]
        games = games_of(unpacked((folder / file).read_text()))
        [game] = [game for game in games if game["id"] == name]
        assert (game["seed"], game["outcome"]) == (rows["seed"][place], rows["outcome"][place])
        assert len(game["attempts"]) == rows["replies"][place]


def test_only_data_files_whose_records_changed_are_made_anew(study: Study) -> None:
    before = files_in(written(study) / "data")
    assert files_in(written(study) / "data") == before
    record = next(study.simulations()).record(study.name)
    content = {path: path.read_bytes() for path in before}
    record.touch()
    assert files_in(written(study) / "data") == before  # what it holds is the same
    forge(record, rows=lambda rows: rows[0].update(text="other"))
    after = files_in(written(study) / "data")
    assert [path.name for path in sorted(before) if after[path] != before[path]] == ["0001.js"]
    assert {path for path in before if path.read_bytes() != content[path]} == {folder_file(study, "0001")}


def test_what_reads_the_records_makes_them_anew_when_it_changes(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_in(written(study) / "data")
    monkeypatch.setattr(view_folder, "_code", lambda: "of another version")
    after = files_in(written(study) / "data")
    assert all(after[path] != before[path] for path in before)


def test_files_of_an_earlier_view_go_and_others_stay(study: Study) -> None:
    folder = written(study)
    (folder / "data" / "0007.js").write_text("old")
    (folder / "notes.txt").write_text("mine")
    written(study, most=2)
    assert not (folder / "data" / "0007.js").exists()
    assert (folder / "notes.txt").exists()


def folder_file(study: Study, name: str) -> Path:
    return Path("results") / study.name / "view" / "data" / f"{name}.js"
