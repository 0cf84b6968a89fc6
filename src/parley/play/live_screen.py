"""The screen of a game that is played: a live display that leaves the terminal as it was found."""

import io
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.live import Live
from rich.terminal_theme import SVG_EXPORT_THEME

from parley.errors import UsageError
from parley.games.base import Outcome
from parley.play.matrix import WatchedGame
from parley.play.matrix_text import final_view, live_view
from parley.play.runner import Exchange
from parley.policies import Ask
from parley.study.condition import Simulation
from parley.text import one_line
from parley.text.logs import NAME, log_line

SUFFIXES = (".svg", ".cast")
CAST_SIZE = (100, 30)  # columns and lines
SVG_LEAST, SVG_WIDTH = 64, 110  # columns
_SHORTEST_STEP = 0.4  # seconds that a frame is shown: scripted games take none
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_FONT_FACE = re.compile(r"@font-face\s*\{\{.*?\}\}\s*", re.DOTALL)


def check_target(path: Path) -> None:
    """Raise UsageError if a recording cannot be written there, before anything is played."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: --record writes {' or '.join(SUFFIXES)} files; end the name in one of these")
    if path.exists():
        raise UsageError(f"{path}: exists already, and nothing is overwritten; choose another name")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist; make it first")


def write_svg(path: Path, view: Callable[[int], Group], title: str) -> None:
    """Write what a terminal shows as a picture: `view` returns it for a width, in columns.

    Raises UsageError if it cannot be written.
    """
    console = _console(SVG_WIDTH, record=True)
    console.width = max(console.measure(view(SVG_WIDTH)).maximum, SVG_LEAST)
    console.print(view(console.width))
    form = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", _FONTS)
    text = console.export_svg(title=title, theme=SVG_EXPORT_THEME, code_format=form)
    _open(path, text).close()


class Cast:
    """An asciinema file that grows while a game is played: whatever ends it, what was shown is in it."""

    def __init__(self, path: Path, title: str) -> None:
        """Raises UsageError if the file cannot be written, or exists."""
        self._console = _console(CAST_SIZE[0])
        header = {
            "version": 2,
            "width": CAST_SIZE[0],
            "height": CAST_SIZE[1],
            "timestamp": int(time.time()),
            "title": title,
            "env": {"TERM": "xterm-256color"},
        }
        self._file = _open(path, json.dumps(header) + "\n")
        self._began, self._at, self._shown = time.monotonic(), -_SHORTEST_STEP, ""

    @property
    def age(self) -> float:
        """Seconds since the last frame."""
        return time.monotonic() - self._began - self._at

    def frame(self, view: Group) -> None:
        """Write what the screen shows from now on; nothing if it shows that already."""
        with self._console.capture() as capture:
            self._console.print(view)
        shown = "\x1b[K\r\n".join(capture.get().splitlines()[: CAST_SIZE[1]])
        if shown == self._shown:
            return
        self._shown = shown
        self._at = max(time.monotonic() - self._began, self._at + _SHORTEST_STEP)
        self._file.write(json.dumps([round(self._at, 3), "o", f"\x1b[H{shown}\x1b[J"]) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file, with the last frame in view for a while."""
        if not self._file.closed:
            self._file.write(json.dumps([round(self._at + 5 * _SHORTEST_STEP, 3), "o", "\r\n"]) + "\n")
            self._file.close()


def _console(width: int, record: bool = False) -> Console:
    """Return a console that writes into memory, the same on every machine."""
    return Console(
        file=io.StringIO(),
        width=width,
        record=record,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
    )


def _open(path: Path, text: str) -> TextIO:
    """Return a new file that begins with `text`."""
    try:
        file = path.open("x", encoding="utf-8")
        file.write(text)
        file.flush()
    except FileExistsError:
        raise UsageError(f"{path}: exists already, and nothing is overwritten; choose another name") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {one_line(str(error.strerror))}") from None
    return file


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
