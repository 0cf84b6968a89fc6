"""`parley prune`: removes the records and journals of former configurations of a study, and nothing else.

What is removed was read as Parley's own. What cannot be, and what belongs to a simulation of the study as it is now,
is left and listed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.condition import Simulation
from parley.errors import RecordError
from parley.files import is_locked
from parley.former import walk
from parley.journal import journal_id
from parley.record import read_description, read_summary
from parley.relocate import remove_empty
from parley.study import Study
from parley.workflow import hold_lock

_TEMPORARY = re.compile(r"\.seed=[0-9]+\.(parquet|jsonl)\.[0-9]+\.tmp")  # as `files.temporary_name` makes them


@dataclass
class Former:
    """What is under a study's results and not of the study as it is now."""

    removable: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)  # with why


def former(study: Study) -> Former:
    """Return the files of former configurations, in order, and those that are not touched."""
    simulations = list(study.simulations())
    own = {path: simulation for simulation in simulations for path in _names(simulation, study.name)}
    by_id = {simulation.id: simulation for simulation in simulations}
    found = Former()
    for path in _files(study):
        if path not in own and (path.suffix != ".damaged" or path.with_suffix(".jsonl") not in own):
            why = _why_left(path, by_id, study.name)
            if why is None:
                found.removable.append(path)
            else:
                found.left.append((path, why))
    return found


def prune(study: Study) -> Former:
    """Delete what `former` calls removable and the folders that become empty; return what it found.

    Raises JournalError while a run of the study goes on.
    """
    hold_lock(paths.lock(study.name))  # a run may be writing what looks like a leftover
    found = former(study)
    for path in found.removable:
        path.unlink()
        remove_empty(path.parent)
    return found


def _names(simulation: Simulation, study: str) -> tuple[Path, ...]:
    record = simulation.record(study)
    return record, paths.kept_record(record), paths.journal(record)


def _why_left(path: Path, by_id: dict[str, Simulation], study: str) -> str | None:
    """Return why a file is not touched; None if it may go."""
    if not path.is_file():
        return "no regular file"
    if _TEMPORARY.fullmatch(path.name):  # of a process that was killed: nobody reads it
        return None
    if path.suffix == ".parquet":
        return _why_record_left(path, by_id, study)
    if path.suffix in (".jsonl", ".damaged"):
        return _why_journal_left(path, by_id, study)
    return "not made by Parley"


def _why_record_left(path: Path, by_id: dict[str, Simulation], study: str) -> str | None:
    try:
        identity = read_description(path)["id"]
        if identity not in by_id:
            return None
        there = by_id[identity].record(study)
        if not there.exists():
            return "a simulation of the study as it is now; the next run moves it to its path"
        same = read_summary(path).digest == read_summary(there).digest
    except RecordError:
        return "cannot be read as a record of Parley"
    return None if same else f"another play of a simulation that the study has; its record is {there}"


def _why_journal_left(path: Path, by_id: dict[str, Simulation], study: str) -> str | None:
    if is_locked(path):
        return "a process is playing it"
    identity = journal_id(path)
    if identity is None:
        return None if path.stat().st_size == 0 else "cannot be read as a journal of Parley"
    if identity in by_id and not by_id[identity].record(study).exists():
        return "a simulation of the study as it is now; the next run moves it to its path"
    return None


def _files(study: Study) -> Iterator[Path]:
    for root in (paths.simulations(study.name), paths.journals(study.name)):
        yield from walk(root)
