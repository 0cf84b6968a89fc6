"""The real model, through real vLLM: from a study file to a report, and the deaths of an engine."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds
import pytest
import yaml

from parley import paths
from parley.play.replay import replay
from support.models import PARLEY, serve, write
from support.workflows import real_snakemake

pytestmark = pytest.mark.model


def test_a_study_on_the_real_model_from_file_to_report(folder: Path) -> None:
    study = write(
        folder,
        {"model": "smollm2-135m", "honest": 2, "b": [0, 1], "prompt": "may_exist"},
        {"model": "majority", "n": 3, "prompt": "none_exist"},
        seeds=2,
    )
    result = real_snakemake("--config", "study=real.yaml")
    assert result.returncode == 0, result.stderr
    records = [simulation.record("real") for simulation in study.simulations()]

    rows = ds.dataset(paths.simulations("real"), partitioning="hive").to_table().to_pandas()
    asked = rows[rows["model"] == "smollm2-135m"]
    assert (asked["prompt_tokens"] > 200).all()
    assert (asked["completion_tokens"] > 0).all()
    assert asked["request_seed"].notna().all()
    # The grammar keeps replies in form: whatever failed was cut off at max_tokens.
    assert set(asked["failure"].dropna()) <= {"length"}
    assert asked["text"].str.startswith("{").all()

    conditions = pd.read_parquet(paths.table("real", "conditions", ".parquet"))
    assert conditions["simulations"].to_list() == [2, 2, 2]
    outcomes = ["valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"]
    assert (conditions[[f"{name}_count" for name in outcomes]].sum(axis=1) == 2).all()
    for name in outcomes:
        assert (conditions[f"{name}_low"] <= conditions[f"{name}_rate"]).all()
        assert (conditions[f"{name}_rate"] <= conditions[f"{name}_high"]).all()
    assert "smollm2-135m" in paths.report("real").read_text()

    for record in records:
        assert replay(record).difference is None

    assert not list(paths.results("real").rglob("*.jsonl"))
    assert not paths.endpoint("real", "smollm2-135m", 0, "smollm2-135m").exists()
    assert "Nothing to be done" in real_snakemake("--dry-run", "--config", "study=real.yaml").stdout


@pytest.fixture
def engine(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A served model, whose output is engine.log and whose endpoint file is endpoint.json."""
    process = serve()
    yield process
    process.terminate()
    process.wait(timeout=60)


def group_members(leader: int) -> list[int]:
    """Return the processes of the vLLM server that `leader` supervises."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid="], capture_output=True, text=True, check=True).stdout
    table = [tuple(map(int, line.split())) for line in listed.splitlines()]
    servers = {pid for pid, parent, _ in table if parent == leader}
    return [pid for pid, _, group in table if group in servers]


def simulate(record: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PARLEY, "simulate", "real.yaml", str(record), "endpoint.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_an_engine_killed_in_mid_game_loses_nothing(folder: Path, engine: subprocess.Popen[bytes]) -> None:
    # A threshold that every agent has to meet and rounds enough that the game lasts until the engine is killed.
    study = write(
        folder,
        {"model": "smollm2-135m", "n": 4, "b": 1, "prompt": "may_exist"},
        parameters={"max_rounds": 3, "stop_threshold": 1},
    )
    record = next(study.simulations()).record("real")
    journal = paths.journal(record)
    playing = simulate(record)
    end = time.monotonic() + 240
    while time.monotonic() < end and not (journal.exists() and journal.read_bytes().count(b"\n") >= 4):
        time.sleep(0.02)
    members = group_members(engine.pid)
    assert len(members) >= 3  # API server, engine core, worker
    os.kill(members[-1], signal.SIGKILL)
    output, _ = playing.communicate(timeout=120)
    kept = journal.read_bytes()

    if playing.returncode == 0:
        pytest.fail(f"the game ended before the engine was killed: {output}")
    assert playing.returncode == 1
    assert output.strip().splitlines()[-1].startswith("parley: the engine for smollm2-135m")
    assert "Traceback" not in output
    assert engine.wait(timeout=60) == 1
    assert group_members(engine.pid) == []
    assert not record.exists()

    again = serve()
    resumed = simulate(record)
    output, _ = resumed.communicate(timeout=240)
    again.terminate()
    assert again.wait(timeout=60) == 0
    assert not Path("endpoint.json").exists()
    assert resumed.returncode == 0, output
    replies = kept.splitlines()[1:]
    assert f"going on from the journal: {len(replies)} replies" in output
    assert replay(record).difference is None
    # What was in the journal is in the record, word for word: nothing was asked twice.
    texts = ds.dataset(record).to_table().column("text").to_pylist()
    for line in replies:
        assert yaml.safe_load(line[9:])["text"] in texts


def test_an_engine_that_dies_while_loading_is_quoted(folder: Path) -> None:
    broken = folder / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"architectures": ["NoSuchModel"], "model_type": "llama"}')
    (broken / "model.safetensors").write_bytes(b"")
    models = {"models": {"broken": {"source": {"folder": "broken"}}}}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    study = write(folder, {"model": "broken", "n": 2, "prompt": "may_exist"})
    server = serve("broken")
    playing = simulate(next(study.simulations()).record("real"))
    output, _ = playing.communicate(timeout=120)
    assert server.wait(timeout=60) == 1
    assert playing.returncode == 1
    line = output.strip().splitlines()[-1]
    assert line.startswith("parley: the engine for broken died: ")
    assert "NoSuchModel" in line
    assert "Traceback" not in output
