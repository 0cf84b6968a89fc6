"""What is no regular file is refused in one line: it could be endless, or never answer."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.files import open_regular, read_regular

pytestmark = pytest.mark.slow


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder_there(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def socket_there(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))


KINDS: list[tuple[Callable[[Path], None], str]] = [
    (fifo, "it is a FIFO (named pipe)"),
    (folder_there, "it is a folder"),
    (device, "it is a device"),
    (socket_there, "it is a socket"),
]
STUDY = "game: consensus\ngrids: [{model: tiny, n: 3, prompt: may_exist}]\n"
# The command, the name of the special file, and the study that stands beside it.
READERS = [
    (["expand", "special.yaml"], "special.yaml", ""),
    (["expand", "study.yaml"], "models.yaml", STUDY),
    (["summarize", "special.yaml"], "special.yaml", ""),
    (["replay", "special"], "special", ""),
    (["show", "special"], "special", ""),
    (["verify", "special"], "special", ""),
    (["problems", "gsm8k", "--path", "special.jsonl"], "special.jsonl", ""),
    (["problems", "policies", "--path", "special.yaml"], "special.yaml", ""),
    (["ledger", "verify", "special.jsonl"], "special.jsonl", ""),
    (["ledger", "show", "special.jsonl"], "special.jsonl", ""),
]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that would wait for ever, or fill the memory, if it read the file."""
    command = f"ulimit -v 8000000; exec {sys.executable} -m parley.cli {' '.join(arguments)}"
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


# What would wait for ever for all readers; the others for one that reads text, and one that reads bytes.
CASES = [(*KINDS[0], *reader) for reader in READERS]
CASES += [(*kind, *reader) for kind in KINDS[1:] for reader in READERS if reader[0][0] in ("expand", "show")]


@pytest.mark.parametrize(("kind", "words", "arguments", "name", "study"), CASES)
def test_a_special_file_is_refused_in_one_line(
    folder: Path, kind: Callable[[Path], None], words: str, arguments: list[str], name: str, study: str
) -> None:
    (folder / name).unlink(missing_ok=True)
    kind(folder / name)
    if study:
        (folder / "study.yaml").write_text(study)
    ended = run(folder, *arguments)
    assert ended.returncode in (1, 2), ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"parley: {name}: ")
    assert any(part in line for part in (words, "no file or folder", "a folder"))
    assert not ended.stdout


def test_a_file_that_becomes_a_fifo_between_the_look_and_the_opening_does_not_block(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "x"
    path.write_bytes(b"")
    real = os.stat

    def swapped(*arguments: object, **named: object) -> os.stat_result:
        found = real(*arguments, **named)  # type: ignore[call-overload]
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(OSError, match="FIFO"):
        open_regular(path)


def test_no_more_is_read_of_a_file_than_may_be(folder: Path) -> None:
    path = folder / "x"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(path, 4)


def test_a_file_is_read_to_its_end_whatever_size_it_says() -> None:
    """As those of /proc do, or one that grows."""
    assert b"VmHWM" in read_regular(Path("/proc/self/status"), 100_000)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular(Path("/proc/self/status"), 10)
