"""How fast something happens, and how long what is left will take: plain numbers, no clock."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

KEPT_SECONDS = 600
_SHOWN_SECONDS = 120.0


class Pace:
    """Events of the last ten minutes, counted second by second; each may carry amounts, such as tokens."""

    def __init__(self) -> None:
        self._seconds: dict[int, list[float]] = {}
        self.began: float | None = None  # when what led to the first one began
        self.last: float | None = None  # when the last one was

    def add(self, at: float, count: int = 1, amounts: Sequence[float] = (), began: float | None = None) -> None:
        """Count events at `at` (seconds since the epoch); what led to them began at `began`."""
        bucket = self._seconds.setdefault(int(at), [0.0] * (1 + len(amounts)))
        for place, value in enumerate((count, *amounts)):
            bucket[place] += value
        begin = at if began is None else began
        self.began = begin if self.began is None else min(self.began, begin)
        self.last = max(at, self.last or 0.0)

    def forget_before_gap(self, seconds: float) -> None:
        """Forget what was before the last pause of so many seconds or more: it was another run."""
        order = sorted(self._seconds)
        for before, after in reversed(list(pairwise(order))):
            if after - before >= seconds:
                for second in order[: order.index(after)]:
                    del self._seconds[second]
                self.began = float(after)
                return

    def rates(self, now: float, seconds: float = _SHOWN_SECONDS) -> tuple[float, ...] | None:
        """Return the events, and each amount, per second in the last `seconds`; None if there was no event.

        Before that many seconds have passed since the first event began, in what has passed.
        """
        for second in [s for s in self._seconds if s < now - KEPT_SECONDS]:
            del self._seconds[second]
        recent = [values for second, values in self._seconds.items() if now - seconds <= second <= now + 1]
        if not recent or self.began is None:
            return None
        span = max(now - max(self.began, now - seconds), 1.0)
        return tuple(sum(column) / span for column in zip(*recent, strict=True))


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the last simulation ends; `bound` says how they are meant: "about", "at most", "at least"."""

    seconds: float
    bound: str = "about"

    def __str__(self) -> str:
        return f"{self.bound} {_roughly(self.seconds)} left"


def together(parts: Sequence[TimeLeft | None]) -> TimeLeft | None:
    """Return how long parts take that follow one another; None stands for one of which nothing is known.

    None if nothing is known of any; at least the known ones if nothing is known of some.
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    bounds = {part.bound for part in known}
    if len(known) < len(parts) or "at least" in bounds:
        # What takes at most so long may take less, so that nothing can be said of the sum.
        return None if "at most" in bounds else TimeLeft(sum(part.seconds for part in known), "at least")
    return TimeLeft(sum(part.seconds for part in known), "at most" if "at most" in bounds else "about")


def _roughly(seconds: float) -> str:
    """Return a time that is guessed: no more digits than are known."""
    if seconds < 60:
        return duration(max(10 * math.ceil(seconds / 10), 10))
    return duration(60 * math.ceil(seconds / 60))


def duration(seconds: float) -> str:
    """Return a time in words, such as "7 s", "2 min 5 s", "3 h 20 min"; exact where it is short."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
