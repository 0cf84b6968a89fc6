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


class Guard:
    """Watches the servers that this process started, in a thread of its own."""

    def __init__(self, patience: Callable[[], float]) -> None:
        """`patience` gives the seconds that an endpoint file is waited for."""
        self._patience = patience
        self._announced: set[psutil.Process] = set()
        self._due: dict[psutil.Process, float] = {}  # when an endpoint file has to be there, or a server to be gone
        self._terminated: dict[psutil.Process, float] = {}

    def start(self) -> None:
        """Watch until this process ends."""
        threading.Thread(target=self._run, daemon=True, name="parley-guard").start()

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with suppress(psutil.Error, OSError):
                for process in psutil.Process().children():
                    if (endpoint := _endpoint_of(process)) is not None:
                        self._look_at(process, endpoint, time.monotonic())

    def _look_at(self, process: psutil.Process, endpoint: Path, now: float) -> None:
        if process in self._terminated:
            if now - self._terminated[process] >= _KILL_SECONDS:
                process.kill()  # its watchdog ends what it started
        elif endpoint.exists():
            self._announced.add(process)
            self._due[process] = now + _GRACE_SECONDS
        elif now >= self._due.setdefault(process, now + _EARLY * self._patience()):
            self._terminated[process] = now
            fault = "did not announce itself in time, and is killed; on a slow file system: --latency-wait 600"
            if process in self._announced:
                fault = "did not end when it was told to, and is killed; no reply is lost"
            _log.error("the server of %s %s", endpoint, fault)
            process.terminate()
            process.resume()  # one that is stopped gets no other signal


def _endpoint_of(process: psutil.Process) -> Path | None:
    try:
        server = _SERVER.search(" ".join(process.cmdline()))
    except psutil.Error:
        return None
    return Path(server[1].strip("'\"")) if server else None
