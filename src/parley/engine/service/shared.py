"""What processes share through a folder, on one machine or on the nodes of a cluster, whatever ends them.

A small JSON mapping in a file is read and changed under the file's lock. Each process keeps a file of its own locked
while it lives, so that the others know which of the things in the mapping have lost their owner. File contents under a
lock are what every file system that has locks agrees on; names in a folder may be seen late on another node.
"""

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from parley import paths
from parley.errors import JournalError
from parley.files import checked_line, make_folder, parse_line, try_lock, unlock

_LOCK_POLL_SECONDS = (0.002, 0.05)  # the first one and the longest


class SharedState:
    """A mapping that processes share; an async context manager.

    Raises JournalError wherever the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = uuid.uuid4().hex[:12]  # a name for this process; it is in no result
        self._path = paths.shared_state(folder)
        self._turn = asyncio.Lock()  # the file's lock is one for all tasks of this process
        self._fd = self._own = -1

    async def __aenter__(self) -> "SharedState":
        try:
            make_folder(self.folder)
            self._fd = _open(self._path)
            async with self.changing():
                # What others see must be locked: nobody looks for the dead while this file is made.
                own = paths.shared_owner(self.folder, self.owner)
                self._own = _open(own)
                try_lock(self._own, own)
                self.bury(
                    paths.shared_owner_of(path) for path in self.folder.glob(paths.shared_owner(Path(), "*").name)
                )
        except OSError as error:
            self._close()
            raise JournalError(f"{self.folder}: cannot be used: {error.strerror}; look at its disk") from error
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(OSError):
            paths.shared_owner(self.folder, self.owner).unlink()
        self._close()

    def _close(self) -> None:
        for fd in (self._fd, self._own):
            if fd >= 0:
                os.close(fd)
        self._fd = self._own = -1

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the mapping while no other process can; what is changed in it is kept, unless an error ends this.

        Wait for nothing inside: all others do.
        """
        async with self._turn:
            pause, longest = _LOCK_POLL_SECONDS
            while not try_lock(self._fd, self._path):
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            try:
                before = self._read()
                state = json.loads(before) if before else {}
                yield state
                after = json.dumps(state)
                if after != before:
                    self._write(state)
            except OSError as error:
                raise JournalError(f"{self._path}: cannot be used: {error.strerror}; look at its disk") from error
            finally:
                unlock(self._fd)

    def bury(self, owners: Iterable[str]) -> set[str]:
        """Return which of `owners` are processes that are gone. Call it while `changing`."""
        return {owner for owner in set(owners) if owner != self.owner and self._is_gone(owner)}

    def _is_gone(self, owner: str) -> bool:
        path = paths.shared_owner(self.folder, owner)
        fd = _open(path)  # made where it is missing: a name that is not there may just be seen late
        try:
            gone = try_lock(fd, path)
            if gone:
                path.unlink(missing_ok=True)
            return gone
        finally:
            os.close(fd)

    def _read(self) -> str:
        """Return the mapping as JSON; "" if there is none, or if a machine died while it was written."""
        content = parse_line(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
        return "" if content is None else json.dumps(content)

    def _write(self, state: dict[str, Any]) -> None:
        line = checked_line(state)
        os.pwrite(self._fd, line, 0)
        os.ftruncate(self._fd, len(line))


def peek(folder: Path) -> dict[str, Any]:
    """Return what processes share in a folder, without waiting for them; nothing if it cannot be read just now."""
    try:
        return parse_line(paths.shared_state(folder).read_bytes()) or {}
    except OSError:
        return {}


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
