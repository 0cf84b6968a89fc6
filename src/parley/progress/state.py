"""A process as another one sees it: the sum of the events that it told.

One whose process is gone, or whose file nobody touched for a minute, is that of a process that was killed.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from parley.files import open_regular
from parley.identity import machine
from parley.study.condition import SCRIPTED

# Stages of processes. Those that make something of a study are called as the study's stages are.
RUN, PLAY, SERVE, FETCH_MODEL = "run", "playing", "serve", "fetch-model"

KEPT_SECONDS = 600  # for so long it is kept when replies came
_DEAD_SECONDS = 60.0
_BIN_SECONDS = 10  # replies of so many seconds are counted together
_MAX_WARNINGS = 20
_MAX_BYTES = 10_000_000  # of one look


@dataclass
class GameProgress:
    """A simulation that a process plays, as far as it has come."""

    replies: int = 0
    unusable: int = 0
    in_round: int = 0  # most replies of one round so far
    waits_for: str = ""  # since its last reply
    serious: bool = True  # whether somebody should do something about that
    error: str = ""
    round: tuple[int, int] = (0, 0)  # the last one, and its replies so far
    alive: bool = True  # its process


@dataclass
class ProcessState:
    """A process: what it works at, and how that goes. Times are seconds since the epoch."""

    stage: str
    host: str
    pid: int
    began: float
    model: str = ""  # of what serves or prepares one
    endpoint: str = ""  # of what serves one
    loaded: float | None = None  # since when it serves
    engine: str = SCRIPTED  # what answers in the simulations that it plays
    note: str = ""  # what is to be told while nothing is played
    stopping: bool = False
    ended: float | None = None
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    games: dict[str, GameProgress] = field(default_factory=dict)  # by the path of their record
    # Replies of the last ten minutes, in bins of ten seconds, by when these begin: when the first of them was asked
    # and the last came, how many they are, tokens read and written.
    bins: dict[int, tuple[float, float, int, int, int]] = field(default_factory=dict)
    alive: bool = False  # as a reader sees it

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what happened; raises LookupError, TypeError or ValueError for what is no event."""
        kind = event["event"]
        if kind == "loaded":
            self.loaded = float(event["at"])
        elif kind == "told":
            self.note, self.stopping = str(event["note"]), bool(event["stopping"])
        elif kind == "warned":
            text = str(event["text"])
            if text not in self.warnings:
                self.warnings = [*self.warnings, text][-_MAX_WARNINGS:]
        elif kind == "ended":
            self.ended, self.error = float(event["at"]), str(event["error"])
        elif kind == "plays":
            self.engine = str(event["engine"])
            self.games[str(event["game"])] = GameProgress()
        elif kind == "played":
            game = self.games.pop(event["game"])
            if error := str(event["error"]):
                self.games[event["game"]] = game
                game.error, game.waits_for = error, ""
        elif kind == "waits":
            game = self.games[event["game"]]
            game.waits_for, game.serious = str(event["text"]), bool(event["serious"])
        elif kind == "reply":
            self._take_reply(self.games[event["game"]], event)

    def _take_reply(self, game: GameProgress, event: Mapping[str, Any]) -> None:
        number = int(event["round"])
        game.round = (number, game.round[1] + 1 if number == game.round[0] else 1)
        game.in_round = max(game.in_round, game.round[1])
        game.replies += 1
        game.unusable += bool(event["failed"])
        game.waits_for = ""
        came = float(event.get("came", 0.0))
        if came < event["at"] - KEPT_SECONDS:  # from a journal, or a fork's record
            return
        begins = int(came) // _BIN_SECONDS * _BIN_SECONDS
        asked, read, written = float(event["asked"]), int(event["read"]), int(event["written"])
        first, last, replies, *tokens = self.bins.get(begins, (asked, came, 0, 0, 0))
        self.bins[begins] = (min(first, asked), max(last, came), replies + 1, tokens[0] + read, tokens[1] + written)
        for old in [each for each in self.bins if each < begins - KEPT_SECONDS]:
            del self.bins[old]


@dataclass
class _File:
    """How far a file of events was read."""

    inode: int
    size: int = 0
    modified: int = 0
    written: float = 0.0  # when it was seen to be written
    rest: bytes = b""  # of a line that was not whole yet
    state: ProcessState | None = None

    def read(self, path: Path) -> None:
        """Take the events that were added; a line that is none says nothing."""
        with open_regular(path) as file:
            file.seek(self.size)
            new = file.read(_MAX_BYTES)
        self.size += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        self.rest = self.rest[:_MAX_BYTES]
        for line in lines:
            with suppress(LookupError, TypeError, ValueError):
                event = json.loads(line)
                if self.state is not None:
                    self.state.take(event)
                elif event["event"] == "began":
                    stage, host, pid, began = (event[name] for name in ("stage", "host", "pid", "at"))
                    self.state = ProcessState(str(stage), str(host), int(pid), float(began))
                    self.state.model, self.state.endpoint = (str(event.get(key, "")) for key in ("model", "endpoint"))


class ProcessStates:
    """The processes that tell of themselves in a folder; of each file only what was added is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}

    def look(self, now: float) -> list[ProcessState]:
        """Return the processes of now, the oldest first; what cannot be read is left out."""
        before, self._files = self._files, {}
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                path = Path(entry.path)
                if path.suffix == ".jsonl":
                    with suppress(OSError):
                        self._files[path] = _look_at(path, before.get(path), now)
        states = [file.state for file in self._files.values() if file.state is not None]
        return sorted(states, key=lambda state: (state.began, state.host, state.pid))

    def remove(self, now: float, which: Callable[[ProcessState], bool] = lambda state: not state.alive) -> None:
        """Remove the files of some processes, by default of those that are gone."""
        self.look(now)
        for path, file in self._files.items():
            if file.state is not None and which(file.state):
                with suppress(OSError):
                    path.unlink()


def _look_at(path: Path, file: _File | None, now: float) -> _File:
    status = os.stat(path)
    if file is None or file.inode != status.st_ino or status.st_size < file.size:
        file = _File(status.st_ino, written=status.st_mtime)
    elif file.modified != status.st_mtime_ns:
        file.written = now  # while somebody looks: whatever the clock of the other machine says, it lives
    file.modified = status.st_mtime_ns
    if status.st_size > file.size:
        file.read(path)
    if (state := file.state) is not None:
        # Of another machine only its sign of life tells.
        may_live = state.host != machine() or _exists(state.pid)
        state.alive = state.ended is None and now - file.written < _DEAD_SECONDS and may_live
    return file


def _exists(pid: int) -> bool:
    try:
        return bool(psutil.pid_exists(pid))
    except OverflowError:
        return False
