"""Scripted simulations: one job plays what is missing of a shard, and no record is ever deleted."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from parley.errors import RecordError, UsageError
from parley.play.record import read_summary
from parley.play.simulate import simulate, simulate_shard
from parley.study import Study
from parley.study.study import SCRIPTED_SHARD
from support.commands import heard, wait_until
from support.studies import StudyFactory, records_of
from support.workflows import PARLEY

pytestmark = [
    pytest.mark.promise("A shard of scripted games is one job and plays only what is missing."),
    pytest.mark.slow,
]

SHARD = SCRIPTED_SHARD


def inodes(study: Study) -> dict[Path, int]:
    return {record: record.stat().st_ino for record in records_of(study) if record.exists()}


def test_a_killed_shard_goes_on_with_the_same_records(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 1}, seeds=SHARD + 20)
    command = [*PARLEY, "simulate-shard", "small.yaml", "0"]
    playing = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_until(lambda: len(inodes(study)) >= 5, pause=0.01)
    os.kill(playing.pid, signal.SIGKILL)
    playing.wait()
    before = inodes(study)
    assert 5 <= len(before) < SHARD
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = inodes(study)
    assert len(after) == SHARD
    assert {record: after[record] for record in before} == before


def test_a_shard_holds_the_records_that_single_jobs_would_make(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4], "b": 1, "byzantine": "random"}, seeds=3)
    with heard() as said:
        simulate_shard(study, "scripted", 0)
    together = [read_summary(record).digest for record in records_of(study)]
    for record in records_of(study):
        record.unlink()
        simulate(study, record, [], 1.0)
    assert [read_summary(record).digest for record in records_of(study)] == together
    assert said[0] == "shard 0: 6 simulations, 0 finished before"


def test_games_that_fail_stop_no_other_of_their_shard(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2)
    blocked = [record for record in records_of(study) if "n=3" in record.parts]
    folder = blocked[0].parent
    folder.parent.mkdir(parents=True)
    folder.touch()  # a file where the folder of the records would be
    words = r"2 of 4 simulations failed, the first of them: results/.*/seed=\d\.parquet: cannot be written: .*$"
    with pytest.raises(RecordError, match=words), heard() as said:
        simulate_shard(study, "scripted", 0)
    assert [record.exists() for record in records_of(study)] == [record not in blocked for record in records_of(study)]
    assert said[-1] == "2 of 4 played"
    assert sum(text.startswith(f"{study.conditions[0].name}/seed=") for text in said) == 2
    folder.unlink()
    simulate_shard(study, "scripted", 0)
    assert all(record.exists() for record in records_of(study))


def test_a_shard_that_is_not_there_is_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: no shard 1 of scripted that plays in one job"):
        simulate_shard(study_factory(), "scripted", 1)
    for engine in ("scripted", "tiny"):
        with pytest.raises(UsageError, match=f"no shard 0 of {engine}"):
            simulate_shard(study_factory({"model": "tiny"}), engine, 0)
