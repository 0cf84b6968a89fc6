"""What happens to a run: its study is edited, it is interrupted, its server hangs. Real processes, real sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answering import StandInService, as_recorded, service
from parley.study import Study
from test_workflow import folder, own_code, snakemake, write  # noqa: F401
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
