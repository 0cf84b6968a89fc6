"""A study at one moment: its conditions, stages and problems, and what is known of its replies."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.progress.state import PlayedGame
from parley.study import Study
from parley.study.condition import SCRIPTED, Condition
from parley.text import duration, one_line

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass
class Playing(PlayedGame):
    """A simulation as its process last told of it."""

    alive: bool = True


@dataclass
class Cell:
    """One condition, as far as it is known."""

    condition: Condition
    label: str
    names: frozenset[str]  # of its records
    records: Path  # their folder
    journals: Path
    kind: str  # of its engine
    finished: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()  # that have a journal
    playing: dict[str, Playing] = field(default_factory=dict)  # also those finished whose record was not read yet
    counted: int = 0  # finished simulations whose replies are known
    replies: int = 0  # of these
    unusable: int = 0
    of_models: int = 0  # replies of finished simulations whose degenerate ones are known
    degenerate: int = 0

    @property
    def unfinished(self) -> list[Playing]:
        """Simulations that a process played, and that have no record."""
        return [each for name, each in self.playing.items() if name not in self.finished]

    @property
    def running(self) -> int:
        """Simulations that are being played."""
        return sum(each.alive for each in self.unfinished)

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
            self.replies + sum(each.replies for each in playing),
            self.unusable + sum(each.unusable for each in playing),
        )


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its state, and how many seconds it took or has been running, if known."""

    name: str
    state: str
    seconds: float | None = None


@dataclass(frozen=True)
class Problem:
    """Something that a person should know: its text, since when (seconds), how many simulations it holds up."""

    text: str
    seconds: float | None = None
    simulations: int = 0
    serious: bool = True
    stopped: bool = False  # whether the simulations ended by it

    def __str__(self) -> str:
        parts = []
        if self.simulations:
            parts.append(f"{self.simulations} simulation{'' if self.simulations == 1 else 's'}")
        if self.stopped:
            return " ".join([*parts, f"stopped: {self.text}"])
        if self.seconds is not None and self.seconds >= 1:
            parts.append(f"for {duration(self.seconds)}")
        return f"{', '.join(parts)}: {self.text}" if parts else self.text

    @property
    def key(self) -> str:
        """The same for the same problem, whatever the numbers in its text."""
        return _NUMBER.sub("#", self.text)


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the last simulation ends; `bound` says how they are meant: "about", "at most", "at least"."""

    seconds: float
    bound: str = "about"

    def __str__(self) -> str:
        # No more digits than are known.
        step = 10 if self.seconds < 60 else 60
        return f"{self.bound} {duration(max(-(-self.seconds // step), 1) * step)} left"


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
    note: str  # what goes on where nothing is played
    over: bool  # whether all simulations and all that is made of them are there
    batches: Sequence[str] = ()  # what is known of those that services have not answered

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
        """Those that are played now; scripted ones, which take no time, are not counted."""
        return sum(cell.running for cell in self.cells)

    @property
    def begun(self) -> int:
        """Those whose process died: they go on from their journals."""
        running = ({name for name, each in cell.playing.items() if each.alive} for cell in self.cells)
        return sum(len(cell.begun - cell.finished - now) for cell, now in zip(self.cells, running, strict=True))

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
    axes = study.varying or study.axes[:1]
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
                label=one_line(" ".join([*(_word(axis, condition.axes[axis]) for axis in axes), *again]), 200),
                names=names[key],
                records=record.parent,
                journals=paths.journal(record).parent,
                kind="+".join(condition.models) or SCRIPTED,
            )
        )
    return cells


def _word(axis: str, value: object) -> str:
    """Return an axis and its value; the axis goes without saying where the value is a word."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+(/\d+)?|true|false|True|False", str(value)) else str(value)
