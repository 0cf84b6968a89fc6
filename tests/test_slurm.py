"""Jobs of an earlier run; tests/slurm/ has the same on a real SLURM."""

import os
from pathlib import Path

import pytest

from parley.slurm import former_jobs, jobs_of, wait_for_former_jobs

GROUPS = {"demo-majority-0", "demo-tiny-11"}
LISTED = (
    "1\trule_demo-tiny-11_serve_simulate \t/work\n"
    "2\trule_demo-tiny-1_serve_simulate \t/work\n"  # another study's shard, or one that this study no longer has
    "3\trule_demo-tiny-11_serve_simulate \t/work/elsewhere\n"
    "4\t(null)\t/work\n"
    "7_[1-3]\trule_demo-majority-0_gather_shard_simulate \t/work\n"
)


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let `squeue` be a shell script."""
    program = folder / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_only_the_jobs_of_this_study_in_this_folder_are_found() -> None:
    assert jobs_of(LISTED, GROUPS, Path("/work")) == ["1", "7_[1-3]"]
    assert jobs_of("", GROUPS, Path("/work")) == []


def test_without_squeue_there_is_nothing_to_wait_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert former_jobs(GROUPS) == []
    assert not wait_for_former_jobs(GROUPS, pytest.fail)


def test_a_squeue_that_fails_once_does_not_end_the_waiting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f"printf '5\\trule_demo-tiny-11_serve_simulate\\t{folder}\\n'"
    # It answers, then fails (a controller that restarts), answers again, and then has no jobs.
    script = f"echo >> calls; case $(wc -l < calls) in 1|3) {answer};; 2) exit 1;; esac"
    squeue(folder, monkeypatch, script)
    said: list[str] = []
    assert wait_for_former_jobs(GROUPS, said.append, seconds=0.01)
    assert (folder / "calls").read_text().count("\n") == 4
    assert len(said) == 1
    assert "scancel 5" in said[0]
