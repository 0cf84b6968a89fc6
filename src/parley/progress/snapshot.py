"""A study at one moment: its conditions, stages and problems, what is known of its replies, and the time left."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley import paths
from parley.progress.state import KEPT_SECONDS, GameProgress
from parley.study import Study
from parley.study.condition import SCRIPTED, Condition
from parley.text import duration, one_line

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHOWN_SECONDS = 120.0  # from which a pace is worked out


@dataclass
class ConditionProgress:
    """One condition, as far as it is known."""

    condition: Condition
    label: str
    names: frozenset[str]  # of its records
    records: Path  # their folder
    journals: Path
    kind: str  # of its engine
    finished: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()  # that have a journal
    playing: dict[str, GameProgress] = field(default_factory=dict)  # also those finished whose record was not read yet
    counted: int = 0  # finished simulations whose replies are known
    replies: int = 0  # of these
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
class ProgressProblem:
    """Something that a person should know: its text, how many simulations it holds up."""

    text: str
    simulations: int = 0
    serious: bool = True
    stopped: bool = False  # whether the simulations ended by it

    def __str__(self) -> str:
        if not self.simulations:
            return self.text
        stopped = " stopped" if self.stopped else ""
        return f"{self.simulations} simulation{'' if self.simulations == 1 else 's'}{stopped}: {self.text}"

    @property
    def key(self) -> str:
        """The same for the same problem, whatever the numbers in its text."""
        return _NUMBER.sub("#", self.text)


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the last simulation ends; `bound` says how they are meant: "about" or "at most"."""

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
    cells: Sequence[ConditionProgress]
    stages: Sequence[Stage]
    problems: Sequence[ProgressProblem]
    elapsed: float | None  # seconds of the run that is followed
    rates: tuple[float, ...] | None  # replies, tokens read, tokens written per second
    finishes: float | None  # simulations per second
    left: TimeLeft | None
    silent: float | None  # seconds without a reply, while simulations are played
    budget: str | None
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


def cells_of(study: Study) -> list[ConditionProgress]:
    """Return the conditions, each with a label of the axes in which conditions differ."""
    axes = study.varying or study.axes[:1]
    names: dict[object, frozenset[str]] = {}
    cells = []
    for condition in study.conditions:
        seeds = condition.seeds
        key = seeds if isinstance(seeds, range) else tuple(seeds)
        if key not in names:
            names[key] = frozenset(paths.simulation("", "", seed).name for seed in seeds)
        record = paths.simulation(study.name, condition.folder, 0)
        again = [f"repeat={condition.repeat}"] if condition.repeat else []
        cells.append(
            ConditionProgress(
                condition=condition,
                label=one_line(" ".join([*(_word(axis, condition.axes[axis]) for axis in axes), *again]), 200),
                names=names[key],
                records=record.parent,
                journals=paths.journal(record).parent,
                kind=condition.engine if condition.models else SCRIPTED,
            )
        )
    return cells


def _word(axis: str, value: object) -> str:
    """Return an axis and its value; the axis goes without saying where the value is a word."""
    return f"{axis}={value}" if re.fullmatch(r"[\d.]+(/\d+)?|true|false|True|False", str(value)) else str(value)


# How fast a study is answered and played, and how long what is left will take: plain numbers, no clock


class Pace:
    """Events of the last ten minutes, each under a key, with one or more amounts: how many they are, their tokens."""

    def __init__(self) -> None:
        self._events: dict[Hashable, tuple[float, Sequence[float]]] = {}
        self.began: float | None = None  # when what led to the first one began
        self.last: float | None = None  # when the last one was

    def put(self, key: Hashable, began: float, at: float, amounts: Sequence[float]) -> None:
        """Count events at `at`, which began at `began` (s since the epoch), in place of those of the same key."""
        self._events[key] = (at, amounts)
        self.began = began if self.began is None else min(self.began, began)
        self.last = max(at, self.last or 0.0)

    def rates(self, now: float, seconds: float = _SHOWN_SECONDS) -> tuple[float, ...] | None:
        """Return each amount per second in the last `seconds`, or since the first began; None without an event."""
        self._events = {key: event for key, event in self._events.items() if event[0] >= now - KEPT_SECONDS}
        recent = [amounts for at, amounts in self._events.values() if now - seconds <= at <= now + 1]
        if not recent or self.began is None:
            return None
        span = max(now - max(self.began, now - seconds), 1.0)
        return tuple(sum(column) / span for column in zip(*recent, strict=True))


class Estimate:
    """Counts the replies and the finished simulations of a study's conditions; times are seconds since the epoch."""

    def __init__(self, cells: Sequence[ConditionProgress]) -> None:
        self._cells = cells
        # By the kind of engine: replies with the tokens that they read and wrote, and ends of simulations.
        self._replies = {cell.kind: Pace() for cell in cells}
        self._finishes = {cell.kind: Pace() for cell in cells}

    def replied(self, kind: str, key: Hashable, asked: float, came: float, counts: Sequence[int]) -> None:
        """Count replies of an engine, with their tokens; one that no condition has is of another study."""
        if kind in self._replies:
            self._replies[kind].put(key, asked, came, counts)

    def finished(self, kind: str, record: Path, at: float) -> None:
        """Count a simulation that ended."""
        self._finishes[kind].put(record, at, at, (1,))

    @property
    def last_reply(self) -> float:
        """When the last reply came; 0 if none did."""
        return max(pace.last or 0.0 for pace in self._replies.values())

    @property
    def last(self) -> float:
        """When the last reply came, or the last simulation ended; 0 before."""
        return max(self.last_reply, *(pace.last or 0.0 for pace in self._finishes.values()))

    def answering(self, now: float) -> tuple[float, ...] | None:
        """Return replies, tokens read and tokens written per second; None if unknown."""
        known = [rates for pace in self._replies.values() if (rates := pace.rates(now)) is not None]
        return tuple(map(sum, zip(*known, strict=True))) if known else None

    def finishing(self, now: float) -> float | None:
        """Return how many simulations end per second, of those engines that have any left; None if unknown."""
        kinds = {cell.kind for cell in self._cells if cell.left}
        known = [rates[0] for kind in kinds if (rates := self._finishes[kind].rates(now)) is not None]
        return sum(known) if known else None

    def left(self, now: float) -> TimeLeft | None:
        """Return how long what is left will take; None if that is unknown of any engine that somebody waits for."""
        kinds: dict[str, list[ConditionProgress]] = {}
        for cell in self._cells:
            if cell.left:
                kinds.setdefault(cell.kind, []).append(cell)
        parts = {kind: self._left_of(kind, cells, now) for kind, cells in kinds.items()}
        if parts.get(SCRIPTED) is None and len(parts) > 1:  # those that ask nobody take next to no time
            parts.pop(SCRIPTED, None)
        known = [part for part in parts.values() if part is not None]
        if not known or len(known) < len(parts):
            return None
        bound = "at most" if any(part.bound == "at most" for part in known) else "about"
        return TimeLeft(sum(part.seconds for part in known), bound)

    def _left_of(self, kind: str, cells: list[ConditionProgress], now: float) -> TimeLeft | None:
        """Return how long an engine takes at its pace of the last ten minutes.

        A game takes as many replies as the finished ones of its condition, or else of its engine; before any is
        finished, as many as the longest that is played now may take.
        """
        pace = self._replies[kind].rates(now, KEPT_SECONDS)
        if kind == SCRIPTED or pace is None:
            each = self._finishes[kind].rates(now, KEPT_SECONDS)
            return None if each is None else TimeLeft(sum(cell.left for cell in cells) / each[0])
        of_kind = [cell for cell in self._cells if cell.kind == kind]
        counted = sum(cell.counted for cell in of_kind)
        usual = (
            sum(cell.replies for cell in of_kind) / counted if counted else max(map(_longest, of_kind), default=0.0)
        )
        if not usual:
            return None
        left = 0.0
        for cell in cells:
            expected = cell.replies / cell.counted if cell.counted else usual
            begun = cell.unfinished
            left += sum(max(expected - each.replies, 1.0) for each in begun) + expected * (cell.left - len(begun))
        return TimeLeft(left / pace[0], "about" if counted else "at most")


def _longest(cell: ConditionProgress) -> float:
    """Return the most replies that a simulation being played has after its last possible round; 0 if unknown."""
    rounds = cell.condition.parameters.longest or 0
    return max((float(each.in_round * rounds) for each in cell.playing.values()), default=0.0)
