"""The real workflow with a service: keys, a budget that ends, patience that ends."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.errors import EngineError
from parley.play.record import read_summary
from parley.play.simulate import simulate_shard
from parley.study import load_study
from support.answering import VARIABLE, StandInService, as_recorded
from support.commands import wait_until
from support.workflows import CORES, PROFILE, SNAKEMAKE, jobs, snakemake, write_served

pytestmark = [
    pytest.mark.promise(
        "A missing key, a spent budget and a service that is gone stop a run in one line; nothing answered is lost."
    ),
    pytest.mark.slow,
]


RUN = ("--config", "study=small.yaml")


@pytest.mark.rare
def test_a_missing_key_stops_the_workflow_before_its_first_job_and_no_dry_run(
    server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_served(server)
    for key, words in ((None, "set the environment variable"), ("short", "holds no usable API key")):
        monkeypatch.delenv(VARIABLE) if key is None else monkeypatch.setenv(VARIABLE, key)
        planned = snakemake("--dry-run", *RUN)
        assert planned.returncode == 0, planned.stderr
        assert jobs(planned.stdout + planned.stderr)["simulate_shard"] == 2  # the service's, and the scripted one
        refused = snakemake(*RUN)
        assert refused.returncode == 1
        said = refused.stdout + refused.stderr
        assert said.count(words) == 1
        assert "Traceback" not in said
        assert not list(Path("results").rglob("*.parquet"))
        assert not paths.LOGS.exists()
    assert server.heads == []


def test_a_spent_budget_ends_the_workflow_with_its_own_words_and_a_raised_one_goes_on(
    server: StandInService,
) -> None:
    study = write_served(server, budget={"tokens": 3200})
    ended = snakemake(*RUN, "--retries", "1")
    asked = len(server.bodies)
    assert ended.returncode == 1
    words = rf"the budget of small is spent: {asked * 107} of 3,200 tokens spent, .*; raise `budget` in the study file"
    assert re.search(words, ended.stdout + ended.stderr)
    # Of what needs no service, and of what was played before, there is a report.
    assert "majority" in paths.report("small").read_text()
    model = [simulation for simulation in study.simulations() if simulation.condition.models]
    assert not any(simulation.record("small").exists() for simulation in model)

    again = snakemake(*RUN)
    assert again.returncode == 1
    assert re.search(words, again.stdout + again.stderr)
    assert len(server.bodies) == asked

    write_served(server, budget={"tokens": 100_000})
    simulate_shard(load_study(Path("small.yaml")), "services", 0)
    calls = sum(read_summary(simulation.record("small")).telemetry["calls"] for simulation in model)
    assert len(server.bodies) == calls


def test_a_service_that_is_down_for_longer_than_patience_costs_no_reply(server: StandInService) -> None:
    study = write_served(server, seeds=1)
    answered: list[Any] = []

    def three(body: Any) -> Any:
        if len(answered) == 3:
            return 503, {"error": "down"}
        answered.append(body)
        return as_recorded(body)

    server.answer = three
    ended = snakemake(*RUN)
    assert ended.returncode == 1
    [log] = paths.log("small", "simulate_shard", "services").with_suffix("").rglob("*.failed")
    assert "answered 503: down; given up after" in log.read_text().splitlines()[-1]
    server.bodies.clear()
    server.answer = as_recorded
    simulate_shard(study, "services", 0)
    assert not [body for body in server.bodies if body["seed"] in {other["seed"] for other in answered}]
    [record] = [simulation.record("small") for simulation in study.simulations() if simulation.condition.models]
    assert read_summary(record).telemetry["calls"] == 3 + len(server.bodies)


def test_a_service_that_is_gone_is_waited_for_once_and_not_by_each_simulation(server: StandInService) -> None:
    alone = [{"model": "theirs", "n": 3, "prompt": "may_exist"}]
    study = write_served(server, {"concurrent": 3, "patience_seconds": 2}, seeds=4, grids=alone)
    server.pages["/v1/models"] = (503, {"error": "down"})
    with pytest.raises(EngineError) as error:
        simulate_shard(study, "services", 0)
    assert str(error.value).startswith(
        "4 of 4 simulations failed, the first of them: the service for theirs answered 503"
    )
    assert server.bodies == []


@pytest.mark.rare
def test_who_kills_snakemake_ends_the_requests_and_the_next_run_asks_for_the_rest(server: StandInService) -> None:
    study = write_served(
        server, grids=[{"model": "theirs", "n": 3, "prompt": "may_exist"}], parameters={"max_rounds": 40}
    )
    server.seconds = 2.0  # a phase outlasts the look for a parent that is gone
    with Path("killed.log").open("wb") as log:
        killed = subprocess.Popen([*SNAKEMAKE, *PROFILE, *CORES, *RUN], stdout=log, stderr=subprocess.STDOUT)
    wait_until(lambda: len(server.bodies) >= 8)
    killed.kill()
    killed.wait()
    left = Path(f"{paths.log('small', 'simulate_shard', 'services', 'shard=0')}.failed")
    wait_until(lambda: left.exists() and "the workflow that started this process" in left.read_text())
    server.seconds = 0.0
    answered = len(server.bodies)
    assert not any(simulation.record("small").exists() for simulation in study.simulations())
    again = snakemake(*RUN, "--until", "simulate_shard")
    assert again.returncode == 0, again.stderr
    calls = sum(read_summary(simulation.record("small")).telemetry["calls"] for simulation in study.simulations())
    # Those that were in flight at that moment are asked again.
    assert calls <= len(server.bodies) <= calls + 6
    assert len(server.bodies) > answered
