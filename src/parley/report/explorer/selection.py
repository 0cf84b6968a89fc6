"""Which simulations of a study the explorer shows, and in which data files they are."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parley import paths
from parley.errors import RecordError
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import counted

MOST = 10_000  # simulations, unless somebody asks for another number
RECORDED = "recorded"  # the change of the games that others go on from, which are shown as a condition of their own
_PART_BYTES = 1 << 20  # of the files that a data file is made from: it unpacks to some ten times as much


@dataclass(frozen=True)
class ShownFile:
    """A simulation with its record."""

    simulation: Simulation
    path: Path
    size: int


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
    def conditions(self) -> Sequence[Condition]:
        """The conditions of the study, and those of the games that its own go on from."""
        recorded = {part.number: part.condition for part in self.parts if part.number > len(self.study.conditions)}
        return [*self.study.conditions, *recorded.values()]


def select(study: Study, most: int) -> Selection:
    """Return the simulations that have a record; of more than `most` those with the lowest seeds.

    Raises RecordError if there are none.
    """
    played: dict[str, list[ShownFile]] = {}
    more = unfinished = shown = 0
    for simulation in study.simulations():
        file = _file_of(simulation, simulation.record(study.name))
        if file is None:
            unfinished += 1
        elif shown < most:
            played.setdefault(simulation.condition.folder, []).append(file)
            shown += 1
        else:
            more += 1
    if not shown:
        raise RecordError(
            f"{study.name}: no results yet in {paths.results(study.name)}; run it first: "
            f"parley run {paths.study_argument(study.file)}"
        )
    own = [(condition, played.get(condition.folder, ())) for condition in study.conditions]
    numbered = list(enumerate([*own, *_recorded(played)], 1))
    # What was recorded before comes first: it says where to look.
    parts = [
        part
        for number, (condition, files) in [*numbered[len(own) :], *numbered[: len(own)]]
        for part in _parts(number, condition, files)
    ]
    of = counted(shown + more, "simulation")
    left_out = f"{more:,} of {of} are left out, those with the highest seeds: show more with --most N."
    return Selection(study, tuple(parts), left_out if more else None, unfinished)


def _file_of(simulation: Simulation, record: Path) -> ShownFile | None:
    """Return a simulation with its record as it is now; None if it has none."""
    try:
        state = os.stat(record)
    except OSError:
        return None
    return ShownFile(simulation, record, state.st_size)


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
    """Yield the conditions of the games that these go on from, as far as their records are there."""
    simulations = [own.simulation for files in played.values() for own in files]
    parents = {each.parent.digest: (each.before, each.parent.record) for each in simulations if each.parent}
    found: dict[str, list[ShownFile]] = {}
    for before, path in parents.values():
        if file := _file_of(before, path):
            found.setdefault(before.condition.identity, []).append(file)
    for files in found.values():
        condition = files[0].simulation.condition
        yield replace(condition, axes={**condition.axes, "change": RECORDED}), files
