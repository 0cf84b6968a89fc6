"""Records and journals below a study's results that lie at no path of the study as it is now.

`parley prune` takes them away. What is not what its path says is left where it is.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from parley import paths
from parley.errors import RecordError
from parley.files import hold_lock, is_locked, is_temporary, make_folder, refuse_links
from parley.play.journal import journal_id
from parley.play.record import peek_summary
from parley.study import Study
from parley.study.condition import BASE_AXES
from parley.study.load import check_alone

_NAME = re.compile(r"seed=(0|[1-9][0-9]{0,8})(\.parquet|\.jsonl)")
# Where Parley puts them. What lies deeper is somebody's copy, such as that of another study.
_PLACE = re.compile("/".join([*(f"{axis}=[^/]+" for axis in BASE_AXES), "spec=([0-9a-f]{8})"]))


@dataclass(frozen=True)
class SimulationFile:
    """A file that has the name and the place of a record or of a journal."""

    path: Path
    place: str  # its folder, below that of records or journals
    spec: str
    seed: int
    is_journal: bool


def simulation_files(study: str) -> Iterator[SimulationFile]:
    """Yield the records of a study, then its journals, whatever the study is now; none of them is read."""
    for root, suffix in ((paths.simulations(study), ".parquet"), (paths.journals(study), ".jsonl")):
        refuse_links(root)
        for path in walk(root):
            place = path.parent.relative_to(root).as_posix()
            name, spec = _NAME.fullmatch(path.name), _PLACE.fullmatch(place)
            if name and spec and name[2] == suffix:
                yield SimulationFile(path, place, spec[1], int(name[1]), suffix == ".jsonl")


def walk(root: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder itself, in order; links to folders are not followed."""
    yield from (path for path in sorted(root.rglob("*")) if path.is_symlink() or not path.is_dir())


# What `parley prune` takes away


def prunable(study: Study) -> list[Path]:
    """Return the files of former configurations and seeds, and what killed processes left.

    Only a record or a journal of Parley that lies where its own identity says is one of these; what a process is
    playing is none. Raises UsageError if another study file has the same name: the results may be
    of that one.
    """
    check_alone(study.file)
    records = [simulation.record(study.name) for simulation in study.simulations()]
    kept = {*records, *map(paths.journal, records)}
    files = [f.path for f in simulation_files(study.name) if f.path not in kept and _is_own(f, study.game.name)]
    for root in (paths.simulations(study.name), paths.journals(study.name)):
        left = filter(is_temporary, walk(root))
        files += [path for path in left if _PLACE.fullmatch(path.parent.relative_to(root).as_posix())]
    return [path for path in files if not is_locked(path)]


def _is_own(file: SimulationFile, game: str) -> bool:
    """Whether a file is a record of a game that says it lies here, or a journal, be it one without a line."""
    if file.is_journal:
        return file.path.is_file() and (file.path.stat().st_size == 0 or journal_id(file.path) is not None)
    try:
        described = peek_summary(file.path).simulation
    except RecordError:
        return False
    return (described.get("game"), described.get("spec"), described["seed"]) == (game, file.spec, file.seed)


def prune(study: Study) -> list[Path]:
    """Move what is `prunable` below the folder `paths.pruned`, where it stays.

    Folders that become empty go. Returns what it moved; raises JournalError while a run of the study goes on,
    RecordError if the disk refuses, UsageError as `prunable`.
    """
    check_alone(study.file)
    hold_lock(paths.lock(study.name))  # a run may be writing what looks like a leftover
    found = prunable(study)
    refuse_links(paths.pruned(study.name))
    to = paths.pruned(study.name) / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for path in found:
        _move(path, to / path.relative_to(paths.results(study.name)))
    return found


def _move(old: Path, new: Path) -> None:
    """Move a file, and remove the folders that become empty; raises RecordError if the disk refuses."""
    try:
        make_folder(new.parent)
        old.rename(new)
    except OSError as error:
        raise RecordError(
            f"{old}: cannot be moved to {new}: {error.strerror}; look at the folder and its disk, and try again"
        ) from error
    with suppress(OSError):  # one that is not empty
        for folder in old.parents:
            folder.rmdir()
