"""The real workflow with a service: keys, a budget that ends, patience that ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from answering import SERVED, StandInService, as_recorded, service
from parley import paths
from parley.errors import UsageError
from parley.record import read_summary
from parley.study import Study, load_study
from parley.workflow import require_key_and_budget
from test_workflow import folder, jobs, snakemake  # noqa: F401

pytestmark = pytest.mark.slow

KEY, VARIABLE = "sk-7f3a9c51d2e8", "TINY_API_KEY"


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:  # noqa: F811
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


def write(server: StandInService, **content: object) -> Study:
    source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
    entry = {"source": source, "limits": {"concurrent": 4, "patience_seconds": 2}}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": entry}}))
    grid = {"model": ["theirs", "majority"], "n": 3, "prompt": "may_exist"}
    body = {"game": "consensus", "seeds": 2, "parameters": {"max_rounds": 2}, "grids": [grid]}
    Path("small.yaml").write_text(yaml.safe_dump(body | content))
    return load_study(Path("small.yaml"))


RUN = ("--config", "study=small.yaml")


def test_a_missing_key_stops_the_workflow_before_its_first_job_and_no_dry_run(
    server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(server)
    for key, words in ((None, "its API key is not there; set the environment"), ("short", "holds no usable API key")):
        monkeypatch.delenv(VARIABLE) if key is None else monkeypatch.setenv(VARIABLE, key)
        planned = snakemake("--dry-run", *RUN)
        assert planned.returncode == 0, planned.stderr
        assert jobs(planned.stdout + planned.stderr)["simulate"] == 4
        refused = snakemake(*RUN)
        assert refused.returncode == 1
        said = refused.stdout + refused.stderr
        assert said.count(words) == 1
        assert "Traceback" not in said
        assert not list(Path("results").rglob("*.parquet"))
        assert not paths.LOGS.exists()
    assert server.heads == []


def test_a_missing_key_is_no_matter_where_nothing_is_asked(
    server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write(server)
    monkeypatch.delenv(VARIABLE)
    planned: dict[str, list[str]] = {axis: [] for axis in ("theirs", "majority")}
    for simulation in study.simulations():
        planned[str(simulation.condition.axes["model"])].append(str(simulation.record("small")))
    require_key_and_budget(study, planned["majority"])
    with pytest.raises(UsageError, match="theirs: its API key is not there"):
        require_key_and_budget(study, planned["majority"] + planned["theirs"][-1:])


def test_a_spent_budget_ends_the_workflow_with_its_own_words_and_a_raised_one_goes_on(
    server: StandInService,
) -> None:
    study = write(server, budget={"tokens": 3200})
    ended = snakemake(*RUN, "--retries", "1")
    asked = len(server.bodies)
    assert ended.returncode == 1
    lines = (ended.stdout + ended.stderr).splitlines()
    [last] = [line for line in lines if line.startswith("the budget of small is spent: ")]
    assert f"{asked * 107} of 3,200 tokens spent" in last
    assert lines.index(last) > max(place for place, line in enumerate(lines) if "simulate.smk" in line)
    assert "raise `budget` in the study file, and the same command goes on from the journals" in last
    model = [simulation for simulation in study.simulations() if simulation.condition.models]
    assert not any(simulation.record("small").exists() for simulation in model)

    again = snakemake(*RUN)
    assert again.returncode == 1
    assert (again.stdout + again.stderr).count(last) == 1
    assert "simulate.smk" not in again.stdout + again.stderr  # no job was started
    assert len(server.bodies) == asked

    write(server, budget={"tokens": 100_000})
    raised = snakemake(*RUN, "--until", "simulate")
    assert raised.returncode == 0, raised.stderr
    calls = sum(read_summary(simulation.record("small")).telemetry["calls"] for simulation in model)
    assert len(server.bodies) == calls


def test_a_service_that_is_down_for_longer_than_patience_costs_no_reply(server: StandInService) -> None:
    study = write(server, seeds=1)
    server.answer = lambda body: (503, {"error": "down"}) if len(server.bodies) > 3 else as_recorded(body)
    ended = snakemake(*RUN)
    assert ended.returncode == 1
    [log] = [path for path in paths.LOGS.rglob("*.failed") if "model=theirs" in path.parts]
    assert "answered 503: down; given up after" in log.read_text().splitlines()[-1]
    answered = server.bodies[:3]
    server.bodies.clear()
    server.answer = as_recorded
    again = snakemake(*RUN, "--until", "simulate")
    assert again.returncode == 0, again.stderr
    assert not [body for body in server.bodies if body["seed"] in {other["seed"] for other in answered}]
    [record] = [simulation.record("small") for simulation in study.simulations() if simulation.condition.models]
    assert read_summary(record).telemetry["calls"] == 3 + len(server.bodies)
