"""A study at one moment: its conditions, stages and problems, and what is known of its replies."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.progress.state import GameProgress, Played
from parley.study import Study
from parley.study.condition import SCRIPTED, Condition
from parley.text import counted, one_line

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
    games: dict[str, tuple[GameProgress, bool]] = field(default_factory=dict)  # and whether their processes live
    played: list[Played] = field(default_factory=list)  # in this run, by its processes

    @property
    def unfinished(self) -> list[tuple[GameProgress, bool]]:
        """Simulations that a process played, and that have no record."""
        return [game for name, game in self.games.items() if name in self.names and name not in self.finished]

    @property
    def running(self) -> int:
        """Simulations that are being played."""
        return sum(alive and not game.error for game, alive in self.unfinished)

    @property
    def left(self) -> int:
        """Simulations without a record."""
        return len(self.names) - len(self.finished)

    @property
    def answered(self) -> tuple[int, int]:
        """Replies in this run, and how many of them could not be used."""
        return sum(each.replies for each in self.played), sum(each.unusable for each in self.played)


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
class Snapshot:
    """A study at one moment; replies and speed are those of the run that goes on, or of the last one."""

    study: str
    cells: Sequence[ConditionProgress]
    stages: Sequence[Stage]
    problems: Sequence[ProgressProblem]
    elapsed: float | None  # seconds of the run that goes on
    rates: tuple[float, ...] | None  # replies, tokens read, tokens written per second
    left: float | None  # seconds until the last simulation ends
    silent: float | None  # seconds without an event, while simulations are played
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
        """Replies in this run, and how many of them could not be used."""
        replies, unusable = zip(*(cell.answered for cell in self.cells), strict=True)
        return sum(replies), sum(unusable)


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


def seconds_left(cells: Sequence[ConditionProgress], now: float) -> float | None:
    """Return how long what is left will take, engine after engine, at the pace of the simulations that ended.

    None if it is unknown of one; but scripted agents take next to no time where models play, too.
    """
    seconds = 0.0
    kinds = {cell.kind for cell in cells if cell.left}
    for kind in kinds:
        played = [each for cell in cells if cell.kind == kind for each in cell.played]
        if games := sum(each.games for each in played):
            left = sum(cell.left for cell in cells if cell.kind == kind)
            seconds += left * max(now - min(each.began for each in played), 0.0) / games
        elif kind != SCRIPTED or len(kinds) == 1:
            return None
    return seconds


def _word(axis: str, value: object) -> str:
    """Return an axis and its value; the axis goes without saying where the value is a word."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+(/\d+)?|true|false|True|False", str(value)) else str(value)
