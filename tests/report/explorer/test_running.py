"""Simulations that are being played: as far as their journals tell, and without a word to them."""

import json
from pathlib import Path

import pytest

from parley import paths
from parley.errors import JournalError
from parley.files import checked_line
from parley.play.journal import Journal
from parley.play.record import read_record
from parley.play.simulate import simulate
from parley.report.explorer.game import part_content, running_attempts
from parley.report.explorer.selection import select
from parley.study import Study
from support.pages import Json, data_of, games_of
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "A running game is shown as far as its journal tells, and its journal stays as it was."
)


def interrupted(study: Study, replies: int) -> Path:
    """Play the first simulation, and leave a journal with so many of its replies in place of its record."""
    simulation = next(study.simulations())
    record = simulation.record(study.name)
    if not record.exists():
        simulate(study, record, [], 0.0)
    _, entries = read_record(record)
    with Journal(paths.journal(record), simulation.id) as journal:
        for entry in entries[:replies]:
            journal.append(entry)
    record.unlink()
    return paths.journal(record)


def shown(study: Study) -> Json:
    [part] = select(study, {}, 10, journals=True).parts
    [game] = games_of(part_content(part))
    return game


def test_a_running_game_shows_its_replies_and_its_whole_rounds(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "stubborn", "n": 3}, parameters={"max_rounds": 5})
    simulate(study, next(study.simulations()).record("small"), [], 0.0)
    [whole] = data_of(study)
    interrupted(study, 6 + 6 + 2)  # two rounds, and two proposals of the third
    game = shown(study)
    assert (game["running"], game["outcome"], game["metrics"]) == (True, None, {})
    untimed = [{**row, "seconds": 0} for row in whole["attempts"]]  # it was played twice
    assert [{**row, "seconds": 0} for row in game["attempts"]] == untimed[:14]
    assert game["rounds"] == [0, 1, 2, 3]
    before = {place: cell for place, cell in whole["cells"].items() if place[1] <= 2}
    assert {place: cell for place, cell in game["cells"].items() if place[1] <= 2} == before
    assert game["results"] == {number: text for number, text in whole["results"].items() if int(number) <= 2}


def test_a_journal_of_another_simulation_or_of_other_questions_is_named(study_factory: StudyFactory) -> None:
    study = study_factory(parameters={"max_rounds": 1})
    journal = interrupted(study, 2)
    head, first, second = journal.read_bytes().splitlines(keepends=True)
    for change in ({"simulation": "0" * 64, "format": 1}, {"no": "journal"}):
        journal.write_bytes(checked_line(change) + first + second)
        [part] = select(study, {}, 10, journals=True).parts
        with pytest.raises(JournalError, match="belongs to another simulation"):
            running_attempts(part.simulations[0], next(study.simulations()).game())
        assert "damaged" in shown(study)
    other = json.loads(first[9:]) | {"ask": "0" * 64}
    journal.write_bytes(head + checked_line(other))
    assert "another version" in shown(study)["damaged"]


def test_a_journal_is_read_and_left_alone(study_factory: StudyFactory) -> None:
    study = study_factory(parameters={"max_rounds": 1})
    journal = interrupted(study, 3)
    with journal.open("ab") as file:
        file.write(b"deadbeef {half a line")
    before = journal.read_bytes()
    game = shown(study)
    assert len(game["attempts"]) == 3
    assert journal.read_bytes() == before
