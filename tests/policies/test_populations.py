"""Populations: groups with a model and a policy each, their names in paths, and engines for each model."""

from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import engine_places, simulate
from parley.policies.kinds import ChosenPolicy, PolicyKind
from parley.study import Study
from support.studies import HONEST, OTHERS, RANDOM, StudyFactory, grouped

pytestmark = pytest.mark.promise("Populations mix models and policies; each agent is answered by its own model.")


SHORT = ("3/b=1/byzantine=same", "3/b=1/byzantine=random")


def paths_of(study: Study) -> list[str]:
    return [condition.name.replace("/prompt=may_exist", "") for condition in study.conditions]


# Names and axes


def test_groups_and_lists_of_adversaries_are_named_in_paths(study_factory: StudyFactory) -> None:
    mixed = grouped(study_factory, HONEST, OTHERS, RANDOM)
    # What would play a group of nobody makes no condition.
    nobody = grouped(study_factory, HONEST, {**RANDOM, "count": [0, 1], "policy": ["random", "stubborn"]})
    short = study_factory({"b": [0, 1], "byzantine": ["same", "random"]}, {"n": 5})
    for study, expected in [
        (mixed, ["tiny+2-other/n=6/b=1/byzantine=random"]),
        (nobody, ["tiny/n=3/b=0/byzantine=none", *(f"tiny/n=4/b=1/byzantine={by}" for by in ("random", "stubborn"))]),
        (study_factory({"b": 1, "byzantine": "random"}), ["majority/n=3/b=1"]),  # a single one is no axis
        (short, [f"majority/n={rest}" for rest in ("3/b=0/byzantine=none", *SHORT, "5/b=0/byzantine=none")]),
    ]:
        assert [path.removeprefix("model=").removeprefix("3-") for path in paths_of(study)] == expected


def test_a_policy_is_named_with_its_values_and_refused_for_a_role_that_may_not_have_it(
    study_factory: StudyFactory,
) -> None:
    choices = [{"name": "crash", "round": 3}, {"name": "crash", "round": 4}, {"name": "oscillate", "odd": 7}]
    study = study_factory({"b": 1, "byzantine": choices})
    assert [condition.axes["byzantine"] for condition in study.conditions] == ["crash-3", "crash-4", "oscillate-odd-7"]
    assert len({condition.identity for condition in study.conditions}) == 3
    with pytest.raises(UsageError, match="crash: only for byzantine agents"):
        study_factory({"model": choices[0]})


def test_a_policy_that_asks_a_model_asks_that_of_the_honest_agents(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = PolicyKind("told", instructions=lambda parameters: "Stall.")
    monkeypatch.setattr(ConsensusGame, "policies", {**ConsensusGame.policies, "told": told})
    study = study_factory({"model": "tiny", "b": 1, "byzantine": ["told", {"name": "told", "model": "other"}]})
    assert [condition.axes["byzantine"] for condition in study.conditions] == ["told-tiny", "told-other"]
    assert [condition.models for condition in study.conditions] == [("tiny",), ("other", "tiny")]
    with pytest.raises(UsageError, match="told: needs a language model; name one with model"):
        study_factory({"b": 1, "byzantine": "told"})


# Identity


def test_the_short_form_and_the_groups_in_any_order_make_the_same_simulations(study_factory: StudyFactory) -> None:
    short = study_factory({"model": "tiny", "n": 4, "b": 1, "byzantine": ["random"]}, seeds=2)
    for groups in ((HONEST, RANDOM), (RANDOM, HONEST)):
        long = grouped(study_factory, *groups, seeds=2)
        assert [s.id for s in short.simulations()] == [s.id for s in long.simulations()]
        assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]


def test_every_key_of_a_group_changes_the_identity(study_factory: StudyFactory) -> None:
    one = grouped(study_factory, HONEST, RANDOM)
    for change in ({"count": 2}, {"role": "byzantine"}, {"model": "other"}, {"policy": "stubborn", "model": None}):
        changed = {key: value for key, value in {**HONEST, **change}.items() if value is not None}
        assert grouped(study_factory, changed, RANDOM).conditions[0].identity != one.conditions[0].identity, change


def test_parameters_and_version_of_a_policy_are_its_identity() -> None:
    opposite = ConsensusGame.policies["opposite"]
    same = ChosenPolicy(opposite, opposite.Parameters()).identity()
    assert same == {"policy": "opposite", "version": 1, "parameters": {"vote": "continue"}}
    assert ChosenPolicy(opposite, opposite.Parameters(vote="stop")).identity() != same  # type: ignore[call-arg]
    assert ChosenPolicy(replace(opposite, version=2), opposite.Parameters()).identity() != same


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
    shards = {("other+tiny", 0), ("other+tiny", 1), ("scripted", 0), ("tiny", 0), ("tiny", 1)}
    assert set(study.shards().values()) == shards


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
        engine_places(alone.conditions[0].entries, [tiny, other])
    with pytest.raises(UsageError, match="serves tiny, not what needs no endpoint file"):
        engine_places(study_factory(name="rules").conditions[0].entries, [tiny])
