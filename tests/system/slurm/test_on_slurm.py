"""The workflow on a real SLURM: its jobs, and how it is stopped."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.workflow.slurm import listed_jobs
from support.cluster import (
    COMMAND,
    HERE,
    LONG,
    OWN,
    PLAY,
    WITHOUT_SLURM,
    assert_nothing_is_left,
    digests,
    finish,
    job_fields,
    journal_lines,
    output,
    running,
    start,
    submitted_jobs,
    undisturbed,
    wait_for,
    write,
)
from support.commands import wait_until
from support.studies import records_of
from support.workflows import PROFILE

pytestmark = [
    pytest.mark.promise("On SLURM, a shard is one job; a failure says state, node and cause; Ctrl-C cancels."),
    pytest.mark.rare,
    WITHOUT_SLURM,
]


def test_each_shard_is_one_cluster_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(
        {"model": OWN, "n": [4, 8], "prompt": ["may_exist", "none_exist"]},
        {"model": OWN, "honest": 4, "b": [1, 2], "prompt": "may_exist", "byzantine": "random"},
        seeds=4,
        shard_size=12,
        parameters={"max_rounds": 6},
    )
    finish(start())
    first, second = (job_fields(job) for job in submitted_jobs())
    for asked in (first, second):
        assert asked["TRES"].startswith("cpu=1,mem=1000M")
        assert asked["Requeue"] == "1"
        assert asked["TimeLimit"] == "01:00:00"
        assert "gpu" not in asked.get("TresPerJob", "")
    assert first["StartTime"] < second["EndTime"]
    assert second["StartTime"] < first["EndTime"]
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_a_first_day_with_a_banner_a_submit_limit_and_another_place_for_jobs_without_a_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the profile has it, behind "# ".
    profile = Path("slurm/profile.yaml")
    lines = re.sub(r"^# (set-resources:|  +\w+:.*)$", r"\1", profile.read_text(), flags=re.M)
    profile.write_text(lines.replace("slurm_partition: cpu", "slurm_partition: urgent"))
    sbatch = folder / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(
        f'#!/bin/sh\necho "Down on 12 December. Home: /home1/01234"\nexec {shutil.which("sbatch")} "$@"\n'
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(sbatch.parent), prepend=os.pathsep)
    pending = folder / "logs" / "slurm" / "group_of_another_run"
    pending.mkdir(parents=True)
    study = write({"model": OWN, "n": 4, "prompt": "may_exist"}, seeds=2, shard_size=1, parameters={"max_rounds": 2})
    finish(start(*PLAY, "--retries", "0", "--default-resources", "qos=one"))
    assert "a limit of jobs is reached" in output()
    assert all(record.exists() for record in records_of(study))
    listed = listed_jobs("--states=all")
    assert [number for number, _, place in listed if place == str(folder)] == submitted_jobs()
    assert len(submitted_jobs()) == 2
    for asked in map(job_fields, submitted_jobs()):
        assert (asked["Partition"], asked["MinMemoryNode"], asked["QOS"]) == ("urgent", "6000M", "one")
    assert pending.exists()

    records_of(study)[0].unlink()
    controller = start(*PLAY, "--set-resources", "simulate_shard:slurm_partition=nowhere")
    assert controller.wait(timeout=120) == 1, output()
    assert output().count("failed: Invalid partition name specified") == 1, output()
    assert re.search(r"^SLURM refuses a job: .* change slurm_partition in the profile", output(), flags=re.M), output()


def test_a_failed_job_says_its_cause_its_state_and_its_node(folder: Path) -> None:
    study = write({"model": OWN, "n": 4, "prompt": "may_exist"}, seeds=2, parameters={"max_rounds": 2})
    blocked = paths.journal(records_of(study)[0])
    blocked.mkdir(parents=True)
    controller = start("--retries", "0")
    assert controller.wait(timeout=240) == 1, output()
    said = output()
    [job] = submitted_jobs()
    assert re.search(rf"^  SLURM job {job}: FAILED on node\d, exit code \d+:\d+$", said, flags=re.M), said
    assert re.search(rf"^    parley: .*{re.escape(str(blocked.parent))}", said, flags=re.M), said
    assert "Traceback" not in said


def test_the_command_as_a_job_of_its_own_gives_way_to_a_new_one_and_is_stopped_by_ctrl_c(folder: Path) -> None:
    """`slurm/main.sh`, as the documentation has it submitted; here it needs the options of this cluster."""
    study = write(LONG, seeds=1, parameters={"max_rounds": 100})
    Path("logs/slurm").mkdir(parents=True)
    program = folder / "bin" / "snakemake"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*COMMAND[:5], *PROFILE, *HERE])} "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]])}

    def submit() -> str:
        command = ["sbatch", "--parsable", "--mem=100", "slurm/main.sh", "study.yaml"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def said(job: str) -> str:
        return Path(f"logs/slurm/main-{job}.log").read_text(errors="replace")

    def until(condition: Callable[[], Any], job: str) -> None:
        end = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < end, said(job)
            time.sleep(0.2)

    job = submit()
    until(lambda: journal_lines(study), job)
    subprocess.run(["scancel", "--batch", "--signal=INT", job], check=True)
    until(lambda: not running(), job)
    assert "stopped; what was answered is in the journals" in said(job)

    job = submit()
    until(lambda: journal_lines(study) and len(running()) > 1, job)
    others = set(running()) - {job}
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)  # as two minutes before its end
    # Asked of SLURM: whether the log says so depends on which ends first, the script or its step.
    shown = ["scontrol", "show", "job", job]
    until(lambda: "Restarts=1" in subprocess.run(shown, capture_output=True, text=True, check=True).stdout, job)
    assert set(running()) >= others
    until(lambda: job_fields(job)["JobState"] == "COMPLETED", job)  # SLURM has started it again
    assert all(record.exists() for record in records_of(study))
    assert paths.report("study").exists()


def test_ctrl_c_cancels_the_jobs_and_says_how_to_go_on(folder: Path) -> None:
    study = write(LONG, seeds=2, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: journal_lines(study), controller)
    controller.send_signal(signal.SIGINT)
    assert controller.wait(timeout=90) == 1, output()
    assert output().splitlines()[-1].startswith("stopped; what was answered is in the journals")
    assert "Traceback" not in output()
    wait_until(lambda: not running(), pause=0.2)
