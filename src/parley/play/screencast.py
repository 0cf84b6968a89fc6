"""What `parley play --record` writes: the last matrix as SVG, or the game as an asciinema file (version 2).

Neither loads anything from elsewhere.
"""

import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.terminal_theme import SVG_EXPORT_THEME

from parley.errors import UsageError
from parley.text import one_line

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
