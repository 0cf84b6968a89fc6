"""The screen of a game that is played: drawn again and again by a thread of its own, and left as it was found."""

import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from parley.games.base import Outcome
from parley.play.board import Board
from parley.play.matrix_text import final_lines, screen_lines
from parley.play.recording import CAST_SIZE, SVG_LEAST, SVG_WIDTH, Cast, check_target, write_svg
from parley.policies import Reply
from parley.study.condition import Simulation
from parley.text.logs import NAME, log_line

_DRAW_SECONDS = 0.25
_CAST_EVERY = 4  # draws: what changes by itself, such as the clock, is recorded once a second
_LEAST = (40, 12)  # columns and lines of a terminal that has room for a matrix


def can_draw(stream: TextIO) -> bool:
    """Whether a matrix can be drawn on a stream: a terminal with colors, room, and letters beyond ASCII."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if "utf" not in (stream.encoding or "").lower():
        return False
    size = Console(file=stream).size
    return size.width >= _LEAST[0] and size.height >= _LEAST[1]


def print_final(board: Board, heading: Sequence[str], stream: IO[str]) -> None:
    """Print the whole matrix of a game on a terminal."""
    console = Console(file=stream, force_terminal=True, highlight=False)
    for line in final_lines(board.see(), heading, board.game, console.size.width):
        console.print(line, no_wrap=True, overflow="crop", crop=True)


class LiveScreen(Board):
    """A game on a screen, in a recording, or both."""

    def __init__(
        self, simulation: Simulation, heading: Sequence[str], record: Path | None, stream: TextIO | None
    ) -> None:
        """`stream` is the terminal to draw on, None for none. Raises UsageError if `record` cannot be written."""
        super().__init__(simulation.game)
        self._heading, self._record = heading, record
        self._cast: Cast | None = None
        if record is not None:
            check_target(record)
            if record.suffix == ".cast":
                self._cast = Cast(record, heading[0])
        self._console = None if stream is None else Console(file=stream, force_terminal=True, highlight=False)
        self._live: Live | None = None
        self._drawing = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="parley-play")
        self._note = ""
        self._kept: list[logging.LogRecord] = []

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        others = logger.handlers[:]
        if self._console is not None:
            logger.handlers[:] = [_Notes(self)]
            # On a screen of its own: what was there before comes back, and a new size leaves no traces.
            self._live = Live(
                console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._thread.start()
        try:
            yield
        finally:
            logger.handlers[:] = others
            self.leave()
            self._finish()
            for record in self._kept:
                logger.handle(record)

    def leave(self) -> None:
        """Give the terminal back; what goes on takes seconds at times."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        with self._drawing:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def stopping(self) -> None:
        """Leave the screen of a game that did not end before its engines do: that takes seconds, or is cut short."""
        if sys.exc_info()[0] is not None:
            self.leave()

    def _finish(self) -> None:
        """Print the whole matrix, and write the recordings."""
        seen = self.see()
        if self._console is not None and seen.attempts:
            print_final(self, self._heading, self._console.file)
        if self._cast is not None:
            self._draw_cast()
            self._cast.close()
        elif self._record is not None and seen.attempts:
            widest = max(line.cell_len for line in final_lines(seen, [], self.game, SVG_WIDTH))
            lines = final_lines(seen, self._heading, self.game, max(widest, SVG_LEAST))
            write_svg(self._record, lines, "parley play")

    def note(self, record: logging.LogRecord) -> None:
        """Show what the library says; warnings are said again when the screen is left."""
        self._note = log_line(record)
        if record.levelno >= logging.WARNING:
            self._kept.append(record)

    def phase_over(self, replies: Sequence[Reply]) -> None:
        """Note what the game is sent, and record it: a scripted game takes less time than a frame."""
        super().phase_over(replies)
        self._note = ""
        self._draw_cast()

    def end(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        super().end(outcome)
        self._draw_cast()

    def _draw_cast(self) -> None:
        if self._cast is not None:
            with self._drawing:
                self._cast.frame(self._lines(CAST_SIZE))

    def _lines(self, size: tuple[int, int]) -> list[Text]:
        return screen_lines(self.see(), self._heading, self._note, self.game, size)

    def _draw(self) -> None:
        with self._drawing:
            if self._live is not None and self._console is not None:
                width, height = self._console.size
                self._live.update(Group(*self._lines((width, height))), refresh=True)

    def _run(self) -> None:
        draws = 0
        while not self._over.wait(_DRAW_SECONDS):
            try:
                self._draw()
                draws += 1
                if draws % _CAST_EVERY == 0:
                    self._draw_cast()
            except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
                self._note = f"the display failed, and the game goes on: {type(error).__name__}: {error}"
                return


class _Notes(logging.Handler):
    """Hands what the library says to the screen, which it would tear."""

    def __init__(self, screen: LiveScreen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record)
