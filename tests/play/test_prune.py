"""Pruning removes what a study no longer has, and nothing that it has."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from parley import paths
from parley.errors import JournalError, UsageError
from parley.files import checked_line, hold_lock, temporary_name, try_lock
from parley.games.stag_hunt.game import StagHuntGame
from parley.play.journal import Journal
from parley.play.stale_records import prunable, prune
from parley.study import Study
from support.records import forge
from support.studies import StudyFactory, play_all

pytestmark = pytest.mark.promise("Pruning removes what a study no longer has, and nothing else.")


@pytest.fixture
def pruned(study_factory: StudyFactory) -> Study:
    """A study with one record and one journal of a former configuration."""
    old = study_factory(parameters={"max_rounds": 3})
    [record] = play_all(old)
    with Journal(paths.journal(record), next(old.simulations()).id):
        pass
    return study_factory(parameters={"max_rounds": 4})


def folders(study: Study) -> tuple[Path, Path]:
    """Return the folders of the former record and the former journal."""
    [record] = paths.simulations(study.name).rglob("*.parquet")
    return record.parent, paths.journal(record).parent


def test_former_records_go_and_current_ones_stay(study_factory: StudyFactory) -> None:
    stale = play_all(study_factory(seeds=2, parameters={"max_rounds": 3}))
    new = study_factory(seeds=1, parameters={"max_rounds": 4})
    [current] = play_all(new)
    offered = prunable(new)
    assert offered == sorted(stale)

    assert prune(new) == offered
    assert list(paths.simulations(new.name).rglob("*.parquet")) == [current]
    assert prunable(new) == []
    assert not stale[0].parent.exists()


STRANGERS: dict[str, Callable[[Path], object]] = {
    "notes.txt": lambda path: path.write_text("mine"),
    "seed=1.parquet": lambda path: pd.DataFrame({"mine": [1]}).to_parquet(path),
    "seed=2.parquet": lambda path: path.write_text("mine"),
    "seed=3.parquet": os.mkfifo,
    "seed=1.jsonl": lambda path: path.write_text('{"simulation": "mine", "format": 1}\n'),
    "seed=2.jsonl": lambda path: path.write_bytes(checked_line({"mine": 1})),
    "seed=3.jsonl": os.mkfifo,
    "backup.parquet": lambda path: path.write_text("mine"),
    "seed=0 (copy).parquet": lambda path: path.write_text("mine"),
    "todo.jsonl": lambda path: path.touch(),
    ".seed=1.parquet.tmp": lambda path: path.write_text("mine"),
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("/"),
}


def test_what_parley_did_not_make_is_left(pruned: Study) -> None:
    made = [folder / name for folder in folders(pruned) for name in STRANGERS]
    for path in made:
        STRANGERS[path.name](path)
    # Also outside the folders of conditions.
    mine = paths.journals(pruned.name) / "mine"
    mine.mkdir()
    outside = [mine / "todo.jsonl", mine / "seed=1.jsonl", mine / ".seed=1.parquet.1.tmp"]
    for path in outside:
        path.touch()
    found = prune(pruned)
    assert all(os.path.lexists(path) for path in (*made, *outside))
    assert {path.name for path in found} == {"seed=0.parquet", "seed=0.jsonl"}
    assert not any(path.exists() for path in found)


def test_the_results_of_another_file_of_the_same_name_are_not_pruned(pruned: Study) -> None:
    paths.CONFIG.mkdir()
    kept = paths.CONFIG / "small.yaml"
    kept.write_text(pruned.file.read_text())
    before = sorted(paths.results("small").rglob("*"))
    for look in (prunable, prune):
        with pytest.raises(UsageError, match=r"small.yaml and config/small.yaml: two studies of one name"):
            look(pruned)
    assert sorted(paths.results("small").rglob("*")) == before
    pruned.file.rename(kept)
    assert prune(replace(pruned, file=kept))


def test_leftovers_of_a_killed_process_go(pruned: Study) -> None:
    folder, journals = folders(pruned)
    own = next(pruned.simulations()).record(pruned.name)
    own.parent.mkdir(parents=True)
    leftovers = {
        temporary_name(folder / "seed=5.parquet"): b"",
        temporary_name(own): b"",
        temporary_name(folder / "seed=6.parquet"): b"PAR1\x15",
        temporary_name(journals / "seed=6.jsonl"): checked_line({"simulation": "0", "format": 1}),
        journals / "seed=7.jsonl": b"",
    }
    for path, content in leftovers.items():
        path.write_bytes(content)
    assert set(leftovers) <= set(prune(pruned))


def test_only_what_lies_where_its_identity_says_goes(pruned: Study) -> None:
    folder, journals = folders(pruned)
    record = folder / "seed=0.parquet"
    elsewhere = folder.with_name(f"spec={'0' * 8}")
    elsewhere.mkdir()
    root = paths.simulations(pruned.name)
    copied = root / "child" / record.relative_to(root)  # of another study, with its folders
    copied.parent.mkdir(parents=True)
    temporary_name(copied).touch()
    strange = [folder / "seed=1.parquet", folder / "seed=2.parquet", elsewhere / record.name, copied]
    for path in strange:
        shutil.copyfile(record, path)
    forge(strange[1], meta=lambda described: described["simulation"].pop("game"))
    assert record in prunable(pruned)
    assert {path.parent for path in prunable(pruned)} == {folder, journals}
    assert record not in prunable(replace(pruned, game=StagHuntGame)), "a record of another game"


def test_what_goes_is_kept(pruned: Study) -> None:
    record = folders(pruned)[0] / "seed=0.parquet"
    content = record.read_bytes()
    assert record in prune(pruned)
    [kept] = paths.pruned(pruned.name).rglob(record.name)
    assert (kept.read_bytes(), record.exists()) == (content, False)


def test_nothing_is_deleted_that_is_played_or_beside_a_run(pruned: Study) -> None:
    folder, journals = folders(pruned)
    journal = journals / "seed=0.jsonl"
    with journal.open("r+b") as file:
        assert try_lock(file.fileno(), journal)
        assert journal not in prunable(pruned)
        hold_lock(paths.lock(pruned.name))
        with pytest.raises(JournalError, match="another run of this study holds it"):
            prune(pruned)
    assert journal.exists()
    assert len(list(folder.glob("*.parquet"))) == 1
