"""Snakemake's executor of SLURM jobs (its plugin 2.8), fixed where it waits for ever or gives up too soon."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import snakemake_executor_plugin_slurm as plugin
import snakemake_executor_plugin_slurm_jobstep as jobstep
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from parley.errors import ParleyError
from parley.text import every, limited_logger, one_line
from parley.workflow.slurm import listed_jobs
from parley.workflow.stopping import STOPPED

_log = limited_logger(__name__)

_VERSION = "2.8."  # of the plugin whose methods are overridden or replaced here
_TELL_SECONDS = 300.0
# How long a job may be neither in the queue nor ended in the accounting, which comes late.
_LOST_SECONDS = 300.0
_ENDS = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
# Until SLURM puts a job back into the queue; the end of one that the queue says this of, or that is not there.
_ENDS_UNLESS_QUEUED = {"PREEMPTED": "CANCELLED", "NODE_FAIL": "FAILED"}
# Words of sbatch and of what the plugin asks before it: SLURM is busy, or its controller restarts.
_BUSY = re.compile(
    r"Socket timed out|temporarily un|Unable to contact slurm controller|Zero Bytes were transmitted"
    r"|Connection (?:refused|timed out|reset)"
)
_PAUSES = (5.0, 10.0, 20.0, 40.0, *[60.0] * 14)
_BUSY_SECONDS = 900.0  # how long SLURM may be so for all jobs together

_query: Any = getattr(plugin, "query_job_status", None)


class PatientExecutor(plugin.Executor):  # type: ignore[misc]
    """The plugin's executor, which ends once its jobs have, whatever SLURM's daemons do meanwhile."""

    waiting: Mapping[str, int] = {}  # how many jobs the queue holds back, by its reason

    def __init__(self, workflow: Any, logger: Any) -> None:
        """Inside of a job the plugin forgets all that begins with SLURM_, also where SLURM's configuration is."""
        configuration = os.environ.get("SLURM_CONF")
        super().__init__(workflow, logger)
        if configuration is not None:
            os.environ["SLURM_CONF"] = configuration

    def __post_init__(self, test_mode: bool = False) -> None:
        """Begin without jobs."""
        super().__post_init__(test_mode)
        self._asked: list[Any] = []
        self._missed: dict[str, float] = {}  # when a job was first in no list
        self._keeps_accounts = False
        self._refused: dict[Any, tuple[Any, str]] = {}  # jobs for which SLURM had no time, and its words
        self._busy_since: float | None = None

    def print_job_error(self, job_info: Any, msg: str | None = None, **more: Any) -> None:
        """Say why a group of jobs failed: Snakemake says that of single jobs alone."""
        if msg and job_info.job.is_group():
            more["why"] = msg
        super().print_job_error(job_info, msg=msg, **more)

    async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
        """Report the jobs that ended, and yield the others."""

        async def query(command: str, _: Any) -> tuple[dict[str, str], float]:
            began = time.monotonic()
            return await self._states([job.external_jobid for job in active_jobs], command), time.monotonic() - began

        plugin.query_job_status = query
        self._asked, still = active_jobs, []
        async for job in super().check_active_jobs(active_jobs):
            still.append(job)
            yield job
        self._asked = still

    def cancel_jobs(self, active_jobs: list[Any]) -> None:
        """Cancel jobs, also those that are being asked about, which Snakemake does not count among them meanwhile."""
        super().cancel_jobs([*active_jobs, *(job for job in self._asked if job not in active_jobs)])

    async def _states(self, jobs: list[str], command: str) -> dict[str, str]:
        """Return the states of `jobs` by the queue, else by the accounting if `command` asks that; or none."""
        listing = plugin.query_job_status_squeue(self.run_uuid).replace("%T", "%T %r")
        queue, _ = await _query(f"{listing} --clusters=all" if self._submitted_job_clusters else listing, self.logger)
        accounts: dict[str, str] | None = {}
        if not command.startswith("squeue"):
            accounts, _ = await _query(command, self.logger)
            self._keeps_accounts |= accounts is not None
        if queue is None:
            _log.warning("squeue does not answer; jobs go on, and are asked for again", extra=every(_TELL_SECONDS))
        else:
            queued = (words.partition(" ") for words in queue.values())
            self.waiting = dict(Counter(reason for word, _, reason in queued if word == "PENDING").most_common())
        states = {job: state for job in jobs if (state := _state(job, queue, accounts or {}))}
        all_answered = queue is not None and (accounts is not None or not self._keeps_accounts)
        now = time.monotonic()
        self._missed = {job: self._missed.get(job, now) for job in jobs if all_answered and job not in states}
        for job, since in self._missed.items():
            if now - since >= _LOST_SECONDS:
                _log.warning("SLURM job %s is gone, and nobody says how it ended; it counts as failed", job)
                states[job] = "FAILED"
        return states

    def run_job(self, job: Any) -> None:
        """Send a job; again if SLURM had no time for it, which costs none of its `retries`."""
        self._send(job)
        for pause in _PAUSES:
            if job not in self._refused:
                self._busy_since = None
                return
            self._busy_since = self._busy_since or time.monotonic()
            if time.monotonic() - self._busy_since > _BUSY_SECONDS or STOPPED.wait(pause):
                break
            listed = listed_jobs(f"--name={self.run_uuid}")
            if listed is None:
                continue
            del self._refused[job]
            # "Socket timed out" may be said of a job that is in the queue.
            sent = [number for number, comment, _ in listed if comment == f"rule_{job.name}"]
            if sent:
                self._adopt(job, sent[0])
            else:
                self._send(job)
        if job in self._refused:
            super()._report_job_error_threadsafe(*self._refused.pop(job))

    def _send(self, job: Any) -> None:
        try:
            super().run_job(job)
        except AttributeError as error:  # the plugin's report of any error wants a rule, which no group of jobs has
            why = error.__context__ or error
            self._report_job_error_threadsafe(SubmittedJobInfo(job), f"a job could not be sent: {why}")

    def _report_job_error_threadsafe(self, job_info: Any, msg: str) -> None:
        answer = msg.partition("sbatch call:")[0]
        if _BUSY.search(answer):
            self._refused[job_info.job] = job_info, msg
            _log.warning("a job is sent again: %s", one_line(answer, 300), extra=every(_TELL_SECONDS))
        else:
            super()._report_job_error_threadsafe(job_info, msg)

    def _adopt(self, job: Any, number: str) -> None:
        log = self.slurm_logdir / f"group_{job.name}" / f"{number}.log"
        self.logger.info(f"Job {job.jobid} has been submitted with SLURM jobid {number} (log: {log}).")
        self._report_job_submission_threadsafe(
            SubmittedJobInfo(job, external_jobid=number, aux={"slurm_logfile": log})
        )


def _state(job: str, queue: Mapping[str, str] | None, accounts: Mapping[str, str]) -> str | None:
    """Return a job's state in one word, as sacct's "CANCELLED by 1000" is not; None if it is unknown."""
    queued = queue is not None and job in queue
    word = next(iter((queue if queue is not None and queued else accounts).get(job, "").split()), "")
    if queue is not None:
        word = _ENDS_UNLESS_QUEUED.get(word, word)
    return word if queued or word in _ENDS else None


def mend_slurm() -> None:
    """Have Snakemake use it in this process, on the head node as on a job's; call it before anything runs."""
    ExecutorPluginRegistry().get_plugin("slurm").executor = PatientExecutor
    if configuration := os.environ.get("SLURM_CONF"):
        # A job's step takes it from the srun that it calls, which then knows no cluster, or another one.
        def popen(call: str, env: Mapping[str, str], **more: Any) -> Any:
            return subprocess.Popen(call, env={**env, "SLURM_CONF": configuration}, **more)

        jobstep.subprocess = SimpleNamespace(Popen=popen, PIPE=subprocess.PIPE)


def check_plugin(executor: Any) -> None:
    """Raise ParleyError if an executor of SLURM jobs is not fixed, or its plugin is of another version."""
    if shutil.which("sbatch") is None:
        raise ParleyError("no command `sbatch` on PATH; give the same command on a node from which jobs are sent")
    installed = version("snakemake-executor-plugin-slurm")
    if not isinstance(executor, PatientExecutor) or not installed.startswith(_VERSION):
        raise ParleyError(
            f"Parley's executor for SLURM goes with version {_VERSION} of Snakemake's plugin, and {installed} is "
            "there; install the versions that envs/cpu.txt names"
        )
