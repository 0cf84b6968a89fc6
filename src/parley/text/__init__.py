"""Text that comes from outside, cleaned before it is shown; and what the library says while it works.

A model's text is hostile, a user's may name folders and people. The library speaks by Python's logging, under the
logger "parley". How far long work is, is INFO; what a person should know is WARNING. The command line shows both; who
uses the library sees warnings, as logging does by itself, and the rest with `logging.basicConfig(level="INFO")`.
"""

import difflib
import logging
import re
import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

# Categories of characters that print nothing or move the cursor: controls, format characters (among them
# the right-to-left marks), surrogates, private use.
_DROPPED = {"Cc", "Cf", "Cs", "Co"}
_T = TypeVar("_T")
_SPACES = re.compile(r"\s+")  # of any kind, line and paragraph separators included


def valid_unicode(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that it can be stored as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str, limit: int | None = None) -> str:
    """Return `text` as one printable line of at most `limit` characters, without controls: it can forge nothing."""
    spaced = _SPACES.sub(" ", text)
    # What is printable has no character to drop, and is by far the most: it is not looked at one by one.
    kept = spaced if spaced.isprintable() else "".join(c for c in spaced if unicodedata.category(c) not in _DROPPED)
    line = _SPACES.sub(" ", kept).strip()
    return line if limit is None else line[:limit].rstrip()


def by_number(name: str) -> tuple[str, int]:
    """Return a key that sorts `agent_10` after `agent_2`: what stands before the last number, and the number."""
    stem, _, number = name.replace("-", "_").rpartition("_")
    return (stem, int(number)) if number.isdecimal() else (name, 0)


_HOME = re.compile(r"(?<![\w./~-])/(?:home|Users)/[^\s\"',;:=/]+(?![^\s\"',;:=])")
_FOLDERS = re.compile(r"(?<![\w./~-])(?:file://)?(?:~[\w.-]*|\.{1,2})?/(?:[^\s\"',;:=/]+/)*(?=[^\s\"',;:=/])")
_WHOLE_PATH = re.compile(r"(?:file://)?(?:~[\w.-]*|\.{1,2})?/[^\"',;{}\[\]]*")


def last_part(path: str) -> str:
    """Return the last part of a path; `~` for a home, whose last part is a user's name."""
    plain = path.removeprefix("file://").rstrip("/")
    return "~" if _HOME.fullmatch(plain) or re.fullmatch(r"~[^/]*", plain) else plain.rpartition("/")[2] or path


def without_folders(text: str) -> str:
    """Return `text` with each path that is absolute, or starts at a home or a dot, reduced to its last part."""
    if _WHOLE_PATH.fullmatch(text):  # it may hold spaces
        return last_part(text)
    return _FOLDERS.sub("", _HOME.sub("~", text))


def counted(number: int, kind: str) -> str:
    """Return a number of things: `1 record`, `2 records`."""
    return f"{number:,} {kind}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time in words, such as "7 s", "2 min 5 s", "3 h 20 min"; exact where it is short."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def table(header: Sequence[str], rows: Sequence[Sequence[str | int | float]]) -> list[str]:
    """Return the lines of a table: a header, aligned columns, numbers to the right; floats get one digit."""
    cells = [[f"{cell:.1f}" if isinstance(cell, float) else one_line(str(cell)) for cell in row] for row in rows]
    right = [bool(rows) and all(isinstance(row[column], int | float) for row in rows) for column in range(len(header))]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(header), *cells]
    ]


# What an error says of a misspelled name


_MAX_LIST = 300  # characters


def meant(written: object, known: Iterable[str], close_by: float = 0.6) -> str | None:
    """Return which of `known` was meant, in any case; None if none is close, from 0 to 1."""
    by_lower = {name.lower(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(str(written)[:200].lower(), by_lower, n=1, cutoff=close_by)
    return by_lower[close[0]] if close else None


def choose(written: object, known: Iterable[str]) -> str:
    """Return the remedy for a value that is none of `known`: "did you mean 'x'? choose one of: x, y"."""
    names = list(known)
    close = meant(written, names)
    listed = textwrap.shorten(one_line(", ".join(names)), _MAX_LIST, placeholder=" ...", break_on_hyphens=False)
    remedy = f"choose one of: {listed}" if names else "there is none"
    return f"did you mean {close!r}? {remedy}" if close else remedy


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


def with_progress(items: Iterable[_T], total: int, what: str) -> Iterator[_T]:
    """Yield the items, and say every few seconds how many of them are done."""
    log, began = limited_logger(__name__), time.monotonic()
    for number, item in enumerate(items):
        log.info("%d of %s", number, counted(total, what), extra=every(5, since=began))
        yield item


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
