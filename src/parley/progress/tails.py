"""What other processes append to, read a piece at a time: journals, logs of jobs, folders of records.

Each reader remembers how far it came, so that a look costs what is new, whatever the size of the whole.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from parley.files import parse_line
from parley.text import one_line

_MAX_BYTES = 1 << 24  # of one look: the rest comes with the next
_SETTLED_SECONDS = 2.0  # a folder changed longer ago than this cannot change again with the same time
_RELIST_SECONDS = 60.0  # whatever a folder's time says: not every file system keeps it
_PHASE = re.compile(r"round \S+ \S+: (\d+) replies, (\d+) unusable, \d+ tokens")


class Tail:
    """The lines of a file that is only appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modified: float | None = None  # seconds since the epoch; None if there is no such file
        self._inode = self._offset = 0

    def lines(self) -> tuple[list[bytes], bool]:
        """Return the whole lines since the last call, and whether the file is another one than then.

        Then they are all of its lines. A file that is not there or cannot be read has none.
        """
        try:
            found = os.stat(self.path)
            self.modified = found.st_mtime
            anew = found.st_ino != self._inode or found.st_size < self._offset
            if anew:
                self._inode, self._offset = found.st_ino, 0
            if found.st_size == self._offset:
                return [], anew
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read(_MAX_BYTES)
        except OSError:
            self.modified = None
            return [], False
        whole = content.rfind(b"\n") + 1
        self._offset += whole
        return content[:whole].splitlines(keepends=True), anew


@dataclass
class JournalTail:
    """The replies of a simulation that is being played."""

    path: Path
    replies: int = 0
    prompt: int = 0
    completion: int = 0
    by_round: dict[int, int] = field(default_factory=dict)
    last: float | None = None  # when the last reply came, in seconds since the epoch

    def __post_init__(self) -> None:
        self._tail = Tail(self.path)

    def look(self) -> list[tuple[float, float, int | None, int | None]]:
        """Return the new replies: when each was asked and came, and its tokens read and written, None if unknown."""
        found = []
        for line in self._tail.lines()[0]:
            data = parse_line(line)
            if data is None or "agent" not in data:  # the first line names the simulation
                continue
            asked, came = data["started"], data["started"] + data["seconds"]
            prompt, completion = data["prompt_tokens"], data["completion_tokens"]
            found.append((asked, came, prompt, completion))
            self.replies += 1
            self.prompt += prompt or 0
            self.completion += completion or 0
            self.by_round[data["round"]] = self.by_round.get(data["round"], 0) + 1
            self.last = max(came, self.last or 0.0)
        return found


@dataclass
class JobLog:
    """What the log of a simulation's job says: replies that could not be used, warnings, its last line."""

    path: Path
    told: int = 0  # replies of the phases that are over
    unusable: int = 0  # of these
    last: str = ""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tail = Tail(self.path)

    @property
    def modified(self) -> float | None:
        """When its last line came, in seconds since the epoch; None if there is no log."""
        return self._tail.modified

    def look(self) -> None:
        """Read what is new."""
        lines, anew = self._tail.lines()
        if anew:  # the job runs again
            self.told = self.unusable = 0
            self.last = ""
            self.warnings.clear()
        for line in lines:
            text = one_line(line.decode(errors="replace"), 400)
            if phase := _PHASE.fullmatch(text):
                self.told += int(phase[1])
                self.unusable += int(phase[2])
            warning = text.removeprefix("parley: ")
            if warning.startswith("warning: "):
                self.warnings.append(warning.removeprefix("warning: "))
            self.last = text or self.last


class Folder:
    """The names in a folder, listed again only when it changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed: int | None = None
        self._listed = 0.0

    @property
    def changed(self) -> float | None:
        """When a name came or went last, in seconds since the epoch; None if there is no such folder."""
        return None if self._changed is None else self._changed / 1e9

    def names(self, now: float) -> list[str] | None:
        """Return the names; None if they are those of the last call. A folder that is not there has none."""
        try:
            changed = os.stat(self.path).st_mtime_ns
            settled = changed == self._changed and self._listed - changed / 1e9 > _SETTLED_SECONDS
            if settled and 0 <= now - self._listed < _RELIST_SECONDS:
                return None
            self._changed, self._listed = changed, now
            return os.listdir(self.path)
        except OSError:
            missing, self._changed = self._changed is None and self._listed > 0, None
            self._listed = now
            return None if missing else []


def last_words(path: Path, most: int = 300) -> str:
    """Return the last line of a log that says something, an error before anything else; "" if there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - (1 << 14), 0))
            lines = [one_line(line, most) for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        return ""
    ours = [line for line in lines if line.startswith("parley: ") and not line.startswith("parley: warning: ")]
    errors = [line for line in lines if re.search(r"\w*(?:Error|Exception)\b|\berror\b", line)]
    rest = [line for line in lines if line]
    return (ours or errors or rest or [""])[-1]
