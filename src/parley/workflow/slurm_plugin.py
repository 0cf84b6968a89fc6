"""Snakemake's executor of SLURM jobs (its plugin 2.8), fixed where it waits for ever or gives up too soon."""

import itertools
import os
import re
import shlex
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
from parley.workflow.slurm import BUSY, listed_jobs, note_refusal
from parley.workflow.stopping import STOPPED

_log = limited_logger(__name__)

_VERSION = "2.8."  # of the plugin whose methods are overridden or replaced here
_TELL_SECONDS = 300.0
# How long a job may be neither in the queue nor ended in the accounting, which comes late.
_LOST_SECONDS = 300.0
_ENDS = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
# Until SLURM puts a job back into the queue; the end of one that the queue says this of, or that is not there.
_ENDS_UNLESS_QUEUED = {"PREEMPTED": "CANCELLED", "NODE_FAIL": "FAILED"}
# Words of sbatch: the person, or whoever shares a limit, may have no more jobs in the queue.
_FULL = re.compile(r"(?:Max|Grp)SubmitJob")
# The plugin's words: it could not tell the job's number from others that sbatch printed.
_UNREAD = "SLURM job ID"
_PAUSES = (1.0, 5.0, 10.0, 20.0, 40.0, 60.0)
_BUSY_SECONDS = 900.0  # how long SLURM may be busy for all jobs together

_query: Any = getattr(plugin, "query_job_status", None)


def _gpu_options(job: Any) -> str:
    """Return what asks sbatch for GPUs; the plugin's own refuses kinds with hyphens, as drivers name them."""
    gres, gpus, kind = (job.resources.get(key) for key in ("gres", "gpu", "gpu_model"))
    options = f" --gres={shlex.quote(gres)}" if gres else ""
    if gpus:
        options += f" --gpus={shlex.quote(f'{kind}:{gpus}' if kind else str(gpus))}"
    return options


plugin.set_gres_string = _gpu_options
# sbatch knows accounts better, and nobody asks `sacctmgr` once for each job.
plugin.validate_account = lambda account, logger: account
# At the end of a run they would be those of another one's jobs, too, which then cannot begin.
plugin.delete_empty_dirs = lambda folder: None


class PatientExecutor(plugin.Executor):  # type: ignore[misc]
    """The plugin's executor, which ends once its jobs have, whatever SLURM's daemons do meanwhile."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        """Inside of a job the plugin forgets all that begins with SLURM_, also where SLURM's configuration is."""
        configuration = os.environ.get("SLURM_CONF")
        super().__init__(workflow, logger)
        if configuration is not None:
            os.environ["SLURM_CONF"] = configuration

    def __post_init__(self, test_mode: bool = False) -> None:
        """Begin without jobs."""
        super().__post_init__(test_mode)
        # Where none is named, SLURM chooses: the plugin's guesses break sites that route jobs by other options.
        self._fallback_account_arg = self._fallback_partition = ""
        self._queued: Mapping[str, int] = {}  # how many jobs the queue holds back, by its reason
        self._asked: list[Any] = []
        self._missed: dict[str, float] = {}  # when a job was first in no list
        self._keeps_accounts = False
        self._refused: dict[Any, tuple[Any, str]] = {}  # jobs for which SLURM had no time or room, and its words
        self._numbers: set[str] = set()  # of the jobs that were sent
        self._busy_since: float | None = None

    @property
    def waiting(self) -> Mapping[str, int]:
        """How many jobs the queue holds back, by its reason, and how many it has no room for."""
        full = sum(bool(_FULL.search(answer)) for _, answer in [*self._refused.values()])
        return {**self._queued, **({"not sent (a limit of jobs)": full} if full else {})}

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
            self._queued = dict(Counter(reason for word, _, reason in queued if word == "PENDING").most_common())
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
        """Send a job; again if SLURM had no time or no room for it, which costs none of its `retries`."""
        if self._is_ending():  # it waited for its turn meanwhile
            super()._report_job_error_threadsafe(SubmittedJobInfo(job), "not sent: the run ends")
            return
        self._send(job)
        pauses = itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1]))
        while job in self._refused:
            _, answer = self._refused[job]
            self._busy_since = None if _FULL.search(answer) else self._busy_since or time.monotonic()
            late = self._busy_since is not None and time.monotonic() - self._busy_since > _BUSY_SECONDS
            if late or STOPPED.wait(next(pauses)) or self._is_ending():
                break
            listed = listed_jobs("--states=all", f"--name={self.run_uuid}")
            if isinstance(listed, str):
                continue
            # "Socket timed out" may be said of a job that is in the queue.
            sent = {number for number, comment, _ in listed if comment == f"rule_{job.name}"} - self._numbers
            if not sent and _UNREAD in answer:
                break
            del self._refused[job]
            if sent:
                self._adopt(job, sent.pop())
            else:
                self._send(job)
        if job in self._refused:
            super()._report_job_error_threadsafe(*self._refused.pop(job))
        else:
            self._busy_since = None

    def _is_ending(self) -> bool:
        """Whether no more jobs are to be sent: after Ctrl-C, or SIGTERM, of which Snakemake's scheduler knows."""
        return STOPPED.is_set() or getattr(self.workflow.scheduler, "_user_kill", None) is not None

    def _send(self, job: Any) -> None:
        try:
            super().run_job(job)
        except AttributeError as error:  # the plugin's report of any error wants a rule, which no group of jobs has
            why = error.__context__ or error
            self._report_job_error_threadsafe(SubmittedJobInfo(job), f"a job could not be sent: {why}")

    def _report_job_error_threadsafe(self, job_info: Any, msg: str) -> None:
        answer = msg.partition("sbatch call:")[0]
        full = _FULL.search(answer)
        if full or BUSY.search(answer) or _UNREAD in answer:
            self._refused[job_info.job] = job_info, answer
            said = "a limit of jobs is reached, the others are sent later: %s" if full else "a job is sent again: %s"
            if _UNREAD not in answer:
                _log.warning(said, one_line(answer, 300), extra=every(_TELL_SECONDS))
        else:
            if note_refusal(answer):  # it would be refused again
                job_info.job.attempt = job_info.job.restart_times + 1
            super()._report_job_error_threadsafe(job_info, msg)

    def _report_job_submission_threadsafe(self, job_info: Any) -> None:
        self._numbers.add(job_info.external_jobid)
        super()._report_job_submission_threadsafe(job_info)

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
    if missing := next((name for name in ("sbatch", "squeue") if shutil.which(name) is None), None):
        raise ParleyError(f"no command `{missing}` on PATH; give the same command on a node from which jobs are sent")
    installed = version("snakemake-executor-plugin-slurm")
    if not isinstance(executor, PatientExecutor) or not installed.startswith(_VERSION):
        raise ParleyError(
            f"Parley's executor for SLURM goes with version {_VERSION} of Snakemake's plugin, and {installed} is "
            "there; install the versions that envs/cpu.txt names"
        )
