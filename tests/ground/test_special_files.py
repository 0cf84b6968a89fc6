"""What is no regular file is refused in one line: it could be endless, or never answer."""

import os
import resource
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import Parley

pytestmark = pytest.mark.promise("A FIFO, device or socket in the place of a file is one line.")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))


KINDS = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": bind,
}
STUDY = "game: consensus\ngrids: [{model: tiny, n: 3, prompt: may_exist}]\n"
# The command, and the name of the special file.
READERS = [
    ("expand special.yaml", "special.yaml"),
    ("expand study.yaml", "models.yaml"),
    ("replay special", "special"),
    ("problems '{kind: gsm8k, path: special.jsonl}'", "special.jsonl"),
    ("problems '{kind: policies, path: special.yaml}'", "special.yaml"),
    ("ledger verify special.jsonl", "special.jsonl"),
]


@contextmanager
def bounded() -> Iterator[None]:
    """Let what waits for ever, or fills the memory, fail instead."""

    def give_up(number: int, frame: object) -> None:
        raise AssertionError("waits for ever")

    before = signal.signal(signal.SIGALRM, give_up)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    signal.setitimer(signal.ITIMER_REAL, 20)
    resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000_000, limits[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("kind", KINDS)
def test_a_special_file_is_refused_in_one_line(folder: Path, parley: Parley, kind: str) -> None:
    (folder / "study.yaml").write_text(STUDY)
    (folder / "models.yaml").unlink()
    for line, name in READERS:
        if kind == "a folder" and "gsm8k" in line:
            continue  # as they are published
        KINDS[kind](folder / name)
        with bounded():
            ran = parley(*shlex.split(line))
        (folder / name).rmdir() if kind == "a folder" else (folder / name).unlink()
        assert ran.status in (1, 2), line
        [said] = ran.err.splitlines()
        assert said.startswith(f"parley: {name}: "), line
        assert any(part in said for part in ("no regular file", "no file or folder", "a folder")), said
        assert not ran.out
