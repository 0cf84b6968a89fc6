import json
import os
from pathlib import Path

import pytest

from parley import paths
from parley.engine.endpoint import FAILED, Endpoint
from parley.progress.engines import Engines
from parley.progress.stages import FileStage, Stage

NOW = 1_000_000.0


def touch(path: Path, at: float, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def a_stage(since: float | None = None) -> FileStage:
    return FileStage("tables", Path("done"), Path("job.log"), Path("job.benchmark.tsv"), since)


@pytest.mark.usefixtures("folder")
def test_a_stage_begins_with_its_log_and_ends_with_its_mark() -> None:
    stage = a_stage(since=NOW)
    assert stage.look(NOW) == Stage("tables", "to do")
    touch(Path("job.log"), NOW + 1)
    assert stage.look(NOW + 3) == Stage("tables", "running", 2.0)
    touch(Path("job.log"), NOW + 4, "more\n")
    assert stage.look(NOW + 5) == Stage("tables", "running", 4.0)
    touch(Path("done"), NOW + 7)
    assert stage.look(NOW + 8) == Stage("tables", "done", 6.0)
    touch(Path("job.benchmark.tsv"), NOW + 8, "s\th:m:s\n5.75\t0:00:05\n")
    assert stage.look(NOW + 9) == Stage("tables", "done", 5.75)
    # One of an earlier run has no seconds in this one.
    assert a_stage(since=NOW + 50).look(NOW + 60) == Stage("tables", "done")


@pytest.mark.usefixtures("folder")
def test_an_old_log_is_no_stage_that_runs_and_one_with_an_error_is_of_one_that_failed() -> None:
    touch(Path("job.log"), NOW - 50)
    assert a_stage(since=NOW).look(NOW).state == "to do"
    assert a_stage().look(NOW) == Stage("tables", "running", 50.0)
    assert a_stage().look(NOW + 1000).state == "to do"
    for words in ("parley: no table\n", "interrupted\n"):
        touch(Path("job.log"), NOW, words)
        assert a_stage().look(NOW) == Stage("tables", "failed")


LOAD = (
    "(APIServer pid=1) INFO 11-22 20:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg "
    "generation throughput: {} tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: 1.0%\n"
)
STARTED = "INFO: Application startup complete.\n"


@pytest.fixture
def endpoint(folder: Path) -> Path:
    path = paths.endpoint("small", "tiny", 0, "tiny")
    Endpoint(model="tiny", socket="/nowhere", pid=os.getpid()).write(path)
    os.utime(path, (NOW, NOW))
    return path


def serve_log() -> Path:
    return paths.log("small", "serve", "tiny", "shard=0", "tiny")


def test_an_engine_loads_until_its_server_says_so(endpoint: Path) -> None:
    engines = Engines("small")
    loading = "parley: warning: not deterministic\nloading\n"
    touch(serve_log(), NOW, loading)
    assert engines.look(NOW + 12, None) == [Stage("engine tiny", "running", 12.0)]
    assert engines.words(NOW + 12) == ""
    assert engines.warnings() == ["not deterministic"]
    touch(serve_log(), NOW + 30, loading + STARTED + LOAD.format("0.0", 14, 2))
    assert engines.look(NOW + 31, None) == [Stage("engine tiny", "done", 31.0)]
    assert engines.words(NOW + 32) == "engine busy with 14 requests, 2 waiting, reading prompts (prefill)"
    assert engines.words(NOW + 100) == ""  # it has not said anything for long
    endpoint.unlink()  # it is stopped
    assert engines.look(NOW + 50, None) == [Stage("engine tiny", "done", 31.0)]


def test_an_engine_that_died_or_is_gone_is_a_problem(endpoint: Path) -> None:
    engines = Engines("small")
    data = json.loads(endpoint.read_text())
    Endpoint(**data | {"state": FAILED, "error": "no\x1b[2J memory"}).write(endpoint)
    assert engines.look(NOW, None) == []
    assert engines.problems == ["the engine for tiny died: no[2J memory"]
    Endpoint(**data | {"pid": 2**22 + 1}).write(endpoint)
    engines.look(NOW, None)
    assert engines.problems == ["the engine for tiny is gone; look at its log"]
