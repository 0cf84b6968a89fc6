"""A process as another one sees it: the sum of the events that it told.

One whose process is gone, or whose file nobody touched for a minute, was killed.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from parley.files import open_regular, remove
from parley.identity import machine
from parley.study.condition import SCRIPTED

# Stages of processes. Those that make something of a study are called as the study's stages are.
RUN, PLAY, SERVE, FETCH_MODEL = "run", "playing", "serve", "fetch-model"

_DEAD_SECONDS = 60.0
_MAX_WARNINGS = 20
_MAX_BYTES = 10_000_000  # of one look


class Reply(NamedTuple):
    """A reply of an engine: when it was asked and came, in seconds since the epoch, tokens read and written."""

    game: str  # the path of its simulation's record
    asked: float
    came: float
    read: int
    written: int


@dataclass
class GameProgress:
    """A simulation that a process plays, as far as it has come."""

    replies: int = 0
    unusable: int = 0
    in_round: int = 0  # most replies of one round so far
    round: tuple[int, int] = (0, 0)  # the last one, and its replies so far
    waits_for: str = ""  # since its last reply
    serious: bool = True  # whether somebody should do something about that
    error: str = ""
    alive: bool = True  # its process


@dataclass
class ProcessState:
    """A process: what it works at, and how that goes. Times are seconds since the epoch."""

    inode: int  # of its file
    touched: float  # its last sign of life, by the clock of who looks
    stage: str = ""
    host: str = ""
    pid: int = 0
    began: float = 0.0
    model: str = ""  # of what serves or prepares one
    endpoint: str = ""  # of what serves one
    loaded: float | None = None  # since when it serves
    engine: str = SCRIPTED  # what answers in the simulations that it plays
    note: str = ""  # what goes on
    always: bool = False  # whether that is to be told while something is played, too
    ended: float | None = None
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    games: dict[str, GameProgress] = field(default_factory=dict)  # by the path of their record
    replies: list[Reply] = field(default_factory=list)  # new ones since the last look, without those of records
    alive: bool = False
    size: int = 0  # of its file, as far as it was read
    modified: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what happened; raises LookupError, TypeError or ValueError for what is no event."""
        kind = event["event"]
        if kind == "began":
            self.pid, self.began = int(event["pid"]), float(event["at"])
            self.stage, self.host = str(event["stage"]), str(event["host"])
            self.model, self.endpoint = str(event.get("model", "")), str(event.get("endpoint", ""))
        elif kind == "loaded":
            self.loaded = float(event["at"])
        elif kind == "told":
            self.note, self.always = str(event["note"]), bool(event["always"])
        elif kind == "warned" and str(event["text"]) not in self.warnings:
            self.warnings = [*self.warnings, str(event["text"])][-_MAX_WARNINGS:]
        elif kind == "ended":
            self.ended, self.error = float(event["at"]), str(event["error"])
        elif kind == "plays":
            self.engine = str(event["engine"])
            self.games[str(event["game"])] = GameProgress()
        elif kind == "played":
            game = self.games.pop(event["game"])
            if event["error"]:
                self.games[event["game"]] = game
                game.error, game.waits_for = str(event["error"]), ""
        elif kind == "waits":
            game = self.games[event["game"]]
            game.waits_for, game.serious = str(event["text"]), bool(event["serious"])
        elif kind == "reply":
            self._take_reply(self.games[event["game"]], event)

    def _take_reply(self, game: GameProgress, event: Mapping[str, Any]) -> None:
        (number, replies), now = game.round, int(event["round"])
        game.round = (now, replies + 1 if now == number else 1)
        game.in_round = max(game.in_round, game.round[1])
        game.replies += 1
        game.unusable += bool(event["failed"])
        game.waits_for = ""
        if "came" in event:  # else it was recorded before
            asked, came, read, written = (event[key] for key in Reply._fields[1:])
            self.replies.append(Reply(str(event["game"]), float(asked), float(came), int(read), int(written)))

    def look(self, path: Path, status: os.stat_result, now: float) -> None:
        """Take what its file tells since the last look; a line that is no event says nothing."""
        self.replies = []
        if self.modified and self.modified != status.st_mtime_ns:
            self.touched = now  # whatever the clock of the other machine says
        self.modified = status.st_mtime_ns
        if status.st_size > self.size:
            with open_regular(path, follow=False) as file:
                file.seek(self.size)
                lines = file.read(_MAX_BYTES).rpartition(b"\n")[0]  # the last one may not be whole yet
            self.size += len(lines) + bool(lines)
            for line in lines.split(b"\n"):
                with suppress(LookupError, TypeError, ValueError, OverflowError):
                    self.take(json.loads(line))
        # Of another machine only its sign of life tells.
        may_live = self.host != machine() or psutil.pid_exists(self.pid)
        self.alive = self.ended is None and now - self.touched < _DEAD_SECONDS and may_live


class ProcessStates:
    """The processes that tell of themselves in a folder; of each file only what was added is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._states: dict[Path, ProcessState] = {}

    def look(self, now: float) -> list[ProcessState]:
        """Return the processes of now, the oldest first; what cannot be read is left out."""
        before, self._states, names = self._states, {}, list[str]()
        with suppress(OSError):  # the folder may go, or its server not answer
            names = os.listdir(self._folder)
        for path in (self._folder / name for name in names if name.endswith(".jsonl")):
            with suppress(OSError):
                status = path.stat()
                state = before.get(path)
                if state is None or state.inode != status.st_ino or status.st_size < state.size:
                    state = ProcessState(status.st_ino, status.st_mtime)
                state.look(path, status, now)
                self._states[path] = state
        told = [state for state in self._states.values() if state.stage]
        return sorted(told, key=lambda state: (state.began, state.host, state.pid))

    def remove(self, now: float, which: Callable[[ProcessState], bool] = lambda state: not state.alive) -> None:
        """Remove the files of some processes, by default of those that are gone."""
        self.look(now)
        for path, state in self._states.items():
            if which(state):
                remove(path)
