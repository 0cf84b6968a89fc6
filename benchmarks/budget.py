"""A budget of time: what no longer fits is dropped, and said."""

import time
from collections.abc import Callable


class TimeBudget:
    """Minutes that a run may take, counted from here."""

    def __init__(self, minutes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.minutes = minutes
        self._clock = clock
        self._start = clock()

    @property
    def left(self) -> float:
        """Seconds that are left; never less than 0."""
        return max(0.0, self._start + 60 * self.minutes - self._clock())

    def allows(self, seconds: float) -> bool:
        """Whether something that takes `seconds` at most still fits."""
        return seconds <= self.left

    @property
    def dropped(self) -> str:
        """What the table says of something that does not."""
        return f"not measured: dropped to keep within --minutes {self.minutes:g}"
