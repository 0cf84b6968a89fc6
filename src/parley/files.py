"""Files that survive: whole or not at all, synced, locked; lines with a checksum; and the marks of finished stages."""

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from parley import paths
from parley.errors import JournalError, RecordError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def write_atomically(path: Path, write: Callable[[BinaryIO], object], mode: int = 0o666) -> None:
    """Have `write` fill a temporary file beside `path`, sync it, and rename it; raises RecordError if it cannot."""
    temporary = temporary_name(path)
    try:
        make_folder(path.parent)
        temporary.unlink(missing_ok=True)  # of a process that had the same number; a link is not followed
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}; free space and run again") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_new(texts: Mapping[Path, str]) -> list[Path]:
    """Write files that must not exist yet, with their folders; return their paths.

    Raises UsageError if one exists, before any is written, or cannot be written.
    """
    for path in texts:
        if os.path.lexists(path):
            raise UsageError(f"{path}: exists already, and nothing is overwritten; choose another name")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    return list(texts)


def read_columns(file: BinaryIO, names: Sequence[str] | None = None) -> "pa.Table":
    """Return columns of an open Parquet file, or all; raises OSError or pyarrow's exceptions for what is none.

    Read in this thread: given a file of Python's, pyarrow reads it in threads of its own, which abort a process
    that ends soon after (status 134; apache/arrow issues 33975 and 34314).
    """
    import pyarrow as pa  # slow to import
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(file.read())).read(columns=names, use_threads=False)


MAX_BYTES = 2**30  # of a file that is read as a whole, unless somebody says less


def open_regular(path: Path, follow: bool = True) -> BufferedReader:
    """Open a file for reading; raises OSError for all but regular files: others can be endless, or wait for ever.

    A link to one is refused unless `follow`. Results are followed: DVC may keep them as links into its cache.
    """
    return open(_open(path, os.O_RDONLY if follow else os.O_RDONLY | os.O_NOFOLLOW), "rb")


def open_to_append(path: Path, mode: int = 0o600) -> int:
    """Open a file that Parley goes on writing, to read and append, made where it is missing; return its descriptor.

    Raises JournalError, also for a link, and RecordError as `make_folder`.
    """
    try:
        make_folder(path.parent)
        return _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, mode)
    except OSError as error:
        raise failed(path, "opened", error) from error


def failed(path: Path, what: str, error: OSError) -> JournalError:
    """Return what to raise where a file that Parley goes on writing cannot be `what`."""
    remedy = "free space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "look at the folder and its disk"
    return JournalError(f"{path}: cannot be {what}: {error.strerror}; {remedy} and run again")


def _open(path: Path, flags: int, mode: int = 0o600) -> int:
    def require_regular(found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link"}
            kind = kinds.get(stat.S_IFMT(found.st_mode), "no regular file")
            raise OSError(errno.EINVAL, f"it is {kind}; a regular file should be there", str(path))

    # Before it is opened, since that alone does something to a device or a FIFO; and after, if it was replaced.
    with suppress(FileNotFoundError):
        require_regular(path.stat(follow_symlinks=not flags & os.O_NOFOLLOW))
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        require_regular(os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_regular(path: Path, most_bytes: int = MAX_BYTES, follow: bool = True) -> bytes:
    """Return the content of a file as `open_regular`; raises OSError, also for a file of more than `most_bytes`."""
    with open_regular(path, follow) as file:
        return read_at_most(file, most_bytes)


def read_at_most(file: BinaryIO, most_bytes: int = MAX_BYTES) -> bytes:
    """Return what is left of an open file; raises OSError if that is more than `most_bytes`."""
    # Room is made for all that is asked for: half a gigabyte for each small file takes longer than reading it.
    size = os.fstat(file.fileno()).st_size
    content = file.read(size + 1) if size <= most_bytes else b""
    if len(content) > size:  # it grew
        content += file.read(max(most_bytes + 1 - len(content), 0))
    if max(size, len(content)) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes")
    return content


_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


def temporary_name(path: Path) -> Path:
    """Return the hidden name beside `path` under which this process prepares it."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a file has a name of `temporary_name`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed had prepared for `path`, of a folder for all below it.

    Nobody else may be writing there.
    """
    inside = path.is_dir()
    for leftover in path.rglob(".*.tmp") if inside else path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if is_temporary(leftover):
            remove(leftover)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; each new one survives the death of the machine.

    Raises OSError, RecordError as `refuse_links`.
    """
    refuse_links(path)
    missing = []
    while not path.is_dir() and path != path.parent:
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def refuse_links(folder: Path) -> None:
    """Raise RecordError if a folder in the results or logs of a study is a link, or lies below one.

    What a link leads to is not Parley's to write or delete. Those above are the user's: of all results, of a study's.
    """
    here = "" if folder.is_absolute() and paths.root().is_absolute() else os.getcwd()
    whole = os.path.join(here, folder)  # a text: this is asked for each reply, and paths take three times as long
    for top in (os.path.join(here, paths.root() / each, "") for each in (paths.RESULTS, paths.LOGS)):
        place, *below = whole.removeprefix(top).split("/") if whole.startswith(top) else [""]
        for part in below:
            place = f"{place}/{part}"
            if os.path.islink(top + place):
                said = "is a link, and inside the results of a study nothing is written or deleted through links"
                raise RecordError(f"{top}{place}: {said}; replace it by a folder")


def remove(path: Path) -> None:
    """Remove a file of Parley's own, if it is there and the disk allows it; raises RecordError as `refuse_links`."""
    refuse_links(path.parent)
    with suppress(OSError):
        path.unlink()


def keep_only(written: Iterable[Path], listing: Path, folder: Path | None = None) -> None:
    """Remove what Parley wrote before by its own list, and not now, and nothing else; list what is `written` now.

    All of it lies in a folder, that of the list by default; nothing elsewhere is removed, whoever wrote the list.
    """
    folder = folder or listing.parent
    before: list[str] = []
    with suppress(OSError):  # there is none, or it is not ours
        before = read_regular(listing).decode(errors="replace").splitlines()
    names = sorted(path.relative_to(folder).as_posix() for path in written)
    for name in {*before}.difference(names):
        if not {"..", "/"}.intersection(Path(name).parts):
            remove(folder / name)
    write_atomically(listing, lambda file: file.write("\n".join(names).encode()))


def remove_empty_below(root: Path) -> None:
    """Remove a folder and those below it as far as they are empty; raises RecordError as `refuse_links`."""
    refuse_links(root)
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)


def sync_folder(path: Path) -> None:
    """Force the names in a folder onto the disk: syncing a new file alone does not cover its name. Raises OSError."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that syncs no folders
            raise
    finally:
        os.close(folder)


def try_lock(fd: int, path: Path, patience: float = 0.0) -> bool:
    """Lock an open file until it is closed, whatever ends this process; whether nobody else has it.

    Another process is given so many seconds to end.

    Raises JournalError where the file system knows no locks: without them two processes would play one simulation,
    or spend one budget.
    """
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        except OSError as error:
            raise JournalError(
                f"{path}: its file system cannot lock files ({error.strerror}); mount it with locks (option flock), "
                "or work in a folder on another file system"
            ) from error


_LOCK_SECONDS = 0.5  # `parley status` has the lock for an instant, to see whether it is held
_held: list[int] = []  # file descriptors; a lock lasts as long as its descriptor


def hold_lock(path: Path) -> None:
    """Lock a file until this process ends, however it ends.

    Raises JournalError if another process holds it, or if it cannot be made or locked.
    """
    fd = open_to_append(path)
    try:
        if not try_lock(fd, path, _LOCK_SECONDS):
            raise JournalError(f"{path}: another run of this study holds it; wait for that run or stop it")
    except JournalError:
        os.close(fd)
        raise
    _held.append(fd)


def is_locked(path: Path) -> bool:
    """Whether a process has a file locked; True if that cannot be told."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would wait for a writer
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def checked_line(data: Mapping[str, Any]) -> bytes:
    """Return `data` as one line of a file that is only appended to: the CRC-32 of the rest, a space, JSON."""
    body = json.dumps(data, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the content of a line of `checked_line`, or None if it is not whole."""
    if not line.endswith(b"\n") or len(line) < 10:
        return None
    checksum, body = line[:8], line[9:-1]
    try:
        if int(checksum, 16) != zlib.crc32(body):
            return None
        data = json.loads(body)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mark_done(study: str, stage: str, plan: str, more: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Mark a stage as done for a plan, with `more` that later stages are told (JSON values).

    The marks of other plans go: their outputs are gone.
    """
    stamp = paths.stamp(study, stage, plan)
    content = json.dumps({"plan": plan, **more}) + "\n"
    write_atomically(stamp, lambda file: file.write(content.encode()))
    for old in marks_done(study, stage):
        if old != stamp:
            remove(old)


def forget_done(study: str, stage: str) -> None:
    """Remove the marks of a stage: the next run makes it again."""
    for mark in marks_done(study, stage):
        remove(mark)


def marks_done(study: str, stage: str) -> list[Path]:
    """Return the marks of a stage, of whatever plan."""
    any_mark = paths.stamp(study, stage, "[0-9a-f]" * 8)
    return list(any_mark.parent.glob(any_mark.name))


def require_done(study: str, stage: str, plan: str, command: str) -> None:
    """Raise RecordError unless the stage was done for this plan: its outputs may show another set of simulations.

    `command` makes them, without `parley`: such as summarize demo.
    """
    stamp = paths.stamp(study, stage, plan)
    if not stamp.exists():
        raise RecordError(f"{stamp.parent}: not made for the study as it is now; run: parley {command}")
