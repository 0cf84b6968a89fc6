"""What the library says while it works: by Python's logging, under the logger "parley".

How far long work is, is INFO; what a person should know is WARNING. The command line shows both; who uses the library
sees warnings, as logging does by itself, and the rest with `logging.basicConfig(level="INFO")`.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from parley.text import one_line

NAME = "parley"
_NEVER = float("-inf")
# The log of the simulation that is played here, where a process plays many: what is said is for that log alone.
own_log: ContextVar[Path | None] = ContextVar("own_log", default=None)


class RateLimit(logging.Filter):
    """Lets a message that was logged with `extra=every(...)` through once in a while, and all others always."""

    def __init__(self) -> None:
        super().__init__()
        self._last: WeakKeyDictionary[object, dict[str, float]] = WeakKeyDictionary()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is due."""
        seconds = getattr(record, "every", None)
        if seconds is None:
            return True
        of, since = getattr(record, "of", None), getattr(record, "since", _NEVER)
        times = self._last.setdefault(self if of is None else of, {})
        now = time.monotonic()
        if now - max(times.get(record.msg, _NEVER), since) < seconds:
            return False
        times[record.msg] = now
        return True


def every(seconds: float = 10.0, of: object = None, since: float = _NEVER) -> Mapping[str, Any]:
    """Return the `extra` of a message let through once in so many `seconds`, for each `of`, and not before `since`."""
    return {"every": seconds, "of": of, "since": since}


def waiting(
    waits_for: str, seconds: float = 10.0, of: object = None, since: float = _NEVER, serious: bool = True
) -> Mapping[str, Any]:
    """Return the `extra` of a message that work `waits_for` something; `serious` if a person should do something."""
    return {**every(seconds, of, since), "waits_for": waits_for, "serious": serious}


def limited_logger(name: str) -> logging.Logger:
    """Return the logger of a module some of whose messages are logged with `extra=every(...)`."""
    logger = logging.getLogger(name)
    if not any(isinstance(found, RateLimit) for found in logger.filters):
        logger.addFilter(RateLimit())
    return logger


def log_line(record: logging.LogRecord) -> str:
    """Return a message as one clean line."""
    warning = "warning: " if record.levelno == logging.WARNING else ""
    return one_line(f"{warning}{record.getMessage()}")


class Hearing(logging.Handler):
    """Hands what the library says to a function."""

    def __init__(self, hear: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on a message."""
        self._hear(record)


@contextmanager
def logged_to(handler: logging.Handler) -> Iterator[None]:
    """Have `handler` told all that the library says, while the context lasts."""
    logger = logging.getLogger(NAME)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
