"""What a process tells of itself while it works: a line of JSON for each event, in a file of its own.

A thread appends what happened in the last half second with one write, and touches the file every five seconds as a
sign of life: no lock is needed, also where nodes share the folder. Replies are added up before. The files stay until
the next run of the study.
"""

import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from parley.errors import ParleyError
from parley.files import open_to_append
from parley.identity import machine
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask
from parley.study.condition import Simulation
from parley.text import Hearing, logged_to, one_line

_WRITE_SECONDS = 0.5
_BEAT_SECONDS = 5.0


class Events:
    """Appends the events of this process to its file until `stop`; a disk that refuses ends no work."""

    def __init__(
        self, folder: Path, stage: str, refresh: Callable[[], Mapping[str, Any]] = dict, **facts: Any
    ) -> None:
        """The file lies in a folder of `paths.processes`; what `refresh` returns is told whenever it changes."""
        # Snakemake goes back to where it was started before this ends. Other processes had the same number.
        self._path = folder.absolute() / f"{machine()}-{os.getpid()}-{time.time_ns():x}.jsonl"
        self._refresh, self._refreshed = refresh, dict[str, Any]()
        self._lines: list[str] = []
        self._replies = Counter[str]()  # those not written yet
        self._lock = threading.Lock()
        self._beat = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_on, daemon=True, name="parley-events")
        self.put("began", stage=stage, host=machine(), pid=os.getpid(), **facts)
        self._write()
        self._thread.start()

    def put(self, event: str, **facts: Any) -> None:
        """Tell that something happened; it is written soon after."""
        line = json.dumps({"event": event, "at": time.time(), **facts}, separators=(",", ":"))
        with self._lock:
            self._lines.append(f"{line}\n")

    def add(self, **numbers: int) -> None:
        """Add to what is told of replies."""
        with self._lock:
            self._replies.update(numbers)

    def stop(self, error: str = "") -> None:
        """Tell how this process ended, and write for the last time."""
        if not self._end.is_set():
            self._end.set()
            self._thread.join(timeout=5)
            self.put("ended", error=error)
            self._write()

    def _write_on(self) -> None:
        while not self._end.wait(_WRITE_SECONDS):
            self._write()

    def _write(self) -> None:
        if (facts := dict(self._refresh())) != self._refreshed:
            self._refreshed = facts
            self.put("told", **facts)
        with self._lock:
            replies, self._replies = self._replies, Counter()
        if replies:
            self.put("replies", **replies)
        with self._lock:
            lines, self._lines = self._lines, []
        with suppress(OSError, ParleyError):
            if lines:
                # Opened anew, since closing it is what lets other nodes see it. Not synced: after the death of the
                # machine nobody asks.
                with open(open_to_append(self._path, 0o666), "ab", buffering=0) as file:
                    file.write("".join(lines).encode())
            elif time.monotonic() - self._beat >= _BEAT_SECONDS:
                os.utime(self._path)
            else:
                return
        self._beat = time.monotonic()


class PlayWatcher(Watcher):
    """Tells what one simulation waits for, and its replies; of those that were recorded before nothing is told."""

    def __init__(self, events: Events, record: Path) -> None:
        self._events, self.game = events, str(record)
        self._asked: set[str] = set()  # agents whose replies are no journal's
        self._waits_for = ""

    def tell(self, waits_for: str = "", serious: bool = True, error: str = "") -> None:
        """Tell that it is played, or what it waits for until its next reply, or why it failed."""
        self._waits_for = one_line(waits_for, 400)
        told = {"waits_for": self._waits_for, "serious": serious, "error": one_line(error, 400)}
        self._events.put("game", game=self.game, **told)

    def requesting(self, ask: Ask) -> None:
        """Note who is asked."""
        self._asked.add(ask.agent)

    def answered(self, exchange: Exchange) -> None:
        """Tell of a reply."""
        entry = exchange.entry
        if self._waits_for:
            self.tell()
        if entry.given is None and exchange.ask.agent in self._asked:
            self._events.add(
                replies=1,
                unusable=exchange.failed,
                read=entry.prompt_tokens or 0,
                written=entry.completion_tokens or 0,
            )


_current: ContextVar[PlayWatcher | None] = ContextVar("parley_watcher", default=None)  # of what this task plays


def _hear(events: Events, record: logging.LogRecord) -> None:
    """Tell what this process warns of and waits for, by the data of its messages and not by their words."""
    if (waits_for := getattr(record, "waits_for", "")) and (watcher := _current.get()):
        watcher.tell(waits_for, record.serious)  # type: ignore[attr-defined]
    elif not waits_for and record.levelno == logging.WARNING:
        events.put("warned", text=one_line(record.getMessage(), 300))


@contextmanager
def working(folder: Path, stage: str, **facts: Any) -> Iterator[Events]:
    """Tell in `folder` that this process works while the context lasts, and how it ended."""
    events, error = Events(folder, stage, **facts), ""
    try:
        with logged_to(Hearing(partial(_hear, events))):
            yield events
    except BaseException as problem:
        error = one_line(str(problem), 400) if isinstance(problem, Exception) else "interrupted"
        raise
    finally:
        events.stop(error)


@contextmanager
def watched_play(events: Events, study: str, simulation: Simulation) -> Iterator[Watcher]:
    """Give what `parley.play.simulate` tells of each reply of a simulation, as long as it is played in this task.

    Of scripted agents nothing is told but that they play.
    """
    watcher = PlayWatcher(events, simulation.record(study))
    watcher.tell()
    here = _current.set(watcher)
    try:
        yield watcher if simulation.condition.models else Watcher()
    except Exception as problem:
        watcher.tell(error=str(problem))
        raise
    else:  # whatever was interrupted goes on from its journal
        events.put("played", game=watcher.game)
    finally:
        _current.reset(here)
