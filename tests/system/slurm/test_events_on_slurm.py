"""Ordinary events of a cluster; after each the same study ends, and no reply that was received is asked for again."""

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.engine.models import ModelEntry
from parley.engine.weights import model_marker
from parley.play.replay import replay
from parley.study import Study
from support.answering import KEY, SERVED, VARIABLE, StandInService, completion, schema_of, service
from support.cluster import (
    GPU_KIND,
    PLAY,
    WITHOUT_SLURM,
    Cluster,
    finish,
    job_fields,
    journal_lines,
    output,
    running,
    start,
    submitted_jobs,
    wait_for,
    write,
)
from support.studies import records_of

pytestmark = [
    pytest.mark.promise(
        "On SLURM, preemption, time limits, requeues, a node's death and lost accounting lose nothing."
    ),
    pytest.mark.rare,
    WITHOUT_SLURM,
]

FIRST = 120


class Gate:
    """Answers of a service, once all games ask: from the FIRST on it holds back: none is on its way at a death."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.held: set[int] = set()
        self.begun, self.open = threading.Event(), threading.Event()
        self._answered = 0
        self._guard = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._guard:
            self.asked[body["seed"]] += 1
        self.begun.wait(300)
        with self._guard:
            self._answered += 1
            waits = self._answered > FIRST and not self.open.is_set()
            if waits:
                self.held.add(body["seed"])
        if waits:
            self.open.wait(300)
        is_vote = "decision" in schema_of(body)["properties"]
        reply = '{"internal_strategy": "none", "value": 7, "public_reasoning": "none"}'
        return completion('{"decision": "continue"}' if is_vote else reply)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Gate, StandInService]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    made = Gate()
    with service(made) as server:
        yield made, server
        made.begun.set()
        made.open.set()


def begin(gate: tuple[Gate, StandInService]) -> tuple[Study, subprocess.Popen[bytes], str]:
    """Start the command on a study of a service; return once its one job runs and waits for replies."""
    made, server = gate
    source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
    theirs = {"source": source, "limits": {"concurrent": 16}}
    grid = {"model": "theirs", "n": 8, "prompt": "may_exist"}
    study = write(grid, models={"theirs": theirs}, seeds=4, shard_size=2, parameters={"max_rounds": 12})
    controller = start(*PLAY)
    wait_for(lambda: len(running()) == 1 and made.asked.total() >= 16, controller)
    made.begun.set()
    wait_for(lambda: sum(journal_lines(study).values()) == FIRST, controller)
    [job] = submitted_jobs()
    return study, controller, job


def assert_all_was_asked_once(made: Gate, study: Study) -> None:
    """What was asked again is what was on its way: nobody had a reply to it."""
    assert {seed for seed, times in made.asked.items() if times > 1} <= made.held
    assert sum(pq.read_metadata(record).num_rows for record in records_of(study)) == len(made.asked)
    assert [replay(record).difference for record in records_of(study)] == [None] * len(records_of(study))


def state(slurm: Cluster, job: str) -> str:
    """What the accounting says of a job."""
    return slurm.asked("sacct", "-Xnj", job, "-o", "State%30").strip()


def test_a_job_that_is_preempted_canceled_and_too_long_is_sent_again(
    folder: Path, slurm: Cluster, gate: tuple[Gate, StandInService]
) -> None:
    study, controller, preempted = begin(gate)

    def sent_again(number: int) -> str:
        wait_for(lambda: len(submitted_jobs()) == number and submitted_jobs()[-1] in running(), controller)
        return submitted_jobs()[-1]

    node = job_fields(preempted)["NodeList"]
    slurm.asked("sbatch", "--partition=urgent", f"--nodelist={node}", "--exclusive", "--wrap=sleep 1")
    wait_for(lambda: state(slurm, preempted) == "PREEMPTED", controller)
    canceled = sent_again(2)
    slurm.asked("scancel", canceled)
    wait_for(lambda: state(slurm, canceled).startswith("CANCELLED by"), controller)
    late = sent_again(3)
    slurm.asked("scontrol", "update", f"JobId={late}", "TimeLimit=1")
    wait_for(lambda: state(slurm, late) == "TIMEOUT", controller)
    gate[0].open.set()
    finish(controller)
    assert len(submitted_jobs()) == 4
    assert_all_was_asked_once(gate[0], study)


def test_a_job_that_slurm_queues_again_goes_on(
    folder: Path, slurm: Cluster, gate: tuple[Gate, StandInService]
) -> None:
    study, controller, job = begin(gate)
    slurm.asked("scontrol", "requeue", job)
    wait_for(lambda: job_fields(job)["JobState"] == "PENDING", controller)
    wait_for(lambda: job in running(), controller)
    node = job_fields(job)["NodeList"]
    slurm.kill(node)
    for process in _of_node(node, slurm):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    wait_for(lambda: slurm.runs("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=died"), controller)
    gate[0].open.set()
    finish(controller)
    assert (job_fields(job)["Restarts"], job_fields(job)["NodeList"] != node) == ("2", True)
    slurm.start(node)
    assert submitted_jobs() == [job]
    assert_all_was_asked_once(gate[0], study)


def _of_node(node: str, slurm: Cluster) -> list[int]:
    """Return the processes of a node's jobs, and those that watch over them; of this cluster, others may run, too."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            watches = (entry / "cmdline").read_bytes().startswith(b"slurmstepd")
            if f"SLURM_CONF={slurm.variables['SLURM_CONF']}".encode() in variables and (
                watches or f"SLURMD_NODENAME={node}".encode() in variables
            ):
                found.append(int(entry.name))
    return found


def test_a_run_ends_while_accounting_is_away_and_outlives_a_restart_of_the_controller(
    folder: Path, slurm: Cluster, gate: tuple[Gate, StandInService]
) -> None:
    study, controller, job = begin(gate)
    slurm.stop("slurmdbd")
    slurm.stop("slurmctld")
    time.sleep(12)  # some questions
    slurm.start("slurmctld")
    gate[0].open.set()
    finish(controller)
    slurm.start("slurmdbd")
    assert submitted_jobs() == [job]
    assert "squeue does not answer" in output()
    assert_all_was_asked_once(gate[0], study)


def test_a_shard_has_its_gpus_on_one_node_and_asks_for_what_its_entry_says(
    folder: Path, slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # these models are nowhere
    held = [
        slurm.asked("sbatch", "--parsable", f"--nodelist={node}", "--gpus=1", "--mem=100", "--wrap=sleep 600").strip()
        for node in ("node1", "node2")
    ]
    entry = {"source": {"repo": "owner/big", "revision": "a" * 40}, "gpus": 2, "cluster": {"memory_mb": 500}}
    asks = {
        "plain": {"qos": "long", "gpu_model": GPU_KIND},
        "kinds": {"gres": f"gpu:{GPU_KIND}"},
        "alone": {"exclusive": True, "shards_per_job": 2, "minutes": 1440},
    }
    models = {name: {**entry, "cluster": {**entry["cluster"], **more}} for name, more in asks.items()}
    models["alone"]["server_args"] = {"data-parallel-size": 2}
    for name, content in models.items():
        marker = model_marker(name, ModelEntry.model_validate(content))
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text("{}")
    write({"model": list(models), "n": 4, "prompt": "may_exist"}, models=models, seeds=1)
    controller = start("--retries", "0")
    jobs = wait_for(lambda: submitted_jobs() if len(submitted_jobs()) == 3 else [], controller)
    # Two GPUs are free, but one on each node.
    wait_for(lambda: {job_fields(job)["Reason"] for job in jobs} <= {"Resources", "Priority"}, controller)
    fields = {re.search(r"=(\w+)=", job_fields(job)["Comment"])[1]: job_fields(job) for job in jobs}
    assert {name: (asked["JobState"], asked["NumNodes"]) for name, asked in fields.items()} == dict.fromkeys(
        models, ("PENDING", "1-1")
    )
    assert {name: asked["QOS"] for name, asked in fields.items()} == {
        "plain": "long",
        "kinds": "normal",
        "alone": "normal",
    }
    assert [fields[name].get("TresPerJob") for name in asks] == [f"gres:gpu:{GPU_KIND}:2", None, "gres:gpu:2"]
    assert fields["kinds"]["TresPerNode"] == f"gres:gpu:{GPU_KIND}:2"
    assert [fields[name]["TimeLimit"] for name in asks] == ["04:00:00", "04:00:00", "1-00:00:00"]
    assert [fields[name]["OverSubscribe"] for name in asks] == ["OK", "OK", "NO"]
    slurm.asked("scancel", *held)
    # The step inside of each job begins: it has the same node.
    serving = paths.log("study", "serve").with_suffix("")
    wait_for(lambda: len({log.parent.parent for log in serving.rglob("*.log.*")}) == 3, controller)
    controller.send_signal(signal.SIGINT)
    controller.wait(timeout=90)
