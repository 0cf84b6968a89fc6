"""Engines that stay for the next caller (`parley serve MODEL --keep 30m`), and how it finds them.

The endpoint file of a kept engine lies in a folder that its user alone can enter, and is named by the hash of all that
its replies depend on. The file's time is that of the last use. The engine ends when nobody was connected to it for as
long as it was to be kept.
"""

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from parley.engine import server
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError
from parley.files import remove
from parley.identity import digest

_LISTENS = "00010000"  # of a socket, as Linux writes it
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


def find_kept(name: str, entry: ModelEntry) -> Path | None:
    """Return the endpoint file of an engine that is kept for this entry; None where there is none.

    The file of one that was killed is removed.
    """
    try:
        path = endpoint_of(name, entry)
        found = read_endpoint(path)
    except EngineError:  # also of a folder that is not to be trusted: who keeps none is not concerned by it
        return None
    if serves(found):
        os.utime(path)  # it is about to be used
        return path
    remove(path)
    return None


def is_over(endpoint: Path, announced: Endpoint) -> bool:
    """Whether nobody used an engine for as long as it was to be kept."""
    lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    flags = [line.split()[3] for line in lines if line.endswith(f" {announced.socket}")]
    try:
        if flags != [_LISTENS]:  # it does not while the model is loaded, and has one more for each connection
            os.utime(endpoint)
        return time.time() - endpoint.stat().st_mtime >= announced.keep
    except FileNotFoundError:  # which the server looks for, too
        return False


def kept_engines() -> Iterator[tuple[Path, Endpoint, float]]:
    """Yield the endpoint file of each kept engine, what it says, and the seconds since it was last used."""
    for path in sorted(kept_folder().glob("*.json")):
        try:
            found = read_endpoint(path)
            since = time.time() - path.stat().st_mtime
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
