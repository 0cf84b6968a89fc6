"""Engines that stay for the next caller (`parley serve MODEL --keep 30m`), and how it finds them.

The endpoint file of a kept engine lies in a folder that its user alone can enter, and is named by the hash of all that
its replies depend on. Who asks it holds a shared lock on the file beside it. The engine ends when nobody has held one
for as long as it was to be kept, whatever ended those who did.
"""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from parley.engine import server
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError
from parley.files import open_to_append, remove
from parley.identity import digest

_END_SECONDS = 20.0  # a server whose endpoint file is gone has noticed, and taken vLLM down, by then


def kept_folder() -> Path:
    """Return the folder of kept engines of this user; raises EngineError if others could enter it."""
    folder = Path(server.runtime_folder()) / f"parley-kept-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise EngineError(f"{folder}: others can enter it or made it; remove it")
    return folder


def endpoint_of(name: str, entry: ModelEntry) -> Path:
    """Return where the endpoint file of a kept engine of this entry is: the same for the same arguments alone.

    Also what GPUs it may see, vLLM's own variables and the cluster job that it would end with are the same.
    """
    seen = {key: value for key, value in os.environ.items() if key.startswith(("CUDA_", "VLLM_", "SLURM_JOB_ID"))}
    command = server.server_command(name, entry, Path("MODEL"), "SOCKET")
    return kept_folder() / f"{digest([command, entry.identity(), seen])[:32]}.json"


def borrow(held: ExitStack, name: str, entry: ModelEntry) -> Path | None:
    """Return the endpoint file of an engine that is kept for this entry, and keep it until `held` is closed.

    None where there is none. The file of one that was killed is removed.
    """
    try:
        path = endpoint_of(name, entry)
    except EngineError:  # who keeps none is not concerned by the folder
        return None
    if not path.exists():
        return None
    with ExitStack() as here:
        lock = open_to_append(path.with_suffix(".lock"))
        here.callback(os.close, lock)
        here.callback(os.utime, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            found = read_endpoint(path)
        except (BlockingIOError, EngineError):  # it is just ending
            return None
        if not serves(found):
            remove(path)
            return None
        os.utime(lock)
        held.push(here.pop_all())
    return path


class Keeper:
    """Knows when a kept engine was not used for `seconds`; then nobody can borrow it any more."""

    def __init__(self, endpoint: Path, seconds: float) -> None:
        self._seconds = seconds
        self._lock = open_to_append(endpoint.with_suffix(".lock"))
        os.utime(self._lock)

    def is_over(self) -> bool:
        """Whether its time is over, and nobody uses it."""
        if time.time() - os.fstat(self._lock).st_mtime < self._seconds:
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.utime(self._lock)  # whoever uses it may be killed, and touches nothing then
            return False
        return True


def kept_engines() -> Iterator[tuple[Path, Endpoint, float]]:
    """Yield the endpoint file of each kept engine, what it says, and the seconds since it was last used."""
    for path in sorted(kept_folder().glob("*.json")):
        try:
            found = read_endpoint(path)
            since = time.time() - path.with_suffix(".lock").stat().st_mtime
        except (EngineError, FileNotFoundError):
            continue
        if serves(found):
            yield path, found, max(since, 0.0)


def stop_kept(model: str | None) -> list[str]:
    """End the kept engines of a model, or all, and return their names."""
    ended = [(path, found) for path, found, _ in kept_engines() if model in (None, found.model)]
    for path, _ in ended:
        remove(path)  # which a server looks for each second
    end = time.monotonic() + _END_SECONDS
    while any(found.alive for _, found in ended) and time.monotonic() < end:
        time.sleep(0.1)
    return [found.model for _, found in ended]


def refuse_on_login_node() -> None:
    """Raise UsageError where an engine would stay on a cluster's login node."""
    if shutil.which("sbatch") and "SLURMD_NODENAME" not in os.environ:  # salloc's own shell has a job, and no node
        raise UsageError(
            "--keep: this machine can send jobs to SLURM, and an engine would stay on it; take a node first, for "
            "example by: srun --gpus 1 --pty bash"
        )


def serves(found: Endpoint) -> bool:
    """Whether an engine is there, or about to be."""
    return found.alive and found.state != FAILED
