"""Hear what the library says while it works, as the command line would print it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from parley.text.logs import log_line, logged_to


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(log_line(record))


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the lines that the library says while the context lasts."""
    handler = _Heard()
    with logged_to(handler):
        yield handler.lines
