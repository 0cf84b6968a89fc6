"""Records and journals of a study's simulations that lie at former paths are moved to their paths of now.

They are found by their id, so a simulation is never played again because its path changed. Nothing is overwritten.
"""

import logging
import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.errors import RecordError
from parley.files import is_locked, make_folder, sync_folder
from parley.play.former import Place, Survey
from parley.play.journal import journal_id
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import one_line

_log = logging.getLogger(__name__)

_MAX_NOTES = 5


@dataclass
class Moves:
    """What is to be moved: old and new paths. `notes` says what is left where it lies, and why."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    simulations: list[Simulation] = field(default_factory=list)  # finished ones, whose records are among the files
    journals: int = 0  # of unfinished simulations, among the files
    notes: list[str] = field(default_factory=list)

    def lines(self, done: bool = False) -> list[str]:
        """Return in words what is moved, or was, and what is left; nothing if there is nothing to say."""
        found = []
        if self.simulations or self.journals:
            finished, journals = len(self.simulations), self.journals
            parts = [f"{finished:,} finished simulations"] if finished else []
            parts += [f"the journals of {journals:,} unfinished ones"] if journals else []
            verb = (
                "were moved from the paths that they had before" if done else "lie at former paths: a run moves them"
            )
            found.append(f"{' and '.join(parts)} {verb}; nothing is played again")
        found += self.notes[:_MAX_NOTES]
        if len(self.notes) > _MAX_NOTES:
            found.append(f"and {len(self.notes) - _MAX_NOTES:,} more files are left where they are")
        return found


def find_moves(study: Study, survey: Survey | None = None) -> Moves:
    """Return what lies at former paths of the study and belongs to a simulation that has no record. Moves nothing.

    Files are read only if something lies at a former path, and of these only the ones of seeds that are missing. Each
    is judged by its own id, whatever lies beside it.
    """
    survey = survey or Survey(study)
    moves = Moves()
    if survey.former and (seeds := {simulation.seed for simulation in survey.missing()}):
        _Finder(survey, moves, seeds).look()
    return moves


def missing_records(study: Study, moves: Moves, by_shard: bool) -> list[str]:
    """Return the records of a study, of those played a shard in a process or of all others, that are not there.

    What is only to be moved is there.
    """
    moved = {simulation.record(study.name) for simulation in moves.simulations}
    return [str(r) for r in study.records(by_shard=by_shard) if r not in moved and not os.path.exists(r)]


class _Finder:
    """Decides for each file of the former places whether it is moved."""

    def __init__(self, survey: Survey, moves: Moves, seeds: set[int]) -> None:
        self._survey = survey
        self._study = survey.study
        self._moves = moves
        self._seeds = seeds
        self._taken: set[Path] = set()  # records that are there, or will be

    def look(self) -> None:
        for place in self._survey.former:
            for seed in sorted({*place.records, *place.kept, *place.journals} & self._seeds):
                self._look_at(place, seed)

    def _look_at(self, place: Place, seed: int) -> None:
        moved: dict[str, Simulation] = {}  # by id: a record and its second name may be of two simulations
        noted: set[str] = set()
        for is_kept, files in ((False, place.records), (True, place.kept)):
            if (path := files.get(seed)) is not None:
                self._look_at_record(path, seed, is_kept, moved, noted)
        if (journal := place.journals.get(seed)) is not None:
            self._look_at_journal(journal, seed, moved)

    def _look_at_record(
        self, path: Path, seed: int, is_kept: bool, moved: dict[str, Simulation], noted: set[str]
    ) -> None:
        described = self._survey.read(path)
        if described is None:
            self._note(path, "cannot be read as a record")
            return
        simulations = self._simulations(described.id, described.seed)
        if not simulations:
            return
        if described.seed != seed:
            self._note(path, f"of another simulation than its name says: of seed {described.seed}")
            return
        simulation = moved.get(described.id) or next((s for s in simulations if not self._has_record(s)), None)
        if simulation is None:
            if described.id not in noted:
                self._note(path, f"{simulations[0].record(self._study.name)} is there already")
                noted.add(described.id)
            return
        target = simulation.record(self._study.name)
        self._move(path, paths.kept_record(target) if is_kept else target)
        if described.id not in moved:
            moved[described.id] = simulation
            self._taken.add(target)
            self._moves.simulations.append(simulation)

    def _simulations(self, identity: str, seed: int) -> list[Simulation]:
        """Return the simulations of the study that have an id: several if two model entries are the same."""
        conditions = self._survey.conditions_of(identity, seed)
        return [Simulation(condition, seed) for condition in conditions if seed in condition.most_seeds]

    def _look_at_journal(self, journal: Path, seed: int, moved: dict[str, Simulation]) -> None:
        identity = journal_id(journal)
        if identity is None:
            self._note(journal, "cannot be read as a journal")
            return
        simulations = self._simulations(identity, seed)
        free = [s for s in simulations if not self._has_record(s)]
        simulation = moved.get(identity) or next(iter(free), None)
        if simulation is None:
            if simulations:
                self._note(journal, f"{simulations[0].record(self._study.name)} is there already")
            return
        target = paths.journal(simulation.record(self._study.name))
        if target.exists() or target in self._taken:
            self._note(journal, f"{target} is there already")
        elif is_locked(journal):
            self._note(journal, "a process is playing it; wait for it or stop it")
        else:
            self._move(journal, target)
            self._taken.add(target)
            self._moves.journals += identity not in moved
            damaged = journal.with_suffix(".damaged")
            if damaged.is_file():
                self._move(damaged, target.with_suffix(".damaged"))

    def _has_record(self, simulation: Simulation) -> bool:
        return simulation.record(self._study.name) in self._taken or self._survey.is_finished(simulation)

    def _move(self, old: Path, new: Path) -> None:
        self._moves.files.append((old, new))

    def _note(self, path: Path, why: str) -> None:
        self._moves.notes.append(f"{one_line(str(path))}: left where it is: {why}")


def relocate(moves: Moves) -> None:
    """Move what was found; whoever calls it holds the study's lock.

    Raises RecordError if the disk refuses; what was moved by then stays moved, and the next run goes on.
    """
    by_folder: defaultdict[Path, list[tuple[Path, Path]]] = defaultdict(list)
    for old, new in moves.files:
        by_folder[new.parent].append((old, new))
    for folder, files in by_folder.items():
        try:
            make_folder(folder)
            linked = [old for old, new in files if _give_name(old, new)]
            sync_folder(folder)  # the new names before the old ones go: a death of the machine loses neither
            for old in linked:
                old.unlink()
        except OSError as error:
            raise RecordError(
                f"{folder}: files of former paths cannot be moved here: {error.strerror}; look at the folder and its "
                "disk, and run again"
            ) from error
        for old, _ in files:
            remove_empty(old.parent)
    for line in moves.lines(done=True):
        _log.info("%s", line)


def move_file(old: Path, new: Path) -> None:
    """Give a file another name, never that of another file; raises OSError."""
    if _give_name(old, new):
        old.unlink()


def _give_name(old: Path, new: Path) -> bool:
    """Give a file its new name too, never that of another file; whether its old name is still to be removed."""
    try:
        os.link(old, new, follow_symlinks=False)  # DVC may have links in the place of records
        return True
    except FileExistsError:
        if os.path.samefile(old, new):
            return True
        raise
    except OSError:  # a file system without hard links
        pass
    if os.path.lexists(new):
        raise FileExistsError(None, f"{new.name} exists")
    os.rename(old, new)
    return False


def remove_empty(folder: Path) -> None:
    """Remove a folder and those above it as far as they are empty."""
    with suppress(OSError):  # one that is not
        for empty in (folder, *folder.parents):
            empty.rmdir()
