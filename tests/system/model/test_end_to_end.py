"""The real model, through real vLLM: from a study file to a report, deaths of an engine, replies asked for again."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.play.verify import read_recorded
from support.commands import Parley, Ran, wait_until
from support.records import forge
from support.workflows import MODEL, PARLEY, real_snakemake, serve, share_models, snakemake, write_real

pytestmark = [
    pytest.mark.promise(
        "A study on the real model goes from file to report; an engine that is killed in mid-game costs no reply."
    ),
    pytest.mark.model,
    pytest.mark.usefixtures("own_core"),
]


def test_a_study_on_the_real_model_from_file_to_report(folder: Path) -> None:
    study = write_real(
        folder,
        {"model": "smollm2-135m", "honest": 2, "b": [0, 1], "prompt": "may_exist"},
        {"model": "majority", "n": 3, "prompt": "none_exist"},
        seeds=1,
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
    assert conditions["simulations"].to_list() == [1, 1, 1]
    outcomes = ["valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"]
    assert (conditions[[f"{name}_count" for name in outcomes]].sum(axis=1) == 1).all()
    for name in outcomes:
        assert (conditions[f"{name}_low"] <= conditions[f"{name}_rate"]).all()
        assert (conditions[f"{name}_rate"] <= conditions[f"{name}_high"]).all()
    assert "smollm2-135m" in paths.report("real").read_text()

    for record in records:
        assert replay(record).difference is None

    assert not list(paths.journals("real").rglob("*.jsonl"))
    assert not paths.endpoint("real", "smollm2-135m", 0, "smollm2-135m").exists()
    assert "Nothing to be done" in snakemake("--dry-run", "--config", "study=real.yaml").stdout


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a model that is served in float32: engine.log, endpoint.json, models.yaml."""
    folder = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        share_models(folder)
        entries = yaml.safe_load(Path("models.yaml").read_text())["models"]
        Path("models.yaml").write_text(yaml.safe_dump({"models": {MODEL: {**entries[MODEL], "deterministic": True}}}))
        process = serve()
    yield folder
    process.terminate()
    process.wait(timeout=60)


def group_members(leader: int) -> list[int]:
    """Return the processes of the vLLM server that `leader` supervises."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid="], capture_output=True, text=True, check=True).stdout
    table = [tuple(map(int, line.split())) for line in listed.splitlines()]
    servers = {pid for pid, parent, _ in table if parent == leader}
    return [pid for pid, _, group in table if group in servers]


def playing(record: Path, endpoint: Path) -> subprocess.Popen[str]:
    command = [*PARLEY, "simulate", "real.yaml", str(record), str(endpoint)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.rare
def test_an_engine_killed_in_mid_game_loses_nothing(folder: Path, engine: Path) -> None:
    shutil.copy(engine / "models.yaml", folder)
    victim = serve()
    # A threshold that every agent has to meet and rounds enough that the game lasts until the engine is killed.
    study = write_real(
        folder,
        {"model": "smollm2-135m", "n": 4, "b": 1, "prompt": "may_exist"},
        parameters={"max_rounds": 3, "stop_threshold": 1},
    )
    record = next(study.simulations()).record("real")
    journal = paths.journal(record)
    first = playing(record, Path("endpoint.json"))
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 4)
    members = group_members(victim.pid)
    assert len(members) >= 2  # API server, engine core, and on some machines a worker
    os.kill(members[-1], signal.SIGKILL)
    output, _ = first.communicate(timeout=120)
    kept = journal.read_bytes()

    assert first.returncode == 1, f"the game ended before the engine was killed: {output}"
    assert output.strip().splitlines()[-1].startswith("parley: the engine for smollm2-135m")
    assert "Traceback" not in output
    assert victim.wait(timeout=60) == 1
    assert group_members(victim.pid) == []
    assert not record.exists()

    resumed = playing(record, engine / "endpoint.json")
    output, _ = resumed.communicate(timeout=240)
    assert resumed.returncode == 0, output
    replies = kept.splitlines()[1:]
    assert f"going on from the journal: {len(replies)} replies" in output
    assert replay(record).difference is None
    # What was in the journal is in the record, word for word: nothing was asked twice.
    texts = ds.dataset(record).to_table().column("text").to_pylist()
    for line in replies:
        assert yaml.safe_load(line[9:])["text"] in texts


@pytest.mark.rare
def test_an_engine_that_dies_while_loading_is_quoted(folder: Path) -> None:
    broken = folder / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"architectures": ["NoSuchModel"], "model_type": "llama"}')
    (broken / "model.safetensors").write_bytes(b"")
    models = {"models": {"broken": {"source": {"folder": "broken"}}}}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    study = write_real(folder, {"model": "broken", "n": 2, "prompt": "may_exist"})
    server = serve("broken")
    waiting = playing(next(study.simulations()).record("real"), Path("endpoint.json"))
    output, _ = waiting.communicate(timeout=120)
    assert server.wait(timeout=60) == 1
    assert waiting.returncode == 1
    line = output.strip().splitlines()[-1]
    assert line.startswith("parley: the engine for broken died: ")
    assert "NoSuchModel" in line
    assert "Traceback" not in output


# Replies that are asked for again


def alter(record: Path) -> int:
    """Add a space to the attempt that a sample of one takes, which leaves the game as it was; return its length."""
    [recorded] = read_recorded(record, 1)
    [chosen] = recorded.attempts
    lengths: list[int] = []

    def change(rows: list[dict[str, Any]]) -> None:
        key = ("round", "phase", "agent", "attempt")
        [row] = [row for row in rows if tuple(row[c] for c in key) == chosen.entry.key]
        lengths.append(len(row["text"]))
        row["text"] += " "

    forge(record, change)
    return lengths[0]


def rows_of(ran: Ran) -> list[list[str]]:
    return [line.split()[1:6] for line in ran.out.splitlines()[1:5]]


@pytest.mark.rare
def test_deterministic_replies_are_given_again_and_altered_ones_found(
    folder: Path, parley: Parley, engine: Path
) -> None:
    shutil.copy(engine / "models.yaml", folder)
    # Short replies: what is compared is the arithmetic behind each token, not what they say.
    parameters = {
        "max_rounds": 1,
        "retries": 0,
        "propose": {"temperature": 0.5, "max_tokens": 32},
        "vote": {"temperature": 0.3, "max_tokens": 12},
    }
    study = write_real(folder, {"model": MODEL, "n": 2, "prompt": "none_exist"}, parameters=parameters)
    record = next(study.simulations()).record("real")
    endpoint = engine / "endpoint.json"
    simulate(study, record, [endpoint], 120.0)
    same = parley("verify", record, "--endpoint", endpoint, "--batch", 4, "--sample", 3)
    length = alter(record)
    altered = parley("verify", record, "--endpoint", endpoint, "--batch", 4, "--sample", 1)

    made = read_summary(record).provenance["engines"][MODEL]
    assert made["deterministic"]["by"] == "float32"
    assert made["arguments"][made["arguments"].index("--dtype") + 1] == "float32"
    assert made["deterministic"]["warning"] in (engine / "engine.log").read_text()

    passes = [(batch, cache) for batch in ("1", "4") for cache in ("cold", "warm")]
    assert rows_of(same) == [[*each, "3", "3", "0"] for each in passes], same.out
    assert same.status == 0
    assert "warning" not in same.err

    # All is asked again with the seeds of the record.

    assert rows_of(altered) == [[*each, "1", "0", "1"] for each in passes], altered.out
    assert altered.status == 1
    assert f"attempt 0, character {length}" in altered.out
    assert altered.err.splitlines()[-1] == "parley: 4 of 4 passes gave other replies than the records"
