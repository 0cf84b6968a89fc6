"""Deaths on a real SLURM: of a simulation, the command, a server; and what goes on after them."""

import contextlib
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.study import Study
from support import REPOSITORY
from support.cluster import (
    LONG,
    WITHOUT_SLURM,
    all_begun,
    assert_nothing_is_left,
    digests,
    finish,
    hold_begun,
    journal_lines,
    output,
    processes,
    running,
    sockets,
    start,
    submitted_jobs,
    undisturbed,
    wait_for,
    write,
)
from support.studies import records_of

pytestmark = [
    pytest.mark.promise(
        "On SLURM, killed simulations, canceled jobs, a killed controller and dead servers lose nothing."
    ),
    pytest.mark.rare,
    WITHOUT_SLURM,
]


def test_a_killed_shard_and_a_canceled_job_are_retried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=8, shard_size=4, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    before = running()
    victim = min(processes("parley simulate-shard", "study.yaml", "--engine own_code 0"))  # its games are younger
    os.kill(victim, signal.SIGKILL)
    canceled = next(job for job, comment in before.items() if comment.startswith("rule_study=own_code=1_"))
    subprocess.run(["scancel", canceled], check=True)
    finish(controller)
    assert set(submitted_jobs()) > set(before)
    resumed = [log.read_text() for log in paths.log("study", "simulate").with_suffix("").rglob("seed=*.log")]
    assert sum("going on from the journal" in text for text in resumed) >= 6
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_the_jobs_of_a_killed_controller_are_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=8, shard_size=4, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    controller.kill()
    controller.wait()
    before = set(running())
    assert len(before) == 2
    finish(start())
    assert "2 cluster jobs of an earlier run of this study are still there" in output()
    # They did the work: no other job was sent.
    assert set(submitted_jobs()) == before
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def requested_seeds(study: Study) -> Counter[int]:
    """Return how often each sampling seed was sent to an engine, by the logs of all of them."""
    logs = paths.log("study", "serve").with_suffix("").rglob("*.log.*")
    return Counter(int(seed) for log in logs for seed in re.findall(r"Received request.*?seed=(\d+)", log.read_text()))


@pytest.mark.model
def test_two_shards_of_the_real_model_survive_their_servers_death(folder: Path) -> None:
    entry = yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())["models"]["smollm2-135m"]
    entry |= {"server_args": {"enable-log-requests": True}, "cluster": {"memory_mb": 6000, "minutes": 30}}
    # A threshold that every agent has to meet, so that all rounds are played.
    study = write(
        {"model": "smollm2-135m", "n": 4, "b": 1, "prompt": "may_exist"},
        models={"smollm2-135m": entry},
        seeds=4,
        shard_size=2,
        parameters={"max_rounds": 2, "stop_threshold": 1},
    )
    controller = start()
    # Whatever has begun is held until all has: one engine may be ready long before the other.
    held: set[int] = set()
    wait_for(lambda: hold_begun(study, held) == len(records_of(study)), controller)
    before = running()
    assert sorted(comment.split("_")[1] for comment in before.values()) == [
        "study=smollm2-135m=0",
        "study=smollm2-135m=1",
    ]
    devices = set()
    for server in processes("vllm.entrypoints.launchers.api_server.entry", sockets()):
        environment = Path(f"/proc/{server}/environ").read_bytes().decode()
        devices.add(re.search(r"CUDA_VISIBLE_DEVICES=(\d)", environment)[1])
    assert devices == {"0", "1"}

    engine = paths.endpoint("study", "smollm2-135m", 0, "smollm2-135m")
    supervisor = yaml.safe_load(engine.read_text())["pid"]
    server = next(pid for pid in processes("launchers.api_server", sockets()) if _parent(pid) == supervisor)
    os.kill(server, signal.SIGKILL)
    other = next(job for job, comment in before.items() if "smollm2-135m=1_" in comment)
    subprocess.run(["scancel", other], check=True)
    for process in held:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    wait_for(lambda: not set(before) & set(running()), controller)
    replies = {}
    for journal in journal_lines(study):
        for line in journal.read_bytes().splitlines()[1:]:
            entry = yaml.safe_load(line[9:])
            replies[entry["seed"]] = entry["text"]
    assert len(replies) >= 6
    finish(controller)
    assert len(submitted_jobs()) == 4
    assert_nothing_is_left(folder, study)

    # What was answered before the deaths was never asked again, and all that was asked for is in the records.
    asked = requested_seeds(study)
    assert sum(asked.values()) >= len(replies)
    assert {seed for seed in replies if asked[seed] != 1} == set()
    for record in records_of(study):
        assert replay(record).difference is None
        assert read_summary(record).provenance["engines"]["smollm2-135m"]["arguments"]


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"PPid:\s+(\d+)", status)[1])
