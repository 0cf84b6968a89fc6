"""Which simulations of a study the explorer shows, and in which data files they are."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from parley import paths
from parley.errors import RecordError
from parley.study import Study
from parley.study.condition import Condition, Simulation, axes_text
from parley.text import counted

MOST = 10_000  # simulations, unless somebody asks for another number
RECORDED = "recorded"  # the change of the games that a study has forks of, which are shown as a condition of their own
_PART_BYTES = 1 << 20  # of the files that a data file is made from: it unpacks to some ten times as much


@dataclass(frozen=True)
class ShownFile:
    """A simulation with a file: its record, or the journal of one that is being played."""

    simulation: Simulation
    path: Path
    running: bool
    size: int
    modified: int  # nanoseconds since the epoch


@dataclass(frozen=True)
class Part:
    """A data file of a condition: all of its simulations, or some where it has many. `number` counts conditions."""

    number: int
    condition: Condition
    name: str  # such as 0007, or 0007-2
    simulations: tuple[ShownFile, ...]

    @property
    def file(self) -> str:
        """Its path beside the page."""
        return f"data/{self.name}.js"


@dataclass(frozen=True)
class Selection:
    """What is shown of a study. `left_out` says what is not, and how to choose; None for nothing."""

    study: Study
    parts: tuple[Part, ...]
    left_out: str | None
    unfinished: int  # simulations that have no record yet

    @property
    def simulations(self) -> int:
        """How many are shown."""
        return sum(len(part.simulations) for part in self.parts)

    @property
    def conditions(self) -> Sequence[Condition]:
        """The conditions of the study, and those of the games that it has forks of."""
        recorded = {part.number: part.condition for part in self.parts if part.number > len(self.study.conditions)}
        return [*self.study.conditions, *recorded.values()]


def select(study: Study, where: Mapping[str, str], most: int, journals: bool, may_be_none: bool = False) -> Selection:
    """Return the simulations that have a record, or with `journals` a journal, in the conditions with these values.

    Of more than `most` those with the lowest seeds. Raises UsageError for an axis or a value that the study does not
    have, RecordError if there are none, unless there `may_be_none`.
    """
    places = {condition.folder for condition in study.fitting(where)} if where else None
    played: dict[str, list[ShownFile]] = {}
    more = unfinished = shown = 0
    for simulation in study.simulations():
        if places is not None and simulation.condition.folder not in places:
            continue
        file = find_file(study, simulation, journals)
        unfinished += file is None or file.running
        if file is None:
            continue
        if shown < most:
            played.setdefault(simulation.condition.folder, []).append(file)
            shown += 1
        else:
            more += 1
    if not shown and not may_be_none:
        which = f" with {axes_text(where)}" if where else ""
        raise RecordError(
            f"{study.name}: no results{which} yet in {paths.results(study.name)}; run it first: "
            f"parley run {paths.study_argument(study.file)}"
        )
    own = [(condition, played.get(condition.folder, ())) for condition in study.conditions]
    numbered = list(enumerate([*own, *_recorded(played)], 1))
    # What forks are of comes first: it says where to look.
    parts = [
        part
        for number, (condition, files) in [*numbered[len(own) :], *numbered[: len(own)]]
        for part in _parts(number, condition, files)
    ]
    return Selection(study, tuple(parts), _left_out(study, where, places, shown, more), unfinished)


def find_file(study: Study, simulation: Simulation, journals: bool) -> ShownFile | None:
    """Return a simulation as its files are now, with `journals` also one that is being played; None without any."""
    record = simulation.record(study.name)
    for file, running in ((record, False), (paths.journal(record), True)) if journals else ((record, False),):
        try:
            state = os.stat(file)
        except OSError:
            continue
        return ShownFile(simulation, file, running, state.st_size, state.st_mtime_ns)
    return None


def _parts(number: int, condition: Condition, files: Sequence[ShownFile]) -> Iterator[Part]:
    """Yield the data files of a condition; which simulations they have follows from the sizes of their files."""
    groups: list[list[ShownFile]] = []
    size = 0
    for one in files:
        if not groups or size + one.size > _PART_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.size
    for place, group in enumerate(groups):
        yield Part(number, condition, f"{number:04d}" + (f"-{place + 1}" if len(groups) > 1 else ""), tuple(group))


def _recorded(played: Mapping[str, Sequence[ShownFile]]) -> Iterator[tuple[Condition, list[ShownFile]]]:
    """Yield the conditions of the games of which forks are shown, as far as their records are there."""
    forks = [own.simulation for files in played.values() for own in files]
    parents = {fork.parent.digest: (fork.before, fork.parent.record) for fork in forks if fork.parent}
    found: dict[str, list[ShownFile]] = {}
    for before, path in parents.values():
        with suppress(OSError):
            state = os.stat(path)
            file = ShownFile(before, path, False, state.st_size, state.st_mtime_ns)
            found.setdefault(before.condition.identity, []).append(file)
    for files in found.values():
        condition = files[0].simulation.condition
        yield replace(condition, axes={**condition.axes, "change": RECORDED}), files


def _left_out(study: Study, where: Mapping[str, str], places: set[str] | None, shown: int, more: int) -> str | None:
    texts = []
    if more:
        texts.append(
            f"{more:,} of {counted(shown + more, 'simulation')} are left out, those with the highest seeds: choose "
            "others with --where AXIS=VALUE, or show more with --most N."
        )
    if places is not None and len(places) < len(study.conditions):
        texts.append(
            f"Only conditions with {axes_text(where)} are shown, {len(places)} of {len(study.conditions)}: leave out "
            "--where for all."
        )
    return " ".join(texts) or None
