"""What a process tells of itself while it works: a line of JSON for each event, in a file of its own.

A thread appends what happened in the last half second with one write, and touches the file every five seconds as a
sign of life: no lock is needed, also where nodes share the folder. What a process did well is seen by its results; a
file that outlasts its process says why that failed, or how long a stage took.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parley.errors import ParleyError
from parley.files import open_to_append, remove
from parley.identity import machine
from parley.play.runner import Exchange, Watcher
from parley.progress.state import FETCH_MODEL, PLAY, RUN, SERVE, ProcessStates
from parley.study.condition import SCRIPTED, Simulation
from parley.text import Hearing, logged_to, one_line

_WRITE_SECONDS = 0.5
_BEAT_SECONDS = 5.0
# What vLLM says in its log: the one text that is read for what it says, since somebody else writes it.
_LOADED = "Application startup complete"


class Events:
    """Appends the events of this process to its file; a disk that refuses ends no work."""

    def __init__(
        self, folder: Path, stage: str, refresh: Callable[[], Mapping[str, Any]] = dict, **facts: Any
    ) -> None:
        """The file lies in a folder of `paths.processes`; what `refresh` returns is told whenever it changes."""
        # Snakemake goes back to where it was started before this ends.
        self._path = folder.absolute() / f"{machine()}-{os.getpid()}.jsonl"
        self._refresh, self._refreshed = refresh, dict[str, Any]()
        self._lines: list[str] = []
        self._lock = threading.Lock()
        self._beat = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_on, daemon=True, name="parley-events")
        self.put("began", stage=stage, host=machine(), pid=os.getpid(), **facts)

    def put(self, event: str, **facts: Any) -> None:
        """Tell that something happened; it is written soon after."""
        line = json.dumps({"event": event, "at": time.time(), **facts}, separators=(",", ":"))
        with self._lock:
            self._lines.append(f"{line}\n")

    def start(self) -> None:
        """Write what is known, and from now on what happens."""
        remove(self._path)  # of a process that had the same number
        self._write()
        self._thread.start()

    def stop(self, keep: bool) -> None:
        """Write for the last time; or remove the file, if nobody needs to know how this process ended."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        if keep:
            self._write()
        else:
            remove(self._path)

    def _write_on(self) -> None:
        while not self._end.wait(_WRITE_SECONDS):
            self._write()

    def _write(self) -> None:
        if (facts := dict(self._refresh())) != self._refreshed:
            self._refreshed = facts
            self.put("told", **facts)
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


def note_server_line(events: Events | None, line: str) -> None:
    """Tell when vLLM's log says that the model is loaded."""
    if events is not None and _LOADED in line:
        events.put("loaded")


_current: ContextVar[str] = ContextVar("parley_record_played", default="")  # what is played in this task


def _hear(events: Events, record: logging.LogRecord) -> None:
    """Tell what this process warns of and waits for, by the data of its messages and not by their words."""
    if (waits_for := getattr(record, "waits_for", "")) and (game := _current.get()):
        events.put("waits", game=game, text=one_line(waits_for, 400), serious=record.serious)  # type: ignore[attr-defined]
    elif not waits_for and record.levelno == logging.WARNING:
        events.put("warned", text=one_line(record.getMessage(), 300))


@contextmanager
def working(folder: Path | None, stage: str, **facts: Any) -> Iterator[Events | None]:
    """Tell in `folder` that this process works while the context lasts; what plays or serves well leaves no file."""
    if folder is None:
        yield None
        return
    if endpoint := facts.get("endpoint"):  # how one that served there before ended is no longer of interest
        ProcessStates(folder).remove(time.time(), lambda state: state.endpoint == endpoint)
    events = Events(folder, stage, **facts)
    events.start()
    keep, error = stage not in (RUN, PLAY, SERVE, FETCH_MODEL), ""
    try:
        with logged_to(Hearing(partial(_hear, events))):
            yield events
    except BaseException as problem:
        keep |= isinstance(problem, Exception)
        error = one_line(str(problem), 400) if isinstance(problem, Exception) else "interrupted"
        raise
    finally:
        events.put("ended", error=error)
        events.stop(keep)


@dataclass(frozen=True)
class PlayWatcher(Watcher):
    """Tells each reply of one simulation."""

    events: Events
    record: str

    def answered(self, exchange: Exchange) -> None:
        """Tell of a reply; one that was recorded before says nothing of an engine's pace, so when is left out."""
        entry = exchange.entry
        took = {"asked": entry.started, "came": entry.started + entry.seconds} if entry.given is None else {}
        tokens = {"read": entry.prompt_tokens or 0, "written": entry.completion_tokens or 0}
        self.events.put("reply", game=self.record, round=entry.round, failed=exchange.failed, **took, **tokens)


@contextmanager
def watched_play(events: Events | None, study: str, simulation: Simulation) -> Iterator[Watcher]:
    """Give what `parley.play.simulate` tells of each reply of a simulation, as long as it is played in this task.

    Without events nobody is told.
    """
    if events is None:
        yield Watcher()
        return
    record, error = str(simulation.record(study)), ""
    condition = simulation.condition
    events.put("plays", game=record, engine=condition.engine if condition.models else SCRIPTED)
    here = _current.set(record)
    try:
        yield PlayWatcher(events, record)
    except Exception as problem:
        error = one_line(str(problem), 400)
        raise
    finally:  # whatever was interrupted goes on from its journal
        _current.reset(here)
        events.put("played", game=record, error=error)
