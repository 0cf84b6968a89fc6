"""What happens to a run: its study is edited, it is interrupted, its server hangs. Real processes, real sockets."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from parley import paths
from parley.play.record import read_record
from parley.study import Study, load_study
from support import REPOSITORY
from support.answering import StandInService
from support.commands import wait_until
from support.studies import records_of
from support.workflows import CORES, PROFILE, SNAKEMAKE, snakemake, write, write_served

pytestmark = [
    pytest.mark.promise("A run that is interrupted, edited or hangs ends in one line, and the same command goes on."),
    pytest.mark.rare,
]

RUN = ("--config", "study=small.yaml")


# A study that changes while it runs

EDITS = """
import json
import os
from pathlib import Path

from parley.policies import Completion


class Edits:
    async def answer(self, ask, seed, attempt):
        new = Path(f"{os.getpid()}.yaml")  # renamed: other jobs read the file meanwhile
        new.write_text(Path("edited.yaml").read_text())
        new.rename("small.yaml")
        reply = {"internal_strategy": "none", "value": 7, "public_reasoning": "none"}
        return Completion(json.dumps({"decision": "stop"} if ask.phase == "vote" else reply), "stop")
"""


def test_a_study_that_is_edited_while_it_runs_says_so_and_the_same_command_goes_on(
    folder: Path,
    own_code: dict[str, Any],
) -> None:
    (folder / "keeps_agent.py").write_text(EDITS)
    grid = own_code | {"model": "keeps_agent:Edits"}
    edited = write(folder, shard_size=4, grids=[grid], parameters={"max_rounds": 4})
    Path("small.yaml").rename("edited.yaml")
    planned = write(folder, shard_size=4, grids=[grid])

    run = snakemake(*RUN, cores=["--cores", "1"])
    assert run.returncode == 1
    assert "small.yaml changed while it ran" in run.stderr
    assert "MissingOutputException" not in run.stderr
    assert "Traceback" not in run.stderr
    # What was being played is what was planned, and nothing of what the file says now was begun.
    assert all(path.exists() for path in records_of(planned))
    assert not any(path.exists() for path in records_of(edited))

    again = snakemake(*RUN)
    assert again.returncode == 0, again.stderr
    assert all(path.exists() for path in records_of(edited))


# A server that hangs


def write_model() -> Study:
    """Write a study of a model that nobody has to prepare; in vLLM's place a stand-in answers."""
    Path("tiny").mkdir()
    Path("tiny/config.json").write_text("{}")
    Path("tiny/model.safetensors").write_bytes(b"")
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"tiny": {"source": {"folder": "tiny"}}}}))
    grid = {"model": "tiny", "n": 3, "prompt": "may_exist"}
    Path("small.yaml").write_text(yaml.safe_dump({"game": "consensus", "seeds": 2, "grids": [grid]}))
    return load_study(Path("small.yaml"))


def run_with_server(fault: str, **variables: str) -> subprocess.CompletedProcess[str]:
    faulty = os.pathsep.join([str(REPOSITORY / "tests" / "support" / "faulty"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": faulty, "FAULT": fault, **variables}
    # A good server has the minutes that the profile gives it.
    command = [*SNAKEMAKE, *PROFILE, *CORES, *(["--latency-wait", "6"] if fault in ("stopped", "late") else []), *RUN]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)


def living(folder: Path) -> list[str]:
    """Return the processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and (entry / "cwd").readlink() == folder:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize("fault", ["stopped", "late"])
def test_a_server_that_hangs_before_it_announces_itself_ends_the_run(folder: Path, fault: str) -> None:
    study = write_model()
    run = run_with_server(fault, LATE_SECONDS="9")
    assert run.returncode == 1
    endpoint = paths.endpoint("small", "tiny", 0, "tiny")
    assert f"the server of {endpoint} did not announce itself in time" in run.stderr
    assert "Traceback" not in run.stderr
    assert not endpoint.exists()
    assert living(folder) == []
    assert run_with_server("").returncode == 0
    assert all(path.exists() for path in records_of(study))


def test_a_server_that_hears_no_sigterm_is_killed_after_the_last_simulation(folder: Path) -> None:
    study = write_model()
    run = run_with_server("hung")
    assert run.returncode == 0, run.stderr
    assert "did not end when it was told to" in run.stderr
    assert all(path.exists() for path in records_of(study))
    assert living(folder) == []


# A run, or a command, that is interrupted

STOPS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
LAST_LINE = "what was answered is in the journals, and the same command goes on with what is left"


def ended(process: subprocess.Popen[str]) -> tuple[str, float]:
    """Return what a process that was told to end said, and how many seconds it took to."""
    began = time.monotonic()
    said, _ = process.communicate(timeout=60)
    return said, time.monotonic() - began


_started: list[subprocess.Popen[str]] = []


def started(*command: str | Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _started.append(process)
    return process


@pytest.fixture(autouse=True)
def _end_what_a_failed_test_left() -> Iterator[None]:
    yield
    while _started:
        if (process := _started.pop()).returncode is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.communicate()


def seeds(server: StandInService) -> list[int]:
    return [body["seed"] for body in server.bodies]


@STOPS
def test_a_run_that_is_stopped_in_mid_game_ends_in_one_line_and_asks_nothing_again(
    server: StandInService,
    folder: Path,
    number: signal.Signals,
) -> None:
    study = write_served(server, seeds=4, parameters={"max_rounds": 8, "stop_threshold": 1})
    server.seconds = 0.5
    run = started(*SNAKEMAKE, *PROFILE, *CORES, *RUN)
    wait_until(lambda: len(server.bodies) > 12)
    run.send_signal(number)
    said, seconds = ended(run)
    assert run.returncode == 1
    assert seconds < 20, said
    assert said.splitlines()[-1] == f"stopped; {LAST_LINE}"
    assert "Traceback" not in said
    assert "failed" not in said
    assert living(folder) == []

    journaled = [
        json.loads(line[9:])["seed"]
        for path in Path("results").rglob("*.jsonl")
        if "journals" in path.parts
        for line in path.read_bytes().splitlines()[1:]
    ]
    of_models = [s.record("small") for s in study.simulations() if s.condition.models]
    recorded = [entry.seed for path in of_models if path.exists() for entry in read_record(path)[1]]
    kept = {*journaled, *recorded}  # of the games that were over before
    assert journaled
    assert len(kept) >= 8
    asked = len(server.bodies)
    server.seconds = 0.0
    assert snakemake(*RUN).returncode == 0
    assert all(path.exists() for path in records_of(study))
    assert not kept & set(seeds(server)[asked:])


DEAF = """
import asyncio, signal, time


class Deaf:
    async def answer(self, ask, seed, attempt):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        open("begun", "w").close()
        time.sleep(99)
"""


def test_a_run_whose_jobs_hear_no_signal_ends_too(folder: Path, own_code: dict[str, Any]) -> None:
    (folder / "keeps_agent.py").write_text(DEAF)
    write(folder, grids=[own_code | {"model": "keeps_agent:Deaf"}])
    run = started(*SNAKEMAKE, *PROFILE, *CORES, *RUN)
    wait_until(Path("begun").exists)
    run.terminate()
    said, seconds = ended(run)
    assert seconds < 20, said
    assert said.splitlines()[-1].removeprefix("parley: ") == f"stopped; {LAST_LINE}"
    assert living(folder) == []


@STOPS
def test_a_run_that_is_stopped_while_it_plans_says_so(
    folder: Path,
    own_code: dict[str, Any],
    number: signal.Signals,
) -> None:
    write(folder, seeds=1000, grids=[own_code | {"n": [3, 4, 5, 6]}])
    run = started(*SNAKEMAKE, *PROFILE, *CORES, *RUN)
    assert run.stdout is not None
    while "4,000 to do" not in (line := run.stdout.readline()):
        assert line
    run.send_signal(number)
    said, _ = ended(run)
    assert run.returncode == 130, said
    assert said.splitlines()[-1] == "parley: stopped before anything was played"
    assert "Traceback" not in said


@STOPS
@pytest.mark.parametrize("command", ["simulate-shard", "play"])
def test_a_command_that_is_stopped_ends_in_one_line(
    server: StandInService, command: str, number: signal.Signals
) -> None:
    write_served(server, seeds=2, parameters={"max_rounds": 8, "stop_threshold": 1})
    server.seconds = 0.5
    more = ["0", "--engine", "services"] if command == "simulate-shard" else ["--model", "theirs"]
    run = started(sys.executable, "-m", "parley.cli", command, "small.yaml", *more)
    wait_until(lambda: len(server.bodies) > 6)
    run.send_signal(number)
    said, seconds = ended(run)
    assert run.returncode == 130
    assert seconds < 20
    assert "Traceback" not in said
    goes_on = f"; {LAST_LINE}" if command == "simulate-shard" else ""
    assert said.splitlines()[-1] == f"parley: interrupted{goes_on}"
