"""A record is found by its id wherever its study had it, moved to its path, and never played again."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import JournalError, RecordError
from parley.files import checked_line, hold_lock
from parley.play.changes import changes_of
from parley.play.former import Survey
from parley.play.journal import Journal, journal_id, release
from parley.play.record import read_description, read_summary
from parley.play.relocate import Moves, find_moves, relocate
from parley.play.replay import replay
from parley.play.show import rebuilt
from parley.play.simulate import simulate
from parley.progress.status import status
from parley.study import Study
from parley.workflow.prune import former
from support.hearing import heard
from support.studies import StudyFactory

ENTRY = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}


def play(study: Study) -> None:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)


def contents(study: Study) -> dict[str, bytes]:
    """Return the bytes of all records, by id."""
    found = paths.simulations(study.name).rglob("*.parquet")
    return {read_description(path)["id"]: path.read_bytes() for path in found}


def moved(study: Study) -> list[str]:
    """Move what lies at former paths, and return what was said."""
    with heard() as said:
        relocate(find_moves(study))
    return said


def record_in(study: Study, identity: str) -> Path:
    """Return where a study has the record of a simulation."""
    return next(s for s in study.simulations() if s.id == identity).record(study.name)


def lost(record: Path) -> Path:
    """Delete a record under both its names; return its path."""
    record.unlink()
    paths.kept_record(record).unlink()
    return record


@pytest.fixture
def before(study_factory: StudyFactory) -> Study:
    """A study that was played: two conditions, two seeds."""
    study = study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 2})
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
    found = former(after)
    assert found.removable == [], "what is only to be moved is not offered to prune"
    assert len(found.left) == 8, "each with its second name"

    [said] = moved(after)
    assert said.startswith("4 finished simulations were moved")
    assert contents(after) == was
    assert {s.id for s in after.simulations() if s.record(after.name).exists()} == set(was)
    assert all(replay(simulation.record(after.name)).difference is None for simulation in moves.simulations)
    assert not list(paths.simulations(after.name).glob("*/*/*/*/spec=*")), "empty folders go"
    assert moved(after) == []


def test_a_varied_parameter_moves_records_though_it_changes_spec(before: Study, study_factory: StudyFactory) -> None:
    grid = {"b": [0, 1], "byzantine": "random", "vary": {"max_rounds": [2, 3]}}
    study = study_factory(grid, seeds=2)
    assert {c.spec for c in study.conditions}.isdisjoint(c.spec for c in before.conditions)
    assert len(find_moves(study).simulations) == 4
    moved(study)
    play(study)
    table = summarize(study)
    assert table["max_rounds"].to_list() == [2, 3, 2, 3], "the axes are those of the study as it is now"
    first = next(study.simulations())
    path = first.record(study.name)
    assert rebuilt(path, read_summary(path)).id == first.id


def test_another_name_of_a_model_entry_moves_records(study_factory: StudyFactory) -> None:
    old = study_factory({"model": "tiny"}, models={"tiny": ENTRY})
    simulation = next(old.simulations())
    journal = paths.journal(simulation.record(old.name))
    with Journal(journal, simulation.id):
        pass
    # An id may be that of two conditions of a study: one of them gets the journal.
    twice = study_factory({"model": ["two", "three"]}, models={"two": ENTRY, "three": ENTRY})
    assert [old for old, _ in find_moves(twice).files] == [journal]
    new = study_factory({"model": "small-one"}, models={"small-one": ENTRY})
    [said] = moved(new)
    assert said.startswith("the journals of 1 unfinished ones were moved")
    assert journal_id(paths.journal(next(new.simulations()).record(new.name))) == simulation.id


def test_the_journal_and_what_was_kept_of_it_move_and_a_game_goes_on(before: Study, after: Study) -> None:
    one, two, *_ = before.simulations()
    journal = paths.journal(lost(one.record(before.name)))
    journal.write_bytes(checked_line({"simulation": one.id, "format": 1}))
    journal.with_suffix(".damaged").write_text("what was damaged")
    two.record(before.name).unlink()  # Snakemake deleted it: its second name is left

    moves = find_moves(after)
    assert (len(moves.simulations), moves.journals) == (3, 1)
    moved(after)
    now, kept = record_in(after, one.id), record_in(after, two.id)
    assert paths.journal(now).with_suffix(".damaged").read_text() == "what was damaged"
    assert paths.kept_record(kept).exists()
    assert not kept.exists()
    with heard() as said:
        simulate(after, kept, [], 1.0)
    assert said == [f"{kept}: finished before"]
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
    one, two, *_ = before.simulations()
    old, new = one.record(before.name), record_in(after, one.id)
    new.parent.mkdir(parents=True)
    shutil.copyfile(old, new)
    here = new.stat()
    former_one = two.record(before.name)  # of two former records one is moved
    release(former_one)
    copy = paths.simulation(before.name, "model=zzz", "0" * 8, two.seed)
    copy.parent.mkdir(parents=True)
    shutil.copyfile(former_one, copy)
    moves = find_moves(after)
    assert len(moves.simulations) == 3
    left = [f"{old}: left where it is: {new} is there", f"{copy}: left where it is: {record_in(after, two.id)} is"]
    assert len(moves.notes) == 2
    assert all(note.startswith(start) for note, start in zip(sorted(moves.notes), sorted(left), strict=True))
    moved(after)
    assert old.exists()
    assert os.path.samestat(here, new.stat())


@pytest.mark.parametrize("links", [True, False])
def test_nothing_is_overwritten_and_a_death_in_between_is_finished(
    before: Study, after: Study, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(source: Path, target: Path, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    was = contents(before)
    moves = find_moves(after)
    old, new = moves.files[0]
    new.parent.mkdir(parents=True)
    new.write_text("another")
    with pytest.raises(RecordError, match="cannot be moved here"):
        relocate(moves)
    assert new.read_text() == "another"
    assert old.exists()
    new.unlink()
    if links:
        os.link(old, new)  # died between the two names
    relocate(moves)
    assert not old.exists()
    assert contents(after) == was


def test_links_of_dvc_move_as_links(before: Study, after: Study, tmp_path: Path) -> None:
    record = next(before.simulations()).record(before.name)
    release(record)
    cache = tmp_path / "cache"
    record.rename(cache)
    record.symlink_to(cache)
    moved(after)
    new = record_in(after, read_description(cache)["id"])
    assert new.is_symlink()
    assert new.samefile(cache)


def test_what_is_no_record_is_left_and_hinders_nothing(before: Study, after: Study) -> None:
    path = next(before.simulations()).record(before.name)
    release(path)
    damages: list[Callable[[Path], object]] = [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PAR1" + b"\xff" * 5000 + b"PAR1"),
        lambda path: path.write_bytes(path.with_name("seed=1.parquet").read_bytes()[:-3]),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        Path.mkdir,
    ]
    for damage in damages:
        path.unlink()
        damage(path)
        assert len(find_moves(after).simulations) == 3
        list(status(after))
        assert path not in former(after).removable
    moved(after)
    assert path.is_dir()
    assert find_moves(after).files == []


def test_an_intact_record_is_moved_whatever_lies_beside_it(before: Study, study_factory: StudyFactory) -> None:
    """The first record of a folder is of another seed, of another condition, or of another study."""
    zero, elsewhere, same, _ = before.simulations()
    first = zero.record(before.name)
    release(first)
    other = study_factory(seeds=1, parameters={"max_rounds": 9}, name="other")
    play(other)
    after = with_an_axis(study_factory)
    intact = {s.id for s in before.simulations()} - {zero.id}
    assert zero.condition is same.condition
    for source, strange in (
        (same.record(before.name), False),
        (elsewhere.record(before.name), False),
        (next(other.simulations()).record("other"), True),
    ):
        shutil.copyfile(source, first)
        moves = find_moves(after)
        assert {s.id for s in moves.simulations} == intact
        assert (changes_of(after).kept, sum(changes_of(after).former.values())) == (0, strange)
        assert former(after).removable == ([first] if strange else [])
        if source == same.record(before.name):
            [note] = moves.notes
            assert note.startswith(f"{first}: left where it is: of another simulation than its name says")
    moved(after)
    assert {s.id for s in after.simulations() if s.record(after.name).exists()} == intact


def test_links_to_folders_and_other_studies_are_left_alone(
    before: Study, after: Study, study_factory: StudyFactory, tmp_path: Path
) -> None:
    assert find_moves(with_an_axis(study_factory, name="other")).files == []
    elsewhere = tmp_path / "elsewhere"
    root = paths.simulations(before.name)
    shutil.move(root / "model=majority", elsewhere)
    shutil.rmtree(paths.journals(before.name))
    (root / "model=majority").symlink_to(elsewhere)
    assert find_moves(after).files == []
    assert [path for path, _ in former(after).left] == [root / "model=majority"]


def test_nothing_is_read_where_nothing_is_amiss(before: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = paths.simulation(before.name, before.conditions[0].path, "00000000", 0)
    stray.parent.mkdir()
    shutil.copyfile(next(before.simulations()).record(before.name), stray)

    def refuse(*arguments: object) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr("parley.play.former.read_description", refuse)
    assert find_moves(before) == Moves()


def test_records_of_a_former_configuration_are_read_once(
    before: Study, study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 5})
    read: list[Path] = []

    def count(path: Path) -> Any:
        read.append(path)
        return read_description(path)

    monkeypatch.setattr("parley.play.former.read_description", count)
    monkeypatch.setattr("parley.play.changes._MAX_READ", 1)
    assert sum(changes_of(new).former.values()) == 4
    assert len(read) == len(set(read)) == 8, "each with its second name"
    play(new)
    read.clear()
    assert sum(changes_of(new).former.values()) == 4
    assert len(read) == 2, "nothing is missing: one of each folder"


def test_whoever_moves_holds_the_lock(folder: Path) -> None:
    """The Snakefile does; a stale lock file of a killed run is in nobody's way."""
    lock = folder / "lock"
    lock.write_text("a process that is gone")
    hold_lock(lock)
    with pytest.raises(JournalError, match="another run"):
        hold_lock(lock)


@pytest.fixture
def many(folder: Path, study_factory: StudyFactory) -> Iterator[Study]:
    """A study with 20,000 records of a former configuration, in two folders."""
    old = study_factory({"n": [3, 4]}, parameters={"max_rounds": 2})
    play(old)
    for simulation in old.simulations():
        record = simulation.record(old.name)
        for seed in range(1, 10_000):
            os.link(record, record.with_name(f"seed={seed}.parquet"))
    yield study_factory({"n": [3, 4]}, seeds=2_000, parameters={"max_rounds": 3})
    shutil.rmtree(paths.RESULTS)


@pytest.mark.slow
def test_many_thousand_files_are_no_trouble(many: Study) -> None:
    assert sum(len(place.records) for place in Survey(many).former) == 20_000
    heading, told = list(status(many))[:2]
    assert heading == "small: 0 of 4,000 simulations, 4,000 to do"
    assert told.startswith("20,000 records of a former configuration (max_rounds 2, now 3)")


def test_notes_are_few() -> None:
    lines = Moves(notes=[f"file {number}" for number in range(1000)]).lines()
    assert lines[:5] == [f"file {number}" for number in range(5)]
    assert len(lines) == 6
    assert "995 more" in lines[5]
