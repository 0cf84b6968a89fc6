"""The screen of `parley play`, which leaves the terminal as it was, and a picture of it."""

import io
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TextIO

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.live import Live
from rich.terminal_theme import SVG_EXPORT_THEME

from parley.errors import UsageError
from parley.files import write_new
from parley.games.base import Outcome
from parley.play.matrix import WatchedGame
from parley.play.matrix_text import final_view, live_view
from parley.study.condition import Simulation
from parley.text import NAME, Hearing

SVG_LEAST, SVG_WIDTH = 64, 110  # columns
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_FONT_FACE = re.compile(r"@font-face\s*\{\{.*?\}\}\s*", re.DOTALL)
_NOTE_SECONDS = 30.0  # that what was logged last is shown
_LEAST = (40, 12)  # columns and lines of a terminal that has room for a matrix


def check_target(path: Path) -> None:
    """Raise UsageError if a picture cannot be written there, before anything is played."""
    if path.suffix != ".svg":
        raise UsageError(f"{path}: --record writes a picture; end its name in .svg")
    if path.exists():
        raise UsageError(f"{path}: exists already, and nothing is overwritten; choose another name")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist; make it first")


def write_svg(path: Path, view: Callable[[int], Group]) -> None:
    """Write what a terminal shows as a picture: `view` returns it for a width, in columns.

    Raises UsageError if it cannot be written.
    """
    console = Console(
        file=io.StringIO(),
        width=SVG_WIDTH,
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
    )
    console.width = max(console.measure(view(SVG_WIDTH)).maximum, SVG_LEAST)
    console.print(view(console.width))
    form = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", _FONTS)
    text = console.export_svg(title="parley play", theme=SVG_EXPORT_THEME, code_format=form)
    write_new({path: text})


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
    console.print(final_view(watched.see(), heading, console.width))


class LiveScreen(WatchedGame):
    """A game on a screen, in a picture, or both."""

    def __init__(
        self, simulation: Simulation, heading: Sequence[str], record: Path | None, stream: TextIO | None
    ) -> None:
        """`stream` is the terminal to draw on, None for none. Raises UsageError if `record` cannot be written."""
        super().__init__(simulation.game())
        self._heading, self._record = heading, record
        self._heard: list[logging.LogRecord] = []
        if record is not None:
            check_target(record)
        self._console = None if stream is None else Console(file=stream, force_terminal=True, highlight=False)

    @contextmanager
    def shown(self) -> Iterator[Callable[[Outcome], None]]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        handlers = logger.handlers[:]
        heard = self._heard
        live: AbstractContextManager[object] = nullcontext()
        if self._console is not None:
            logger.handlers[:] = [Hearing(heard.append)]  # it would tear the screen
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
                yield self.end
        finally:
            logger.handlers[:] = handlers
            self._finish()
            for record in heard:
                if record.levelno >= logging.WARNING:
                    logger.handle(record)

    def _finish(self) -> None:
        """Print the whole matrix, and make the picture."""
        snapshot = self.see()
        if self._console is not None and snapshot.exchanges:
            print_final(self, self._heading, self._console.file)
        if self._record is not None and snapshot.exchanges:
            write_svg(self._record, lambda width: final_view(snapshot, self._heading, width))

    def _view(self) -> Group:
        assert self._console is not None
        try:
            last = self._heard[-1] if self._heard and time.time() - self._heard[-1].created < _NOTE_SECONDS else None
            note = "" if last is None else last.getMessage()
            return live_view(self.see(), self._heading, self._console.size, note)
        except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
            return Group(f"the display failed, and the game goes on: {type(error).__name__}")
