"""Snakemake's jobs on this machine, fixed (9.27): a thread for each job of a shard, and an end of servers that hang.

It starts one thread too few, so that one game waits for another to end. It sends a server SIGTERM after its last
simulation, or gives it up when its endpoint file does not appear, and then waits for its process, however long that
lives; in both cases the endpoint file is not there.
"""

import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import psutil
from snakemake.executors.local import Executor
from snakemake.jobs import Job
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

_log = logging.getLogger(__name__)

_SERVER = re.compile(r"parley(?:\.cli)? serve .*--endpoint (\S+)", re.DOTALL)
_LOOK_SECONDS = 1.0
# Before Snakemake gives it up: one that announced itself right after that would never be asked, and never end.
_EARLY = 0.9
# A server that is told to end has taken vLLM down by then (parley.engine.supervisor).
_GRACE_SECONDS = 15.0
_KILL_SECONDS = 5.0


class RoomyExecutor(Executor):  # type: ignore[misc]
    """Snakemake's executor of jobs on this machine, with a thread for what waits for a group, too: K + 2 for K."""

    workers: int
    pool: ThreadPoolExecutor

    def run_job(self, job: Any) -> None:
        """Run a job, or a group of jobs that run at once."""
        if job.is_group() and self.workers <= len(job):
            self.workers = len(job) + 1
            self.pool = ThreadPoolExecutor(self.workers)
        super().run_job(job)


def give_groups_room() -> None:
    """Have Snakemake use it in this process, on one machine as on a cluster's node; call it before anything runs."""
    ExecutorPluginRegistry().get_plugin("local").executor = RoomyExecutor


def keep_records() -> None:
    """Have Snakemake leave records alone: it would delete all outputs of a group of jobs if one of them fails."""
    for name in ("cleanup", "remove_existing_output"):
        setattr(Job, name, _except_of_records(getattr(Job, name)))


def _except_of_records(method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @wraps(method)
    async def delete(job: Any, *arguments: Any) -> None:
        if job.rule.name != "simulate":
            await method(job, *arguments)

    return delete


@dataclass
class _Watched:
    endpoint: Path
    due: float  # when its endpoint file has to be there, or was missed first
    announced: bool = False
    terminated: float | None = None  # when it was sent SIGTERM


class Guard:
    """Watches the servers that this process started, in a thread of its own."""

    def __init__(self, patience: Callable[[], float]) -> None:
        """`patience` gives the seconds that an endpoint file is waited for."""
        self._patience = patience
        self._servers: dict[psutil.Process, _Watched] = {}

    def start(self) -> None:
        """Watch until this process ends."""
        threading.Thread(target=self._run, daemon=True, name="parley-guard").start()

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with suppress(psutil.Error, OSError):
                self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Look once; `now` is in seconds of any clock."""
        serving = {process: path for process in psutil.Process().children() if (path := _endpoint_of(process))}
        self._servers = {process: watched for process, watched in self._servers.items() if process in serving}
        for process, path in serving.items():
            watched = self._servers.setdefault(process, _Watched(path, now + _EARLY * self._patience()))
            with suppress(psutil.Error):
                self._look_at(process, watched, now)

    def _look_at(self, process: psutil.Process, watched: _Watched, now: float) -> None:
        if watched.terminated is not None:
            if now - watched.terminated >= _KILL_SECONDS:
                process.kill()  # its watchdog ends what it started
        elif watched.endpoint.exists():
            watched.announced, watched.due = True, now + _GRACE_SECONDS
        elif now >= watched.due:
            watched.terminated = now
            _log.error("%s", _what(watched))
            process.terminate()
            process.resume()  # one that is stopped gets no other signal


def _what(watched: _Watched) -> str:
    name = f"the server of {watched.endpoint}"
    if watched.announced:
        return f"{name} did not end when it was told to, and is killed; no reply is lost"
    return f"{name} did not announce itself in time, and is killed; on a slow file system: --latency-wait 600"


def _endpoint_of(process: psutil.Process) -> Path | None:
    try:
        server = _SERVER.search(" ".join(process.cmdline()))
    except psutil.Error:
        return None
    return Path(server[1].strip("'\"")) if server else None
