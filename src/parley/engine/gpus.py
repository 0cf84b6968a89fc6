"""Which GPUs a server takes: free ones of those that its machine or cluster job has, so that servers run side by side.

What a server has taken is told by the names of sockets that it holds, which end with its process and leave nothing
behind: a file would stay on every node of a cluster.
"""

import logging
import os
import random
import socket
import time
from contextlib import ExitStack

from parley.engine import hardware
from parley.errors import EngineError

_log = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
_WAIT_SECONDS = 60.0  # a server that was told to end may take a while
_taken = ExitStack()  # as long as this process


def visible_gpus() -> list[str]:
    """Return the GPUs that this process sees: as `CUDA_VISIBLE_DEVICES` names them, else their numbers.

    Empty where nvidia-smi tells of none.
    """
    named = os.environ.get(VISIBLE)
    if named is None:
        return [line.strip() for line in hardware.nvidia_smi("index").splitlines() if line.strip().isdigit()]
    return [name for name in named.split(",") if name]


def take_gpus(count: int, seconds: float = _WAIT_SECONDS) -> None:
    """Let this process and what it starts see `count` GPUs alone, which no other server of this user has.

    They are its own until it ends. If too few get free in so many seconds, it shares some, and a line says so: who
    gave servers a part of the memory each may want that. Where no GPU is known of, nothing is changed. Raises
    EngineError if there are not as many.
    """
    names = visible_gpus()
    if not names:
        return
    if len(names) < count:
        raise EngineError(f"the server needs {count} GPUs, and its job or machine has {len(names)}; ask for more")
    end = time.monotonic() + seconds
    while len(found := _free(names, count)) < count:
        if time.monotonic() > end:
            found = random.sample(names, count)
            _log.warning(
                "other servers have too many of the GPUs %s; this one shares %s", *map(",".join, (names, found))
            )
            break
        time.sleep(random.uniform(0.2, 0.6))  # others may want the same, and have the rest
    os.environ[VISIBLE] = ",".join(found)


def _free(names: list[str], count: int) -> list[str]:
    """Take the first `count` GPUs that are free, and return them; if there are not as many, take none."""
    found = []
    with ExitStack() as held:
        for name in names:
            lock = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                lock.bind(_socket_name(name))
            except OSError:
                continue
            found.append(name)
            if len(found) == count:
                _taken.push(held.pop_all())
                break
    return found


def _socket_name(gpu: str) -> str:
    """Return a name in Linux's abstract namespace; GPUs of two cluster jobs on a node may have the same numbers."""
    return f"\0parley-gpu-{os.getuid()}-{os.environ.get('SLURM_JOB_ID', '')}-{gpu}"[:100]
