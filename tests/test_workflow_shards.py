"""Many scripted simulations: one job plays what is missing of a shard, and no record is ever deleted."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from conftest import StudyFactory
from parley import paths
from parley.errors import UsageError
from parley.record import read_summary
from parley.simulate import simulate, simulate_shard
from parley.study import MOST_SCRIPTED_JOBS, Study, load_study
from test_end_to_end import PARLEY
from test_workflow import jobs, snakemake

pytestmark = pytest.mark.slow

SEEDS = MOST_SCRIPTED_JOBS + 2
SHARD = SEEDS // 2


def write(seeds: int = SEEDS) -> Study:
    """Write a study of games that one agent plays for a round."""
    grid = {"model": "majority", "n": 1, "prompt": "may_exist"}
    content = {"game": "consensus", "seeds": seeds, "shard_size": SHARD, "grids": [grid]}
    Path("many.yaml").write_text(yaml.safe_dump(content))
    return load_study(Path("many.yaml"))


def records(study: Study) -> list[Path]:
    return [simulation.record(study.name) for simulation in study.simulations()]


def inodes(study: Study) -> dict[Path, int]:
    return {record: record.stat().st_ino for record in records(study) if record.exists()}


@pytest.mark.usefixtures("folder")
def test_a_shard_is_one_job_and_only_what_is_missing_is_played() -> None:
    study = write()
    planned = snakemake("--dry-run", "--config", "study=many.yaml")
    counts = jobs(planned.stdout + planned.stderr)
    assert counts["simulate_shard"] == 2
    assert not {"simulate", "gather_shard", "serve"} & set(counts)
    assert snakemake("--config", "study=many.yaml").returncode == 0
    before = inodes(study)
    assert len(before) == SEEDS
    again = snakemake("--dry-run", "--config", "study=many.yaml")
    assert "Nothing to be done" in again.stdout + again.stderr

    lost = records(study)[SHARD : SHARD + 3]
    for record in lost:
        record.unlink()
    played = snakemake("--config", "study=many.yaml")
    assert played.returncode == 0, played.stderr
    log = paths.log("many", "simulate_shard", "shard=1").read_text()
    assert f"shard 1: {SHARD} simulations, {SHARD - 3} finished before" in log
    assert {record: inode for record, inode in inodes(study).items() if record not in lost} == {
        record: inode for record, inode in before.items() if record not in lost
    }

    # Forced or not, what is there stays; and added seeds fill a shard of their own.
    kept = inodes(study)
    assert snakemake("--config", "study=many.yaml", "--forceall").returncode == 0
    assert inodes(study) == kept
    more = write(SEEDS + 1)
    planned = snakemake("--dry-run", "--config", "study=many.yaml")
    assert jobs(planned.stdout + planned.stderr)["simulate_shard"] == 1
    assert set(records(study)) < set(records(more))


@pytest.mark.usefixtures("folder")
def test_a_killed_shard_goes_on_with_the_same_records() -> None:
    study = write()
    playing = subprocess.Popen([*PARLEY, "simulate-shard", "many.yaml", "0"], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while len(inodes(study)) < 5 and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(playing.pid, signal.SIGKILL)
    playing.wait()
    before = inodes(study)
    assert 5 <= len(before) < SHARD
    subprocess.run([*PARLEY, "simulate-shard", "many.yaml", "0"], check=True, stdout=subprocess.DEVNULL)
    after = inodes(study)
    assert len(after) == SHARD
    assert {record: after[record] for record in before} == before


def test_a_shard_holds_the_records_that_single_jobs_would_make(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4], "b": 1, "byzantine": "random"}, seeds=3, shard_size=4)
    said: list[str] = []
    simulate_shard(study, 0, said.append)
    simulate_shard(study, 1, said.append)
    together = [read_summary(record).digest for record in records(study)]
    for record in records(study):
        record.unlink()
        simulate(study, record, [], 1.0, said.append)
    assert [read_summary(record).digest for record in records(study)] == together
    assert said[0] == "shard 0: 4 simulations, 0 finished before"


def test_code_of_the_users_own_keeps_its_journals(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own_agent.py").write_text("class Agent: ...\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert study_factory({"n": 1}, seeds=SEEDS).plays_scripted_by_shard
    assert not study_factory({"n": 1}, seeds=SEEDS - 2).plays_scripted_by_shard
    assert not study_factory({"n": 1}, {"n": 2, "model": "own_agent:Agent"}, seeds=SEEDS).plays_scripted_by_shard


def test_a_shard_that_is_not_there_is_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: no scripted shard 1; `parley expand small\.yaml` counts them"):
        simulate_shard(study_factory(), 1, lambda text: None)
    with pytest.raises(UsageError, match="no scripted shard 0"):
        simulate_shard(study_factory({"model": "tiny"}), 0, lambda text: None)
