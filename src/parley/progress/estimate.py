"""How fast a study is answered and played, and how long what is left will take: plain numbers, no clock."""

from collections.abc import Hashable, Sequence
from pathlib import Path

from parley.progress.snapshot import Cell, Playing, TimeLeft
from parley.progress.state import KEPT_SECONDS
from parley.study.condition import SCRIPTED

_SHOWN_SECONDS = 120.0


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

    def __init__(self, cells: Sequence[Cell]) -> None:
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
    def began(self) -> float | None:
        """When the first of what was counted was asked, or ended; None if there is nothing."""
        paces = [*self._replies.values(), *self._finishes.values()]
        return min((pace.began for pace in paces if pace.began is not None), default=None)

    @property
    def last_reply(self) -> float:
        """When the last reply came; 0 if none did."""
        return max(pace.last or 0.0 for pace in self._replies.values())

    @property
    def last_finish(self) -> float:
        """When the last simulation ended; 0 if none did."""
        return max(pace.last or 0.0 for pace in self._finishes.values())

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
        """Return how long what is left will take; None if nothing is known of it."""
        kinds: dict[str, list[Cell]] = {}
        for cell in self._cells:
            if cell.left:
                kinds.setdefault(cell.kind, []).append(cell)
        parts = {kind: self._left_of(kind, cells, now) for kind, cells in kinds.items()}
        if parts.get(SCRIPTED) is None and len(parts) > 1:  # those that ask nobody take next to no time
            parts.pop(SCRIPTED, None)
        return sum_time_left(list(parts.values()))

    def _left_of(self, kind: str, cells: list[Cell], now: float) -> TimeLeft | None:
        pace = self._replies[kind].rates(now, KEPT_SECONDS)
        if kind == SCRIPTED or pace is None:
            each = self._finishes[kind].rates(now, KEPT_SECONDS)
            return None if each is None else TimeLeft(sum(cell.left for cell in cells) / each[0])
        of_kind = [cell for cell in self._cells if cell.kind == kind]
        counted = sum(cell.counted for cell in of_kind)
        usual = sum(cell.replies for cell in of_kind) / counted if counted else None
        longest = [value for cell in of_kind for value in _longest(cell)] if usual is None else []
        if usual is None and not longest:
            return None
        left = 0.0
        for cell in cells:
            own = _longest(cell) if not counted else []
            expected = cell.replies / cell.counted if cell.counted else usual or max(own or longest)
            begun = cell.unfinished
            left += sum(_replies_left(cell, each, expected) for each in begun) + expected * (cell.left - len(begun))
        return TimeLeft(left / pace[0], "about" if counted else "at most")


def sum_time_left(parts: Sequence[TimeLeft | None]) -> TimeLeft | None:
    """Return how long parts take that follow one another, of which None is unknown: "at least" the others."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    bounds = {part.bound for part in known}
    if len(known) < len(parts) or "at least" in bounds:
        # What takes at most so long may take less, so that nothing can be said of the sum.
        return None if "at most" in bounds else TimeLeft(sum(part.seconds for part in known), "at least")
    return TimeLeft(sum(part.seconds for part in known), "at most" if "at most" in bounds else "about")


def _longest(cell: Cell) -> list[float]:
    """Return the replies that each simulation being played would have after its last possible round."""
    rounds = cell.condition.parameters.longest
    return [] if rounds is None else [each.in_round * rounds for each in cell.playing.values() if each.in_round]


def _replies_left(cell: Cell, playing: Playing, expected: float) -> float:
    """Return how many replies a simulation will have; one that went on too long may end now or at its last round."""
    rounds = cell.condition.parameters.longest
    if playing.replies < expected or rounds is None or not playing.in_round:
        return max(expected - playing.replies, 1.0)
    return max((playing.in_round * rounds - playing.replies) / 2, 1.0)
