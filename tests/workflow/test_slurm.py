"""Jobs of an earlier run; tests/system/slurm/ has the same on a real SLURM."""

import os
from pathlib import Path

import pytest

from parley.errors import ParleyError
from parley.workflow.slurm import group_name, jobs_of, wait_for_former_jobs
from support.hearing import heard

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
def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `squeue` that is a shell script; the test writes it."""
    program = folder / "bin" / "squeue"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def test_only_the_jobs_of_this_study_in_this_folder_are_found() -> None:
    assert jobs_of(LISTED, "demo", Path("/lab")) == ["1", "7_[1-3]"]
    assert jobs_of("", "demo", Path("/lab")) == []


def test_no_two_shards_of_any_studies_have_the_same_group() -> None:
    assert group_name("demo", "x-y", 0) != group_name("demo-x", "y", 0)
    assert jobs_of(f"1\trule_{group_name('demo_x', 'y', 0)}_simulate\t/lab", "demo", Path("/lab")) == []


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.slow
def test_without_squeue_there_is_nothing_to_wait_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert not wait_for_former_jobs("demo", required)


@pytest.mark.slow
def test_a_squeue_that_fails_now_and_then_does_not_end_the_waiting(squeue: Path, folder: Path) -> None:
    answer = f"printf '5\\trule_{GROUP}_serve_simulate\\t{folder}\\n'"
    # It fails (a controller that restarts), answers, fails, answers, and then has no jobs.
    squeue.write_text(f"#!/bin/sh\necho >> calls; case $(wc -l < calls) in 2|4) {answer};; 1|3) exit 1;; esac\n")
    with heard() as said:
        assert wait_for_former_jobs("demo", True, seconds=0.01)
    assert (folder / "calls").read_text().count("\n") == 5
    assert len(said) == 1
    assert "scancel 5" in said[0]


@pytest.mark.slow
def test_a_squeue_that_never_answers_stops_a_run_on_slurm_alone(squeue: Path) -> None:
    squeue.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ParleyError, match="squeue does not answer"):
        wait_for_former_jobs("demo", True, seconds=0.01)
    assert not wait_for_former_jobs("demo", False, seconds=0.01)
