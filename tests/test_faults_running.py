"""What happens to a run: its study is edited, it is interrupted, its server hangs. Real processes, real sockets."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from answering import StandInService, as_recorded, service
from parley import paths
from parley.study import Study, load_study
from test_workflow import CORES, PROFILE, SNAKEMAKE, folder, own_code, snakemake, write  # noqa: F401
from test_workflow_services import KEY, VARIABLE
from test_workflow_services import write as write_served

pytestmark = pytest.mark.slow

RUN = ("--config", "study=small.yaml")


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:  # noqa: F811
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


def records(study: Study) -> list[Path]:
    return [simulation.record("small") for simulation in study.simulations()]


# A study that is edited while it runs

EDITS = """
import json
from pathlib import Path

from parley.policies import Completion


class Edits:
    async def answer(self, ask, seed, attempt):
        Path("small.yaml").write_text(Path("edited.yaml").read_text())
        reply = {"internal_strategy": "none", "value": 7, "public_reasoning": "none"}
        return Completion(json.dumps({"decision": "stop"} if ask.phase == "vote" else reply), "stop")
"""


def test_a_study_that_is_edited_while_it_runs_says_so_and_the_same_command_goes_on(
    folder: Path,  # noqa: F811
    own_code: dict[str, Any],  # noqa: F811
) -> None:
    (folder / "keeps_agent.py").write_text(EDITS)
    grid = own_code | {"model": "keeps_agent:Edits"}
    edited = write(folder, grids=[grid], parameters={"max_rounds": 4})
    Path("small.yaml").rename("edited.yaml")
    planned = write(folder, grids=[grid])

    run = snakemake(*RUN, cores=["--cores", "1"])
    assert run.returncode == 1
    assert "small.yaml changed while it ran" in run.stderr
    assert "MissingOutputException" not in run.stderr
    assert "Traceback" not in run.stderr
    # What was being played is what was planned, and nothing of what the file says now was begun.
    assert sum(path.exists() for path in records(planned)) == 1
    assert not any(path.exists() for path in records(edited))

    again = snakemake(*RUN)
    assert again.returncode == 0, again.stderr
    assert all(path.exists() for path in records(edited))


def test_shards_after_an_edit_do_not_play_the_new_study(server: StandInService) -> None:
    edited = write_served(server, {"concurrent": 1}, seeds=3, shard_size=1, parameters={"max_rounds": 1})
    Path("small.yaml").rename("edited.yaml")
    planned = write_served(server, {"concurrent": 1}, seeds=3, shard_size=1)

    def edit(body: dict[str, Any]) -> Any:
        Path("small.yaml").write_text(Path("edited.yaml").read_text())
        return as_recorded(body)

    server.answer = edit
    run = snakemake(*RUN, cores=["--cores", "1"])
    assert run.returncode == 1
    assert "small.yaml changed while it ran" in run.stderr
    of_service = [path for path in records(planned) if "model=theirs" in path.parts]
    assert sum(path.exists() for path in of_service) == 1
    assert not any(path.exists() for path in records(edited) if "model=theirs" in path.parts)


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
    faulty = os.pathsep.join([str(Path(__file__).parent / "faulty"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": faulty, "FAULT": fault, **variables}
    command = [*SNAKEMAKE, *PROFILE, *CORES, "--latency-wait", "6", *RUN]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)


def living(folder: Path) -> list[str]:  # noqa: F811
    """Return the processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and (entry / "cwd").readlink() == folder:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.parametrize("fault", ["stopped", "late"])
def test_a_server_that_hangs_before_it_announces_itself_ends_the_run(folder: Path, fault: str) -> None:  # noqa: F811
    study = write_model()
    run = run_with_server(fault, LATE_SECONDS="9")
    assert run.returncode == 1
    endpoint = paths.endpoint("small", "tiny", 0, "tiny")
    assert f"the server of {endpoint} did not announce itself in time" in run.stderr
    assert "Traceback" not in run.stderr
    assert not endpoint.exists()
    assert living(folder) == []
    assert run_with_server("").returncode == 0
    assert all(path.exists() for path in records(study))


def test_a_server_that_hears_no_sigterm_is_killed_after_the_last_simulation(folder: Path) -> None:  # noqa: F811
    study = write_model()
    run = run_with_server("hung")
    assert run.returncode == 0, run.stderr
    assert "did not end when it was told to" in run.stderr
    assert all(path.exists() for path in records(study))
    assert living(folder) == []
