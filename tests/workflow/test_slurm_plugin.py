"""Snakemake's executor of SLURM jobs, the plugin's own but for what SLURM's programs answer."""

import asyncio
import contextlib
import logging
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from parley.errors import ParleyError
from parley.workflow import slurm, slurm_plugin
from parley.workflow.slurm import refusal_line

pytestmark = [pytest.mark.promise("A SLURM job ends when SLURM says so and is never forgotten."), pytest.mark.slow]

Answer = dict[str, str] | None  # states by job; None: the program failed
R, P, C = "RUNNING", "PENDING", "COMPLETED"


class Resources(dict[str, Any]):
    __getattr__ = dict.get


class Group:
    """A job of Snakemake's, as far as sbatch is concerned."""

    name, jobid, threads, restart_times = "study=tiny=0_serve", 3, 1, 3
    resources = Resources(runtime=5, mem_mb=100, nodes=1, gpu=2, gpu_model="nvidia_a100-sxm4-40gb")

    def __init__(self) -> None:
        self.attempt = 1

    def is_group(self) -> bool:
        return True


class Executor(slurm_plugin.PatientExecutor):
    """Keeps what it would tell Snakemake's scheduler."""

    def __init__(self, folder: Path) -> None:
        # Else the plugin asks sinfo for it, which is on no machine without SLURM.
        settings = plugin.ExecutorSettings(
            requeue=True, status_attempts=1, delete_logfiles_older_than=0, status_command="sacct"
        )
        self.scheduler = SimpleNamespace(_user_kill=None)
        self.workflow = SimpleNamespace(executor_settings=settings, workdir_init=str(folder), scheduler=self.scheduler)
        self.logger = logging.getLogger("snakemake")
        self.status_rate_limiter = contextlib.nullcontext()
        self._next_seconds_between_status_checks = 1
        self.__post_init__()
        self.told: list[str] = []

    def report_job_success(self, job_info: SubmittedJobInfo) -> None:
        self.told.append("success")

    def report_job_error(self, job_info: SubmittedJobInfo, msg: str, **_: Any) -> None:
        self.told.append(f"error {msg}")

    def report_job_submission(self, job_info: SubmittedJobInfo) -> None:
        self.told.append(f"sent {job_info.external_jobid} {job_info.aux['slurm_logfile'].name}")

    def format_job_exec(self, job: Any) -> str:
        return "true"


@pytest.fixture
def executor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Executor:
    monkeypatch.setattr(plugin, "query_job_status", None)  # put back afterwards
    monkeypatch.setattr(slurm, "_refusal", [])
    monkeypatch.setattr(plugin, "get_min_job_age", lambda: 300)
    monkeypatch.setattr(plugin, "get_max_array_size", lambda: 1000)
    monkeypatch.setattr(plugin, "is_query_tool_available", lambda name: True)
    return Executor(folder)


# What squeue and sacct say of job 7, every 100 seconds, and how often they are asked until it has ended how.
CYCLES: dict[str, tuple[list[tuple[Answer, Answer]], str]] = {
    "canceled": ([({"7": R}, {"7": R}), ({}, {"7": "CANCELLED by 1000"})], "error"),
    "preempted for good": ([({"7": "PREEMPTED"}, {"7": "PREEMPTED"})], "error"),
    "preempted, and queued again": ([*[({"7": P}, {"7": "PREEMPTED"})] * 9, ({"7": C}, {"7": C})], "success"),
    "its node died, and it is queued again": ([*[({"7": P}, {"7": "NODE_FAIL"})] * 9, ({}, {"7": C})], "success"),
    "nobody answers for a while": ([({"7": R}, {"7": R}), *[(None, None)] * 9, ({}, {"7": C})], "success"),
    "the controller restarts": ([(None, {"7": R}), *[(None, {"7": "PREEMPTED"})] * 9, ({"7": C}, {})], "success"),
    "accounting is away": ([*[({"7": R}, None)] * 9, ({"7": C}, None)], "success"),
    "accounting is late": ([({"7": R}, {}), ({}, {"7": R}), ({}, {"7": R}), ({}, {"7": "TIMEOUT"})], "error"),
    "gone, and the accounting never saw its end": ([({"7": R}, {}), *[({}, {"7": R})] * 4], "error"),
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_job_ends_when_slurm_says_so_and_is_never_forgotten(
    name: str, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles, end = CYCLES[name]
    answers = iter([answer for cycle in cycles for answer in cycle])

    async def query(command: str, logger: Any) -> tuple[Answer, float | None]:
        assert executor.run_uuid in command
        executor.cancel_jobs([])  # Ctrl-C while a question takes long
        return next(answers), 0.0

    async def active(jobs: list[SubmittedJobInfo]) -> list[SubmittedJobInfo]:
        return [job async for job in executor.check_active_jobs(jobs)]

    monkeypatch.setattr(slurm_plugin, "_query", query)
    canceled: list[str | None] = []
    monkeypatch.setattr(
        plugin, "cancel_slurm_jobs", lambda jobs, *_: canceled.extend(job.external_jobid for job in jobs)
    )
    log = SimpleNamespace(exists=lambda: False)
    jobs = [SubmittedJobInfo(Group(), external_jobid="7", aux={"slurm_logfile": log})]
    for number in range(len(cycles)):
        monkeypatch.setattr(slurm_plugin.time, "monotonic", lambda number=number: 100.0 * number)
        assert executor.told == []
        jobs = asyncio.run(active(jobs))
        assert len(jobs) == (number + 1 < len(cycles))
    assert [told.split()[0] for told in executor.told] == [end]
    assert canceled == ["7"] * 2 * len(cycles)


def test_what_jobs_wait_for_is_counted_and_kept_while_nobody_answers(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = {"1": f"{P} Priority", "2": f"{P} Resources", "3": f"{P} Priority", "4": f"{R} None", "5": C}
    answers = iter([pending, None])

    async def query(command: str, logger: Any) -> tuple[Answer, float | None]:
        return next(answers), 0.0

    monkeypatch.setattr(slurm_plugin, "_query", query)
    for _ in range(2):
        asyncio.run(executor._states([*pending], "squeue"))
        assert executor.waiting == {"Priority": 2, "Resources": 1}
    executor._refused = {"full": (None, "QOSMaxSubmitJobPerUserLimit"), "busy": (None, "Socket timed out")}
    assert executor.waiting == {"Priority": 2, "Resources": 1, "not sent (a limit of jobs)": 1}


FAILED = "sbatch: error: Batch job submission failed: "
# What sbatch says, one call after the other, whether SLURM has the job all the same, and how often sbatch is called.
SENT = {
    "timeout": ([f"{FAILED}Socket timed out on send/recv operation"], True, "sent 5 5.log", 1),
    "busy": (["sbatch: error: Slurm temporarily unable to accept job, retrying."] * 3, False, "sent 9 9.log", 4),
    "busy for long": ([f"{FAILED}Resource temporarily unavailable"], False, "error", 1),
    "full": ([f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}Job violates"] * 9, False, "sent 9 9.log", 10),
    "refused": ([f"{FAILED}Invalid qos specification"], False, "error", 1),
    "banner": ([""], True, "sent 5 5.log", 1),
    "banner alone": ([""], False, "error", 1),
}


@pytest.mark.parametrize("name", SENT)
def test_what_sbatch_cannot_do_for_a_moment_costs_no_attempt(
    name: str, executor: Executor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, accepted, end, calls = SENT[name]
    mine = "\\trule_study=tiny=0_serve\\t/lab\\n"
    listed = f"4{mine}" + f"5{mine}6\\trule_study=tiny=1_serve\\t/lab\\n" * accepted
    executor._numbers.add("4")  # a former attempt, which has ended
    cases = "".join(f"{number}) echo {shlex.quote(text)} >&2; exit 1;; " for number, text in enumerate(errors) if text)
    number = "12 December: 9" if "banner" in name else "9"
    said = f'n=$(cat calls 2>/dev/null | wc -l); echo "$@" >> calls; case $n in {cases}*) echo {number};; esac'
    for program, script in (("sbatch", said), ("squeue", f"printf '{listed}'")):
        (folder / program).write_text(f"#!/bin/sh\n{script}\n")
        (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(slurm_plugin, "_PAUSES", (0.0,))
    if name in ("busy for long", "full"):
        monkeypatch.setattr(slurm_plugin, "_BUSY_SECONDS", -1.0)
    job = Group()
    if name == "full":
        job.resources = Resources({**job.resources, "slurm_account": "Mine"})
    executor.run_job(job)
    [told] = executor.told
    assert told.startswith(end)
    if end == "error":
        assert errors[0] in told
    # What SLURM will never take is not tried again, and the run's last line says what to change.
    assert (job.attempt, "change qos in" in str(refusal_line())) == ((4, True) if name == "refused" else (1, False))
    sent = (folder / "calls").read_text().splitlines()
    assert len(sent) == calls
    # Nothing is guessed, and accounts and kinds of GPUs are taken as they are named.
    assert "--gpus=nvidia_a100-sxm4-40gb:2" in sent[0]
    assert (" -A Mine " in sent[0], " -A " in sent[0], " -p " in sent[0]) == ((name == "full",) * 2 + (False,))


def test_a_run_that_ends_sends_nothing_more(executor: Executor) -> None:
    executor.scheduler._user_kill = "graceful"  # by SIGTERM
    executor.run_job(Group())
    assert executor.told == ["error not sent: the run ends"]


def test_the_end_of_a_run_leaves_the_folders_of_other_runs_jobs(executor: Executor, folder: Path) -> None:
    executor.workflow.executor_settings.delete_logfiles_older_than = 10
    pending = folder / ".snakemake" / "slurm_logs" / "group_other"
    pending.mkdir(parents=True)
    executor.clean_old_logs()
    assert pending.exists()


def test_whatever_keeps_a_job_from_being_sent_is_told(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(job: Any) -> Any:
        raise WorkflowError("the account is unknown")

    monkeypatch.setattr(executor, "get_account_arg", unknown)
    executor.run_job(Group())
    assert len(executor.told) == 1
    assert "the account is unknown" in executor.told[0]


def test_another_version_of_the_plugin_is_refused_and_so_is_a_machine_without_slurm(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("sbatch", "squeue"):
        monkeypatch.setattr(
            slurm_plugin.shutil, "which", lambda name, missing=missing: name if name != missing else None
        )
        with pytest.raises(ParleyError, match=missing):
            slurm_plugin.check_plugin(executor)
    monkeypatch.setattr(slurm_plugin.shutil, "which", lambda name: f"/usr/bin/{name}")
    slurm_plugin.check_plugin(executor)
    with pytest.raises(ParleyError, match=r"envs/cpu\.txt"):
        slurm_plugin.check_plugin(object())
    monkeypatch.setattr(slurm_plugin, "version", lambda package: "2.9.0")
    with pytest.raises(ParleyError, match=r"2\.9\.0 is there.*envs/cpu\.txt"):
        slurm_plugin.check_plugin(executor)
