"""Populations: groups with a model and a policy each, their names in paths, and engines for each model."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from parley.analysis.summarize import summarize
from parley.errors import EngineError, UsageError
from parley.games.consensus.game import ConsensusGame
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import engine_places, play_simulation, simulate
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.study import Study, load_study
from support.answering import standing_in
from support.studies import StudyFactory

HONEST = {"role": "honest", "count": 3, "model": "tiny"}
OTHERS = {"role": "honest", "count": 2, "model": "other"}
RANDOM = {"role": "byzantine", "count": 1, "policy": "random"}


class CrashParameters(PolicyParameters):
    """Those of a policy that only these tests have."""

    round: int
    loudly: bool = False


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> PolicyKind:
    """A policy with a parameter that must be given, and one with a default; for Byzantine agents."""
    random = ConsensusGame.policies["random"]
    kind = PolicyKind("crashing", "Crashes.", ("byzantine",), CrashParameters, rule=random.rule)
    monkeypatch.setattr(ConsensusGame, "policies", {**ConsensusGame.policies, "crashing": kind})
    return kind


def grouped(make: StudyFactory, *groups: dict[str, Any], **content: Any) -> Study:
    """Return the study of one grid of groups."""
    return make({"groups": list(groups), "model": None, "n": None}, **content)


def paths_of(study: Study) -> list[str]:
    return [condition.path.replace("/prompt=may_exist", "") for condition in study.conditions]


# Names and axes


def test_a_mixed_population_has_a_readable_name(study_factory: StudyFactory) -> None:
    study = grouped(study_factory, HONEST, OTHERS, RANDOM)
    assert paths_of(study) == ["model=3-tiny+2-other/n=6/b=1/byzantine=random"]
    [condition] = study.conditions
    assert [(group.role, group.count, group.player.label) for group in condition.groups] == [
        ("honest", 3, "tiny"),
        ("honest", 2, "other"),
        ("byzantine", 1, "random"),
    ]


def test_each_key_of_a_group_may_be_an_axis(study_factory: StudyFactory) -> None:
    study = grouped(
        study_factory,
        {"role": "honest", "count": [2, 3], "model": ["tiny", "other"]},
        {"role": ["honest", "byzantine"], "count": 1, "policy": ["majority", "random"]},
    )
    assert len(study.conditions) == 16
    assert "model=2-tiny+1-majority/n=3/b=0/byzantine=none" in paths_of(study)
    assert "model=other/n=4/b=1/byzantine=random" in paths_of(study)


def test_what_would_play_a_group_of_nobody_makes_no_condition(study_factory: StudyFactory) -> None:
    study = grouped(study_factory, HONEST, {**RANDOM, "count": [0, 1], "policy": ["random", "stubborn"]})
    assert paths_of(study) == [
        "model=tiny/n=3/b=0/byzantine=none",
        "model=tiny/n=4/b=1/byzantine=random",
        "model=tiny/n=4/b=1/byzantine=stubborn",
    ]


def test_a_list_of_adversaries_is_an_axis_and_a_single_one_is_none(study_factory: StudyFactory) -> None:
    assert paths_of(study_factory({"b": 1, "byzantine": "random"})) == ["model=majority/n=3/b=1"]
    study = study_factory({"b": [0, 1], "byzantine": ["same", "random"]}, {"n": 5})
    assert paths_of(study) == [
        "model=majority/n=3/b=0/byzantine=none",
        "model=majority/n=3/b=1/byzantine=same",
        "model=majority/n=3/b=1/byzantine=random",
        "model=majority/n=5/b=0/byzantine=none",
    ]


def test_a_policy_is_named_with_the_values_that_it_was_given(study_factory: StudyFactory, crash: PolicyKind) -> None:
    choices = [{"name": "crashing", "round": 3}, {"name": "crashing", "round": 4, "loudly": True}]
    study = study_factory({"b": 1, "byzantine": choices})
    assert [condition.axes["byzantine"] for condition in study.conditions] == ["crashing-3", "crashing-4-loudly-True"]
    assert len({condition.identity for condition in study.conditions}) == 2


def test_a_policy_is_refused_for_a_role_that_may_not_have_it(study_factory: StudyFactory, crash: PolicyKind) -> None:
    with pytest.raises(UsageError, match="crashing: only for byzantine agents; choose another policy"):
        study_factory({"model": {"name": "crashing", "round": 3}})


def test_a_policy_that_asks_a_model_asks_that_of_the_honest_agents(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = PolicyKind("told", "A model that is told more.", instructions=lambda parameters: "Stall.")
    monkeypatch.setattr(ConsensusGame, "policies", {**ConsensusGame.policies, "told": told})
    study = study_factory({"model": "tiny", "b": 1, "byzantine": ["told", {"name": "told", "model": "other"}]})
    assert [condition.axes["byzantine"] for condition in study.conditions] == ["told-tiny", "told-other"]
    assert [condition.models for condition in study.conditions] == [("tiny",), ("other", "tiny")]
    with pytest.raises(UsageError, match="told: a model answers; name it with model"):
        study_factory({"b": 1, "byzantine": "told"})


# Identity


def test_the_short_form_and_the_groups_make_the_same_simulations(study_factory: StudyFactory) -> None:
    short = study_factory({"model": "tiny", "n": 4, "b": 1, "byzantine": ["random"]}, seeds=2)
    long = grouped(study_factory, HONEST, RANDOM, seeds=2)
    assert [s.id for s in short.simulations()] == [s.id for s in long.simulations()]
    assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]


@pytest.mark.parametrize(
    "change",
    [{"count": 2}, {"role": "byzantine"}, {"model": "other"}, {"policy": "stubborn", "model": None}],
    ids=lambda change: next(iter(change)),
)
def test_every_key_of_a_group_changes_the_identity(study_factory: StudyFactory, change: dict[str, Any]) -> None:
    one = grouped(study_factory, HONEST, RANDOM)
    changed = {key: value for key, value in {**HONEST, **change}.items() if value is not None}
    other = grouped(study_factory, changed, RANDOM)
    assert one.conditions[0].identity != other.conditions[0].identity


def test_parameters_and_version_of_a_policy_are_its_identity() -> None:
    kind = PolicyKind("crashing", "", Parameters=CrashParameters)
    same = ChosenPolicy(kind, CrashParameters(round=3)).identity()
    assert same == {"policy": "crashing", "version": 1, "parameters": {"round": 3, "loudly": False}}
    assert ChosenPolicy(kind, CrashParameters(round=4)).identity() != same
    later = PolicyKind("crashing", "", Parameters=CrashParameters, version=2)
    assert ChosenPolicy(later, CrashParameters(round=3)).identity() != same


def test_honest_agents_of_several_groups_start_from_the_values_of_one(study_factory: StudyFactory) -> None:
    def values(study: Study) -> list[int]:
        game = next(study.simulations()).game()
        views = {ask.agent: ask.view.initial_value for ask in next(game.play())}
        return [views[seat.name] for seat in game.seats if seat.role == "honest"]

    one = values(study_factory({"n": 5}))
    assert values(grouped(study_factory, HONEST, OTHERS)) == one
    assert values(grouped(study_factory, RANDOM, HONEST, OTHERS)) == one


# Shards and engines


def test_a_shard_serves_all_models_of_its_simulations(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"groups": [HONEST, OTHERS], "model": None, "n": None}, {"model": "tiny"}, {}, seeds=3, shard_size=2
    )
    assert sorted(set(study.shards().values())) == [
        ("other+tiny", 0),
        ("other+tiny", 1),
        ("scripted", 0),
        ("tiny", 0),
        ("tiny", 1),
    ]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Stand-ins for the servers of both models, by name: the endpoint file and the server."""
    with ExitStack() as stack:
        made = {}
        for model in ("tiny", "other"):
            (tmp_path / model).mkdir()
            made[model] = stack.enter_context(standing_in(tmp_path / model, model=model))
        yield made


def test_every_agent_is_answered_by_its_own_model(study_factory: StudyFactory, engines: dict[str, Any]) -> None:
    study = grouped(study_factory, HONEST, OTHERS, RANDOM, parameters={"max_rounds": 2})
    [simulation] = study.simulations()
    record = simulation.record("small")
    simulate(study, record, [path for path, _ in engines.values()], 5.0)
    rows = pq.read_table(record, partitioning=None).to_pylist()
    asked = {model: {body["seed"] for body in server.bodies} for model, (_, server) in engines.items()}
    assert {model: {row["request_seed"] for row in rows if row["player"] == model} for model in engines} == asked
    assert {row["player"] for row in rows if row["role"] == "byzantine"} == {"random"}
    assert all({body["model"] for body in server.bodies} == {model} for model, (_, server) in engines.items())
    summary = read_summary(record)
    assert set(summary.provenance["engines"]) == {"tiny", "other"}
    assert [group["player"] for group in summary.simulation["groups"]] == ["tiny", "other", "random"]
    assert replay(record).difference is None


def test_a_missing_or_unwanted_engine_is_named(study_factory: StudyFactory, engines: dict[str, Any]) -> None:
    tiny, other = (engines[model][0] for model in ("tiny", "other"))
    mixed, alone = grouped(study_factory, HONEST, OTHERS), study_factory({"model": "tiny"}, name="alone")
    [record] = [simulation.record("small") for simulation in mixed.simulations()]
    with pytest.raises(UsageError, match="needs an engine for other; name its endpoint file"):
        simulate(mixed, record, [tiny], 5.0)
    with pytest.raises(UsageError, match=r"endpoint\.json: serves other, not tiny"):
        engine_places(alone.conditions[0], [tiny, other])
    with pytest.raises(UsageError, match="serves tiny, not anything that plays here"):
        engine_places(study_factory(name="rules").conditions[0], [tiny])


def test_models_that_ask_for_different_places_cannot_play_together(study_factory: StudyFactory) -> None:
    source = {"repo": "owner/name", "revision": "a" * 40}
    models = {
        "tiny": {"source": source, "cluster": {"partition": "long"}},
        "other": {"source": source, "cluster": {"partition": "short"}},
    }
    with pytest.raises(UsageError) as caught:
        grouped(study_factory, HONEST, OTHERS, models=models)
    assert str(caught.value) == (
        "small.yaml: grids[0]: models that play together share one cluster job, and ask for different "
        "cluster.partition (tiny: long, other: short); make them equal in models.yaml"
    )


# Tables and data sets


def test_mixed_populations_are_rows_of_the_tables_and_folders_of_the_data_set(study_factory: StudyFactory) -> None:
    groups = [{**HONEST, "policy": "majority"}, {**OTHERS, "policy": "stubborn"}]
    scripted = [{key: value for key, value in group.items() if key != "model"} for group in groups]
    study = grouped(study_factory, *scripted, {**RANDOM, "count": [0, 1]}, seeds=2, parameters={"max_rounds": 2})
    for simulation in study.simulations():
        simulate(study, simulation.record("small"), [], 1.0)
    table = summarize(study)
    assert table["model"].to_list() == ["3-majority+2-stubborn"] * 2
    assert table["byzantine"].to_list() == ["none", "random"]
    found = ds.dataset("results/small/simulations", format="parquet", partitioning="hive").to_table(columns=["model"])
    assert set(found["model"].to_pylist()) == {"3-majority+2-stubborn"}


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
"""


Installer = Callable[..., None]


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module on Python's path, new for each test."""
    name = f"own_{folder.name}"
    (folder / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_a_policy_of_the_users_own_plays(study_factory: StudyFactory, own: str) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    [simulation] = study.simulations()
    assert simulation.condition.axes["model"] == "Echo-value-7"
    record = simulation.record("small")
    simulate(study, record, [], 1.0)
    summary = read_summary(record)
    assert summary.outcome["name"] == "invalid_consensus"
    assert summary.outcome["detail"] == "foreign_value"
    [group] = summary.simulation["groups"]
    assert (group["policy"], group["parameters"]) == (f"{own}:Echo", {"value": 7})
    assert len(group["code_sha256"]) == 64


def test_a_record_of_own_code_replays_without_it(study_factory: StudyFactory, own: str, folder: Path) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 7}})
    [simulation] = study.simulations()
    simulate(study, simulation.record("small"), [], 1.0)
    (folder / f"{own}.py").unlink()
    assert replay(simulation.record("small")).difference is None


def test_loading_a_study_runs_no_own_code(study_factory: StudyFactory, folder: Path, own: str) -> None:
    (folder / f"{own}.py").write_text("raise SystemExit('this was run')")
    study = study_factory({"model": f"{own}:Echo"})
    assert study.conditions[0].axes["model"] == "Echo"
    assert own not in sys.modules


def test_a_change_of_own_code_is_another_spec(study_factory: StudyFactory, folder: Path, own: str) -> None:
    before = study_factory({"model": f"{own}:Echo"}).conditions[0]
    with (folder / f"{own}.py").open("a") as file:
        file.write("# changed\n")
    after = study_factory({"model": f"{own}:Echo"}).conditions[0]
    assert (before.path, before.spec != after.spec) == (after.path, True)


def test_own_code_may_ask_the_model_of_its_group(
    study_factory: StudyFactory, own: str, engines: dict[str, Any]
) -> None:
    group = {**HONEST, "policy": {"name": f"{own}:Echo", "value": 7}}
    study = grouped(study_factory, group, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    assert simulation.condition.axes["model"] == "Echo-value-7-tiny"
    path, server = engines["tiny"]
    playing = play_simulation(simulation, {"tiny": path}, 5.0, None, lambda exchanges: None)
    played, _ = asyncio.run(playing)
    assert {body["seed"] for body in server.bodies} == {exchange.entry.seed for exchange in played.exchanges}


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("Missing", ": cannot be made: AttributeError: "),
        ("broken", ": cannot be made: RuntimeError: no such thing (own_{folder}.py, line 20)"),
        ("Raises", ": ValueError: oh no (own_{folder}.py, line 15)"),
        ("Wrong", "answered with str; return a parley.policies.Completion"),
    ],
)
def test_own_code_that_does_not_work_is_one_line(
    study_factory: StudyFactory, own: str, folder: Path, attribute: str, words: str
) -> None:
    study = study_factory({"model": f"{own}:{attribute}"})
    [simulation] = study.simulations()
    with pytest.raises(UsageError) as caught:
        simulate(study, simulation.record("small"), [], 1.0)
    assert str(caught.value).startswith(f"{own}:{attribute}")
    assert words.format(folder=folder.name) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("leaving", "cannot be made: SystemExit(0) (own_{folder}.py, line 24); raise"),
        ("Leaves", "SystemExit(0) (own_"),
    ],
)
def test_own_code_that_ends_python_is_one_line(
    study_factory: StudyFactory, own: str, folder: Path, attribute: str, words: str
) -> None:
    with (folder / f"{own}.py").open("a") as file:
        file.write("\n\ndef leaving():\n    raise SystemExit(0)\n\n\nclass Leaves:\n")
        file.write("    async def answer(self, ask, seed, attempt):\n        raise SystemExit(0)\n")
    study = study_factory({"model": f"{own}:{attribute}"})
    [simulation] = study.simulations()
    with pytest.raises(EngineError) as caught:
        simulate(study, simulation.record("small"), [], 1.0)
    assert caught.value.exit_code == 1
    assert str(caught.value).startswith(f"{own}:{attribute}: {words.format(folder=folder.name)}")


# Code of the user's own, installed


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


def test_an_installed_policy_is_the_simulation_of_its_module_and_attribute(
    study_factory: StudyFactory, own: str, install: Installer
) -> None:
    install(**{"my.agent": f"{own}:Echo"})
    short = study_factory({"model": {"name": "my.agent", "value": 7}}, {"n": 4, "b": 1, "byzantine": "my.agent"})
    long = study_factory({"model": {"name": f"{own}:Echo", "value": 7}}, {"n": 4, "b": 1, "byzantine": f"{own}:Echo"})
    assert [s.id for s in short.simulations()] == [s.id for s in long.simulations()]
    assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]
    assert short.conditions[0].axes["model"] == "Echo-value-7"


def test_an_installed_policy_plays_in_a_group_and_replays_when_it_is_gone(
    study_factory: StudyFactory, own: str, install: Installer, folder: Path
) -> None:
    install(my_agent=f"{own} : Echo [extra]")
    group = {"role": "honest", "count": 2, "policy": {"name": "my_agent", "value": 7}}
    study = grouped(study_factory, group, RANDOM, parameters={"max_rounds": 2})
    [simulation] = study.simulations()
    record = simulation.record("small")
    simulate(study, record, [], 1.0)
    assert [g["policy"] for g in read_summary(record).simulation["groups"]] == [f"{own}:Echo", "random"]
    (folder / f"{own}.py").unlink()
    (folder / "site0" / "site0-1.0.dist-info" / "entry_points.txt").unlink()
    assert replay(record).difference is None


def test_a_change_of_installed_code_is_another_spec(
    study_factory: StudyFactory, own: str, install: Installer, folder: Path
) -> None:
    install(my_agent=f"{own}:Echo")
    before = study_factory({"model": "my_agent"}).conditions[0].spec
    with (folder / f"{own}.py").open("a") as file:
        file.write("# changed\n")
    assert study_factory({"model": "my_agent"}).conditions[0].spec != before


def test_models_and_policies_of_the_game_come_before_installed_ones(
    study_factory: StudyFactory, own: str, install: Installer
) -> None:
    install(tiny=f"{own}:Echo", majority=f"{own}:Echo", same=f"{own}:Echo")
    study = study_factory({"model": ["tiny", "majority"], "b": 1, "byzantine": "same"})
    named = [[g.player.policy.kind.name for g in condition.groups] for condition in study.conditions]
    assert named == [["llm", "llm"], ["majority", "majority"]]


def test_one_policy_under_two_names_is_listed_once(study_factory: StudyFactory, own: str, install: Installer) -> None:
    install(my_agent=f"{own}:Echo")
    with pytest.raises(UsageError, match=r"duplicate condition .*; list it once"):
        study_factory({"model": ["my_agent", f"{own}:Echo"]})


@pytest.mark.parametrize("grid", [{"model": "gpt"}, {"b": 1, "byzantine": "gpt"}, {"groups": [{"policy": "gpt"}]}])
def test_an_unknown_name_is_told_what_is_installed(
    study_factory: StudyFactory, install: Installer, grid: dict[str, Any]
) -> None:
    install(my_agent="somewhere:Else")
    groups = [{"role": "honest", "count": 1, **group} for group in grid.get("groups", [])]
    content = {**grid, "groups": groups, "model": None, "n": None} if groups else grid
    with pytest.raises(UsageError, match=r"'gpt': unknown .*random.*, or of those installed: my_agent"):
        study_factory(content)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nowhere_at_all:Echo", "no module nowhere_at_all on Python's path"),
        ("own", "installed as 'own'; an entry point of parley.policies is a module:attribute"),
        ("own:Echo.made", "installed as 'own:Echo.made'; an entry point of parley.policies is a module:attribute"),
    ],
)
def test_an_installed_policy_that_cannot_be_used_is_one_line(
    study_factory: StudyFactory, install: Installer, value: str, words: str
) -> None:
    install(my_agent=value)
    with pytest.raises(UsageError) as caught:
        study_factory({"model": "my_agent"})
    assert str(caught.value).startswith("small.yaml: grids[0].model: ")
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_name_that_two_distributions_give_away_is_refused(
    study_factory: StudyFactory, own: str, install: Installer
) -> None:
    install(my_agent=f"{own}:Echo", another=f"{own}:Echo")
    install(my_agent=f"{own}:Wrong", another=f"{own}:Echo")
    study_factory({"model": "another"})  # both mean the same
    with pytest.raises(UsageError, match=f"installed more than once; .*: {own}:Echo and {own}:Wrong"):
        study_factory({"model": "my_agent"})


# What was found once


def test_the_order_in_which_a_file_names_the_roles_makes_no_difference(study_factory: StudyFactory) -> None:
    one, other = grouped(study_factory, HONEST, RANDOM), grouped(study_factory, RANDOM, HONEST)
    assert [s.id for s in one.simulations()] == [s.id for s in other.simulations()]
    assert [s.record("x") for s in one.simulations()] == [s.record("x") for s in other.simulations()]


def test_policies_of_one_name_are_never_taken_for_one_another(
    study_factory: StudyFactory, own: str, folder: Path
) -> None:
    (folder / f"{own}_too.py").write_text((folder / f"{own}.py").read_text() + "# another\n")
    adversaries = {"role": "byzantine", "count": 1, "policy": [f"{own}:Echo", f"{own}_too:Echo"]}
    majority = {"role": "honest", "count": 2, "policy": "majority"}
    nobody = {"role": "honest", "count": 0, "policy": "majority"}
    with pytest.raises(UsageError, match=r"duplicate condition .* has the same name"):
        grouped(study_factory, majority, adversaries, nobody)


@pytest.mark.parametrize("axis", ["task", "topology"])
def test_a_name_that_does_not_tell_all_leaves_the_rest_to_the_hash(study_factory: StudyFactory, axis: str) -> None:
    values = {
        "task": ("Agree on A or B for a decision.", "Agree on something else for a decision."),
        "topology": ({"kind": "edges", "edges": [[1, 2], [2, 3]]}, {"kind": "edges", "edges": [[1, 2], [1, 3]]}),
    }[axis]
    fixed = {"protocol": "swarms"} if axis == "task" else {}
    one, other = (study_factory({"vary": {axis: [value]}}, parameters=fixed).conditions[0] for value in values)
    assert one.spec != other.spec
    assert axis not in ("task",) or one.path == other.path


def test_a_long_or_odd_parameter_is_named_by_its_hash(study_factory: StudyFactory, own: str) -> None:
    study = study_factory({"model": [{"name": f"{own}:Echo", "value": "Be nice, é!"}, f"{own}:Echo"]})
    named, plain = (condition.axes["model"] for condition in study.conditions)
    assert plain == "Echo"
    assert str(named).startswith("Echo-")
    assert len(str(named)) == len("Echo-") + 6


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_own_parameters_must_be_what_json_can_say(folder: Path, own: str, value: str) -> None:
    text = f"game: consensus\ngrids: [{{model: {{name: '{own}:Echo', value: {value}}}, n: 2, prompt: may_exist}}]\n"
    (folder / "odd.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"^odd\.yaml: grids\[0\]\.model: own_.*: value: "):
        load_study(Path("odd.yaml"))


def test_own_code_may_not_take_the_name_of_its_groups_model(study_factory: StudyFactory, own: str) -> None:
    study = study_factory({"model": {"name": f"{own}:Echo", "value": 1, "llm": "mine"}})
    [simulation] = study.simulations()
    with pytest.raises(UsageError, match="llm: what its group's model answers with"):
        simulate(study, simulation.record("small"), [], 1.0)
