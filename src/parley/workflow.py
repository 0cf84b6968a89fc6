"""What the Snakefile needs of the machine: one run at a time per study, a name for it, and Parley's own programs."""

import os
import sys
import uuid
from pathlib import Path

from parley.errors import JournalError
from parley.files import try_lock

_RUN = "PARLEY_RUN"

_held: list[int] = []  # file descriptors; a lock lasts as long as its descriptor


def hold_lock(path: Path) -> None:
    """Lock a file until this process ends, however it ends.

    Raises JournalError if another process holds it, or if it cannot be made or locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        if not try_lock(fd, path):
            raise JournalError(f"{path}: another run of this study holds it; wait for that run or stop it")
    except JournalError:
        os.close(fd)
        raise
    _held.append(fd)


def find_own_programs() -> None:
    """Let jobs find `parley` beside the Python that runs Snakemake, even if its environment is not activated."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def run_token() -> str:
    """Return a name for this run of the workflow: the same in all its jobs, on whatever node, and in no other run."""
    return os.environ.setdefault(_RUN, uuid.uuid4().hex[:8])


def restart() -> None:
    """Start this program anew, with the same arguments, in the same process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ.pop(_RUN, None)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
