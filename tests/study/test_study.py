"""What a study expands into, and the identity of its simulations."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame
from parley.study import Study, load_study
from parley.study.study import SCRIPTED_SHARD
from support import REPOSITORY
from support.studies import MODELS, StudyFactory

TINY = MODELS["models"]["tiny"]


def records(study: Study) -> set[str]:
    return {str(simulation.record(study.name)) for simulation in study.simulations()}


def ids(study: Study) -> set[str]:
    return {simulation.id for simulation in study.simulations()}


# What a study expands into


def test_a_grid_is_the_product_of_its_lists(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"model": ["majority", "stubborn"], "n": [3, 4], "b": [0, 1], "prompt": ["may_exist", "none_exist"]},
        seeds=5,
    )
    assert len(study.conditions) == 16
    assert len({condition.path for condition in study.conditions}) == 16
    assert len(records(study)) == len(ids(study)) == 80


def test_records_have_the_documented_path(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": 4, "b": 1}, name="my.study")
    path = r"results/my\.study/simulations/model=tiny/n=4/b=1/prompt=may_exist/spec=[0-9a-f]{8}/seed=0\.parquet"
    assert [bool(re.fullmatch(path, record)) for record in records(study)] == [True]


def test_honest_counts_honest_agents_and_n_counts_all(study_factory: StudyFactory) -> None:
    study = study_factory({"honest": 8, "b": [0, 4]}, {"n": 5, "b": 2})
    found = [(c.axes["n"], {role: c.count(role) for role in ("honest", "byzantine")}) for c in study.conditions]
    assert found == [
        (8, {"honest": 8, "byzantine": 0}),
        (12, {"honest": 8, "byzantine": 4}),
        (5, {"honest": 3, "byzantine": 2}),
    ]


def test_the_smallest_study_is_one_simulation(study_factory: StudyFactory) -> None:
    study = study_factory()
    assert len(records(study)) == 1
    assert study.title == "small"


def test_a_grid_may_have_seeds_of_its_own(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 3}, {"n": 4, "seeds": 2}, seeds=5)
    assert [condition.seeds for condition in study.conditions] == [range(5), range(2)]
    assert [(s.seed, s.condition.axes["n"]) for s in study.simulations()] == [
        (0, 3),
        (0, 4),
        (1, 3),
        (1, 4),
        (2, 3),
        (3, 3),
        (4, 3),
    ]


def test_seeds_may_be_listed(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 3}, {"n": 4, "seeds": 2}, seeds=[7, 3, 999_999_999])
    assert [(s.seed, s.condition.axes["n"]) for s in study.simulations()] == [
        (7, 3),
        (0, 4),
        (3, 3),
        (1, 4),
        (999_999_999, 3),
    ]
    for simulation in study.simulations():
        assert study.find(simulation.record(study.name)) == simulation
    for seed in (0, 4, 8):
        with pytest.raises(UsageError, match="not a simulation of"):
            study.find(next(study.simulations()).record(study.name).with_name(f"seed={seed}.parquet"))


def test_listed_seeds_are_the_simulations_of_a_count(study_factory: StudyFactory) -> None:
    grid = {"model": ["tiny", "majority"], "n": [3, 4]}
    counted, listed = study_factory(grid, seeds=3), study_factory(grid, seeds=[0, 1, 2])
    assert list(counted.shards().items()) == list(listed.shards().items())
    assert [s.id for s in counted.simulations()] == [s.id for s in listed.simulations()]
    assert counted.plan == listed.plan


def test_varied_parameters_become_axes(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"vary": {"stop_threshold": [0.66, "2/3"], "history_rounds": [1, 3]}}, {"n": 4}, parameters={"max_rounds": 9}
    )
    assert [c.path.split("prompt=may_exist/")[1] for c in study.conditions] == [
        "history_rounds=1/stop_threshold=0.66",
        "history_rounds=1/stop_threshold=2_3",
        "history_rounds=3/stop_threshold=0.66",
        "history_rounds=3/stop_threshold=2_3",
        "history_rounds=1/stop_threshold=0.66",
    ]
    assert [c.parameters.history_rounds for c in study.conditions] == [1, 1, 3, 3, 1]  # type: ignore[attr-defined]
    assert len({c.identity for c in study.conditions}) == 5


def test_byzantine_agents_are_played_by_the_same_unless_said_otherwise(study_factory: StudyFactory) -> None:
    study = study_factory({"b": 1}, {"b": 1, "n": 4, "byzantine": "random"}, {"model": "tiny", "b": 1})
    names = [{group.role: group.player.label for group in c.groups} for c in study.conditions]
    assert names == [
        {"honest": "majority", "byzantine": "majority"},
        {"honest": "majority", "byzantine": "random"},
        {"honest": "tiny", "byzantine": "tiny"},
    ]
    assert [c.models for c in study.conditions] == [(), (), ("tiny",)]


def test_a_record_is_found_by_its_path(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=3)
    for simulation in study.simulations():
        assert study.find(simulation.record(study.name)) == simulation


@pytest.mark.parametrize(
    "name",
    ["seed=3", "seed=-1", "seed=00", "seed= 1", "seed=x", "seed=", "1", "seed=1.0", "seed=²", "seed=" + "1" * 5000],
)
def test_a_record_that_is_not_of_the_study_is_refused(study_factory: StudyFactory, name: str) -> None:
    study = study_factory(seeds=3)
    record = next(study.simulations()).record("small").with_name(f"{name}.parquet")
    with pytest.raises(UsageError, match=r"not a simulation of small\.yaml; `parley expand small\.yaml` lists them"):
        study.find(record)


def test_a_record_of_a_former_configuration_is_refused(study_factory: StudyFactory) -> None:
    old = next(study_factory().simulations()).record("small")
    with pytest.raises(UsageError, match="spec changes"):
        study_factory(parameters={"max_rounds": 9}).find(old)


# The studies that are shipped


SHIPPED = sorted(path.stem for path in (REPOSITORY / "config").glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "models"])
@pytest.mark.slow
def test_the_shipped_studies_are_valid(name: str) -> None:
    try:
        study = load_study(REPOSITORY / "config" / f"{name}.yaml")
    except UsageError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(f"make model: {error}")
    assert len(records(study)) == len(ids(study))
    assert pickle.loads(pickle.dumps(study)).plan == study.plan


def test_the_papers_study_is_its_two_grids() -> None:
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    benign = [s for s in study.simulations() if s.condition.axes["b"] == 0]
    attacked = [s for s in study.simulations() if s.condition.axes["b"] != 0]
    assert (len(benign), len(attacked)) == (600, 100)
    assert {(s.condition.axes["model"], s.condition.axes["n"], s.condition.prompt) for s in benign} == {
        (model, n, prompt)
        for model in ("qwen3-8b", "qwen3-14b")
        for n in (4, 8, 16)
        for prompt in ("may_exist", "none_exist")
    }
    assert {(s.condition.axes["model"], s.condition.count("honest"), s.condition.prompt) for s in attacked} == {
        ("qwen3-14b", 8, "may_exist")
    }
    assert {s.condition.count("byzantine") for s in attacked} == {1, 2, 3, 4}
    assert {(s.condition.parameters.max_rounds) for s in study.simulations()} == {50}  # type: ignore[attr-defined]


# Identity


def test_adding_seeds_changes_no_existing_path(study_factory: StudyFactory) -> None:
    grid = {"n": [3, 4], "b": [0, 1]}
    few, more = study_factory(grid, seeds=2), study_factory(grid, seeds=7)
    assert records(few) < records(more)
    assert ids(few) < ids(more)


def test_adding_conditions_changes_no_existing_path(study_factory: StudyFactory) -> None:
    before = study_factory({"n": [3, 4]}, seeds=2)
    for grids in (
        [{"n": [3, 4, 5]}],
        [{"n": [9]}, {"n": [3, 4]}],
        [{"n": [3, 4], "prompt": ["none_exist", "may_exist"]}],
        [{"n": [3, 4], "model": ["stubborn", "majority", "tiny"]}],
        [{"n": [3, 4]}, {"n": [5], "b": [1, 2], "byzantine": "random"}],
    ):
        after = study_factory(*grids, seeds=2)
        assert records(before) < records(after)
        assert ids(before) < ids(after)


def test_the_name_title_and_shards_of_a_study_change_no_simulation(study_factory: StudyFactory) -> None:
    one = study_factory({"model": "tiny"}, seeds=2)
    two = study_factory({"model": "tiny"}, seeds=2, name="other", title="Another", shard_size=7)
    assert ids(one) == ids(two)
    assert {r.replace("/small/", "/other/") for r in records(one)} == records(two)


def test_explicit_defaults_are_the_defaults(study_factory: StudyFactory) -> None:
    explicit = {
        "max_rounds": 50,
        "stop_threshold": "33/50",
        "retries": 3,
        "propose": {"temperature": 0.5, "max_tokens": 300},
    }
    assert records(study_factory()) == records(study_factory(parameters=explicit))
    assert ids(study_factory()) == ids(study_factory(parameters=explicit))


@pytest.mark.parametrize(
    "change",
    [
        {"max_rounds": 49},
        {"stop_threshold": 0.67},
        {"stop_threshold": "2/3"},
        {"value_min": 1},
        {"value_max": 51},
        {"history_rounds": 2},
        {"justification_chars": 199},
        {"reasoning_chars": 599},
        {"strategy_chars": 399},
        {"retries": 2},
        {"propose": {"temperature": 0.4, "max_tokens": 300}},
        {"vote": {"temperature": 0.3, "max_tokens": 201}},
    ],
)
def test_changing_one_parameter_changes_every_spec_and_id(study_factory: StudyFactory, change: dict[str, Any]) -> None:
    grid = {"model": ["majority", "tiny"], "b": [0, 1]}
    before, after = study_factory(grid), study_factory(grid, parameters=change)
    assert len({c.spec for c in before.conditions} & {c.spec for c in after.conditions}) == 0
    assert ids(before).isdisjoint(ids(after))


def test_changing_a_varied_value_changes_that_condition_alone(study_factory: StudyFactory) -> None:
    before = study_factory({"vary": {"max_rounds": [5, 10]}})
    after = study_factory({"vary": {"max_rounds": [5, 11]}})
    assert len(records(before) & records(after)) == 1
    assert len(ids(before) & ids(after)) == 1


def test_an_axis_is_named_by_the_path_and_not_by_the_spec(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4], "b": [0, 1], "vary": {"max_rounds": [5, 10]}})
    benign = {c.spec for c in study.conditions if c.count("byzantine") == 0}
    assert len(benign) == 1
    assert len(ids(study)) == 8


MODEL_CHANGES: dict[str, dict[str, Any]] = {
    "revision": {"source": {"repo": "owner/tiny", "revision": "c" * 40}},
    "repository": {"source": {"repo": "owner/big", "revision": "a" * 40}},
    "dtype": {"dtype": "float32"},
    "context": {"max_model_len": 4096},
    "template": {"chat_template_kwargs": {"enable_thinking": False}},
    "engine_args": {"engine_args": {"seed": 1}},
}


@pytest.mark.parametrize("change", MODEL_CHANGES.values(), ids=MODEL_CHANGES)
def test_changing_a_model_entry_changes_exactly_its_simulations(
    study_factory: StudyFactory, change: dict[str, Any]
) -> None:
    grid = {"model": ["majority", "tiny", "other"]}
    before = study_factory(grid)
    entries = {**MODELS["models"], "tiny": {**TINY, **change}}
    after = study_factory(grid, models=entries)
    pairs = zip(before.conditions, after.conditions, strict=True)
    assert [(a.axes["model"], a.spec == b.spec, a.identity == b.identity) for a, b in pairs] == [
        ("majority", True, True),
        ("tiny", False, False),
        ("other", True, True),
    ]


@pytest.mark.parametrize("change", [{"server_args": {"gpu-memory-utilization": 0.5}}, {"gpus": 4}])
def test_what_only_concerns_the_machine_changes_nothing(study_factory: StudyFactory, change: dict[str, Any]) -> None:
    before = study_factory({"model": "tiny"})
    after = study_factory({"model": "tiny"}, models={"tiny": {**TINY, **change}})
    assert (records(before), ids(before)) == (records(after), ids(after))


def test_the_name_of_a_model_entry_is_in_the_path_and_not_in_the_identity(study_factory: StudyFactory) -> None:
    before = study_factory({"model": "tiny"})
    after = study_factory({"model": "renamed"}, models={"renamed": TINY})
    assert ids(before) == ids(after)
    assert records(before) != records(after)
    assert before.conditions[0].spec == after.conditions[0].spec


def test_another_byzantine_policy_changes_conditions_with_byzantine_agents_alone(
    study_factory: StudyFactory,
) -> None:
    before = study_factory({"b": [0, 1]})
    after = study_factory({"b": [0, 1], "byzantine": "random"})
    same = [a.spec == b.spec for a, b in zip(before.conditions, after.conditions, strict=True)]
    assert same == [True, False]


@pytest.fixture
def change_prompt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Give one template of a prompt variant another text."""

    def change(prompt: str, template: str) -> None:
        changed = {name: dict(files) for name, files in ConsensusGame.prompts.variants.items()}
        file = folder / f"{template}.txt"
        file.write_bytes(changed[prompt][template].read_bytes() + b"One word more.\n")
        changed[prompt][template] = file
        monkeypatch.setattr(ConsensusGame.prompts, "variants", changed)

    return change


@pytest.mark.parametrize(
    "template", ["honest_propose_system", "honest_vote_system", "honest_propose_user", "honest_vote_user"]
)
def test_changing_an_honest_prompt_changes_exactly_the_conditions_of_its_variant(
    study_factory: StudyFactory, change_prompt: Callable[[str, str], None], template: str
) -> None:
    grid = {"model": "tiny", "prompt": ["may_exist", "none_exist"], "b": [0, 1]}
    before = study_factory(grid)
    specs, identities = [c.spec for c in before.conditions], [c.identity for c in before.conditions]
    change_prompt("none_exist", template)
    after = study_factory(grid)
    touched = [c.prompt == "none_exist" for c in after.conditions]
    assert [a != b.spec for a, b in zip(specs, after.conditions, strict=True)] == touched
    assert [a != b.identity for a, b in zip(identities, after.conditions, strict=True)] == touched


@pytest.mark.parametrize("template", ["byzantine_propose_system", "byzantine_vote_user"])
def test_changing_a_byzantine_prompt_leaves_conditions_without_byzantine_agents_alone(
    study_factory: StudyFactory, change_prompt: Callable[[str, str], None], template: str
) -> None:
    grid = {"model": "tiny", "b": [0, 1]}
    specs = [c.spec for c in study_factory(grid).conditions]
    change_prompt("may_exist", template)
    after = study_factory(grid)
    assert [a != b.spec for a, b in zip(specs, after.conditions, strict=True)] == [False, True]


def test_the_identity_of_a_simulation_is_pinned(study_factory: StudyFactory) -> None:
    # If this changes, no stored result is valid any more; raise the protocol version and say so in the changelog.
    study = study_factory({"model": "tiny", "n": 4, "b": 1})
    again = study_factory({"model": "tiny", "n": 4, "b": 1})
    assert ids(study) == ids(again)
    assert all(re.fullmatch("[0-9a-f]{64}", i) for i in ids(study))


def test_a_higher_protocol_version_changes_every_identity(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = study_factory()
    before_ids, before_records = ids(before), records(before)
    monkeypatch.setattr(ConsensusGame, "protocol_version", ConsensusGame.protocol_version + 1)
    after = study_factory()
    assert before_ids.isdisjoint(ids(after))
    assert before_records.isdisjoint(records(after))


# Shards


def members(study: Study) -> dict[tuple[str, int], set[Path]]:
    shards: dict[tuple[str, int], set[Path]] = {}
    for record, shard in study.shards().items():
        shards.setdefault(shard, set()).add(record)
    return shards


def test_shards_hold_as_many_simulations_as_asked_for(study_factory: StudyFactory) -> None:
    shards = members(study_factory({"model": ["majority", "tiny"], "n": [3, 4]}, seeds=5, shard_size=4))
    assert {shard: len(found) for shard, found in shards.items()} == {
        ("scripted", 0): 10,
        ("tiny", 0): 4,
        ("tiny", 1): 4,
        ("tiny", 2): 2,
    }


def test_shards_of_scripted_agents_and_of_services_are_larger(study_factory: StudyFactory) -> None:
    service = {"source": {"url": "http://far.invalid/v1", "served": "far"}}
    models = {"far": service, "wide": service | {"limits": {"concurrent": 26}}}
    grid = {"model": ["majority", "far", "wide"], "n": 3}
    study = study_factory(grid, models=models, seeds=SCRIPTED_SHARD + 1, shard_size=4)
    sizes = {shard: len(found) for shard, found in members(study).items()}
    # As many simulations of 3 agents as fill 64 requests (where nothing says how many), or 26.
    found = [sizes[shard] for shard in (("scripted", 0), ("scripted", 1), ("far", 0), ("wide", 0))]
    assert found == [SCRIPTED_SHARD, 1, 22, 9]


def test_every_simulation_is_in_one_shard_of_its_model(study_factory: StudyFactory) -> None:
    study = study_factory({"model": ["majority", "tiny", "other"], "b": [0, 1]}, seeds=3, shard_size=2)
    shards = study.shards()
    assert {str(record) for record in shards} == records(study)
    for simulation in study.simulations():
        model = simulation.condition.axes["model"]
        assert shards[simulation.record("small")][0] == ("scripted" if model == "majority" else model)


def test_full_shards_keep_their_members_when_seeds_are_added(study_factory: StudyFactory) -> None:
    grid = {"model": ["tiny", "other"], "n": [3, 4]}
    before = members(study_factory(grid, seeds=4, shard_size=4))
    after = members(study_factory(grid, seeds=9, shard_size=4))
    assert all(len(found) == 4 for found in before.values())
    for shard, found in before.items():
        assert after[shard] == found


def test_no_simulation_changes_its_shard_when_seeds_are_added(study_factory: StudyFactory) -> None:
    grid = {"model": ["tiny", "majority"], "n": [3, 4, 5]}
    before = study_factory(grid, seeds=3, shard_size=4).shards()
    after = study_factory(grid, seeds=11, shard_size=4).shards()
    assert {record: after[record] for record in before} == before


def test_seeds_that_are_added_to_a_list_come_last_and_move_no_shard(study_factory: StudyFactory) -> None:
    grid = {"model": ["tiny", "majority"], "n": [3, 4, 5]}
    before = study_factory(grid, seeds=[8, 3], shard_size=4).shards()
    after = study_factory(grid, seeds=[8, 3, 5, 0], shard_size=4).shards()
    assert list(after.items())[: len(before)] == list(before.items())


def test_the_plan_names_the_set_of_simulations(study_factory: StudyFactory) -> None:
    plans = [
        study_factory(seeds=2).plan,
        study_factory(seeds=3).plan,
        study_factory({"n": 4}, seeds=2).plan,
        study_factory(seeds=2, parameters={"max_rounds": 9}).plan,
    ]
    assert len(set(plans)) == 4
    assert study_factory(seeds=2, shard_size=3).plan == plans[0]
    assert study_factory(seeds=2, title="Another").plan != plans[0]  # figures and the report show it


def test_what_earlier_versions_made_of_the_same_records_is_made_again(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = study_factory()
    plan = before.plan
    monkeypatch.setattr("parley.study.study.TABLES_VERSION", 1)
    after = study_factory()
    assert after.plan != plan
    assert after.ledger_plan == before.ledger_plan  # it shows no statistics
    assert [s.id for s in after.simulations()] == [s.id for s in before.simulations()]
