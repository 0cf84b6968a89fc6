"""Long exports say how far they are."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from parley.text import counted

TELL_SECONDS = 5.0
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def told(items: Iterable[_T], total: int, what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[_T]:
    """Yield the items, and say every few seconds how many of them are done."""
    last = clock()
    for number, item in enumerate(items):
        now = clock()
        if now - last >= TELL_SECONDS:
            last = now
            _log.info("%d of %s", number, counted(total, what))
        yield item
