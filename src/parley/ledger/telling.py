"""Says how far long work is, now and then."""

import time
from collections.abc import Callable

_TELL_SECONDS = 10.0


class Teller:
    """Passes on what it is told at most once in ten seconds, so short work says nothing."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = time.monotonic()

    def maybe(self, text: str) -> None:
        """Say `text` if nothing was said for a while."""
        if time.monotonic() - self._told >= _TELL_SECONDS:
            self._told = time.monotonic()
            self._say(text)
