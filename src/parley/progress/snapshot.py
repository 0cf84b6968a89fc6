"""A study at one moment: its conditions, stages and problems, and what is known of its replies."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.progress.state import GameProgress
from parley.study import Study
from parley.study.condition import SCRIPTED, Condition
from parley.text import counted, duration, one_line

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass
class ConditionProgress:
    """One condition, as far as it is known."""

    condition: Condition
    label: str
    names: frozenset[str]  # of its records
    records: Path  # their folder
    kind: str  # of its engine
    finished: frozenset[str] = frozenset()
    read: set[str] = field(default_factory=set)  # those finished whose records told their replies
    playing: dict[str, GameProgress] = field(default_factory=dict)  # also those finished whose record was not read yet
    replies: int = 0  # of those that were read
    unusable: int = 0
    of_models: int = 0  # replies of finished simulations whose degenerate ones are known
    degenerate: int = 0

    @property
    def unfinished(self) -> list[GameProgress]:
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
        replies, unusable = sum(each.replies for each in playing), sum(each.unusable for each in playing)
        return self.replies + replies, self.unusable + unusable


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its state, and how many seconds it took or has been running, if known."""

    name: str
    state: str
    seconds: float | None = None


@dataclass(frozen=True)
class ProgressProblem:
    """Something that a person should know: its text, how many simulations it holds up."""

    text: str
    simulations: int = 0
    serious: bool = True
    stopped: bool = False  # whether the simulations ended by it

    def __str__(self) -> str:
        if not self.simulations:
            return self.text
        return f"{counted(self.simulations, 'simulation')}{' stopped' if self.stopped else ''}: {self.text}"

    @property
    def key(self) -> str:
        """The same for the same problem, whatever the numbers in its text."""
        return _NUMBER.sub("#", self.text)


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the last simulation ends: from as few as it may be to the most."""

    seconds: float
    most: float

    def __str__(self) -> str:
        # No more digits than are known.
        step = 10 if self.most < 60 else 60
        least, most = (duration(max(-(-seconds // step), 1) * step) for seconds in (self.seconds, self.most))
        return f"about {most} left" if least == most else f"{least} to {most} left"


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment."""

    study: str
    cells: Sequence[ConditionProgress]
    stages: Sequence[Stage]
    problems: Sequence[ProgressProblem]
    elapsed: float | None  # seconds of the run that is followed
    rates: tuple[float, ...] | None  # replies, tokens read, tokens written per second
    finishes: float | None  # simulations per second
    left: TimeLeft | None
    silent: float | None  # seconds without a reply, while simulations are played
    spent: str | None  # of what services may use
    note: str  # what goes on where nothing is played
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
        """Those that are played now."""
        return sum(cell.running for cell in self.cells)

    @property
    def answered(self) -> tuple[int, int]:
        """Replies of models so far, and how many of them could not be used."""
        replies, unusable = zip(*(cell.answered for cell in self.cells), strict=True)
        return sum(replies), sum(unusable)

    @property
    def degenerate_share(self) -> float:
        """Share of degenerate replies among those of models in finished simulations; 0 where none are known."""
        known = sum(cell.of_models for cell in self.cells)
        return sum(cell.degenerate for cell in self.cells) / known if known else 0.0


def cells_of(study: Study) -> list[ConditionProgress]:
    """Return the conditions, each with a label of the axes in which conditions differ."""
    axes = study.varying or study.axes[:1]
    names: dict[tuple[int, ...], frozenset[str]] = {}  # most conditions have the same seeds
    cells = []
    for condition in study.conditions:
        seeds = tuple(condition.seeds)
        if seeds not in names:
            names[seeds] = frozenset(paths.simulation("", "", seed).name for seed in seeds)
        words = [_word(axis, condition.axes[axis]) for axis in axes]
        again = [f"repeat={condition.repeat}"] if condition.repeat else []
        cells.append(
            ConditionProgress(
                condition=condition,
                label=one_line(" ".join([*words, *again]), 200),
                names=names[seeds],
                records=paths.simulation(study.name, condition.folder, 0).parent,
                kind=condition.engine if condition.models else SCRIPTED,
            )
        )
    return cells


def _word(axis: str, value: object) -> str:
    """Return an axis and its value; the axis goes without saying where the value is a word."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+(/\d+)?|true|false|True|False", str(value)) else str(value)
