"""A record is found by its id wherever its study had it, moved to its path, and never played again."""

import json
import os
import shutil
from collections.abc import Callable
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
from parley.play.stale_records import find_moves, migrate, move_records, prunable
from parley.progress.screen import status
from parley.study import Study
from support.commands import heard
from support.studies import StudyFactory, in_former_layout

pytestmark = pytest.mark.promise("A record of a former path is found by its id and moved, never played again.")

ENTRY = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}


def play(study: Study) -> None:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)


def contents(study: Study) -> dict[str, bytes]:
    """Return the bytes of all records, by id."""
    found = paths.simulations(study.name).rglob("*.parquet")
    return {peek_summary(path).simulation["id"]: path.read_bytes() for path in found}


def moved(study: Study) -> list[str]:
    """Move what lies at former paths, and return what was said."""
    with heard() as said:
        move_records(find_moves(study))
    return said


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
    return with_an_axis(study_factory)


def with_an_axis(study_factory: StudyFactory, name: str = "small") -> Study:
    grid = {"b": [0, 1], "byzantine": ["random", "stubborn"]}
    return study_factory(grid, name=name, seeds=2, parameters={"max_rounds": 2})


def test_a_new_axis_moves_records_and_plays_nothing_again(before: Study, after: Study) -> None:
    was = contents(before)
    moves = find_moves(after)
    assert len(moves.simulations) == 4
    assert contents(after) == was, "looking moves nothing"
    there, hint = list(status(after))[:2]
    assert there == "small: 4 of 6 simulations, 2 to do"
    assert hint.startswith("4 finished simulations lie at former paths")
    found = prunable(after)
    assert found.removable == [], "what is only to be moved is not offered to prune"
    assert len(found.left) == 4

    [said] = moved(after)
    assert said.startswith("4 finished simulations were moved")
    assert contents(after) == was
    assert {s.id for s in after.simulations() if s.record(after.name).exists()} == set(was)
    assert all(replay(simulation.record(after.name)).difference is None for simulation in moves.simulations)
    assert moved(after) == []


@pytest.mark.slow
def test_an_axis_more_leaves_records_in_place(before: Study, study_factory: StudyFactory) -> None:
    moved(study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 2}))
    grid = {"b": [0, 1], "byzantine": "random", "vary": {"max_rounds": [2, 3]}}
    study = study_factory(grid, seeds=2)
    assert find_moves(study).files == []
    play(study)
    table = summarize(study)
    assert table["max_rounds"].to_list() == [2, 3, 2, 3], "the axes are those of the study as it is now"


def test_they_are_moved_once_by_a_command(before: Study, study_factory: StudyFactory) -> None:
    was = contents(before)
    study = study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 2})
    with paths.rooted(Path()), heard() as said:
        moves = migrate(study)
    assert (len(moves.simulations), moves.notes) == (4, [])
    assert said == ["4 finished simulations were moved from the paths that they had before; nothing is played again"]
    assert {
        path.relative_to("results/small/simulations").parts[-2]
        for path in paths.simulations("small").rglob("*.parquet")
    } == {f"spec={c.identity[:8]}" for c in study.conditions}
    assert contents(study) == was


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
    [said] = moved(new)
    assert said.startswith("the journals of 1 unfinished ones were moved")
    assert journal_id(paths.journal(next(new.simulations()).record(new.name))) == simulation.id


def test_the_journal_moves_and_a_game_goes_on(before: Study, after: Study) -> None:
    one, *_ = before.simulations()
    journal = paths.journal(lost(one.record(before.name)))
    journal.write_bytes(checked_line({"simulation": one.id, "format": 1}))
    moves = find_moves(after)
    assert (len(moves.simulations), moves.journals) == (3, 1)
    moved(after)
    now = record_in(after, one.id)
    simulate(after, now, [], 1.0)
    assert not paths.journal(now).exists()


def test_a_journal_that_is_being_played_is_left(before: Study, after: Study) -> None:
    one = next(before.simulations())
    journal = paths.journal(lost(one.record(before.name)))
    with Journal(journal, one.id):
        moves = find_moves(after)
    assert moves.journals == 0
    [note] = moves.notes
    assert note.startswith(f"{journal}: left where it is: a process is playing it")


def test_a_record_that_is_there_twice_is_left_and_named(before: Study, after: Study) -> None:
    one = next(before.simulations())
    old, new = one.record(before.name), record_in(after, one.id)
    new.parent.mkdir(parents=True)
    shutil.copyfile(old, new)
    here = new.stat()
    moves = find_moves(after)
    assert len(moves.simulations) == 3
    [note] = moves.notes
    assert note.startswith(f"{old}: left where it is: {new} is there")
    moved(after)
    assert old.exists()
    assert os.path.samestat(here, new.stat())


def test_nothing_is_overwritten_and_another_run_goes_on(before: Study, after: Study) -> None:
    was = contents(before)
    moves = find_moves(after)
    old, new = moves.files[0]
    new.parent.mkdir(parents=True)
    new.write_text("another")
    with pytest.raises(RecordError, match="cannot be moved here"):
        move_records(moves)
    assert new.read_text() == "another"
    assert old.exists()
    new.unlink()
    move_records(moves)
    assert not old.exists()
    assert contents(after) == was


def test_what_is_no_record_is_left_and_hinders_nothing(before: Study, after: Study) -> None:
    path = next(before.simulations()).record(before.name)
    damages: list[Callable[[Path], object]] = [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PAR1" + b"\xff" * 5000 + b"PAR1"),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        Path.mkdir,
    ]
    for damage in damages:
        path.unlink()
        damage(path)
        assert len(find_moves(after).simulations) == 3
        list(status(after))
        assert path not in prunable(after).removable
    moved(after)
    assert path.is_dir()
    assert find_moves(after).files == []
