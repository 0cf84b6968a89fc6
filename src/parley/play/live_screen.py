"""The screen of `parley play`, which leaves the terminal as it was."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TextIO

from rich.console import Console, Group
from rich.live import Live

from parley.games.base import Game
from parley.play.matrix import WatchedGame
from parley.play.matrix_text import final_view, live_view
from parley.text import NAME, Hearing

_NOTE_SECONDS = 30.0  # that what was logged last is shown
_LEAST = (40, 12)  # columns and lines of a terminal that has room for a matrix


def can_draw(stream: TextIO) -> bool:
    """Whether a matrix can be drawn on a stream: a terminal with colors, room, and letters beyond ASCII."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if "utf" not in (stream.encoding or "").lower():
        return False
    size = Console(file=stream).size
    return size.width >= _LEAST[0] and size.height >= _LEAST[1]


def print_final(watched: WatchedGame, heading: Sequence[str], stream: IO[str]) -> None:
    """Print the whole matrix of a game on a terminal."""
    console = Console(file=stream, force_terminal=True, highlight=False)
    console.print(final_view(watched, heading, console.width))


class LiveScreen(WatchedGame):
    """A game on a terminal."""

    def __init__(self, game: Game, heading: Sequence[str], stream: TextIO) -> None:
        super().__init__(game)
        self._heading = heading
        self._heard: list[logging.LogRecord] = []
        self._console = Console(file=stream, force_terminal=True, highlight=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        handlers = logger.handlers[:]
        logger.handlers[:] = [Hearing(self._heard.append)]  # it would tear the screen
        # On a screen of its own: what was there before comes back, and a new size leaves no traces.
        live = Live(
            get_renderable=self._view,
            console=self._console,
            screen=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        try:
            with live:
                yield
        finally:
            logger.handlers[:] = handlers
            if self.exchanges:
                print_final(self, self._heading, self._console.file)
            for record in self._heard:
                if record.levelno >= logging.WARNING:
                    logger.handle(record)

    def _view(self) -> Group:
        try:
            last = self._heard[-1] if self._heard and time.time() - self._heard[-1].created < _NOTE_SECONDS else None
            note = "" if last is None else last.getMessage()
            return live_view(self, self._heading, self._console.width, note)
        except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
            return Group(f"the display failed, and the game goes on: {type(error).__name__}")
