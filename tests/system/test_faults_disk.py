"""A disk that is really full (a small file system in memory), and file systems that know no locks or folder syncs."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.errors import JournalError
from parley.files import hold_lock, sync_folder
from parley.play.journal import Entry, Journal
from support import REPOSITORY
from support.mortal import End, Nursery, Undisturbed, World, finish

pytestmark = pytest.mark.promise("A full disk, missing locks or syncs end in one line, and the same command finishes.")

PAGE = 4096


class SmallDisk:
    """A tmpfs of a few pages and a few files, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", "size=400k,nr_inodes=100", "parley-test", str(folder))

    def limit(self, pages: int, files: int) -> None:
        """Leave room for so many more pages and files."""
        # tmpfs keeps no page for a folder or a short link; its own folder is one file.
        used = os.statvfs(self.folder)
        kilobytes = (used.f_blocks - used.f_bfree + pages) * PAGE // 1024
        inodes = used.f_files - used.f_ffree + files
        self._run("mount", "-o", f"remount,size={kilobytes}k,nr_inodes={inodes}", str(self.folder))

    def unmount(self) -> None:
        self._run("umount", str(self.folder))

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PermissionError(f"{command[0]}: {done.stderr.strip()}")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SmallDisk | None]:
    """A small disk; None where the test passed elsewhere, as a user who may mount one."""
    try:
        made = SmallDisk(tmp_path / "disk")
    except (PermissionError, FileNotFoundError) as error:
        if not _passes_in_a_namespace(request.node.nodeid):
            pytest.skip(f"a full disk needs a file system of its own, and this user cannot mount one ({error})")
        yield None
        return
    yield made
    made.unmount()


def _passes_in_a_namespace(test: str) -> bool:
    """Run a test as a user who may mount, in a user namespace; whether there is such a thing."""
    if "PARLEY_TEST_NAMESPACE" in os.environ:
        return False
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PARLEY_TEST_NAMESPACE": "1"}
    try:
        done = subprocess.run([*command, test], env=environment, cwd=REPOSITORY, capture_output=True, text=True)
    except FileNotFoundError:
        return False
    assert "failed" not in done.stdout, done.stdout
    return done.returncode == 0 and "1 passed" in done.stdout


def fill(world: World, disk: SmallDisk, pages: int, files: int) -> End:
    """Play on a disk with so much room, then free space; return how the process ended."""
    world.reset()
    disk.limit(pages, files)
    end = world.live()
    disk.limit(60, 60)
    return end


def check(world: World, undisturbed: Undisturbed, end: End) -> str:
    """Check that a full disk was said in one line and that the same command finishes; return the line."""
    assert end.status == 1
    assert len(end.err) == 1
    assert end.err[0].startswith("parley: results/small/")
    assert end.err[0].endswith("free space and run again")
    assert not [name for name in world.files() if name.endswith(".tmp")]
    assert not world.journal.exists() or world.journal.read_bytes()[-1:] in (b"", b"\n")  # no half a line
    finish(world, undisturbed)
    return end.err[0]


@pytest.mark.parametrize("kind", ["space", "names"])
@pytest.mark.rare
def test_after_a_full_disk_the_same_command_finishes(
    nursery: Nursery, disk: SmallDisk | None, tmp_path: Path, kind: str
) -> None:
    if disk is None:
        return
    world = World(nursery, disk.folder / "inside")
    world.notes = tmp_path / "notes"  # on another disk
    world.notes.mkdir()
    undisturbed = Undisturbed(world)
    lines, room = [], 0
    while True:
        end = fill(world, disk, room, 60) if kind == "space" else fill(world, disk, 60, room)
        if end.status == 0:
            break
        lines.append(check(world, undisturbed, end))
        room += 1
    # It was full at every point: for the table of conditions, the journal, then the record.
    assert len(lines) >= 3
    assert "conditions.parquet: cannot be" in lines[0]
    assert any(".jsonl: cannot be" in line for line in lines)
    assert any(".parquet: cannot be written: No space left on device" in line for line in lines)


def refusing(number: int) -> Callable[..., None]:
    """Return what fails as the file system does."""

    def fail(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free space"), (errno.EDQUOT, "free space"), (errno.EIO, "look at the folder and its disk")],
)
def test_a_journal_that_cannot_be_synced_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    with Journal(tmp_path / "j", "f" * 64) as journal:
        monkeypatch.setattr(os, "fsync", refusing(number))
        with pytest.raises(JournalError, match=f"j: cannot be written: {os.strerror(number)}; {remedy} and run again"):
            journal.sync()


# The machine dies


def test_a_new_journal_survives_the_machine_with_its_name_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    synced: list[str] = []
    sync = os.fsync

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    monkeypatch.setattr(os, "fsync", note)
    with Journal(Path("results/a/b/j"), "f" * 64) as journal:
        # Each folder that got a new name in it, before anything is asked.
        assert synced == [str(tmp_path / name) for name in ("", "results", "results/a", "results/a/b")]
        journal.append(Entry(1, "propose", "agent_1", 0, 7, "ask", "text", "stop", 100, 20, None, 1.5, 0.25))
        journal.sync()
        assert synced[-1] == str(tmp_path / "results/a/b/j")


def test_a_file_system_that_syncs_no_folders_is_used_and_one_that_cannot_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", refusing(errno.EINVAL))
    sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", refusing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        sync_folder(tmp_path)


# No locks


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_without_locks_a_simulation_stops_in_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(number))
    with pytest.raises(JournalError) as caught:
        Journal(tmp_path / "j", "f" * 64)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'j'}: its file system cannot lock files (")
    assert line.endswith("mount it with locks (option flock), or work in a folder on another file system")


def test_a_lock_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalError, match=r"file/lock: cannot be opened: "):
        hold_lock(tmp_path / "file" / "lock")
