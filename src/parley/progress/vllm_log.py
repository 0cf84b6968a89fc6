"""What vLLM says in its log: the one text that is read for what it says, since somebody else writes it."""

import os
import re
from pathlib import Path

_LOADED = b"Application startup complete"
_LOAD = re.compile(rb"generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs")
_MAX_BYTES = 1 << 24  # of one look: the rest comes with the next
_LOAD_SECONDS = 30.0  # for so long a load holds


class VllmLog:
    """The log of one server, read from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.loaded = False
        self._path = path
        self._inode = self._offset = 0
        self._load = (0.0, 0.0, 0, 0)  # when it was said, tokens written per second, requests running and waiting

    def look(self) -> None:
        """Read what is new."""
        for line in self._lines():
            self.loaded = self.loaded or _LOADED in line
            if found := _LOAD.search(line):
                self._load = (self._written, float(found[1]), int(found[2]), int(found[3]))

    def load(self, now: float) -> tuple[float, int, int]:
        """Return tokens written per second, requests running and waiting; zeros if nothing was said of late."""
        at, *load = self._load
        return (load[0], int(load[1]), int(load[2])) if now - at < _LOAD_SECONDS else (0.0, 0, 0)

    def _lines(self) -> list[bytes]:
        """Return the whole lines since the last call: all of them if the file is another one than then."""
        try:
            status = os.stat(self._path)
            self._written = status.st_mtime
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
            if status.st_size == self._offset:
                return []
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read(_MAX_BYTES)
        except OSError:
            return []
        whole = content.rfind(b"\n") + 1
        self._offset += whole
        return content[:whole].splitlines()
