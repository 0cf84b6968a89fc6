"""How fast a study is answered and played, and how long what is left will take: plain numbers, no clock."""

import math
from collections.abc import Mapping, Sequence
from operator import add

from parley.progress.snapshot import ConditionProgress, TimeLeft
from parley.study.condition import SCRIPTED

KEPT_SECONDS = 600.0  # from which the time left is worked out
_SHOWN_SECONDS = 120.0  # from which a pace is


class Pace:
    """What an engine answered, or which of its simulations ended, by the second (since the epoch) of that."""

    def __init__(self) -> None:
        self._seconds: dict[int, Sequence[float]] = {}
        self._began = math.inf  # when what led to the first of them began
        self.last = 0.0  # when the last of them was

    def put(self, began: float, at: float, amounts: Sequence[float]) -> None:
        """Count at `at` amounts, such as replies and their tokens, of what began at `began`."""
        second = math.floor(at)
        self._seconds[second] = [*map(add, amounts, self._seconds.get(second, [0] * len(amounts)))]
        self._began, self.last = min(began, self._began), max(at, self.last)

    def rates(self, now: float, seconds: float = _SHOWN_SECONDS) -> tuple[float, ...] | None:
        """Return each amount per second in the last `seconds`, or since the first began; None if nothing came."""
        self._seconds = {second: some for second, some in self._seconds.items() if second >= now - KEPT_SECONDS}
        start = max(now - seconds, self._began)
        recent = [some for second, some in self._seconds.items() if math.floor(start) <= second <= now + 1]
        span = max(now - start, 1.0)
        return tuple(sum(column) / span for column in zip(*recent, strict=True)) if recent else None


def time_left(
    cells: Sequence[ConditionProgress], replies: Mapping[str, Pace], finishes: Mapping[str, Pace], now: float
) -> TimeLeft | None:
    """Return how long what is left will take, engine after engine; None if that is unknown of any.

    `replies` and `finishes` are by the kind of engine, as it is of a condition.
    """
    kinds = {cell.kind for cell in cells if cell.left}
    parts = {kind: _left_of(kind, cells, replies[kind], finishes[kind], now) for kind in kinds}
    if len(parts) > 1 and parts.get(SCRIPTED) is None:  # those that ask nobody take next to no time
        parts.pop(SCRIPTED, None)
    known = [part for part in parts.values() if part is not None]
    if not known or len(known) < len(parts):
        return None
    return TimeLeft(sum(part.seconds for part in known), sum(part.most for part in known))


def _left_of(
    kind: str, cells: Sequence[ConditionProgress], replies: Pace, finishes: Pace, now: float
) -> TimeLeft | None:
    """Return how long an engine takes.

    A game takes at least as many replies as finished ones of its condition, or else of its engine, or one round.
    Short games finish first: at most it takes the mean of these with one more that lasts as long as it may.
    """
    cells = [cell for cell in cells if cell.kind == kind]
    rates = replies.rates(now, KEPT_SECONDS)
    if kind == SCRIPTED or rates is None:
        ends = finishes.rates(now, KEPT_SECONDS)
        if ends is None:
            return None
        seconds = sum(cell.left for cell in cells) / ends[0]
        return TimeLeft(seconds, seconds)
    counted, came = sum(len(cell.read) for cell in cells), sum(cell.replies for cell in cells)
    usual = came / counted if counted else max(_in_round(cell) for cell in cells)
    if not usual:
        return None
    longest = max(usual, *(_in_round(cell) * (cell.condition.parameters.longest or 0) for cell in cells))
    least = most = 0.0
    for cell in cells:
        read, begun = len(cell.read), cell.unfinished
        expected = cell.replies / read if read else usual
        at_most = (cell.replies + longest) / (read + 1) if read else (came + longest) / (counted + 1)
        least += sum(max(expected - each.replies, 1.0) for each in begun) + expected * (cell.left - len(begun))
        most += sum(max(at_most - each.replies, 1.0) for each in begun) + at_most * (cell.left - len(begun))
    return TimeLeft(least / rates[0], most / rates[0])


def _in_round(cell: ConditionProgress) -> float:
    """Return the most replies of one round in the simulations being played; 0 if unknown."""
    return max((float(each.in_round) for each in cell.playing.values()), default=0.0)
