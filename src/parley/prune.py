"""`parley prune`: removes the records and journals of former configurations of a study."""

from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.study import Study
from parley.workflow import hold_lock


def former(study: Study) -> list[Path]:
    """Return the records and journals under the study's results that are not of the study as it is now."""
    records = [simulation.record(study.name) for simulation in study.simulations()]
    current = {path for record in records for path in (record, paths.journal(record), paths.kept_record(record))}
    return sorted(path for path in _files(study) if path not in current)


def prune(study: Study) -> int:
    """Delete what `former` returns and the folders that become empty; return how many files went.

    Raises JournalError while a run of the study goes on.
    """
    hold_lock(paths.lock(study.name))  # a run may be writing what looks like a leftover
    gone = former(study)
    for path in gone:
        path.unlink()
        for folder in path.parents:
            try:
                folder.rmdir()
            except OSError:  # not empty
                break
    return len(gone)


def _files(study: Study) -> Iterator[Path]:
    for folder in (paths.simulations(study.name), paths.journals(study.name)):
        yield from (path for path in folder.rglob("*") if path.is_file())
