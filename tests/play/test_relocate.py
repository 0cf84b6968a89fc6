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
from parley.study.condition import Simulation
from parley.workflow.prune import former
from support.hearing import heard
from support.studies import StudyFactory


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


@pytest.fixture
def before(study_factory: StudyFactory) -> Study:
    """A study that was played: two conditions, two seeds."""
    study = study_factory({"b": [0, 1], "byzantine": "random"}, seeds=2, parameters={"max_rounds": 2})
    play(study)
    return study


@pytest.fixture
def after(before: Study, study_factory: StudyFactory) -> Study:
    """The same study with one more axis, and a condition that nobody played."""
    grid = {"b": [0, 1], "byzantine": ["random", "stubborn"]}
    return study_factory(grid, seeds=2, parameters={"max_rounds": 2})


def test_a_new_axis_moves_records_and_plays_nothing_again(before: Study, after: Study) -> None:
    was = contents(before)
    moves = find_moves(after)
    assert len(moves.simulations) == 4
    assert contents(after) == was, "looking moves nothing"

    said = moved(after)
    assert said == ["4 finished simulations were moved from the paths that they had before; nothing is played again"]
    assert contents(after) == was
    there = {s.id for s in after.simulations() if s.record(after.name).exists()}
    assert there == set(was)
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
    assert rebuilt(*_first(study)).id == next(study.simulations()).id


def _first(study: Study) -> tuple[Path, Any]:
    path = next(study.simulations()).record(study.name)
    return path, read_summary(path)


def test_another_name_of_a_model_entry_moves_records(study_factory: StudyFactory) -> None:
    entry = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
    old = study_factory({"model": "tiny"}, models={"tiny": entry})
    simulation = next(old.simulations())
    with Journal(paths.journal(simulation.record(old.name)), simulation.id):
        pass
    new = study_factory({"model": "small-one"}, models={"small-one": entry})
    assert moved(new) == [
        "the journals of 1 unfinished ones were moved from the paths that they had before; nothing is played again"
    ]
    assert journal_id(paths.journal(next(new.simulations()).record(new.name))) == simulation.id


def test_the_journal_and_what_was_kept_of_it_move_and_a_game_goes_on(before: Study, after: Study) -> None:
    one, two, *_ = before.simulations()
    journal = paths.journal(one.record(before.name))
    one.record(before.name).unlink()
    paths.kept_record(one.record(before.name)).unlink()
    journal.write_bytes(checked_line({"simulation": one.id, "format": 1}))
    journal.with_suffix(".damaged").write_text("what was damaged")
    two.record(before.name).unlink()  # Snakemake deleted it: its second name is left

    moves = find_moves(after)
    assert (len(moves.simulations), moves.journals) == (3, 1)
    moved(after)
    now = {simulation.id: simulation.record(after.name) for simulation in after.simulations()}
    assert paths.journal(now[one.id]).with_suffix(".damaged").read_text() == "what was damaged"
    assert paths.kept_record(now[two.id]).exists()
    assert not now[two.id].exists()
    with heard() as said:
        simulate(after, now[two.id], [], 1.0)
    assert said == [f"{now[two.id]}: finished before"]
    simulate(after, now[one.id], [], 1.0)
    assert not paths.journal(now[one.id]).exists()


def test_a_journal_that_is_being_played_is_left(before: Study, after: Study) -> None:
    one = next(before.simulations())
    one.record(before.name).unlink()
    paths.kept_record(one.record(before.name)).unlink()
    journal = paths.journal(one.record(before.name))
    with Journal(journal, one.id):
        moves = find_moves(after)
        assert moves.journals == 0
        assert moves.notes == [f"{journal}: left where it is: a process is playing it; wait for it or stop it"]


def test_a_record_that_is_there_twice_is_left_and_named(before: Study, after: Study) -> None:
    one = next(before.simulations())
    old = one.record(before.name)
    new = next(s for s in after.simulations() if s.id == one.id).record(after.name)
    new.parent.mkdir(parents=True)
    shutil.copyfile(old, new)
    here = new.stat()
    moves = find_moves(after)
    assert len(moves.simulations) == 3
    assert moves.notes == [f"{old}: left where it is: {new} is there already"]
    moved(after)
    assert old.exists()
    assert os.path.samestat(here, new.stat())


def test_of_two_former_records_one_is_moved(before: Study, after: Study) -> None:
    one = next(before.simulations())
    old = one.record(before.name)
    release(old)
    copy = paths.simulation(before.name, "model=zzz", "0" * 8, 0)
    copy.parent.mkdir(parents=True)
    shutil.copyfile(old, copy)
    new = next(s for s in after.simulations() if s.id == one.id).record(after.name)
    moves = find_moves(after)
    assert len(moves.simulations) == 4
    assert moves.notes == [f"{copy}: left where it is: {new} is there already"]


def test_nothing_is_overwritten_and_a_death_in_between_is_finished(before: Study, after: Study) -> None:
    moves = find_moves(after)
    old, new = moves.files[0]
    new.parent.mkdir(parents=True)
    new.write_text("another")
    with pytest.raises(RecordError, match="cannot be moved here"):
        relocate(moves)
    assert new.read_text() == "another"
    assert old.exists()

    new.unlink()
    os.link(old, new)  # died between the two names
    relocate(moves)
    assert not old.exists()
    assert new.exists()


def test_a_file_system_without_hard_links_moves_too(
    before: Study, after: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path, **_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    was = contents(before)
    moves = find_moves(after)
    _, new = moves.files[-1]
    new.parent.mkdir(parents=True)
    new.write_text("another")
    with pytest.raises(RecordError):
        relocate(moves)
    assert new.read_text() == "another"
    new.unlink()
    moved(after)
    assert contents(after) == was


def test_links_of_dvc_move_as_links(before: Study, after: Study, tmp_path: Path) -> None:
    record = next(before.simulations()).record(before.name)
    release(record)
    cache = tmp_path / "cache"
    record.rename(cache)
    record.symlink_to(cache)
    moved(after)
    new = next(s for s in after.simulations() if s.id == read_description(cache)["id"]).record(after.name)
    assert new.is_symlink()
    assert new.samefile(cache)


HOSTILE: list[Callable[[Path], object]] = [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"PAR1" + b"\xff" * 5000 + b"PAR1"),
    lambda path: path.write_bytes(path.with_name("seed=1.parquet").read_bytes()[:-3]),
    lambda path: os.mkfifo(path),
    lambda path: path.mkdir(),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("nowhere"),
]


@pytest.mark.parametrize("damage", HOSTILE)
def test_what_is_no_record_is_left_and_hinders_nothing(
    before: Study, after: Study, damage: Callable[[Path], object]
) -> None:
    one = next(before.simulations())
    path = one.record(before.name)
    release(path)
    path.unlink()
    damage(path)
    assert len(find_moves(after).simulations) == 3
    moved(after)
    assert os.path.lexists(path)
    list(status(after))
    assert path not in former(after).removable


def test_a_record_of_another_simulation_in_the_folder_is_not_moved(before: Study, after: Study) -> None:
    zero, _, one, _ = before.simulations()
    assert zero.condition is one.condition
    shutil.copyfile(zero.record(before.name), one.record(before.name))
    release(one.record(before.name))
    moves = find_moves(after)
    assert len(moves.simulations) == 3
    assert moves.notes == [
        f"{one.record(before.name)}: left where it is: of another simulation than its name says: of seed 0"
    ]


@pytest.mark.parametrize("is_of_the_study", [True, False])
def test_an_intact_record_is_moved_whatever_lies_beside_it(
    before: Study, study_factory: StudyFactory, is_of_the_study: bool
) -> None:
    """A record of another condition is the first of the folder."""
    first = next(before.simulations()).record(before.name)
    release(first)
    if is_of_the_study:
        shutil.copyfile(_record_of(before, 1, 0), first)
    else:
        other = study_factory(seeds=1, parameters={"max_rounds": 9}, name="other")
        play(other)
        shutil.copyfile(next(other.simulations()).record("other"), first)
    grid = {"b": [0, 1], "byzantine": ["random", "stubborn"]}
    after = study_factory(grid, seeds=2, parameters={"max_rounds": 2})
    intact = {s.id for s in before.simulations()} - {next(before.simulations()).id}
    assert {s.id for s in find_moves(after).simulations} == intact
    assert (changes_of(after).kept, sum(changes_of(after).former.values())) == (0, not is_of_the_study)
    offered = former(after).removable
    assert offered == ([] if is_of_the_study else [first])
    moved(after)
    assert {s.id for s in after.simulations() if s.record(after.name).exists()} == intact


def _record_of(study: Study, condition: int, seed: int) -> Path:
    return Simulation(study.conditions[condition], seed).record(study.name)


def test_links_to_folders_are_not_followed(before: Study, after: Study, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    root = paths.simulations(before.name)
    shutil.move(root / "model=majority", elsewhere)
    shutil.rmtree(paths.journals(before.name))
    (root / "model=majority").symlink_to(elsewhere)
    assert find_moves(after).files == []
    assert [path for path, _ in former(after).left] == [root / "model=majority"]


def test_nothing_is_taken_from_another_study(before: Study, study_factory: StudyFactory) -> None:
    grid = {"b": [0, 1], "byzantine": ["random", "stubborn"]}
    other = study_factory(grid, name="other", seeds=2, parameters={"max_rounds": 2})
    assert find_moves(other).files == []


def test_two_entries_that_are_the_same_get_one_record_each(study_factory: StudyFactory) -> None:
    """An id may be that of two conditions of a study: one record is moved to one of them."""
    entry = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
    old = study_factory({"model": "one"}, models={"one": entry})
    simulation = next(old.simulations())
    with Journal(paths.journal(simulation.record(old.name)), simulation.id):
        pass
    new = study_factory({"model": ["two", "three"]}, models={"two": entry, "three": entry})
    assert [old for old, _ in find_moves(new).files] == [paths.journal(simulation.record("small"))]


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


def test_prune_never_offers_what_is_only_to_be_moved(before: Study, after: Study) -> None:
    found = former(after)
    assert found.removable == []
    assert {why for _, why in found.left} == {
        "a simulation of the study as it is now; the next run moves it to its path"
    }


def test_status_counts_them_as_there(before: Study, after: Study) -> None:
    lines = list(status(after))
    assert lines[:2] == [
        "small: 4 of 6 simulations, 2 to do",
        "4 finished simulations lie at former paths: a run moves them; nothing is played again",
    ]


def test_whoever_moves_holds_the_lock(before: Study) -> None:
    """The Snakefile does; a stale lock file of a killed run is in nobody's way."""
    lock = paths.lock(before.name)
    lock.parent.mkdir()
    lock.write_text("a process that is gone")
    hold_lock(lock)
    with pytest.raises(JournalError, match="another run"):
        hold_lock(lock)


@pytest.fixture
def many(folder: Path, study_factory: StudyFactory) -> Iterator[Study]:
    """A study with 100,000 records of a former configuration, in two folders."""
    old = study_factory({"n": [3, 4]}, parameters={"max_rounds": 2})
    play(old)
    for simulation in old.simulations():
        record = simulation.record(old.name)
        for seed in range(1, 50_000):
            os.link(record, record.with_name(f"seed={seed}.parquet"))
    yield study_factory({"n": [3, 4]}, seeds=10_000, parameters={"max_rounds": 3})
    shutil.rmtree(paths.RESULTS)


@pytest.mark.slow
def test_a_hundred_thousand_files_are_no_trouble(many: Study) -> None:
    survey = Survey(many)
    assert sum(len(place.records) for place in survey.former) == 100_000
    assert list(status(many))[:2] == [
        "small: 0 of 20,000 simulations, 20,000 to do",
        "100,000 records of a former configuration (max_rounds 2, now 3)",
    ]


def test_notes_are_few(before: Study) -> None:
    moves = Moves(notes=[f"file {number}" for number in range(1000)])
    assert moves.lines() == [*(f"file {number}" for number in range(5)), "and 995 more files are left where they are"]
