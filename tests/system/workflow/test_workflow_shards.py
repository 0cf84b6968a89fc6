"""Scripted simulations: one job plays what is missing of a shard, and no record is ever deleted."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.errors import RecordError, UsageError
from parley.play.record import read_summary
from parley.play.simulate import simulate, simulate_shard
from parley.study import Study, load_study
from parley.study.study import SCRIPTED_SHARD
from support.commands import heard
from support.studies import StudyFactory
from support.workflows import PARLEY, jobs, snakemake

pytestmark = [
    pytest.mark.promise("A shard of scripted games is one job and plays only what is missing."),
    pytest.mark.slow,
]

SHARD = SCRIPTED_SHARD
SEEDS = SHARD + 20


def write(seeds: int = SEEDS) -> Study:
    """Write a study of games that one agent plays for a round."""
    grid = {"model": "majority", "n": 1, "prompt": "may_exist"}
    content = {"game": "consensus", "seeds": seeds, "grids": [grid]}
    Path("many.yaml").write_text(yaml.safe_dump(content))
    return load_study(Path("many.yaml"))


def records(study: Study) -> list[Path]:
    return [simulation.record(study.name) for simulation in study.simulations()]


def inodes(study: Study) -> dict[Path, int]:
    return {record: record.stat().st_ino for record in records(study) if record.exists()}


@pytest.mark.rare
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
    log = paths.log("many", "simulate_shard", "scripted", "shard=1").read_text()
    assert "shard 1: 20 simulations, 17 finished before" in log
    assert {record: inode for record, inode in inodes(study).items() if record not in lost} == {
        record: inode for record, inode in before.items() if record not in lost
    }

    # Forced or not, what is there stays; and added seeds fill the last shard, or one of their own.
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
    study = study_factory({"n": [3, 4], "b": 1, "byzantine": "random"}, seeds=3)
    with heard() as said:
        simulate_shard(study, "scripted", 0)
    together = [read_summary(record).digest for record in records(study)]
    for record in records(study):
        record.unlink()
        simulate(study, record, [], 1.0)
    assert [read_summary(record).digest for record in records(study)] == together
    assert said[0] == "shard 0: 6 simulations, 0 finished before"


def test_games_that_fail_stop_no_other_of_their_shard(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2)
    blocked = [record for record in records(study) if "n=3" in record.parts]
    folder = blocked[0].parent
    folder.parent.mkdir(parents=True)
    folder.touch()  # a file where the folder of the records would be
    words = r"2 of 4 simulations failed, the first of them: results/.*/seed=\d\.parquet: cannot be written: .*$"
    with pytest.raises(RecordError, match=words), heard() as said:
        simulate_shard(study, "scripted", 0)
    assert [record.exists() for record in records(study)] == [record not in blocked for record in records(study)]
    assert said[-1] == "2 of 4 simulations failed"
    assert sum(text.startswith(f"{study.conditions[0].name}/seed=") for text in said) == 2
    folder.unlink()
    simulate_shard(study, "scripted", 0)
    assert all(record.exists() for record in records(study))


def test_own_policies_have_shards_of_their_own(study_factory: StudyFactory) -> None:
    Path("shard_agent.py").write_text("class Agent: ...\n")
    study = study_factory({"n": 1}, {"n": 2, "model": "shard_agent:Agent"}, seeds=9, shard_size=5)
    assert sorted(set(study.shards().values())) == [("own_code", 0), ("own_code", 1), ("scripted", 0)]


def test_a_shard_that_is_not_there_is_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: no shard 1 of scripted that plays in one job"):
        simulate_shard(study_factory(), "scripted", 1)
    for engine in ("scripted", "tiny"):
        with pytest.raises(UsageError, match=f"no shard 0 of {engine}"):
            simulate_shard(study_factory({"model": "tiny"}), engine, 0)
