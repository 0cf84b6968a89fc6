"""Records and journals below a study's results that lie at no path of the study as it is now.

A path names the model of a condition and its spec; other versions of Parley named every axis. The id of a simulation
stays, and records and journals have it: so a file is judged by the id in it, whatever its path says. What is of a
simulation of the study is moved to its path; what is of a former configuration, `parley prune` deletes.
Nothing is overwritten.
"""

import logging
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from parley import paths
from parley.errors import RecordError
from parley.files import hold_lock, is_locked, make_folder, sync_folder
from parley.play.journal import journal_id
from parley.play.record import peek_summary, read_summary
from parley.play.record_store import write_conditions
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.study.load import check_alone
from parley.text import one_line
from parley.text.yamlfile import is_slug

_log = logging.getLogger(__name__)

_NAME = re.compile(r"seed=(0|[1-9][0-9]{0,8})(\.parquet|\.jsonl)")
_SPEC = re.compile(r"spec=[0-9a-f]{8}")
_TEMPORARY = re.compile(r"\.seed=[0-9]+\.(parquet|jsonl)\.[0-9]+\.tmp")  # as `files.temporary_name` makes them
_MAX_NOTES = 5


@dataclass(frozen=True)
class SimulationFile:
    """A file that has the name of a record or of a journal."""

    path: Path
    folder: str  # below that of records or journals
    seed: int
    is_journal: bool


class Survey:
    """One walk over the records and journals of a study; nothing is read before it is asked for."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.files: dict[str, list[SimulationFile]] = defaultdict(list)  # by folder
        for root, suffix in ((paths.simulations(study.name), ".parquet"), (paths.journals(study.name), ".jsonl")):
            for path in walk(root):
                name = _NAME.fullmatch(path.name)
                if name and name[2] == suffix and _SPEC.fullmatch(path.parent.name):
                    folder = path.parent.relative_to(root).as_posix()
                    self.files[folder].append(SimulationFile(path, folder, int(name[1]), suffix == ".jsonl"))
        self._by_id: dict[int, dict[str, list[Condition]]] = {}

    def played(self, folder: str) -> dict[int, Path]:
        """Return the finished simulations in a folder: a record of each."""
        return {file.seed: file.path for file in self.files.get(folder, []) if not file.is_journal}

    def strays(self) -> Iterator[tuple[int, list[SimulationFile]]]:
        """Yield seed and files of each simulation in the folders that no condition has, its record first."""
        for folder in self.stale:
            by_seed: dict[int, list[SimulationFile]] = defaultdict(list)
            for file in sorted(self.files[folder], key=lambda file: file.is_journal):
                by_seed[file.seed].append(file)
            yield from by_seed.items()

    @cached_property
    def stale(self) -> list[str]:
        """The folders that no condition of the study has, by name."""
        return sorted(set(self.files) - {condition.place for condition in self.study.conditions})

    @cached_property
    def missing(self) -> list[Simulation]:
        """The simulations of the study that have no record at their path."""
        there = {condition.place: self.played(condition.place) for condition in self.study.conditions}
        return [s for s in self.study.simulations() if s.seed not in there[s.condition.place]]

    def conditions_of(self, identity: str | None, seed: int) -> list[Condition]:
        """Return the conditions that a simulation belongs to by its id, whether or not they have this seed.

        There may be several: two entries of models.yaml may be the same but for their names.
        """
        if seed not in self._by_id:
            found: dict[str, list[Condition]] = {}
            for condition in self.study.conditions:
                found.setdefault(Simulation(condition, seed).id, []).append(condition)
            self._by_id[seed] = found
        return self._by_id[seed].get(identity or "", [])

    def described(self, folder: str) -> Mapping[str, Any] | None:
        """Return what the first record of a folder that can be read says it is; None if there is none."""
        return next((found for path in self.played(folder).values() if (found := description(path))), None)

    def renamed_from(self) -> str | None:
        """Return the name of results that may be of this study, whose file had another name; None if there are none.

        Looked for only if the study has no results. One record tells it, of results whose study file is gone: from
        config/ and from the folder of this one.
        """
        if self.files or not paths.RESULTS.is_dir():
            return None
        for name in sorted(folder.name for folder in paths.RESULTS.iterdir()):
            files = [self.study.file.with_name(f"{name}{suffix}") for suffix in (".yaml", ".yml")]
            if not is_slug(name) or any(file.exists() for file in (paths.study_file(name), *files)):
                continue
            record = next((path for path in walk(paths.simulations(name)) if paths.is_record(path)), None)
            found = description(record) if record else None
            if found and self.conditions_of(found["id"], found["seed"]):
                return name
        return None


def description(path: Path) -> Mapping[str, Any] | None:
    """Return what a record says it is; None for what cannot be read."""
    try:
        return peek_summary(path).simulation
    except RecordError:
        return None


def walk(root: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder itself, in order; links to folders are not followed."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (Path(folder, name) for name in sorted([*names, *links]))


# What is moved


@dataclass
class Moves:
    """What is to be moved: old and new paths. `notes` says what is left where it lies, and why."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    simulations: list[Simulation] = field(default_factory=list)  # finished ones, whose records are among the files
    journals: int = 0  # of unfinished simulations, among the files
    notes: list[str] = field(default_factory=list)

    def add(self, simulation: Simulation, record: Path, files: Sequence[SimulationFile]) -> None:
        """Have the files of a simulation moved to their paths: its record, if there is one, and its journal."""
        for file in files:
            target = paths.journal(record) if file.is_journal else record
            if target.exists():
                self.notes.append(f"{one_line(str(file.path))}: left where it is: {target} is there already")
                continue
            self.files.append((file.path, target))
        if files[0].is_journal:
            self.journals += 1
        else:
            self.simulations.append(simulation)

    def lines(self, done: bool = False) -> list[str]:
        """Return in words what is moved, or was, and what is left; nothing if there is nothing to say."""
        finished, journals = len(self.simulations), self.journals
        parts = [f"{finished:,} finished simulations"] if finished else []
        parts += [f"the journals of {journals:,} unfinished ones"] if journals else []
        verb = "were moved from the paths that they had before" if done else "lie at former paths: a run moves them"
        more = len(self.notes) - _MAX_NOTES
        return [
            *([f"{' and '.join(parts)} {verb}; nothing is played again"] if parts else []),
            *self.notes[:_MAX_NOTES],
            *([f"and {more:,} more files are left where they are"] if more > 0 else []),
        ]


def find_moves(study: Study, survey: Survey | None = None) -> Moves:
    """Return what lies at former paths of the study and belongs to a simulation that has no record. Moves nothing.

    Only files of seeds that are missing are read.
    """
    survey = survey or Survey(study)
    moves = Moves()
    seeds = {simulation.seed for simulation in survey.missing}
    seeds |= {seed for condition in study.conditions if condition.growing for seed in condition.most_seeds}
    taken: set[Path] = set()
    for seed, files in survey.strays():
        if seed not in seeds:
            continue
        identity = next((found for file in files if (found := _id(file))), None)
        owners = [condition for condition in survey.conditions_of(identity, seed) if seed in condition.most_seeds]
        records = [Simulation(condition, seed).record(study.name) for condition in owners]
        there = [seed in survey.played(condition.place) for condition in owners]
        free = [at for at, record in enumerate(records) if not there[at] and record not in taken]
        why = ""
        if identity is None:
            why = "cannot be read as a record or a journal"
        elif owners and not free:
            why = f"{records[0]} is there already"
        elif owners and any(file.is_journal and is_locked(file.path) for file in files):
            why = "a process is playing it; wait for it or stop it"
        elif owners:
            moves.add(Simulation(owners[free[0]], seed), records[free[0]], files)
            taken.add(records[free[0]])
        if why:
            moves.notes.append(f"{one_line(str(files[0].path))}: left where it is: {why}")
    return moves


def _id(file: SimulationFile) -> str | None:
    if file.is_journal:
        return journal_id(file.path)
    found = description(file.path)
    return found["id"] if found else None


def missing_records(study: Study, moves: Moves, by_shard: bool) -> list[str]:
    """Return the records of a study, of those played a shard in a process or of all others, that are not there.

    What is only to be moved is there.
    """
    moved = {simulation.record(study.name) for simulation in moves.simulations}
    return [str(r) for r in study.records(by_shard=by_shard) if r not in moved and not os.path.exists(r)]


def move_records(moves: Moves) -> None:
    """Move what was found; whoever calls it holds the study's lock.

    Raises RecordError if the disk refuses; what was moved by then stays moved, and the next call goes on.
    """
    by_folder: defaultdict[Path, list[tuple[Path, Path]]] = defaultdict(list)
    for old, new in moves.files:
        by_folder[new.parent].append((old, new))
    for folder, files in by_folder.items():
        try:
            make_folder(folder)
            for old, new in files:
                if os.path.lexists(new):
                    raise FileExistsError(None, f"{new.name} exists")
                os.rename(old, new)
            sync_folder(folder)
        except OSError as error:
            raise RecordError(
                f"{folder}: files of former paths cannot be moved here: {error.strerror}; look at the folder and its "
                "disk, and run again"
            ) from error
        for old, _ in files:
            remove_empty(old.parent)
    for line in moves.lines(done=True):
        _log.info("%s", line)


def migrate(study: Study) -> Moves:
    """Move the records and journals of a study to their paths, as a run does when it starts; return what was moved.

    Raises UsageError if another study file has the same name, JournalError while a run of the study goes on.
    """
    check_alone(study.file)
    hold_lock(paths.lock(study.name))
    moves = find_moves(study)
    move_records(moves)
    write_conditions(study)
    return moves


def remove_empty(folder: Path) -> None:
    """Remove a folder and those above it as far as they are empty."""
    with suppress(OSError):  # one that is not
        for empty in (folder, *folder.parents):
            empty.rmdir()


# What `parley prune` takes away

_KEPT_DAYS = 30
_WHEN, _PRUNED = "%Y%m%dT%H%M%SZ", re.compile(r"\d{8}T\d{6}Z")


@dataclass
class Prunable:
    """What is under a study's results and not of the study as it is now."""

    removable: list[Path] = field(default_factory=list)
    left: list[tuple[Path, str]] = field(default_factory=list)  # with why


def prunable(study: Study) -> Prunable:
    """Return the files of former configurations, in order, and those that are not touched.

    Only what was read as Parley's own, and lies where its identity says, is removable. Raises UsageError if another
    study file has the same name: the results may be of that one.
    """
    check_alone(study.file)
    records = [(simulation.id, simulation.record(study.name)) for simulation in study.simulations()]
    by_id = dict(records)
    own = {file for _, record in records for file in (record, paths.journal(record))}
    moved = {old for old, _ in find_moves(study).files}
    found = Prunable()
    for root in (paths.simulations(study.name), paths.journals(study.name)):
        for path in walk(root):
            if path not in own:
                why = "a simulation of the study as it is now; the next run moves it to its path"
                why = why if path in moved else _why_left(path, by_id, study.game.name)
                if why:
                    found.left.append((path, why))
                else:
                    found.removable.append(path)
    return found


def prune(study: Study) -> Prunable:
    """Move what `prunable` calls removable below the folder `paths.pruned`, and delete what lies there for 30 days.

    Folders that become empty go. Returns what it found; raises JournalError while a run of the study goes on,
    RecordError if the disk refuses, UsageError as `prunable`.
    """
    check_alone(study.file)
    hold_lock(paths.lock(study.name))  # a run may be writing what looks like a leftover
    found, now = prunable(study), datetime.now(UTC)
    for former in paths.pruned(study.name).glob("*"):
        if _PRUNED.fullmatch(former.name) and former.name < f"{now - timedelta(days=_KEPT_DAYS):{_WHEN}}":
            shutil.rmtree(former, ignore_errors=True)  # one that anybody else laid there may be anything
    for path in found.removable:
        kept = paths.pruned(study.name) / f"{now:{_WHEN}}" / path.relative_to(paths.results(study.name))
        make_folder(kept.parent)
        path.rename(kept)
        remove_empty(path.parent)
    return found


def _why_left(path: Path, by_id: Mapping[str, Path], game: str) -> str:
    """Return why a file that is at no path of the study is not touched; "" if it may go."""
    if not path.is_file():
        return "no regular file"
    is_place = _SPEC.fullmatch(path.parent.name) is not None
    if _TEMPORARY.fullmatch(path.name) and is_place:  # of a process that was killed: nobody reads it
        return ""
    name = _NAME.fullmatch(path.name) if is_place else None
    if name and path.suffix == ".parquet":
        found = description(path) or {}
        kind, identity = "record", found.get("id")
        said = (found.get("game"), f"spec={found.get('spec')}", str(found.get("seed")))
        if found and said != (game, path.parent.name, name[1]):
            return "a record of another game, or of another place"
    elif name:
        if is_locked(path):
            return "a process is playing it"
        kind, identity = "journal", journal_id(path)
        if path.stat().st_size == 0:
            return ""
    else:
        return "not made by Parley"
    if identity is None:
        return f"cannot be read as a {kind} of Parley"
    record = by_id.get(identity)
    if record is None:
        return ""
    if not record.exists():
        return "a simulation of the study as it is now, without a record at its path"
    try:
        same = kind == "journal" or read_summary(path).digest == read_summary(record).digest
    except RecordError:
        return "cannot be read as a record of Parley"
    return "" if same else f"another play of a simulation that the study has; its record is {record}"
