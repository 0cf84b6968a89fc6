"""`parley prune`: removes the records and journals of former configurations of a study, and nothing else.

What is removed was read as Parley's own. What cannot be, and what belongs to a simulation of the study as it is now,
is left and listed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from parley import paths
from parley.errors import RecordError
from parley.files import hold_lock, is_locked, open_regular
from parley.play.former import is_place, walk
from parley.play.journal import journal_id
from parley.play.record import peek_summary, read_summary
from parley.play.relocate import find_moves, remove_empty
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.study import check_alone

_TEMPORARY = re.compile(r"\.seed=[0-9]+\.(parquet|jsonl)\.[0-9]+\.tmp")  # as `files.temporary_name` makes them
_JOURNAL = re.compile(rb"[0-9a-f]{8} \{")  # as `files.checked_line` begins
_MAX_BEGIN = 16  # bytes


@dataclass
class Former:
    """What is under a study's results and not of the study as it is now."""

    removable: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)  # with why


def former(study: Study) -> Former:
    """Return the files of former configurations, in order, and those that are not touched.

    Raises UsageError if another study file has the same name: the results may be of that one.
    """
    check_alone(study.file)
    simulations = list(study.simulations())
    own = {path for simulation in simulations for path in _names(simulation, study.name)}
    judge = _Judge(study, {simulation.id: simulation for simulation in simulations})
    found = Former()
    for path in _files(study):
        if path not in own and (path.suffix != ".damaged" or path.with_suffix(".jsonl") not in own):
            why = judge.why_left(path)
            if why is None:
                found.removable.append(path)
            else:
                found.left.append((path, why))
    return found


def prune(study: Study) -> Former:
    """Delete what `former` calls removable and the folders that become empty; return what it found.

    Raises JournalError while a run of the study goes on, UsageError as `former`.
    """
    check_alone(study.file)
    hold_lock(paths.lock(study.name))  # a run may be writing what looks like a leftover
    found = former(study)
    for path in found.removable:
        path.unlink()
        remove_empty(path.parent)
    return found


def _names(simulation: Simulation, study: str) -> tuple[Path, ...]:
    record = simulation.record(study)
    return record, paths.kept_record(record), paths.journal(record)


class _Judge:
    """Tells of each file that is not at a path of the study as it is now whether it may go."""

    def __init__(self, study: Study, by_id: dict[str, Simulation]) -> None:
        self._study = study
        self._by_id = by_id

    @cached_property
    def _moved(self) -> set[Path]:
        """What the next run moves; looked for only if a simulation without a record has a file elsewhere."""
        return {old for old, _ in find_moves(self._study).files}

    def why_left(self, path: Path) -> str | None:
        """Return why a file is not touched; None if it may go."""
        if not path.is_file():
            return "no regular file"
        if _TEMPORARY.fullmatch(path.name):  # of a process that was killed: nobody reads it
            return None if _begins_as_ours(path) else "not made by Parley"
        if path.suffix == ".parquet":
            return self._why_record_left(path)
        if path.suffix in (".jsonl", ".damaged"):
            return self._why_journal_left(path)
        return "not made by Parley"

    def _why_record_left(self, path: Path) -> str | None:
        try:
            identity = peek_summary(path).simulation["id"]
            if identity not in self._by_id:
                return None
            there = self._by_id[identity].record(self._study.name)
            if not there.exists():
                return self._why_waiting(path)
            same = read_summary(path).digest == read_summary(there).digest
        except RecordError:
            return "cannot be read as a record of Parley"
        return None if same else f"another play of a simulation that the study has; its record is {there}"

    def _why_journal_left(self, path: Path) -> str | None:
        if is_locked(path):
            return "a process is playing it"
        identity = journal_id(path)
        if identity is None:
            if path.stat().st_size > 0:
                return "cannot be read as a journal of Parley"
            return None if is_place(path.with_suffix(".jsonl")) else "not made by Parley"
        if identity in self._by_id and not self._by_id[identity].record(self._study.name).exists():
            return self._why_waiting(path)
        return None

    def _why_waiting(self, path: Path) -> str:
        moves = "; the next run moves it to its path" if path in self._moved else ", without a record at its path"
        return f"a simulation of the study as it is now{moves}"


def _begins_as_ours(path: Path) -> bool:
    """Whether a temporary file is one of a process that was killed: empty, or the beginning of what Parley writes."""
    if not is_place(path.with_name(path.name.removeprefix(".").rsplit(".", 2)[0])):
        return False
    try:
        with open_regular(path) as file:
            begin = file.read(_MAX_BEGIN)
    except OSError:
        return False
    if path.name.rsplit(".", 3)[1] == "parquet":
        return begin.startswith(b"PAR1") or b"PAR1".startswith(begin)
    return not begin or _JOURNAL.match(begin) is not None


def _files(study: Study) -> Iterator[Path]:
    for root in (paths.simulations(study.name), paths.journals(study.name)):
        yield from walk(root)
