"""What holds a study up, in the words of its jobs: waits and failures of many simulations are one line."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parley.play.pace import duration
from parley.text import one_line

_LITTLE_BYTES = 200_000_000
_LITTLE_NAMES = 1_000
_STOPPED = "stopped: "
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TRYING = re.compile(r"; trying again in \d+ s$")
_HELD = re.compile(r"waiting for (?:the limits of .*|requests in flight.*)")


@dataclass(frozen=True)
class Problem:
    """Something that a person should know: its text, since when (seconds), how many simulations it holds up."""

    text: str
    seconds: float | None = None
    simulations: int = 0
    serious: bool = True

    def __str__(self) -> str:
        parts = []
        if self.simulations:
            parts.append(f"{self.simulations} simulation{'' if self.simulations == 1 else 's'}")
        if self.text.startswith(_STOPPED):
            return " ".join([*parts, self.text])
        if self.seconds is not None and self.seconds >= 1:
            parts.append(f"for {duration(self.seconds)}")
        return f"{', '.join(parts)}: {self.text}" if parts else self.text

    @property
    def key(self) -> str:
        """The same for the same problem, whatever the numbers in its text."""
        return _NUMBER.sub("#", self.text)


class Problems:
    """Remembers since when each problem is there."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(
        self, now: float, waits: Iterable[tuple[str, bool]], found: Sequence[str], warnings: Iterable[str]
    ) -> list[Problem]:
        """Return the problems of now, the serious ones first.

        `waits` are the last lines of jobs and whether their process lives, `found` are problems as they are.
        """
        held: dict[str, list[Problem]] = {}
        for line, alive in waits:
            if (problem := _problem(line, alive)) is not None:
                held.setdefault(problem.key, []).append(problem)
        problems = [Problem(text) for text in found]
        problems += [Problem(group[-1].text, None, len(group), group[-1].serious) for group in held.values()]
        keys = {problem.key for problem in problems}
        self._since = {key: self._since.get(key, now) for key in keys}
        lasting = [Problem(p.text, now - self._since[p.key], p.simulations, p.serious) for p in problems]
        return [
            *sorted(lasting, key=lambda problem: (not problem.serious, problem.text)),
            *(Problem(text, serious=False) for text in sorted(warnings)),
        ]


def _problem(line: str, alive: bool) -> Problem | None:
    """Return what the last line of a job says of its state; None if nothing is wrong."""
    if alive and _TRYING.search(line):
        return Problem(f"{_TRYING.sub('', line)}; trying again")
    if alive and _HELD.fullmatch(line):
        return Problem(line, serious=False)
    # Last words, whether or not it was seen already that the process is gone.
    if line.startswith("parley: ") and not line.startswith("parley: warning: "):
        return Problem(f"{_STOPPED}{line.removeprefix('parley: ')}")
    return None


def disk_problem(folder: Path) -> str | None:
    """Return in words that the disk of a folder is nearly full; None if it is not."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    free = found.f_bavail * found.f_frsize
    if found.f_blocks and free < _LITTLE_BYTES:
        return one_line(f"the disk of {folder}/ is nearly full: {free // 1_000_000} MB left")
    if found.f_files and found.f_favail < _LITTLE_NAMES:
        return one_line(f"the disk of {folder}/ is nearly full: room for {found.f_favail} more files")
    return None
