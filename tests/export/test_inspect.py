"""Logs of inspect_ai: read back by its own readers, and served by its own viewer."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

from parley import paths
from parley.imports.write import import_games
from parley.study import load_study
from support.exports import run_beside
from support.imported import reply_lines, write_lines
from support.studies import make_study

pytestmark = pytest.mark.slow
GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a scripted study, one of which a record is damaged, and imported games with a failed reply."""
    folder = tmp_path_factory.mktemp("home")
    with chdir(folder):
        make_study(GRIDS, title="Do they agree?")
        broken = make_study(GRIDS, name="broken")
        record = next(iter(broken.simulations())).record("broken")
        record.write_bytes(record.read_bytes()[:-30])
        lines = reply_lines(["ss", "hh"], game="stag_hunt")
        lines[0]["text"] = "no JSON \u202e</script>"
        import_games("jsonl", write_lines(Path("games.jsonl"), lines), "theirs", True, "their paper", "CC-BY-NC-4.0")
        yield folder


@pytest.fixture(scope="module")
def read(home: Path, beside: Path) -> Any:
    return run_beside(beside, "inspect_reads.py", home, "tiny", "broken", "theirs")


def test_a_log_is_a_condition_and_a_sample_a_simulation(read: Any, home: Path) -> None:
    study = load_study(home / "config" / "tiny.yaml")
    logs = {log["task"]: log for log in read["tiny"]["logs"]}
    assert set(logs) == {f"tiny/model=majority,n={n},b={b},prompt=may_exist" for n, b in ((4, 0), (4, 1))}
    played = {simulation.id: simulation for simulation in study.simulations()}
    samples = [sample for log in logs.values() for sample in log["samples"]]
    assert {sample["uuid"] for sample in samples} == set(played)
    with chdir(home):
        table = pd.read_parquet(paths.table("tiny", "simulations", ".parquet")).set_index("id")
    for sample in samples:
        row = table.loc[sample["uuid"]]
        assert sample["id"] == row["seed"]
        assert sample["scores"]["outcome"] == row["outcome"]
        assert sample["scores"]["value_changes"] == row["value_changes"]
        assert len(sample["models"]) == row["calls"]
    for log in logs.values():
        assert log["status"] == "success"
        assert sum(log["scores"]["outcome"].values()) == pytest.approx(1)


def test_attempts_are_events_in_the_span_of_their_agent(read: Any, home: Path) -> None:
    sample = read["tiny"]["logs"][0]["samples"][0]
    with chdir(home):
        study = load_study(Path("config/tiny.yaml"))
        simulation = next(s for s in study.simulations() if s.id == sample["uuid"])
        rows = pd.read_parquet(simulation.record("tiny"), partitioning=None)
    assert sorted(model["text"] for model in sample["models"]) == sorted(rows["text"])
    assert sample["messages"] == list(rows["text"])
    by_text = {(row.agent, row.user): row for row in rows.itertuples()}
    spans = {span[2]: span for span in sample["spans"]}
    for model in sample["models"]:
        row = by_text[model["agent"], model["input"][-1]]
        assert model["input"] == [row.system, row.user]
        assert model["seed"] == row.request_seed
        assert model["seconds"] == pytest.approx(row.seconds)
        kind, name, _, parent = spans[model["span"]]
        assert (kind, name) == ("agent", row.agent)
        assert spans[parent][:2] == ["phase", row.phase]
        assert spans[spans[parent][3]][:2] == ["round", f"round {row.round}"]
    assert sorted(spans) == sorted(sample["ends"])
    assert [kept["round"] for kept in sample["kept"]] == sorted(set(rows["round"]))


def test_its_data_frames_open_the_logs(read: Any) -> None:
    samples = [sample for log in read["tiny"]["logs"] for sample in log["samples"]]
    calls = sum(len(sample["models"]) for sample in samples)
    frames = read["tiny"]["frames"]
    assert frames["evals"]["rows"] == 2
    assert frames["samples"]["rows"] == len(samples)
    assert frames["events"]["rows"] == calls
    assert frames["messages"]["rows"] >= 2 * calls  # what was asked and replied, and system messages once each
    assert {"score_outcome", "metadata_b", "metadata_seed"} <= set(frames["samples"]["columns"])


def test_a_damaged_record_is_left_out(read: Any) -> None:
    assert sum(len(log["samples"]) for log in read["broken"]["logs"]) == 3


def test_a_failed_reply_is_marked_and_hostile_text_stays_as_it_came(read: Any) -> None:
    (log,) = read["theirs"]["logs"]
    (sample,) = log["samples"]
    failed = [model for model in sample["models"] if model["error"]]
    assert [model["text"] for model in failed] == ["no JSON \u202e</script>"]
    assert failed[0]["error"].startswith("invalid_json")


def test_imported_games_carry_source_and_license(read: Any) -> None:
    (log,) = read["theirs"]["logs"]
    told = {"format": "jsonl", "source": "their paper", "license": "CC-BY-NC-4.0"}
    assert log["metadata"]["imported"] == told
    assert told.items() <= log["samples"][0]["metadata"]["imported"].items()


def test_reasoning_and_tokens_are_where_its_readers_look(read: Any) -> None:
    found = read["reasoned"]
    assert found["reasoning"] == ["Let me think."]
    assert found["text"] == "the reply"
    assert found["error"] == "length: cut off"
    assert found["stop"] == "max_tokens"
    # Of 100 tokens of the question 60 were in the cache: inspect_ai counts those apart.
    assert found["usage"] == {
        "input_tokens": 40,
        "input_tokens_cache_read": 60,
        "output_tokens": 30,
        "reasoning_tokens": 20,
        "total_tokens": 130,
    }


@pytest.fixture
def viewer(read: Any, home: Path, beside: Path) -> Iterator[str]:
    """The address of `inspect view` over the exported logs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = home / paths.export("tiny", "inspect")
    command = [beside.with_name("inspect"), "view", "start", "--host", "127.0.0.1", "--port", str(port)]
    env = os.environ | {"HOME": str(home)}
    with subprocess.Popen([*command, "--log-dir", folder], env=env, stdout=subprocess.DEVNULL) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def answer(address: str, seconds: float = 60) -> Any:
    """Return what an address answers, as JSON; the server may still be starting."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as reply:
                return json.load(reply)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_inspect_view_serves_the_logs(viewer: str, read: Any) -> None:
    logs = answer(f"{viewer}/api/logs")["files"]
    assert len(logs) == 2
    log = answer(f"{viewer}/api/logs/{quote(logs[0]['name'], safe='')}")
    assert log["status"] == "success"
    assert log["eval"]["task"] in {each["task"] for each in read["tiny"]["logs"]}
    assert len(log["samples"]) == 2
