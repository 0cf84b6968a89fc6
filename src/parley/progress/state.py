"""A process as another one sees it: the sum of the events that it told.

One whose process is gone, or whose file nobody touched for a minute, was killed.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from parley.files import open_regular, remove
from parley.identity import machine

# Stages of processes. Those that make something of a study are called as the study's stages are.
RUN, PLAY, SERVE, FETCH_MODEL = "run", "playing", "serve", "fetch-model"

_DEAD_SECONDS = 60.0
_MAX_WARNINGS = 20
_MAX_BYTES = 10_000_000  # read at once


@dataclass
class GameProgress:
    """A simulation that a process plays, or that failed there."""

    waits_for: str = ""  # since its last reply
    serious: bool = True  # whether somebody should do something about that
    error: str = ""


@dataclass
class Played:
    """What was played of one condition."""

    began: float  # when the first of its simulations did
    games: int = 0  # that came to their end


@dataclass
class ProcessState:
    """A process: what it works at, and how that goes. Times are seconds since the epoch."""

    stage: str = ""
    host: str = ""
    pid: int = 0
    began: float = 0.0
    model: str = ""  # of what serves or prepares one
    endpoint: str = ""  # of what serves one
    note: str = ""  # what goes on
    always: bool = False  # whether that is to be told while something is played, too
    replied: float = 0.0  # when its last replies came
    ended: float | None = None
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    games: dict[str, GameProgress] = field(default_factory=dict)  # those that did not end well, by their record's path
    played: dict[str, Played] = field(default_factory=dict)  # by the folder of a condition's records
    number_of_replies: int = 0
    unusable: int = 0  # of these
    # When some came, how many, the tokens that they read and wrote; until who looks forgets them.
    replies: list[tuple[float, ...]] = field(default_factory=list)
    alive: bool = False
    size: int = 0  # of its file, as far as it was read

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what happened; raises LookupError, TypeError or ValueError for what is no event."""
        kind, at = event["event"], float(event["at"])
        if kind == "began":
            self.pid, self.began = int(event["pid"]), at
            self.stage, self.host = str(event["stage"]), str(event["host"])
            self.model, self.endpoint = str(event.get("model", "")), str(event.get("endpoint", ""))
        elif kind == "told":
            self.note, self.always = str(event["note"]), bool(event["always"])
        elif kind == "warned" and str(event["text"]) not in self.warnings:
            self.warnings = [*self.warnings, str(event["text"])][-_MAX_WARNINGS:]
        elif kind == "ended":
            self.ended, self.error = at, str(event["error"])
        elif kind == "game":
            game = str(event["game"])
            self.games[game] = GameProgress(str(event["waits_for"]), bool(event["serious"]), str(event["error"]))
            self.played.setdefault(game.rpartition("/")[0], Played(at))
        elif kind == "played":
            del self.games[event["game"]]
            self.played[event["game"].rpartition("/")[0]].games += 1
        elif kind == "replies":
            self.replied = at
            self.replies.append((at, *(int(event[name]) for name in ("replies", "read", "written"))))
            self.number_of_replies += int(event["replies"])
            self.unusable += int(event["unusable"])

    def look(self, path: Path, now: float) -> None:
        """Take what its file tells since the last look; a line that is no event says nothing."""
        status = path.stat()
        if status.st_size > self.size:
            with open_regular(path, follow=False) as file:
                file.seek(self.size)
                # The last line may not be whole yet.
                while end := (content := file.read(_MAX_BYTES)).rfind(b"\n") + 1:
                    self.size = file.seek(self.size + end)
                    for line in content[:end].split(b"\n"):
                        with suppress(LookupError, TypeError, ValueError, OverflowError):
                            self.take(json.loads(line))
        # Of another machine only its sign of life tells.
        may_live = self.ended is None and now - status.st_mtime < _DEAD_SECONDS
        self.alive = may_live and (self.host != machine() or psutil.pid_exists(self.pid))


class ProcessStates:
    """The processes that tell of themselves in some folders; of each file only what was added is read."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._states: dict[Path, ProcessState] = {}

    def look(self, now: float) -> list[ProcessState]:
        """Return the processes of now, the oldest first; what cannot be read is left out."""
        before, self._states = self._states, {}
        for folder in self._folders:
            names = list[str]()
            with suppress(OSError):  # the folder may go, or its server not answer
                names = os.listdir(folder)
            for path in (folder / name for name in names if name.endswith(".jsonl")):
                with suppress(OSError):
                    state = before.get(path) or ProcessState()
                    if state.ended is None:
                        state.look(path, now)
                    self._states[path] = state
        told = [state for state in self._states.values() if state.stage]
        return sorted(told, key=lambda state: (state.began, state.host, state.pid))

    def remove_dead(self, now: float) -> None:
        """Remove the files of processes that are gone."""
        self.look(now)
        for path, state in self._states.items():
            if not state.alive:
                remove(path)
