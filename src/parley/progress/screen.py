"""The loop behind a display, which lets other lines pass above it; `parley status`, once or again and again."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from parley.play.stale_records import simulation_files
from parley.progress.display import PlainLines, plain_line, screenful, summary
from parley.progress.follow import Progress, Snapshot
from parley.study import Study
from parley.text import counted

_SHARE = 0.1  # of the time, at most, goes into looking and drawing
_DRAW_SECONDS = 0.5
_PLAIN_SECONDS = 2.0


class Screen:
    """A display of one study on a stream, drawn by a thread of its own until `stop`."""

    def __init__(self, progress: Progress, stream: TextIO, color: bool = True) -> None:
        self._progress = progress
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = Console(file=stream, no_color=None if color else True, highlight=False)
        self._drawn = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._plain = PlainLines()
        self._end = threading.Event()
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, daemon=True, name="parley-display")
        self.snapshot: Snapshot | None = None
        self.failure: Exception | None = None  # what ended the drawing before `stop`

    def start(self) -> None:
        """Begin to draw, unless another thread has already ended it."""
        with self._lock:
            if self._end.is_set():
                return
            if self.live:
                self._drawn.start()
            self._thread.start()

    def stop(self, last_look: bool = True) -> None:
        """Draw for the last time, if that is wanted, and leave the terminal as it was."""
        with self._lock:
            if self._end.is_set():
                return
            self._end.set()
        if self._thread.ident is None:  # not started, and will not be
            return
        self._thread.join(timeout=10)
        with self._lock:
            try:
                if last_look and not isinstance(self.failure, OSError):
                    self.draw(last=True)
            finally:
                if self.live:
                    self._drawn.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print lines above what is drawn, the first of them in a style."""
        with self._lock:
            if self.live:
                lines = Text(text)
                lines.stylize(style, 0, len(text.partition("\n")[0]))
                self._console.print(lines, soft_wrap=True)
            else:
                self._console.file.write(f"{text}\n")
                self._console.file.flush()

    def draw(self, last: bool = False) -> float:
        """Look and draw once; return the seconds until the next time is due."""
        began = time.monotonic()
        snapshot = self.snapshot = self._progress.look(last)
        with self._lock:
            if self.live:
                self._drawn.update(screenful(snapshot, self._console), refresh=True)
            else:
                for line in self._plain.look(snapshot, time.monotonic()):
                    self.say(line)
                if last:
                    self.say(plain_line(snapshot))
        return max(_DRAW_SECONDS if self.live else _PLAIN_SECONDS, (time.monotonic() - began) / _SHARE)

    def wait(self) -> None:
        """Return when all of the study is done, or nothing can be drawn any more."""
        while self._thread.is_alive() and not (self.snapshot is not None and self.snapshot.over):
            self._thread.join(_DRAW_SECONDS)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                pause = self.draw()
            except Exception as error:  # noqa: BLE001 (a display that fails must not end the run, nor be silent)
                self.failure = error
                with suppress(OSError):  # nobody reads it any more
                    self.say(f"parley: the display failed, and the run goes on: {type(error).__name__}: {error}")
                return
            self._end.wait(pause)


def status(study: Study) -> Iterator[str]:
    """Yield lines for a person: counts, replies, pace and time left, what was spent, problems, stages."""
    first, *more = (line.plain for line in summary(Progress(study).look(last=True)))
    yield first
    current = {simulation.record(study.name) for simulation in study.simulations()}
    former = sum(not file.is_journal and file.path not in current for file in simulation_files(study.name))
    if former:
        yield f"{counted(former, 'record')} of former configurations; parley prune {study.file} lists them"
    yield from more


def watch(study: Study, stream: TextIO | None = None) -> None:
    """Show a study until all of it is done, or until Ctrl-C; plain lines where nothing can be drawn."""
    screen = Screen(Progress(study), stream or sys.stdout)
    screen.start()
    try:
        screen.wait()
    except KeyboardInterrupt:
        return
    finally:
        screen.stop()
    if isinstance(screen.failure, BrokenPipeError):
        raise screen.failure
