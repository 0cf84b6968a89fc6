"""Signs of life of what takes long: a line that is rewritten on a terminal, and now and then a line elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TypeVar

QUIET_SECONDS = 10.0  # between two lines where no terminal is
_Item = TypeVar("_Item")


class Step:
    """One step, told on stderr from its beginning to its end: `with Step("joining", total_bytes) as step`."""

    def __init__(self, title: str, total: int = 0, unit: str = "MB") -> None:
        """`total` is in bytes if the unit is MB, else in that unit; 0 if it is unknown."""
        self._title = title
        self._total = total
        self._unit = unit
        self._done = 0
        self._begun = time.monotonic()
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell_on, daemon=True)

    def __enter__(self) -> "Step":
        self._begun = time.monotonic()
        self._tell(self._progress(), lasting=False)
        self._teller.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ended.set()
        self._teller.join()
        self._tell("stopped" if kind else f"done in {time.monotonic() - self._begun:.0f} s", lasting=True)

    def blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield a file's content, and count its bytes."""
        while block := file.read(1 << 20):
            yield block
            self._done += len(block)

    def over(self, items: Sequence[_Item]) -> Iterator[_Item]:
        """Yield the items and count them: they are the total of this step from now on."""
        self._total, self._done = len(items), 0
        for item in items:
            yield item
            self._done += 1

    def _progress(self) -> str:
        seconds = time.monotonic() - self._begun
        so_far = f"{seconds:.0f} s" if seconds >= 1 else "..."
        if not self._total:
            return so_far
        divisor = 1_000_000 if self._unit == "MB" else 1
        done, total = self._done // divisor, self._total // divisor
        return f"{done:,} of {total:,} {self._unit} ({self._done * 100 // self._total}%), {so_far}"

    def _tell_on(self) -> None:
        pause = 0.5 if sys.stderr.isatty() else QUIET_SECONDS
        while not self._ended.wait(pause):
            self._tell(self._progress(), lasting=False)

    def _tell(self, text: str, lasting: bool) -> None:
        line = f"{self._title}: {text}"
        if not sys.stderr.isatty():
            print(line, file=sys.stderr, flush=True)
            return
        width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
        print(f"\r\x1b[K{line[:width]}", end="\n" if lasting else "", file=sys.stderr, flush=True)
