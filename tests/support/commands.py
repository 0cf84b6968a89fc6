"""Running `parley` in this process."""

import fcntl
import io
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from parley import cli
from parley.games.base import Game
from parley.games.playing import FIRST_STEP
from parley.games.registry import GAMES
from parley.policies import Ask, Completion
from parley.study.condition import Simulation
from parley.text import Hearing, log_line, logged_to
from support.replies import TEXTS, Hostility, play_parameters, reply_kinds
from support.studies import StudyFactory


@dataclass(frozen=True)
class Ran:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str


Parley = Callable[..., Ran]


@pytest.fixture
def parley(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Parley:
    """Run the command line in this process."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["parley", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


def one_line_error(ran: Ran, status: int) -> str:
    assert ran.status == status
    assert ran.err.startswith("parley: ")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    return ran.err


@contextmanager
def bounded(seconds: float = 20) -> Iterator[None]:
    """Let what waits for ever, or fills the memory, fail instead."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError("waits for ever")

    before = signal.signal(signal.SIGALRM, give_up)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000_000, limits[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


# Hear what the library says while it works, as the command line would print it


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the lines that the library says while the context lasts."""
    lines: list[str] = []
    with logged_to(Hearing(lambda record: lines.append(log_line(record)))):
        yield lines


# Games to be watched: agents that mostly reply as asked, with hostile texts; a terminal that keeps what is drawn


ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
_COLORS = re.compile("\x1b\\[[0-9;]*m")


@cache
def _kinds(game: type[Game]) -> dict[tuple[str, str], tuple[type[BaseModel], list[dict[str, Any]]]]:
    return reply_kinds(game)


class RudePolicy:
    """Replies as asked, with hostile texts where texts are; each fifth reply is no reply at all."""

    def __init__(self, game: type[Game]) -> None:
        self._game = game

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        if ask.reply_format == "free":
            return Completion(TEXTS[seed % len(TEXTS)], "stop", 10, 5, None)
        model, proper = _kinds(self._game)[ask.role, ask.phase.removesuffix(FIRST_STEP)]
        text = "\x1b[2J[red]no[/red]" if seed % 5 == 0 else Hostility(model, proper, seed).polite()
        return Completion(text, "stop", 10, 5, None)


def watched(make: StudyFactory, name: str, seed: int = 1) -> Simulation:
    """Return a simulation of a game with Byzantine agents."""
    game = GAMES[name]
    grid = {"model": "tiny", "n": 5, "b": 2, "prompt": next(iter(game.prompts))}
    study = make(grid, game=name, parameters=play_parameters(game))
    return Simulation(study.conditions[0], seed)


class Terminal(io.StringIO):
    """A terminal of so many columns and lines."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    @property
    def after(self) -> list[str]:
        """The lines that stay when the screen is left, without colors."""
        return _COLORS.sub("", self.getvalue().rpartition(BACK)[2].replace(SHOW, "")).splitlines()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns and 24 lines."""
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


# Processes beside this one


def wait_until(condition: Callable[[], object], pause: float = 0.02) -> None:
    """Return once a condition holds."""
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end, "waits for ever"
        time.sleep(pause)


def in_terminal(
    command: Sequence[str | Path], variables: Mapping[str, str] = os.environ, interrupt_at: str | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of its own; return its exit status and all that it wrote there.

    It gets Ctrl-C once `interrupt_at` was written.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**variables, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    written = b""
    with suppress(OSError), open(ours, "rb", buffering=0) as terminal:  # an error: the other end is closed
        while part := terminal.read(65536):
            written += part
            if interrupt_at is not None and interrupt_at.encode() in written:
                interrupt_at = None
                os.killpg(process.pid, signal.SIGINT)
    return process.wait(timeout=120), written.decode(errors="replace")


def line(process: subprocess.Popen[str], text: str) -> None:
    """Read what a process says up to a line with this text."""
    assert process.stdout is not None
    while text not in (found := process.stdout.readline()):
        assert found, f"ended without saying {text!r}"


def end(server: subprocess.Popen[str], status: int) -> str:
    """Return what a server says until it ends, which is soon and without a traceback."""
    out, _ = server.communicate(timeout=30)
    assert server.returncode == status, out
    assert status or "Traceback" not in out
    return out
