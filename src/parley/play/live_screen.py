"""The screen of a game that is played: a live display that leaves the terminal as it was found."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from rich.console import Console, Group
from rich.live import Live

from parley.games.base import Outcome
from parley.play.matrix_text import final_view, live_view
from parley.play.runner import Exchange
from parley.play.screencast import CAST_SIZE, Cast, check_target, write_svg
from parley.play.watched_game import WatchedGame
from parley.policies import Ask
from parley.study.condition import Simulation
from parley.text.logs import NAME, log_line

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
    console.print(final_view(watched.see(), heading, watched.game, console.width))


class LiveScreen(WatchedGame):
    """A game on a screen, in a recording, or both."""

    def __init__(
        self, simulation: Simulation, heading: Sequence[str], record: Path | None, stream: TextIO | None
    ) -> None:
        """`stream` is the terminal to draw on, None for none. Raises UsageError if `record` cannot be written."""
        super().__init__(simulation.game())
        self._heading, self._record = heading, record
        self._cast: Cast | None = None
        if record is not None:
            check_target(record)
            if record.suffix == ".cast":
                self._cast = Cast(record, heading[0])
        self._console = None if stream is None else Console(file=stream, force_terminal=True, highlight=False)
        self._live: Live | None = None
        self._note = ""
        self._warnings: list[logging.LogRecord] = []

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        handlers = logger.handlers[:]
        if self._console is not None:
            logger.handlers[:] = [_Notes(self)]
            # On a screen of its own: what was there before comes back, and a new size leaves no traces.
            self._live = Live(
                get_renderable=self._view,
                console=self._console,
                screen=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        try:
            yield
        finally:
            logger.handlers[:] = handlers
            self.leave()
            self._finish()
            for record in self._warnings:
                logger.handle(record)

    def leave(self) -> None:
        """Give the terminal back; what goes on takes seconds at times."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _finish(self) -> None:
        """Print the whole matrix, and write the recordings."""
        snapshot = self.see()
        if self._console is not None and snapshot.attempts:
            print_final(self, self._heading, self._console.file)
        if self._cast is not None:
            self._record_frame()
            self._cast.close()
        elif self._record is not None and snapshot.attempts:
            write_svg(self._record, lambda width: final_view(snapshot, self._heading, self.game, width), "parley play")

    def note(self, record: logging.LogRecord) -> None:
        """Show what the library says; warnings are said again when the screen is left."""
        self._note = log_line(record)
        if record.levelno >= logging.WARNING:
            self._warnings.append(record)

    def asking(self, asks: Sequence[Ask]) -> None:
        """Note the asks of the phase that begins, and record it: a scripted game takes less time than a frame."""
        self._record_frame()
        self._note = ""
        super().asking(asks)

    def answered(self, exchange: Exchange) -> None:
        """Note one attempt."""
        super().answered(exchange)
        self._record_frame(at_most_each_second=True)

    def end(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        super().end(outcome)
        self._record_frame()

    def _record_frame(self, at_most_each_second: bool = False) -> None:
        if self._cast is not None and not (at_most_each_second and self._cast.age < 1.0):
            self._cast.frame(live_view(self.see(), self._heading, self._note, self.game, CAST_SIZE))

    def _view(self) -> Group:
        assert self._console is not None
        try:
            return live_view(self.see(), self._heading, self._note, self.game, self._console.size)
        except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
            return Group(f"the display failed, and the game goes on: {type(error).__name__}")


class _Notes(logging.Handler):
    """Hands what the library says to the screen, which it would tear."""

    def __init__(self, screen: LiveScreen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record)
