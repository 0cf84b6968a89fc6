"""What is in examples/. The tests with the real `swarms` run where it is installed; examples/README.md says how."""

import asyncio
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median_low

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from parley import paths
from parley.cli import commands
from parley.engine.client import Engine
from parley.engine.service.service import Service
from parley.errors import EngineError, UsageError
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.policies import Ask, Completion
from parley.study import Study, load_study
from support import REPOSITORY
from support.answering import Answer, as_recorded, service, service_entry
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The examples run.")

EXAMPLES = REPOSITORY / "examples"
KEY = "sk-2f9b61c7d0e4"
needs_swarms = pytest.mark.skipif(find_spec("swarms") is None, reason="needs swarms; see examples/README.md")


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this module import the examples."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "swarms_agent", raising=False)
    monkeypatch.delenv("PARLEY_SWARMS_URL", raising=False)
    monkeypatch.delenv("PARLEY_SWARMS_KEY", raising=False)


def example(name: str) -> Study:
    return load_study(EXAMPLES / f"{name}.yaml", REPOSITORY / paths.CONFIG / "models.yaml")


# A policy of one's own


def test_the_command_in_the_study_of_the_own_policy_plays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)  # its models are those of config/
    command = re.search(r"(?m)^#   parley (.*)$", (EXAMPLES / "own_policy.yaml").read_text())
    assert command is not None
    ran = CliRunner().invoke(commands, [*command[1].split(), "--model", "Median-faults-1"], catch_exceptions=False)
    assert ran.exit_code == 0
    assert ran.output.splitlines()[0] == "own_policy: model=Median-faults-1 n=5 b=1 prompt=may_exist, seed 0"
    assert ran.output.splitlines()[-1] == "Outcome: valid_consensus, after 2 rounds"


@pytest.mark.slow
def test_the_own_policy_proposes_the_median_of_what_it_saw(folder: Path) -> None:
    study = example("own_policy")
    for simulation in [s for s in study.simulations() if s.seed < 2 and "Median" in str(s.condition.axes["model"])]:
        record = simulation.record(study.name)
        simulate(study, record, [], 1.0)
        rows = [row for row in pq.read_table(record, partitioning=None).to_pylist() if row["phase"] == "propose"]
        said = {(row["round"], row["agent"]): json.loads(row["text"])["value"] for row in rows}
        first = median_low([value for (number, _), value in said.items() if number == 1])
        second = [said[2, row["agent"]] for row in rows if row["round"] == 2 and row["role"] == "honest"]
        assert second == [first] * 4
        assert read_summary(record).telemetry["failed_replies"] == 0
        assert replay(record).difference is None


# A swarms.Agent


def test_a_missing_address_or_key_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = example("swarms_agent")
    [simulation] = study.simulations()
    for name, value in (("PARLEY_SWARMS_URL", "http://127.0.0.1:9/v1"), ("PARLEY_SWARMS_KEY", KEY)):
        with pytest.raises(UsageError) as caught:
            simulate(study, simulation.record(study.name), [], 1.0)
        assert str(caught.value).startswith(f"{name} is not set; ")
        assert len(str(caught.value).splitlines()) == 1
        monkeypatch.setenv(name, value)


def test_the_versions_in_the_example_are_those_that_are_installed_for_it() -> None:
    import swarms_agent

    pins = (EXAMPLES / "swarms-requirements.txt").read_text().splitlines()
    assert {f"swarms=={swarms_agent.SWARMS}", f"litellm=={swarms_agent.LITELLM}"} <= set(pins)


@pytest.fixture
def asked(study_factory: StudyFactory) -> Ask:
    """The first question of a game."""
    [simulation] = study_factory().simulations()
    return next(simulation.game().play())[0]


def answer(monkeypatch: pytest.MonkeyPatch, ask: Ask, url: str) -> Completion:
    """Have a real swarms.Agent answer, as an agent of the model `small` at this address."""
    monkeypatch.setenv("PARLEY_SWARMS_URL", url)
    monkeypatch.setenv("PARLEY_SWARMS_KEY", KEY)
    import swarms_agent

    return asyncio.run(swarms_agent.SwarmsAgent(served="small").answer(ask, 12345, 0))


@needs_swarms
@pytest.mark.filterwarnings("ignore")
def test_a_swarms_agent_sends_what_a_model_of_parley_is_sent(asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    async def own(url: str) -> Completion:
        async with Engine(Service(model="small", url=url, served="small", key=KEY)) as engine:
            return await engine.chat(asked, 12345, service_entry())

    with service(as_recorded, served="small") as server:
        replies = [answer(monkeypatch, asked, server.url), asyncio.run(own(server.url))]
    by_agent, by_engine = server.bodies
    system = by_engine["messages"][0]
    assert by_agent == {
        **by_engine,
        "messages": [{**system, "content": system["content"].strip()}, *by_engine["messages"][1:]],
    }
    assert server.heads == [("/v1/chat/completions", f"Bearer {KEY}")] * 2
    assert replies[0] == replies[1]


@needs_swarms
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("status", [401, 500, None])
def test_a_server_that_fails_ends_the_game_in_one_line_without_the_key(
    asked: Ask, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], status: int | None
) -> None:
    failing: Answer = lambda body: status and (status, {"error": {"message": f"no\nentry for {KEY}"}})  # noqa: E731
    with service(failing) as server, pytest.raises(EngineError) as caught:
        answer(monkeypatch, asked, server.url)
    assert str(caught.value).startswith("swarms.Agent got no reply: ")
    assert len(str(caught.value).splitlines()) == 1
    assert KEY not in str(caught.value)
    assert capfd.readouterr() == ("", "")  # nothing is printed besides
    assert len(server.bodies) == 1  # it is not asked again, unrecorded
