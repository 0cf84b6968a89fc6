"""A study at one moment: its conditions, its simulations, and what is known of their replies."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parley import paths
from parley.play.pace import TimeLeft
from parley.progress.problems import Problem
from parley.progress.stages import Stage
from parley.progress.tails import Folder, JobLog, JournalTail
from parley.study import Study
from parley.study.condition import SCRIPTED, Condition
from parley.text import one_line


@dataclass
class Playing:
    """A simulation with a journal: one that is played, or was when its process died."""

    journal: JournalTail
    log: JobLog
    alive: bool = True
    probed: float = 0.0


@dataclass
class Cell:
    """One condition, as far as it is known."""

    condition: Condition
    label: str
    names: frozenset[str]  # of its records
    records: Folder
    journals: Folder
    kind: str  # of its engine
    seen: bool = False  # whether its folder was looked at
    finished: frozenset[str] = frozenset()
    playing: dict[str, Playing] = field(default_factory=dict)
    counted: int = 0  # finished simulations whose replies are known
    replies: int = 0  # of these
    unusable: int = 0
    of_models: int = 0  # replies of finished simulations whose degenerate ones are known
    degenerate: int = 0

    @property
    def unfinished(self) -> list[Playing]:
        """Simulations with a journal and no record."""
        return [one for name, one in self.playing.items() if name not in self.finished]

    @property
    def running(self) -> int:
        """Simulations that are being played."""
        return sum(one.alive for one in self.unfinished)

    @property
    def left(self) -> int:
        """Simulations without a record."""
        return len(self.names) - len(self.finished)

    @property
    def answered(self) -> tuple[int, int]:
        """Replies of models so far, and how many of them could not be used."""
        if self.kind == SCRIPTED:
            return (0, 0)
        playing = self.playing.values()
        return (
            self.replies + sum(one.journal.replies for one in playing),
            self.unusable + sum(one.log.unusable for one in playing),
        )


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    study: str
    cells: Sequence[Cell]
    stages: Sequence[Stage]
    problems: Sequence[Problem]
    elapsed: float | None  # seconds of the run that is followed
    rates: tuple[float, ...] | None  # replies, tokens read, tokens written per second
    finishes: float | None  # simulations per second
    left: TimeLeft | None
    silent: float | None  # seconds without a reply, while simulations are played
    words: str  # what the engines say they do
    budget: str | None
    idle: bool  # whether nothing is played, though there is something to play
    over: bool  # whether all simulations and all that is made of them are there

    @property
    def total(self) -> int:
        """All simulations."""
        return sum(len(cell.names) for cell in self.cells)

    @property
    def finished(self) -> int:
        """Those with a record."""
        return sum(len(cell.finished) for cell in self.cells)

    @property
    def running(self) -> int:
        """Those that are played now, as far as their journals tell: scripted ones that keep none are not counted."""
        return sum(cell.running for cell in self.cells)

    @property
    def begun(self) -> int:
        """Those whose process died: they go on from their journals."""
        return sum(len(cell.unfinished) for cell in self.cells) - self.running

    @property
    def answered(self) -> tuple[int, int]:
        """Replies of models so far, and how many of them could not be used."""
        counts = [cell.answered for cell in self.cells]
        return sum(count for count, _ in counts), sum(unusable for _, unusable in counts)

    @property
    def degenerate_share(self) -> float:
        """Share of degenerate replies among those of models in finished simulations; 0 where none are known."""
        known = sum(cell.of_models for cell in self.cells)
        return sum(cell.degenerate for cell in self.cells) / known if known else 0.0


def cells_of(study: Study) -> list[Cell]:
    """Return the conditions, each with a label of the axes in which conditions differ."""
    varying = varying_axes(study.conditions)
    names: dict[object, frozenset[str]] = {}
    cells = []
    for condition in study.conditions:
        seeds = condition.seeds
        key = seeds if isinstance(seeds, range) else tuple(seeds)
        if key not in names:
            names[key] = frozenset(paths.simulation("", "", seed).name for seed in seeds)
        record = paths.simulation(study.name, condition.place, 0)
        again = [f"repeat={condition.repeat}"] if condition.repeat else []
        cells.append(
            Cell(
                condition=condition,
                label=one_line(" ".join([*(_word(axis, condition.axes[axis]) for axis in varying), *again]), 200),
                names=names[key],
                records=Folder(record.parent),
                journals=Folder(paths.journal(record).parent),
                kind="+".join(condition.models) or SCRIPTED,
            )
        )
    return cells


def _word(axis: str, value: object) -> str:
    """Return an axis and its value; the axis goes without saying where the value is a word."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+(/\d+)?|true|false|True|False", str(value)) else str(value)


def varying_axes(conditions: Iterable[Condition]) -> list[str]:
    """Return the axes in which conditions differ; the first one if they differ in none."""
    values: dict[str, set[object]] = {}
    for condition in conditions:
        for axis, value in condition.axes.items():
            values.setdefault(axis, set()).add(value)
    return [axis for axis, found in values.items() if len(found) > 1] or list(values)[:1]
