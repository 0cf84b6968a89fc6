"""Jobs of an earlier run; tests/system/slurm/ has the same on a real SLURM."""

import subprocess
from pathlib import Path

import pytest

from parley.errors import ParleyError
from parley.workflow.slurm import former_jobs, group_name, job_line, queue_line, wait_for_former_jobs
from support.commands import heard

GROUP = group_name("demo", "tiny", 11)
LISTED = (
    f"1\trule_{GROUP}_serve_simulate \t/lab\n"
    f"2\trule_{group_name('demo-tiny', 'x', 0)}_serve_simulate \t/lab\n"  # another study's
    f"3\trule_{GROUP}_serve_simulate \t/lab/elsewhere\n"
    "4\t(null)\t/lab\n"
    "5\tfirst line\n"  # somebody's comment of two lines
    "second line\t/lab\n"
    "\n"
    f"7_[1-3]\trule_{group_name('demo', 'scripted', 0)}_gather_shard_simulate \t/lab\n"
)


@pytest.fixture
def answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Exception]:
    """What SLURM's programs answer, one call after the other; the last answer is given again and again."""
    given: list[str | Exception] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, 0, answer, "")

    monkeypatch.setattr("parley.workflow.slurm.subprocess.run", run)
    return given


FAILED = subprocess.CalledProcessError(1, "squeue")


def test_only_the_jobs_of_this_study_in_this_folder_are_found(answers: list[str | Exception]) -> None:
    answers += [LISTED.replace("/lab", str(Path.cwd()))]
    assert former_jobs("demo") == ["1", "7_[1-3]"]
    assert former_jobs("demo-x") == []
    # No two shards of any studies have the same group.
    assert group_name("demo", "x-y", 0) != group_name("demo-x", "y", 0)
    answers[:] = [f"1\trule_{group_name('demo_x', 'y', 0)}_simulate\t{Path.cwd()}"]
    assert former_jobs("demo") == []
    answers[:] = [FAILED]
    assert former_jobs("demo") == ""


def test_a_run_waits_for_jobs_that_another_left(answers: list[str | Exception]) -> None:
    there = f"5\trule_{GROUP}_serve_simulate\t{Path.cwd()}\n"
    # It fails (a controller that restarts), answers, fails, answers, and then has no jobs.
    answers += [FAILED, there, FAILED, there, ""]
    with heard() as said:
        assert wait_for_former_jobs("demo", True, seconds=0.0)
    assert answers == [""]
    assert len(said) == 2
    assert "does not answer" in said[0]
    assert "scancel 5" in said[1]


def test_without_an_answer_a_run_on_slurm_alone_is_stopped(answers: list[str | Exception]) -> None:
    answers += [FAILED]
    with pytest.raises(ParleyError, match="squeue does not answer"):
        wait_for_former_jobs("demo", True, seconds=0.0)
    never = subprocess.CalledProcessError(1, "squeue", stderr="error: x\nsqueue: fatal: no configuration source\n")
    answers[:] = [never, "asked again"]  # which no patience mends
    with pytest.raises(ParleyError, match=r"squeue does not answer.* no configuration source"):
        wait_for_former_jobs("demo", True, seconds=0.0)
    assert answers == ["asked again"]
    answers[:] = [FAILED, "", ""]
    assert not wait_for_former_jobs("demo", False, seconds=0.0)
    assert answers == ["", ""]  # it is asked once
    answers[:] = [FileNotFoundError("squeue")]  # without SLURM there is nothing to wait for
    assert not wait_for_former_jobs("demo", True)


def test_a_job_that_ended_is_told_by_whoever_remembers_it(answers: list[str | Exception]) -> None:
    answers += ["JobId=7 JobState=TIMEOUT Reason=TimeLimit NodeList=node7 ExitCode=0:0\n"]
    assert job_line("7") == "SLURM job 7: TIMEOUT (TimeLimit) on node7, exit code 0:0"
    answers[:] = [FAILED, "FAILED|node8|1:0|None\n"]
    assert job_line("7") == "SLURM job 7: FAILED on node8, exit code 1:0"
    answers[:] = ["JobId=7 JobState=CANCELLED Reason=Resources NodeList= ExitCode=0:0\n"]  # it waited for them
    assert job_line("7") == "SLURM job 7: CANCELLED on no node, exit code 0:0"
    answers[:] = [FAILED]
    assert job_line("7") == ""


def test_reasons_of_the_queue_are_counted_with_what_helps() -> None:
    reasons = {"Priority": 1200, "None": 1, "PartitionTimeLimit": 2, "Nodes required for job are DOWN, DRAINED": 1}
    line = queue_line(reasons)
    assert line.startswith("in the queue: 1,200 Priority, 1 not looked at, 2 PartitionTimeLimit (ask for less time")
    assert line.endswith("1 Nodes required for job are DOWN")
