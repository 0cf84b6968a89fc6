"""The loop behind a display, which lets other lines pass above it; `parley status`, once or again and again."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from parley.play.stale_records import simulation_files
from parley.progress.display import PlainLines, counts, facts, news, plain_line, screenful, stage_words
from parley.progress.follow import Progress
from parley.progress.snapshot import FAILED_STAGE, RUNNING, TO_DO, Snapshot
from parley.study import Study
from parley.text import counted, one_line

_SHARE = 0.05  # of one core, at most, goes into looking and drawing
_DRAW_SECONDS = 0.5
_PLAIN_SECONDS = 2.0
_READS = 2_000  # records of one look


class _StillCursor(Console):
    """A console that never hides the cursor: whatever ends this process, nobody has to bring it back."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class Screen:
    """A display of one study on a stream, drawn by a thread of its own until `stop`."""

    def __init__(self, progress: Progress, stream: TextIO, color: bool = True) -> None:
        self._progress = progress
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._console = _StillCursor(file=stream, no_color=None if color else True, highlight=False)
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
        began, clock = time.thread_time(), time.monotonic()
        snapshot = self.snapshot = self._progress.look(last)
        with self._lock:
            if self.live:
                self._drawn.update(screenful(snapshot, self._console), refresh=True)
            else:
                for line in self._plain.look(snapshot, time.monotonic()):
                    self.say(line)
                if last:
                    self.say(plain_line(snapshot))
        pause = _DRAW_SECONDS if self.live else _PLAIN_SECONDS
        # A slow file system costs no processor, but is not to be kept busy either.
        return max(pause, (time.thread_time() - began) / _SHARE, 4 * (time.monotonic() - clock))

    def wait(self, over: Callable[[Snapshot], bool]) -> None:
        """Return when the study is as `over` says."""
        while self.snapshot is None or not over(self.snapshot):
            if self._end.wait(_DRAW_SECONDS) or not self._thread.is_alive():
                return

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
    snapshot = Progress(study, reads=_READS).look()
    yield f"{snapshot.study}: {counts(snapshot)}"
    if former := _former_records(study):
        yield f"{counted(former, 'record')} of former configurations; parley prune {study.file} lists them"
    yield from filter(None, [*news(snapshot), ", ".join(facts(snapshot))])
    yield from (f"! {one_line(str(problem))}" for problem in snapshot.problems)
    for state in (RUNNING, FAILED_STAGE, TO_DO):
        if stages := [stage_words(stage) for stage in snapshot.stages if stage.state == state]:
            yield f"{state}: {', '.join(stages)}"


def status_values(study: Study) -> dict[str, Any]:
    """Return the same as JSON values; None is not known."""
    snapshot = Progress(study, reads=_READS).look()
    replies, unusable = snapshot.answered
    return {
        "study": snapshot.study,
        "simulations": snapshot.total,
        **{name: getattr(snapshot, name) for name in ("finished", "running", "over", "note")},
        "budget": snapshot.spent and snapshot.spent.removeprefix("budget: "),
        "replies": replies,
        "unusable": unusable,
        "seconds_left": snapshot.left and snapshot.left.seconds,
        "most_seconds_left": snapshot.left and snapshot.left.most,
        "former_records": _former_records(study),
        "problems": [asdict(problem) for problem in snapshot.problems],
        "stages": [asdict(stage) for stage in snapshot.stages],
        "conditions": [
            {**cell.condition.axes, "simulations": len(cell.names), "finished": len(cell.finished)}
            | {"running": cell.running, "replies": cell.answered[0], "unusable": cell.answered[1]}
            for cell in snapshot.cells
        ],
    }


def _former_records(study: Study) -> int:
    """Return how many records are of conditions or seeds that the study no longer has."""
    current = {simulation.record(study.name) for simulation in study.simulations()}
    return sum(not file.is_journal and file.path not in current for file in simulation_files(study.name))


def watch(study: Study, stream: TextIO | None = None) -> None:
    """Show a study until all of it is done, or until Ctrl-C; plain lines where nothing can be drawn."""
    screen = Screen(Progress(study), stream or sys.stdout)
    screen.start()
    try:
        screen.wait(lambda snapshot: snapshot.over)
    except KeyboardInterrupt:
        return
    finally:
        screen.stop()
    if isinstance(screen.failure, BrokenPipeError):
        raise screen.failure
