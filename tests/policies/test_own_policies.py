"""Policies of the user's own: named by module and attribute, or installed; what goes wrong is one line."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.errors import EngineError, UsageError
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import play_simulation, simulate
from support.studies import HONEST, StudyFactory, grouped

pytestmark = pytest.mark.promise(
    "An own policy plays by name; its record replays without it; loading a study runs no code."
)

# Code of the user's own

OWN = """
from parley.policies import Completion
class Echo:
    def __init__(self, value, llm=None):
        self.value, self.llm = value, llm
    async def answer(self, ask, seed, attempt):
        if self.llm is not None:
            return await self.llm.answer(ask, seed, attempt)
        if ask.phase == "vote":
            return Completion('{"decision": "stop"}', "stop")
        said = '{"internal_strategy": "", "value": %d, "public_reasoning": ""}' % self.value
        return Completion(said, "stop")
class Raises:
    async def answer(self, ask, seed, attempt):
        raise ValueError("oh\\nno")
class Wrong:
    async def answer(self, ask, seed, attempt):
        return "text"
def broken(**parameters):
    raise RuntimeError("no such thing")


class Leaves:
    async def answer(self, ask, seed, attempt):
        raise SystemExit(0)
"""


Installer = Callable[..., None]


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module on Python's path, new for each test."""
    name = f"own_{folder.name}"
    (folder / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(folder))
    return name


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Install a distribution that has the given entry points, by name; each call installs another."""

    def make(**points: str) -> None:
        site = tmp_path / f"site{len(list(tmp_path.glob('site*')))}"
        info = site / f"{site.name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {site.name}\nVersion: 1.0\n")
        lines = [f"{name} = {value}\n" for name, value in points.items()]
        (info / "entry_points.txt").write_text("".join(["[parley.policies]\n", *lines]))
        monkeypatch.syspath_prepend(str(site))

    return make


def test_a_policy_of_the_users_own_plays_and_its_record_replays_without_it(
    study_factory: StudyFactory, own: str, folder: Path
) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    [simulation] = study.simulations()
    assert simulation.condition.axes["model"] == "Echo-value-7"
    record = simulation.record("small")
    simulate(study, record, [], 1.0)
    summary = read_summary(record)
    assert (summary.outcome["name"], summary.outcome["detail"]) == ("invalid_consensus", "foreign_value")
    [group] = summary.simulation["groups"]
    assert (group["policy"], group["parameters"]) == (f"{own}:Echo", {"value": 7})
    assert len(group["code_sha256"]) == 64
    (folder / f"{own}.py").unlink()
    assert replay(record).difference is None


def test_loading_a_study_runs_no_own_code(study_factory: StudyFactory, folder: Path, own: str) -> None:
    (folder / f"{own}.py").write_text("raise SystemExit('this was run')")
    study = study_factory({"model": f"{own}:Echo"})
    assert study.conditions[0].axes["model"] == "Echo"
    assert own not in sys.modules


def test_a_change_of_own_code_is_another_spec(
    study_factory: StudyFactory, folder: Path, own: str, install: Installer
) -> None:
    install(my_agent=f"{own}:Echo")
    for name in (f"{own}:Echo", "my_agent"):
        before = study_factory({"model": name}).conditions[0]
        with (folder / f"{own}.py").open("a") as file:
            file.write("# changed\n")
        after = study_factory({"model": name}).conditions[0]
        assert (before.name, before.spec != after.spec) == (after.name, True)


def test_own_code_may_ask_the_model_of_its_group(
    study_factory: StudyFactory, own: str, engines: dict[str, Any]
) -> None:
    group = {**HONEST, "policy": {"name": f"{own}:Echo", "value": 7}}
    study = grouped(study_factory, group, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    assert simulation.condition.axes["model"] == "Echo-value-7-tiny"
    path, server = engines["tiny"]
    playing = play_simulation(simulation, {"tiny": path}, 5.0, None, len)
    played, _ = asyncio.run(playing)
    assert {body["seed"] for body in server.bodies} == {exchange.entry.seed for exchange in played.exchanges}


def test_own_code_that_does_not_work_is_one_line(study_factory: StudyFactory, own: str) -> None:
    for attribute, error, words in [
        ("Missing", UsageError, f": {own} has no Missing"),
        ("broken", UsageError, f": cannot be made: RuntimeError: no such thing ({own}.py, line 20)"),
        ("Raises", UsageError, f": ValueError: oh no ({own}.py, line 15)"),
        ("Wrong", UsageError, "answered with str; return a parley.policies.Completion"),
        ("Leaves", EngineError, f": SystemExit: 0 ({own}.py"),
    ]:
        study = study_factory({"model": f"{own}:{attribute}"})
        [simulation] = study.simulations()
        with pytest.raises(error) as caught:
            simulate(study, simulation.record("small"), [], 1.0)
        assert str(caught.value).startswith(f"{own}:{attribute}")
        assert words in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
        assert error is UsageError or caught.value.exit_code == 1  # not the status that the code chose


# Code of the user's own, installed


def test_an_installed_policy_is_the_simulation_of_its_module_and_attribute(
    study_factory: StudyFactory, own: str, install: Installer
) -> None:
    install(**{"my.agent": f"{own}:Echo"})
    short = study_factory({"model": {"name": "my.agent", "value": 7}}, {"n": 4, "b": 1, "byzantine": "my.agent"})
    long = study_factory({"model": {"name": f"{own}:Echo", "value": 7}}, {"n": 4, "b": 1, "byzantine": f"{own}:Echo"})
    assert [s.id for s in short.simulations()] == [s.id for s in long.simulations()]
    assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]
    assert short.conditions[0].axes["model"] == "Echo-value-7"


def test_a_name_that_cannot_be_used_is_told_with_its_key_and_what_is_installed(
    study_factory: StudyFactory, install: Installer
) -> None:
    install(my_agent="nowhere_at_all:Echo", no_attribute="own")
    odd = {"groups": [{"role": "honest", "count": 1, "policy": "gpt"}], "model": None, "n": None}
    unknown = r"'gpt': unknown .*random.*, or of those installed: my_agent"
    for grid, words in [
        ({"model": "gpt"}, rf"^small\.yaml: grids\[0\]\.model: .*{unknown}"),
        ({"b": 1, "byzantine": "gpt"}, unknown),
        (odd, unknown),
        ({"model": "my_agent"}, r"^small\.yaml: grids\[0\]\.model: .*no module nowhere_at_all on Python's path"),
        ({"model": "no_attribute"}, r"installed as 'own'; .*module:attribute"),
    ]:
        with pytest.raises(UsageError, match=words) as caught:
            study_factory(grid)
        assert len(str(caught.value).splitlines()) == 1


def test_policies_of_one_name_are_never_taken_for_one_another(
    study_factory: StudyFactory, own: str, folder: Path, install: Installer
) -> None:
    (folder / f"{own}_too.py").write_text((folder / f"{own}.py").read_text() + "# another\n")
    install(my_agent=f"{own}:Echo")
    with pytest.raises(UsageError, match=r"duplicate condition .* has the same name"):
        study_factory({"b": 1, "byzantine": [f"{own}:Echo", f"{own}_too:Echo"]})
    with pytest.raises(UsageError, match=r"duplicate condition .*; list it once"):
        study_factory({"model": ["my_agent", f"{own}:Echo"]})
