"""What a study expands into, and the identity of its simulations."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame
from parley.study import Study
from support.studies import MODELS, StudyFactory

TINY = MODELS["models"]["tiny"]


def records(study: Study) -> set[str]:
    return {str(simulation.record(study.name)) for simulation in study.simulations()}


def ids(study: Study) -> set[str]:
    return {simulation.id for simulation in study.simulations()}


def paths_of(study: Study) -> list[str]:
    return [condition.name for condition in study.conditions]


# What a study expands into


def test_a_grid_is_the_product_of_its_lists(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"model": ["majority", "stubborn"], "n": [3, 4], "b": [0, 1], "prompt": ["may_exist", "none_exist"]},
        seeds=5,
    )
    assert len(study.conditions) == len(set(paths_of(study))) == 16
    assert len(records(study)) == len(ids(study)) == 80
    for simulation in study.simulations():
        assert study.find(simulation.record(study.name)) == simulation


def test_records_have_the_documented_path(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": 4, "b": 1}, name="my.study")
    [record] = records(study)
    path = r"results/my\.study/simulations/model=tiny/n=4/b=1/prompt=may_exist/spec=[0-9a-f]{8}/seed=0\.parquet"
    assert re.fullmatch(path, record)
    assert re.fullmatch("[0-9a-f]{64}", *ids(study))
    assert study.title == "my.study"


def test_honest_counts_honest_agents_and_n_counts_all(study_factory: StudyFactory) -> None:
    study = study_factory({"honest": 8, "b": [0, 4]}, {"n": 5, "b": 2})
    found = [(c.axes["n"], c.count("honest"), c.count("byzantine")) for c in study.conditions]
    assert found == [(8, 8, 0), (12, 8, 4), (5, 3, 2)]


def test_seeds_are_counted_or_listed_and_a_grid_may_have_its_own(study_factory: StudyFactory) -> None:
    for seeds, played in (
        (3, [(0, 3), (0, 4), (1, 3), (1, 4), (2, 3)]),
        ([7, 3, 999_999_999], [(7, 3), (0, 4), (3, 3), (1, 4), (999_999_999, 3)]),
    ):
        study = study_factory({"n": 3}, {"n": 4, "seeds": 2}, seeds=seeds)
        assert [(s.seed, s.condition.axes["n"]) for s in study.simulations()] == played
        for simulation in study.simulations():
            assert study.find(simulation.record(study.name)) == simulation
    counted, listed = study_factory({"n": [3, 4]}, seeds=3), study_factory({"n": [3, 4]}, seeds=[0, 1, 2])
    assert counted.shards() == listed.shards()
    assert counted.plan == listed.plan


def test_a_record_that_is_not_of_the_study_is_refused(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=[7, 3])
    record = next(study.simulations()).record("small")
    for name in ("seed=0", "seed=-1", "seed=07", "7", "seed=²", "seed=" + "1" * 5000):
        with pytest.raises(UsageError, match=r"not a simulation of small\.yaml .* spec changes"):
            study.find(record.with_name(f"{name}.parquet"))


# Identity


def test_adding_seeds_conditions_or_axes_changes_no_existing_path_or_id(study_factory: StudyFactory) -> None:
    before = study_factory({"n": [3, 4]}, seeds=2)
    for seeds, *grids in (
        (7, {"n": [3, 4]}),
        (2, {"n": [3, 4, 5], "prompt": ["none_exist", "may_exist"]}),
        (2, {"n": [3, 4]}, {"n": [5], "b": [1, 2], "byzantine": ["random", "stubborn"]}),
        (2, {"n": [3, 4], "vary": {"max_rounds": [50, 10], "value_min": [-5, 0]}}),
    ):
        after = study_factory(*grids, seeds=seeds)
        assert records(before) < records(after), grids
        assert ids(before) < ids(after), grids
        assert {condition.folder.count("/") for condition in after.conditions} == {4}
    assert {c.axes["value_min"] for c in after.fitting({"value_min": "-5"})} == {-5}


def test_the_name_title_shards_and_budget_of_a_study_change_no_simulation(study_factory: StudyFactory) -> None:
    models = {"tiny": {"source": {"url": "http://127.0.0.1:9/v1", "served": "x"}}}
    one = study_factory({"model": "tiny"}, seeds=2, models=models)
    more = {"title": "Another", "shard_size": 7, "budget": {"tokens": 10}}
    two = study_factory({"model": "tiny"}, seeds=2, name="other", models=models, **more)
    assert ids(one) == ids(two)
    assert {r.replace("/small/", "/other/") for r in records(one)} == records(two)


def test_changing_one_parameter_changes_every_spec_and_id(study_factory: StudyFactory) -> None:
    grid = {"model": ["majority", "tiny"], "b": [0, 1]}
    before = study_factory(grid)
    for change in (
        {"max_rounds": 49},
        {"stop_threshold": 0.67},
        {"value_min": 1},
        {"retries": 2},
        {"propose": {"temperature": 0.4, "max_tokens": 300}},
    ):
        after = study_factory(grid, parameters=change)
        assert {c.spec for c in before.conditions}.isdisjoint(c.spec for c in after.conditions), change
        assert ids(before).isdisjoint(ids(after)), change
    defaults = {"max_rounds": 50, "stop_threshold": "33/50", "propose": {"temperature": 0.5, "max_tokens": 300}}
    assert ids(before) == ids(study_factory(grid, parameters=defaults))
    # Another Byzantine policy changes the conditions with Byzantine agents alone.
    after = study_factory(grid | {"byzantine": "random"})
    pairs = zip(before.conditions, after.conditions, strict=True)
    assert [a.spec == b.spec for a, b in pairs] == [not c.count("byzantine") for c in before.conditions]


def test_changing_a_model_entry_changes_exactly_its_simulations(study_factory: StudyFactory) -> None:
    grid = {"model": ["majority", "tiny", "other"]}
    before = study_factory(grid)
    changes: list[tuple[dict[str, Any], bool]] = [
        ({"source": {"repo": "owner/tiny", "revision": "c" * 40}}, True),
        ({"dtype": "float32"}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, True),
        ({"engine_args": {"seed": 1}}, True),
        # What only concerns the machine or the bill.
        ({"server_args": {"gpu-memory-utilization": 0.5}}, False),
        ({"gpus": 4}, False),
        ({"price": {"prompt": 2.0, "completion": 8.0}}, False),
    ]
    for change, matters in changes:
        after = study_factory(grid, models={**MODELS["models"], "tiny": {**TINY, **change}})
        pairs = list(zip(before.conditions, after.conditions, strict=True))
        assert [a.spec == b.spec for a, b in pairs] == [True, not matters, True], change
        assert [a.identity == b.identity for a, b in pairs] == [True, not matters, True], change
        assert (records(before) == records(after)) is not matters
    # The name of an entry is in the path and not in the identity.
    before, after = study_factory({"model": "tiny"}), study_factory({"model": "renamed"}, models={"renamed": TINY})
    assert ids(before) == ids(after)
    assert records(before).isdisjoint(records(after))


@pytest.fixture
def change_prompt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Give one template of a prompt variant another text."""
    variants = ConsensusGame.prompts.variants

    def change(prompt: str, template: str) -> None:
        changed = {name: dict(files) for name, files in variants.items()}
        file = folder / f"{template}.txt"
        file.write_bytes(changed[prompt][template].read_bytes() + b"One word more.\n")
        changed[prompt][template] = file
        monkeypatch.setattr(ConsensusGame.prompts, "variants", changed)

    return change


def test_changing_a_prompt_changes_exactly_the_conditions_that_read_it(
    study_factory: StudyFactory, change_prompt: Callable[[str, str], None]
) -> None:
    grid = {"model": "tiny", "prompt": ["may_exist", "none_exist"], "b": [0, 1]}
    before = study_factory(grid)
    specs, identities = [c.spec for c in before.conditions], [c.identity for c in before.conditions]
    for role, part in (("honest", "propose_system"), ("honest", "vote_user"), ("byzantine", "propose_system")):
        change_prompt("none_exist", f"{role}_{part}")
        after = study_factory(grid)
        touched = [c.prompt == "none_exist" and c.count(role) > 0 for c in after.conditions]
        assert [a != b.spec for a, b in zip(specs, after.conditions, strict=True)] == touched, part
        assert [a != b.identity for a, b in zip(identities, after.conditions, strict=True)] == touched, part


# Shards


def members(study: Study) -> dict[tuple[str, int], list[Path]]:
    shards: dict[tuple[str, int], list[Path]] = {}
    for record, shard in study.shards().items():
        shards.setdefault(shard, []).append(record)
    return shards


def test_shards_hold_as_many_simulations_of_their_model_as_asked_for(study_factory: StudyFactory) -> None:
    study = study_factory({"model": ["majority", "tiny"], "n": [3, 4]}, seeds=5, shard_size=4)
    sizes = {shard: len(found) for shard, found in members(study).items()}
    assert sizes == {("scripted", 0): 10, ("tiny", 0): 4, ("tiny", 1): 4, ("tiny", 2): 2}
    assert {str(record) for record in study.shards()} == records(study)
    played = {shard: [each.record(study.name) for each in study.shard(*shard)] for shard in [*sizes, ("tiny", 3)]}
    assert played == members(study) | {("tiny", 3): []}


def test_no_simulation_changes_its_shard_when_seeds_are_added(study_factory: StudyFactory) -> None:
    grid = {"model": ["tiny", "majority"], "n": [3, 4, 5]}
    for few, more in ((3, 11), ([8, 3], [8, 3, 5, 0])):
        before = study_factory(grid, seeds=few, shard_size=4).shards()
        after = study_factory(grid, seeds=more, shard_size=4).shards()
        assert {record: after[record] for record in before} == before
    assert list(after)[: len(before)] == list(before)  # what is added to a list comes last


# The plan, which tables, figures and the report are made for; `test_planned.py` has what changes it


def test_higher_versions_change_identities_or_what_is_made_of_the_same_records(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = study_factory()
    plan, ledger_plan, before_ids, before_records = before.plan, before.ledger_plan, ids(before), records(before)
    with monkeypatch.context() as patch:
        patch.setattr("parley.study.study.TABLES_VERSION", 1)
        after = study_factory()
        assert after.plan != plan
        assert after.ledger_plan == ledger_plan  # it shows no statistics
        assert ids(after) == before_ids
    monkeypatch.setattr(ConsensusGame, "protocol_version", ConsensusGame.protocol_version + 1)
    after = study_factory()
    assert before_ids.isdisjoint(ids(after))
    assert before_records.isdisjoint(records(after))
