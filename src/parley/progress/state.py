"""What a process says of itself while it works: one small JSON file of its own, beside the results that it is about.

Written whole, at most twice a second, and at least every five seconds as long as the process lives. So one whose
process is gone, or that nobody wrote to for a minute, is that of a process that was killed. What a process did well is
seen by its results: a file that outlasts its process says why that failed, or how long a stage took.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from parley.files import read_regular
from parley.identity import machine
from parley.play.runner import Exchange, Watcher
from parley.study.condition import SCRIPTED, Simulation
from parley.text import Hearing, logged_to, one_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Stages of processes. Those that make something of a study are called as the study's stages are (`follow.STAGES`).
RUN, PLAY, SERVE, FETCH_MODEL = "run", "playing", "serve", "fetch-model"

KEPT_SECONDS = 600  # for so long it is kept when replies came
_WRITE_SECONDS = 0.5
_BEAT_SECONDS = 5.0
_DEAD_SECONDS = 60.0
_BIN_SECONDS = 10  # replies of so many seconds are counted together
_MAX_WARNINGS = 20
_MAX_BYTES = 10_000_000
# What vLLM says in its log: the one text that is read for what it says, since somebody else writes it.
_LOADED = "Application startup complete"


@dataclass
class GameProgress:
    """A simulation that a process plays, as far as it has come."""

    replies: int = 0
    unusable: int = 0
    in_round: int = 0  # most replies of one round so far
    waits_for: str = ""  # since its last reply
    serious: bool = True  # whether somebody should do something about that
    error: str = ""


@dataclass
class ProcessState:
    """A process: what it works at, and how that goes. Times are seconds since the epoch."""

    stage: str
    model: str = ""  # of what serves or prepares one
    endpoint: str = ""  # of what serves one
    loaded: float | None = None  # since when it serves
    engine: str = SCRIPTED  # what answers in the simulations that it plays
    note: str = ""  # what is to be told while nothing is played
    stopping: bool = False
    host: str = field(default_factory=machine)
    pid: int = field(default_factory=os.getpid)
    began: float = field(default_factory=time.time)
    ended: float | None = None
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    games: dict[str, GameProgress] = field(default_factory=dict)  # by the path of their record
    # Replies of the last ten minutes, in bins of ten seconds, by when these begin: when the first of them was asked
    # and the last came, how many they are, tokens read and written.
    bins: dict[int, tuple[float, float, int, int, int]] = field(default_factory=dict)
    alive: bool = False  # as a reader sees it


class StateFile:
    """Writes the state of this process, by a thread; a disk that refuses ends no work."""

    def __init__(
        self, folder: Path, state: ProcessState, refresh: Callable[[ProcessState], None] = lambda state: None
    ) -> None:
        """The file lies in a folder of `paths.processes`, which is made. `refresh` is called before it is written."""
        self.state = state
        self._refresh = refresh
        self._path = folder / f"{one_line(state.host)}-{state.pid}.json"
        self._lock = threading.RLock()
        self._written = ("", 0.0)  # what, and when
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_on, daemon=True, name="parley-state")

    def start(self) -> None:
        """Write it now, and from now on."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write()
        self._thread.start()

    @contextmanager
    def changing(self) -> Iterator[ProcessState]:
        """Give the state to be changed; it is written soon after."""
        with self._lock:
            yield self.state

    def stop(self, keep: bool) -> None:
        """Write it for the last time; or remove it, if nobody needs to know how this process ended."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        if keep:
            self._write()
        else:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write_on(self) -> None:
        while not self._end.wait(_WRITE_SECONDS):
            self._write()

    def _write(self) -> None:
        """Write the state if it changed, or if it is time for a sign of life."""
        with self._lock:
            self._refresh(self.state)
            content = json.dumps(asdict(self.state), separators=(",", ":"))
        now = time.monotonic()
        if content == self._written[0] and now - self._written[1] < _BEAT_SECONDS:
            return
        self._written = (content, now)
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        with suppress(OSError):
            temporary.write_text(content)  # not synced: after the death of the machine nobody asks
            os.replace(temporary, self._path)


def note_server_line(file: StateFile | None, line: str) -> None:
    """Note in the state of the process that serves when vLLM's log says that the model is loaded."""
    if file is not None and _LOADED in line:
        with file.changing() as state:
            state.loaded = time.time()


def _note_message(file: StateFile, record: logging.LogRecord) -> None:
    """Keep what a process warns of and waits for, by the data of its messages and not by their words."""
    if waits_for := getattr(record, "waits_for", ""):
        with file.changing() as state:
            if game := state.games.get(_current.get()):
                game.waits_for, game.serious = one_line(waits_for, 400), record.serious  # type: ignore[attr-defined]
    elif record.levelno == logging.WARNING:
        text = one_line(record.getMessage(), 300)
        with file.changing() as state:
            if text not in state.warnings[-_MAX_WARNINGS:]:
                state.warnings = [*state.warnings, text][-_MAX_WARNINGS:]


@contextmanager
def working(folder: Path | None, stage: str, **facts: Any) -> Iterator[StateFile | None]:
    """Write the state of this process into `folder` while the context lasts; what plays or serves leaves no file."""
    if folder is None:
        yield None
        return
    file = StateFile(folder, ProcessState(stage, **facts))
    if endpoint := file.state.endpoint:  # how one that served there before ended is no longer of interest
        ProcessStates(folder).remove(time.time(), lambda state: state.endpoint == endpoint)
    file.start()
    keep = stage not in (RUN, PLAY, SERVE, FETCH_MODEL)
    try:
        with logged_to(Hearing(partial(_note_message, file))):
            yield file
    except BaseException as error:
        keep |= isinstance(error, Exception)
        with file.changing() as state:
            state.error = one_line(str(error), 400) if isinstance(error, Exception) else "interrupted"
        raise
    finally:
        with file.changing() as state:
            state.ended = time.time()
        file.stop(keep)


_current: ContextVar[str] = ContextVar("parley_record_played", default="")  # what is played in this task


class PlayWatcher(Watcher):
    """Counts the replies of one simulation in the state of the process that plays it."""

    def __init__(self, file: StateFile, record: str) -> None:
        self._file = file
        self._record = record
        self._round = (0, 0)  # number, replies

    def answered(self, exchange: Exchange) -> None:
        """Count a reply."""
        entry = exchange.entry
        came = entry.started + entry.seconds
        with self._file.changing() as state:
            game = state.games[self._record]
            self._round = (entry.round, self._round[1] + 1 if entry.round == self._round[0] else 1)
            game.replies += 1
            game.unusable += exchange.failed
            game.in_round = max(game.in_round, self._round[1])
            game.waits_for = ""
            if entry.given is None:  # what a fork takes from its record says nothing of an engine's pace
                _count(state, entry.started, came, entry.prompt_tokens or 0, entry.completion_tokens or 0)


def _count(state: ProcessState, asked: float, came: float, prompt: int, completion: int) -> None:
    if came < time.time() - KEPT_SECONDS:  # from a journal
        return
    begins = int(came) // _BIN_SECONDS * _BIN_SECONDS
    first, last, replies, read, written = state.bins.get(begins, (asked, came, 0, 0, 0))
    state.bins[begins] = (min(first, asked), max(last, came), replies + 1, read + prompt, written + completion)
    for old in [bin_ for bin_ in state.bins if bin_ < begins - KEPT_SECONDS]:
        del state.bins[old]


@contextmanager
def watched_play(file: StateFile | None, study: str, simulation: Simulation) -> Iterator[Watcher]:
    """Give what `parley.play.simulate` tells of each reply of a simulation, as long as it is played in this task.

    Without a file nobody is told.
    """
    if file is None:
        yield Watcher()
        return
    record = str(simulation.record(study))
    with file.changing() as state:
        state.engine = simulation.condition.engine if simulation.condition.models else SCRIPTED
        state.games[record] = GameProgress()
    here, failed = _current.set(record), ""
    try:
        yield PlayWatcher(file, record)
    except Exception as error:
        failed = one_line(str(error), 400)
        raise
    finally:  # whatever was interrupted goes on from its journal
        _current.reset(here)
        with file.changing() as state:
            if failed:
                state.games[record].error, state.games[record].waits_for = failed, ""
            else:
                del state.games[record]


# The file as it was, when it was seen to be written, and what it said.
_Read = tuple[tuple[int, int, int], float, ProcessState]


class ProcessStates:
    """The states in a folder, each read again only where it changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, _Read] = {}

    def look(self, now: float) -> list[ProcessState]:
        """Return the states of now, the oldest processes first; what cannot be read is left out."""
        before, self._read = self._read, {}
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                path = Path(entry.path)
                if path.suffix == ".json" and not path.name.startswith("."):
                    with suppress(OSError, ValueError, OverflowError):  # the last of an impossible process id
                        self._read[path] = self._look_at(path, before.get(path), now)
        found = [state for _, _, state in self._read.values()]
        return sorted(found, key=lambda state: (state.began, state.host, state.pid))

    def remove(self, now: float, which: Callable[[ProcessState], bool] = lambda state: not state.alive) -> None:
        """Remove the files of some processes, by default of those that are gone."""
        self.look(now)
        for path, (_, _, state) in self._read.items():
            if which(state):
                with suppress(OSError):
                    path.unlink()

    def _look_at(self, path: Path, before: _Read | None, now: float) -> _Read:
        status = os.stat(path)
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if before is not None and before[0] == version:
            _, written, state = before
        else:
            state = _adapter().validate_json(read_regular(path, _MAX_BYTES))
            # Written while somebody looks: whatever the clock of the other machine says, it lives.
            written = status.st_mtime if before is None else now
        # Of another machine only its heartbeat tells.
        may_live = state.host != machine() or psutil.pid_exists(state.pid)
        state.alive = state.ended is None and now - written < _DEAD_SECONDS and may_live
        return version, written, state


@cache
def _adapter() -> "TypeAdapter[ProcessState]":
    from pydantic import TypeAdapter

    return TypeAdapter(ProcessState)
