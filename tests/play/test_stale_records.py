"""A record is found by its spec wherever its study had it, moved to its path, and never played again."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds
import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import RecordError
from parley.files import checked_line
from parley.play.journal import Journal, journal_id
from parley.play.record import peek_summary
from parley.play.record_store import write_conditions
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.play.stale_records import find_moves, move_records, prunable
from parley.progress.screen import status
from parley.study import Study
from support.studies import StudyFactory, in_former_layout

pytestmark = pytest.mark.promise("A record of a former path is found by its spec and moved, never played again.")

ENTRY = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}


def play(study: Study) -> None:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)


def contents(study: Study) -> dict[str, bytes]:
    """Return the bytes of all records, by id."""
    found = paths.simulations(study.name).rglob("*.parquet")
    return {peek_summary(path).simulation["id"]: path.read_bytes() for path in found}


def moved(study: Study) -> None:
    """Move what lies at former paths."""
    move_records(find_moves(study))


def record_in(study: Study, identity: str) -> Path:
    """Return where a study has the record of a simulation."""
    return next(s for s in study.simulations() if s.id == identity).record(study.name)


def lost(record: Path) -> Path:
    """Delete a record; return its path."""
    record.unlink()
    return record


@pytest.fixture
def before(study_factory: StudyFactory) -> Study:
    """A study that an earlier version played: two conditions, two seeds."""
    grid = {"b": [0, 1], "byzantine": "random"}
    study = in_former_layout(study_factory(grid, seeds=2, parameters={"max_rounds": 2}))
    play(study)
    return study


@pytest.fixture
def after(before: Study, study_factory: StudyFactory) -> Study:
    """The same study with one more axis, and a condition that nobody played."""
    grid = {"b": [0, 1], "byzantine": ["random", "stubborn"]}
    return study_factory(grid, seeds=2, parameters={"max_rounds": 2})


def test_another_name_moves_records_and_plays_nothing_again(before: Study, after: Study) -> None:
    was = contents(before)
    moves = find_moves(after)
    assert len(moves) == 4
    assert contents(after) == was, "looking moves nothing"
    there, hint = list(status(after))[:2]
    assert there.startswith("small: 0 of 6 simulations")
    assert hint == "4 records and 0 journals lie at former paths: a run moves them; nothing is played again"
    assert prunable(after) == [], "what is only to be moved is not offered to prune"
    moved(after)
    assert contents(after) == was
    assert {s.id for s in after.simulations() if s.record(after.name).exists()} == set(was)
    assert all(replay(record).difference is None for record in moves)
    assert find_moves(after) == {}


@pytest.mark.slow
def test_an_axis_more_leaves_records_in_place(before: Study, study_factory: StudyFactory) -> None:
    moved(study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 2}))
    grid = {"b": [0, 1], "byzantine": "random", "vary": {"max_rounds": [2, 3]}}
    study = study_factory(grid, seeds=2)
    assert find_moves(study) == {}
    play(study)
    table = summarize(study)
    assert table["max_rounds"].to_list() == [2, 3, 2, 3], "the axes are those of the study as it is now"


def test_plain_readers_join_what_the_path_does_not_say(study_factory: StudyFactory) -> None:
    vary = {"topology": ["ring", {"kind": "edges", "edges": [[1, 2]]}], "max_rounds": [1, 2]}
    study = study_factory({"b": [0, 1], "byzantine": "random", "vary": vary}, seeds=1, parameters={"value_max": 9})
    play(study)
    records = ds.dataset(paths.simulations(study.name), partitioning="hive").to_table(columns=["id", "spec"])
    joined = pd.read_parquet(paths.conditions(study.name)).merge(records.to_pandas().drop_duplicates(), on="spec")
    assert len(joined) == 8
    for simulation in study.simulations():
        [row] = joined[joined["id"] == simulation.id].to_dict("records")
        assert {axis: row[axis] for axis in study.axes} == dict(simulation.condition.axes)
        assert (row["value_max"], row["identity"]) == (9, simulation.condition.identity)
        assert json.loads(row["propose"])["max_tokens"] == 300
    file = paths.conditions(study.name)
    before = file.stat().st_ino
    write_conditions(study)
    assert file.stat().st_ino == before, "written once for a set of conditions"
    write_conditions(study_factory(seeds=1))
    assert len(pd.read_parquet(file)) == 1


def test_another_name_of_a_model_entry_moves_records(study_factory: StudyFactory) -> None:
    old = study_factory({"model": "tiny"}, models={"tiny": ENTRY})
    simulation = next(old.simulations())
    journal = paths.journal(simulation.record(old.name))
    with Journal(journal, simulation.id):
        pass
    new = study_factory({"model": "small-one"}, models={"small-one": ENTRY})
    moved(new)
    assert journal_id(paths.journal(next(new.simulations()).record(new.name))) == simulation.id


def test_the_journal_moves_and_a_game_goes_on(before: Study, after: Study) -> None:
    one, *_ = before.simulations()
    record = one.record(before.name)
    record.unlink()
    paths.journal(record).write_bytes(checked_line({"simulation": one.id, "format": 1}))
    moved(after)
    now = record_in(after, one.id)
    assert paths.journal(now).exists()
    simulate(after, now, [], 1.0)
    assert not paths.journal(now).exists()


def test_a_record_that_is_there_twice_is_left_for_prune(before: Study, after: Study) -> None:
    one = next(before.simulations())
    old, new = one.record(before.name), record_in(after, one.id)
    new.parent.mkdir(parents=True)
    shutil.copyfile(old, new)
    here = new.stat()
    assert len(find_moves(after)) == 3
    moved(after)
    assert prunable(after) == [old]
    assert os.path.samestat(here, new.stat())


def test_nothing_is_overwritten(before: Study, after: Study) -> None:
    moves = find_moves(after)
    new, old = next(iter(moves.items()))
    new.parent.mkdir(parents=True)
    new.write_text("another")
    move_records(moves)
    assert new.read_text() == "another"
    assert old.exists()


def test_what_is_no_record_is_not_moved(before: Study, after: Study) -> None:
    path = next(before.simulations()).record(before.name)
    path.write_text("mine")
    assert len(find_moves(after)) == 3
    assert path not in prunable(after)
    moved(after)
    assert path.read_text() == "mine"


def test_what_cannot_be_moved_is_named(before: Study, after: Study) -> None:
    was = contents(before)
    moves = find_moves(after)
    folder = next(iter(moves)).parent
    folder.parent.mkdir(parents=True)
    folder.touch()
    with pytest.raises(RecordError, match="cannot be moved to"):
        move_records(moves)
    folder.unlink()
    move_records(moves)
    assert contents(after) == was
