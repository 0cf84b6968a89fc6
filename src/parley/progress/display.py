"""What a person sees of a study: a block in a terminal, drawn again and again, and plain lines elsewhere.

`Screen` is the loop behind it, which lets other lines pass above; `status` and `watch` are `parley status`.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from parley.play.matrix_text import wrapped
from parley.progress.follow import DONE, FAILED_STAGE, RUNNING, TO_DO, Progress, Snapshot, Stage
from parley.study import Study
from parley.text import duration, one_line

_MARKS = {DONE: ("✓", "green"), RUNNING: ("▶", "cyan"), FAILED_STAGE: ("✗", "red"), TO_DO: ("·", "dim")}
_MAX_PROBLEMS = 5
_UNLIMITED = 1_000_000  # columns, or problems
_SHARE = 0.1  # of the time, at most, goes into looking and drawing
_DRAW_SECONDS = 0.5
_PLAIN_SECONDS = 2.0


def screenful(snapshot: Snapshot, console: Console) -> SegmentLines:
    """Return a study as it is now, in no more lines and columns than the terminal has."""
    # A line less than there is: where it ends the cursor stands.
    width, height = console.width, max(console.height - 1, 1)
    title, *more = summary(snapshot, width, min(_MAX_PROBLEMS, max(height // 6, 1)))
    first = Table.grid(padding=(0, 2, 0, 0))
    room = min(width - title.cell_len - 2, 40)
    bar = ProgressBar(total=max(snapshot.total, 1), completed=snapshot.finished, width=room)
    first.add_row(title, *([bar] if room >= 5 else []))
    return SegmentLines(console.render_lines(Group(first, *more), pad=False)[:height], new_lines=True)


def summary(snapshot: Snapshot, width: int = _UNLIMITED, most: int = _UNLIMITED) -> Iterator[Text]:
    """Yield the study and its counts, what is known of it, at `most` so many of its problems, and its stages."""
    yield Text(f"{one_line(snapshot.study)}: {counts(snapshot)}", "bold")
    yield from wrapped(map(Text, facts(snapshot)), width, " · ")
    yield from (Text(one_line(line)) for line in (snapshot.spent, snapshot.note) if line)
    for problem in snapshot.problems[:most]:
        yield Text(f"! {one_line(problem.text, 2 * width)}", "bold yellow" if problem.serious else "yellow")
    if (more := len(snapshot.problems) - most) > 0:
        yield Text(f"  {more} more warnings", "yellow")
    marked = ((*_MARKS[stage.state], stage) for stage in snapshot.stages)
    yield from wrapped((Text(f"{mark} {one_line(stage_words(stage))}", style) for mark, style, stage in marked), width)


def counts(snapshot: Snapshot) -> str:
    """Return in words how many simulations are done, running and to do."""
    to_do = snapshot.total - snapshot.finished - snapshot.running
    parts = [f"{snapshot.finished:,} of {snapshot.total:,} simulations"]
    parts += [f"{snapshot.running} running"] if snapshot.running else []
    return ", ".join([*parts, *([f"{to_do:,} to do"] if to_do else [])])


def facts(snapshot: Snapshot) -> list[str]:
    """Return what is known of replies, speed and time; what is not known is left out."""
    known = []
    if snapshot.replies:
        unusable = f"{snapshot.unusable / snapshot.replies:.1%}" if snapshot.unusable else "none"
        known.append(f"{snapshot.replies:,} replies, {unusable} unusable")
    if snapshot.rates is not None:
        each, read, written = snapshot.rates
        known.append(f"{_number(each)} replies/s")
        if read + written > 0:
            # A service may tell one of the two, or none.
            of_these = f" ({_number(written)} written)" if read > 0 and written > 0 else ""
            known.append(f"{_number(read + written)} tokens/s{of_these}")
    if snapshot.left is not None:
        step = 10 if snapshot.left < 60 else 60  # no more digits than are known
        known.append(f"about {duration(max(-(-snapshot.left // step), 1) * step)} left")
    if snapshot.elapsed is not None and snapshot.elapsed >= 1:
        known.append(duration(snapshot.elapsed) + (" in all" if snapshot.over else " so far"))
    return known


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


def plain_line(snapshot: Snapshot) -> str:
    """Return all there is to say in one line."""
    stages = [f"{stage_words(stage)} {stage.state}" for stage in snapshot.stages if stage.state in _TOLD]
    told = [*stages, snapshot.spent or "", snapshot.note, *(problem.text for problem in snapshot.problems)]
    return f"{snapshot.study}: " + "; ".join(map(one_line, [counts(snapshot), *facts(snapshot), *filter(None, told)]))


_TOLD = (RUNNING, FAILED_STAGE)


class PlainLines:
    """Says a study in a plain line, every half minute, and at once when a stage or a problem is new."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._last_line = float("-inf")
        self._told: set[tuple[str, str]] = set()

    def look(self, snapshot: Snapshot, now: float) -> Iterator[str]:
        """Yield the line if it is due; `now` is in seconds of any clock."""
        told = {(stage.name, stage.state) for stage in snapshot.stages if stage.state in _TOLD}
        told |= {("", problem.key) for problem in snapshot.problems}
        if not snapshot.over and (told - self._told or now - self._last_line >= self._seconds):
            self._last_line = now
            yield plain_line(snapshot)
        self._told = told


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
                lines = list(self._plain.look(snapshot, time.monotonic()))
                if last and lines[-1:] != [plain_line(snapshot)]:
                    lines.append(plain_line(snapshot))
                for line in lines:
                    self.say(line)
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
    yield from (line.plain for line in summary(Progress(study).look(last=True)))


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
