"""Policies of the user's own: named by module and attribute, or installed; what goes wrong is one line."""

import asyncio
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import parley
from parley import trust
from parley.errors import EngineError, ParleyError, UsageError
from parley.play.record import read_attempts, read_summary
from parley.play.replay import replay
from parley.play.simulate import Answering, play_simulation, simulate, simulate_shard
from parley.policies import own_code
from parley.report.explorer.game import recorded_attempts
from parley.report.explorer.selection import select
from parley.study import load_study
from parley.workflow.run import find_own_programs
from support import REPOSITORY
from support.commands import heard
from support.studies import HONEST, Installer, StudyFactory, grouped, play_all, refused

pytestmark = pytest.mark.promise(
    "An own policy plays by name; its record replays without it; loading a study runs no code."
)

# Code of the user's own

OWN = """
import asyncio; from parley.policies import Completion
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
class Wrong:
    async def answer(self, ask, seed, attempt):
        return "text"
def broken(**parameters):
    raise RuntimeError("no such thing")


class Unprintable(Exception):
    def __str__(self):
        raise self
FAULTS = {
    "cancels": asyncio.CancelledError(), "base": BaseException("gone"), "unprintable": Unprintable(),
    "generator": GeneratorExit(), "leaves": SystemExit(0),
    "raises": ValueError("oh\\nno"),
    "escapes": type("\\x1b[2J\\nparley: done", (BaseException,), {})("\\x1b[31m\\nparley: done"),
}
class Faulty:
    def __init__(self, fault):
        self.fault = fault
    async def answer(self, ask, seed, attempt):
        raise FAULTS[self.fault]
"""


@pytest.fixture
def own(folder: Path) -> str:
    """The name of a module beside the study, new for each test."""
    name = f"own_{folder.name}"
    (folder / f"{name}.py").write_text(OWN)
    return name


def test_a_policy_of_the_users_own_plays_and_its_record_replays_without_it(
    study_factory: StudyFactory, own: str, folder: Path
) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    assert study.conditions[0].axes["model"] == "Echo-value-7"
    [record] = play_all(study)
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
        for added, counts in (("# changed\n", False), (f"changed = {name!r}\n", True)):
            with (folder / f"{own}.py").open("a") as file:
                file.write(added)
            after = study_factory({"model": name}).conditions[0]
            assert (before.name, before.spec != after.spec) == (after.name, counts)


PLAIN = (
    "x = {**a, 'n': 1} if a else (lambda: 0)\nclass Own:\n    def answer(self):\n        return f'{x!r} of {2.5:>4}'\n"
)
PLAIN_MEANING = "62016f07e493e858033a14a5dd4da899b3ddde86f0438b68128f0edd674cc3d0"


@pytest.mark.promise("The identity of own code is its syntax tree, without comments and docstrings.")
def test_what_does_not_change_what_code_means_is_not_in_its_identity() -> None:
    meaning = own_code._meaning
    assert meaning(PLAIN.encode()) == PLAIN_MEANING, "the same in each version of Python"
    documented = PLAIN.replace("Own:\n", 'Own:\n    """Mine."""\n\n').replace("self):", 'self):  # he\n        "It."')
    for same in (documented, '"""A module."""\n' + documented, PLAIN.replace("'", '"'), f"\n\n{PLAIN}"):
        assert meaning(same.encode()) == meaning(PLAIN.encode()), same
    assert len({meaning(code) for code in (rb"x = '\d'", rb"x = '\e'", rb"x = '\d' # is")}) == 2
    for other in (PLAIN.replace("1", "2"), PLAIN.replace("Own", "Owns"), PLAIN.replace("**a", "None: a"), "x = ("):
        assert meaning(other.encode()) != meaning(PLAIN.encode()), other
    # Docstrings that code may read, or that a service is sent in the schema of a reply.
    for described in (b"class A:\n    'One.'\n    x: int\n", b"def f():\n    'One.'\nf.__doc__\n"):
        assert meaning(described) != meaning(described.replace(b"One", b"Two"))


ASKS_TWICE = """
from dataclasses import replace


class Noted:
    def __init__(self, llm):
        self.llm = llm

    async def answer(self, ask, seed, attempt):
        draft = replace(ask, user="Think.", sampling=ask.sampling.model_copy(update={"temperature": 0.0}))
        thought = await self.llm.answer(draft, seed + 1, attempt)
        before = (("user", "Think."), ("assistant", thought.text))
        return await self.llm.answer(replace(ask, system=f"{ask.system} A note.", earlier=before), seed, attempt)


class Elsewhere(Noted):
    async def answer(self, ask, seed, attempt):
        loop = asyncio.get_running_loop()
        asking = lambda: asyncio.run_coroutine_threadsafe(self.llm.answer(ask, seed, attempt), loop).result(9)
        return await loop.run_in_executor(None, asking)
"""


@pytest.mark.promise("A record has the requests that left, also where own code asks its model something else.")
def test_what_own_code_sent_is_recorded_replayed_and_shown(
    study_factory: StudyFactory, own: str, folder: Path, engines: dict[str, Any]
) -> None:
    (folder / f"{own}.py").write_text(f"import asyncio\n{ASKS_TWICE}")
    study = grouped(study_factory, {**HONEST, "policy": f"{own}:Noted"}, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    record = simulation.record("small")
    path, server = engines["tiny"]
    simulate(study, record, [path], 5.0)
    rows = read_attempts(record, ["system", "user", "temperature", "sent", "completion_tokens"])[1].to_pylist()
    assert {row["completion_tokens"] for row in rows} == {2 * 7}, "of both requests"
    sent = [request for row in rows for request in json.loads(row["sent"])]
    messages = [[[m["role"], m["content"]] for m in body["messages"]] for body in server.bodies]
    assert sorted(request["messages"] for request in sent) == sorted(messages)
    assert {(request["seed"], request["temperature"]) for request in sent} == {
        (body["seed"], body["temperature"]) for body in server.bodies
    }
    assert {len(json.loads(row["sent"])) for row in rows} == {2}
    for row in rows:
        assert row["system"].endswith(" A note.")
        assert json.loads(row["sent"])[1]["messages"][-1] == ["user", row["user"]]
        assert json.loads(row["sent"])[1]["messages"][2] == ["assistant", json.loads(row["sent"])[0]["text"]]
    assert replay(record).identical
    [file] = select(study, 1).parts[0].simulations
    [first, *_] = recorded_attempts(file)[1]
    assert (first.system, first.entry.sent) == (rows[0]["system"], rows[0]["sent"])


def test_a_request_of_which_nobody_knows_what_it_answers_is_refused(
    study_factory: StudyFactory, own: str, folder: Path, engines: dict[str, Any]
) -> None:
    (folder / f"{own}.py").write_text(f"import asyncio\n{ASKS_TWICE}")
    study = grouped(study_factory, {**HONEST, "policy": f"{own}:Elsewhere"}, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    with pytest.raises(UsageError, match=r"asks its model in a thread; .* by asyncio.to_thread"):
        simulate(study, simulation.record("small"), [engines["tiny"][0]], 5.0)


@pytest.mark.promise("An exception of own code fails its game alone; the log names the ask.")
def test_own_code_that_raises_fails_its_game_alone(study_factory: StudyFactory, own: str) -> None:
    models = [{"name": f"{own}:Faulty", "fault": "generator"}, {"name": f"{own}:Echo", "value": 7}]
    study = study_factory({"model": models}, seeds=2)
    assert set(study.shards().values()) == {("own_code", 0)}
    with heard() as said, pytest.raises(UsageError, match="2 of 4 simulations failed, "):
        simulate_shard(study, "own_code", 0)
    for simulation in study.simulations():
        fails = "Faulty" in str(simulation.condition.axes["model"])
        assert simulation.record("small").exists() != fails
        asked = f"{simulation.condition.name}/seed={simulation.seed}: {own}:Faulty: round 1, propose, agent_"
        assert any(line.startswith(asked) and f"GeneratorExit ({own}.py, line " in line for line in said) == fails


def test_a_source_that_changed_since_the_study_was_read_is_not_played(
    study_factory: StudyFactory, own: str, folder: Path
) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    (folder / f"{own}.py").write_text(OWN.replace("stop", "continue"))
    refused(partial(play_all, study), own, "its source changed since the study was read")


def test_own_code_that_does_not_work_is_one_line(study_factory: StudyFactory, own: str) -> None:
    for attribute, words in [
        ("Missing", ": its module has no Missing"),
        ("broken", f": cannot be made: RuntimeError: no such thing ({own}.py, line 17)"),
        ("Wrong", "answered with str; return a parley.policies.Completion"),
    ]:
        study = study_factory({"model": f"{own}:{attribute}"})
        refused(partial(play_all, study), f"{own}:{attribute}", words)


@pytest.mark.promise("Whatever own code raises is one line that names it, and it moves no record.")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("cancels", "CancelledError"),
        ("base", "BaseException: gone"),
        ("generator", "GeneratorExit"),
        ("leaves", "SystemExit: 0"),
        ("raises", "ValueError: oh no (own_"),
        ("unprintable", "Unprintable: an error that cannot be printed"),
        ("escapes", "[2J parley: done: [31m parley: done"),
    ],
)
def test_whatever_own_code_raises_is_one_line(study_factory: StudyFactory, own: str, fault: str, words: str) -> None:
    study = study_factory({"model": {"name": f"{own}:Faulty", "fault": fault}})
    [simulation] = study.simulations()
    with pytest.raises(ParleyError) as caught:
        simulate(study, simulation.record("small"), [], 1.0)
    assert str(caught.value).startswith(f"{own}:Faulty: round 1, propose, agent_1: {words}")
    assert str(caught.value).isprintable()
    assert isinstance(caught.value, EngineError if fault == "leaves" else UsageError)  # not the status that it chose
    assert not simulation.record("small").exists()


# Code of the user's own, installed


@pytest.mark.promise("A study names code that lies with it, or that its user installed as a plug-in, and no other.")
def test_a_study_cannot_name_what_is_installed(study_factory: StudyFactory, install: Installer) -> None:
    for name in ("subprocess:getoutput", "parley.play.simulate:simulate", "yaml:load", "nowhere_at_all:Echo"):
        told = (
            f"{name}: no module {name.split(':')[0]} beside the study, in .*; put it there, or install it as an entry"
        )
        with pytest.raises(UsageError, match=told):
            study_factory({"model": {"name": name, "cmd": "touch x"}})
        with pytest.raises(UsageError, match=told):
            study_factory(game=name)
    install(loader="yaml:load")
    trust._plugins.cache_clear()
    assert study_factory({"model": "yaml:load"}).conditions
    assert study_factory({"model": "loader"}).conditions
    trust._plugins.cache_clear()


@pytest.mark.promise("A file beside a study that is called as a library does is never run in its place.")
@pytest.mark.slow
def test_no_library_is_looked_for_beside_a_study(study_factory: StudyFactory, own: str) -> None:
    for library in ("pytz", "numpy", "pyarrow", "yaml", "jinja2", own):  # its own code is not run by these either
        Path(f"{library}.py").write_text(f"open('looked', 'a').close()\n{OWN if library == own else ''}")
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    path = [*sys.path]
    play_all(study)
    assert sys.path == path
    Path("looked").unlink()
    commands = (
        "for each in 'status', 'plan', 'summarize', 'view': commands([each, 'small.yaml'], standalone_mode=False)"
    )
    subprocess.run([sys.executable, "-P", "-c", f"from parley.cli import commands\n{commands}"], check=True)
    assert not Path("looked").exists()


def test_own_code_finds_what_lies_beside_it(study_factory: StudyFactory, own: str, folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "size.py").write_text("IS_OWN = True")
    (folder / "pytz.py").write_text("from .parts.size import IS_OWN\nimport scipy.stats")
    (folder / f"{own}.py").write_text(f"{OWN}\nfrom . import pytz\nassert pytz.IS_OWN\n")
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    play_all(study)
    assert "pytz" not in sys.modules or sys.modules["pytz"].__file__ != str(folder / "pytz.py")


def test_each_python_that_starts_is_told_not_to_look_for_libraries_where_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = [*Path(parley.__file__).parent.rglob("*.py"), REPOSITORY / "envs" / "install.py"]
    options = [each for file in sources for each in re.findall(r'sys\.executable, "(-\w+)"', file.read_text())]
    assert len(options) >= 6
    assert all("P" in each for each in options)
    monkeypatch.setattr(os, "environ", {**os.environ, "PYTHONSAFEPATH": ""})
    find_own_programs()
    assert os.environ["PYTHONSAFEPATH"]  # of jobs, whose Python Snakemake starts


def test_studies_of_one_process_have_each_the_code_beside_it_and_what_that_imports(folder: Path) -> None:
    studies = []
    for vote in ("stop", "continue"):
        Path(vote).mkdir()
        Path(vote, "helper.py").write_text(f"VOTE = {vote!r}\n")
        Path(vote, "own.py").write_text(OWN.replace('"stop"}\'', '"%s"}\' % helper.VOTE') + "from . import helper\n")
        grid = {"model": {"name": "own:Echo", "value": 7}, "n": 3, "prompt": "may_exist"}
        content = {"game": "consensus", "parameters": {"max_rounds": 2}, "grids": [grid]}
        Path(vote, "small.yaml").write_text(yaml.safe_dump(content))
        studies.append(load_study(Path(vote, "small.yaml")))
    played = [asyncio.run(play_simulation(next(study.simulations()), Answering({})))[0] for study in studies]
    assert [play.outcome.name for play in played] == ["invalid_consensus", "no_consensus"]


def test_a_name_that_cannot_be_used_is_told_with_its_key_and_what_is_installed(
    study_factory: StudyFactory, install: Installer
) -> None:
    install(my_agent="nowhere_at_all:Echo", no_attribute="own")
    odd = {"groups": [{"role": "honest", "count": 1, "policy": "gpt"}], "model": None, "n": None}
    unknown = r"'gpt': unknown .*random.*, my_agent"
    for grid, words in [
        ({"model": "gpt"}, rf"^small\.yaml: grids\[0\]\.model: .*{unknown}"),
        ({"b": 1, "byzantine": "gpt"}, unknown),
        (odd, unknown),
        ({"model": "my_agent"}, r"^small\.yaml: grids\[0\]\.model: .*no module nowhere_at_all beside the study"),
        ({"model": "no_attribute"}, r"^small\.yaml: grids\[0\]\.model: .*'no_attribute': unknown model or policy"),
    ]:
        with pytest.raises(UsageError, match=words) as caught:
            study_factory(grid)
        assert len(str(caught.value).splitlines()) == 1
