"""`parley rename`: gives the results of a study another name, since all of their paths begin with it.

Records and journals hold no study's name, so what moves stays valid. Nothing is overwritten.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.errors import JournalError, RecordError, UsageError
from parley.files import hold_lock, is_locked
from parley.play.stale_records import walk
from parley.study.load import check_alone, check_name
from parley.text import choose
from parley.text.yamlfile import is_slug, shown
from parley.workflow.slurm import jobs_left


def rename(old: str, new: str) -> Iterator[str]:
    """Move the study file `old` (unless the user did), its results and its logs to `new`; yield what was moved.

    Both are names of studies or paths of their files. Died in between, the same call goes on. Raises UsageError if
    there is nothing to rename, or the new name has results; JournalError while a run of either goes on; RecordError if
    the disk refuses.
    """
    _check_given(old)
    _check_given(new)
    old_file, new_file = paths.study_file(old), paths.study_file(new)
    if is_slug(new) and not new_file.exists():
        new_file = old_file.with_name(new_file.name)
    _check_names(old_file, new_file)
    was, now = old_file.stem, new_file.stem
    if was != now:
        _check_idle(was, now)
        if paths.results(was).exists() and paths.results(now).exists():
            raise UsageError(f"{paths.results(now)}: has results of its own; give them another name, or remove them")
    try:
        for source, target in ((old_file, new_file), (paths.frozen(old_file), paths.frozen(new_file))):
            if source.exists() and not target.exists():
                source.rename(target)
                yield f"moved: {source} -> {target}"
        if was != now:
            yield from _forget_tables(was)  # first: after a death in between, the old name still finds them
            for source, target in ((paths.results(was), paths.results(now)), (paths.logs(was), paths.logs(now))):
                if source.is_dir() and target.exists():  # of logs alone
                    yield f"left: {source}: {target} is there already"
                elif source.is_dir():
                    source.rename(target)
                    yield f"moved: {source} -> {target}"
    except OSError as error:
        raise RecordError(
            f"{error.filename or paths.results(now)}: cannot be moved: {error.strerror}; look at the folder and its "
            "disk, and run the same command again"
        ) from error


def _check_given(name: str) -> None:
    """Raise UsageError for what is neither the name of a study nor the path of a YAML file."""
    if paths.study_file(name) != Path(name) and not is_slug(name):
        raise UsageError(
            f"{shown(name)}: not the name of a study; use letters, digits, '.', '_' and '-', or the path of its .yaml "
            "file"
        )


def _check_names(old: Path, new: Path) -> None:
    for file in (old, new):
        check_name(file)
    if old == new:
        raise UsageError(f"{new}: is its name already; give another one")
    if old.exists() and new.exists():
        raise UsageError(f"{old} and {new}: both files exist, so these are two studies; remove one of them first")
    for file in (old, new):
        check_alone(file, old, new)
    if not (old.exists() or new.exists()):
        remedy = choose(old.stem, paths.studies(old.parent))
        raise UsageError(f"{old}: no such study file, and no {new}; {remedy}")
    if not (old.exists() or paths.results(old.stem).exists() or paths.logs(old.stem).exists()):
        there = sorted(path.name for path in paths.RESULTS.glob("*") if path.is_dir() and path.name[0] != ".")
        raise UsageError(f"{paths.results(old.stem)}: no such results; {choose(old.stem, there)}")


def _check_idle(was: str, now: str) -> None:
    for name in (was, now):
        hold_lock(paths.lock(name))
        if jobs := jobs_left(name):
            raise JournalError(f"{len(jobs)} cluster jobs of {name} are still there; wait for them, or scancel them")
        for journal in walk(paths.journals(name)):
            if journal.suffix == ".jsonl" and is_locked(journal):
                raise JournalError(f"{journal}: a process is playing it; wait for it or stop it")


def _forget_tables(name: str) -> Iterator[str]:
    """Remove the list of the records that the tables are made from, whose paths are the old ones, and the mark."""
    mark = paths.stamp(name, "tables", "*")
    gone = [paths.table(name, "manifest", suffix) for suffix in (".parquet", ".csv")]
    gone = [path for path in (*gone, *mark.parent.glob(mark.name)) if os.path.lexists(path)]
    for path in gone:
        path.unlink()
    if gone:
        yield f"removed: the manifest of {mark.parent}, which names the old paths; the next run makes the tables anew"
