"""`parley diff`: which keys changed, and what is played again, kept or left over."""

from pathlib import Path
from typing import Any

import pytest

from parley.play import changes as module
from parley.play.changes import changes_of, diff, facts, former_lines
from parley.play.record import read_description
from parley.play.record_content import describe, describe_condition
from parley.play.simulate import simulate
from parley.progress.status import status
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.workflow.rename import rename
from support.studies import StudyFactory


def play(study: Study) -> None:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)


@pytest.fixture
def before(study_factory: StudyFactory) -> Study:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 5})
    play(study)
    return study


def told(study: Study) -> list[str]:
    return list(former_lines(changes_of(study), study.name))


def test_a_changed_parameter_is_told_with_both_values(before: Study, study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=3, parameters={"max_rounds": 4, "value_max": 40})
    assert told(study) == ["4 records of a former configuration (max_rounds 5, now 4, value_max 50, now 40)"]
    assert list(diff(study)) == [
        "key         then  now  records",
        "max_rounds  5     4          4",
        "value_max   50    40         4",
        "",
        "what          simulations",
        "kept                    0  have their record",
        "played again            4  have records of a former configuration alone",
        "new                     2  have no record",
        "left over               4  records of a former configuration; parley prune small.yaml lists them",
    ]
    play(study)
    assert (changes_of(study).kept, changes_of(study).again) == (6, 0)
    assert told(study)[0].startswith("4 records of a former configuration (max_rounds 5, now 4"), (
        "they are still there"
    )
    assert list(status(study))[1].startswith("4 records of a former configuration (max_rounds 5, now 4")


def test_nothing_to_say_is_said(before: Study) -> None:
    assert list(diff(before)) == [
        "small: nothing changed since its records were made",
        "what  simulations",
        "kept            4  have their record",
        "new             0  have no record",
    ]
    assert told(before) == []


def test_a_study_without_records_has_only_new_ones(study_factory: StudyFactory) -> None:
    assert list(diff(study_factory(seeds=2)))[2:] == [
        "kept            0  have their record",
        "new             2  have no record",
    ]


def test_two_former_configurations_are_told_apart(before: Study, study_factory: StudyFactory) -> None:
    second = study_factory({"n": 3}, seeds=2, parameters={"max_rounds": 6})
    play(second)
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 7})
    assert told(study) == [
        "4 records of a former configuration (max_rounds 5, now 7)",
        "2 records of a former configuration (max_rounds 6, now 7)",
    ]
    assert changes_of(study).again == 4


def test_seeds_and_conditions_that_are_gone_are_told(before: Study, study_factory: StudyFactory) -> None:
    fewer = study_factory({"n": [3, 4]}, seeds=1, parameters={"max_rounds": 5})
    assert told(fewer) == ["2 records of seeds that the study no longer has"]
    moved = study_factory({"n": [3, 4], "byzantine": ["random"]}, seeds=1, parameters={"max_rounds": 5})
    assert told(moved) == ["2 records of seeds that the study no longer has"]
    assert [line.split()[:2] for line in diff(moved)][1:4] == [["kept", "0"], ["moved", "2"], ["new", "0"]]
    gone = study_factory({"n": [3, 5]}, seeds=2, parameters={"max_rounds": 5})
    assert told(gone) == ["2 records of a former configuration (n 4, now 3, 5)"]


def test_what_is_varied_now_has_all_of_its_values(before: Study, study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4], "vary": {"max_rounds": [6, 7]}}, seeds=2)
    assert told(study) == ["4 records of a former configuration (max_rounds 5, now 6, 7)"]


def test_the_same_number_of_agents_is_nearer_than_equal_parameters(before: Study, study_factory: StudyFactory) -> None:
    changed = {"n": 3, "vary": {"max_rounds": [4], "value_max": [40]}}
    same = {"n": 4, "vary": {"max_rounds": [5], "value_max": [50]}}
    changes = changes_of(study_factory(changed, same, seeds=2))
    assert [[key for key, _, _ in differences] for differences in changes.former] == [["max_rounds", "value_max"]]
    assert (len(changes.moves.simulations), changes.again, changes.new) == (2, 2, 0)


def test_policies_model_entries_and_prompts_are_keys(study_factory: StudyFactory) -> None:
    entry = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
    grid = {"model": "tiny", "b": 1, "byzantine": "random"}
    (condition,) = study_factory(grid, models={"tiny": entry}).conditions
    then = facts(describe_condition(condition))
    assert then["honest model source repo"] == "owner/tiny"
    assert then["byzantine policy"] == "random"
    assert (then["n"], then["b"], then["prompt"]) == ("3", "1", "may_exist")
    assert len(then["prompt honest_propose_system"]) == 64
    (other,) = study_factory(
        grid | {"byzantine": {"name": "crash", "round": 3}}, models={"tiny": entry | {"dtype": "float16"}}
    ).conditions
    now = facts(describe_condition(other))
    assert {key for key in {*then, *now} if then.get(key) != now.get(key)} == {
        "honest model dtype",
        "byzantine policy",
        "byzantine parameters round",
    }
    assert facts(describe(Simulation(condition, 0))) == then, "the seed is none"


def test_groups_of_one_role_have_a_number_and_a_count(study_factory: StudyFactory) -> None:
    groups = [{"role": "honest", "count": count, "policy": "majority"} for count in (1, 2)]
    (condition,) = study_factory({"groups": groups, "model": None, "n": None}).conditions
    found = facts(describe_condition(condition))
    assert (found["honest 1 count"], found["honest 2 count"]) == ("1", "2")


def test_a_changed_prompt_is_told_by_its_hash(before: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    described = read_description(next(before.simulations()).record("small"))
    then = facts(described)["prompt honest_vote_user"]
    text = dict(described["prompt_digests"]) | {"honest_vote_user": "0" * 64}
    other = {**described, "prompt_digests": text}
    _, differences = module._Nearest(before).to(other)
    assert differences == (("prompt honest_vote_user", "0" * 12, then[:12]),)


def test_a_file_that_was_renamed_by_hand_is_told_with_the_remedy(
    before: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.workflow.rename.jobs_left", lambda name: [])
    other = Path("other.yaml")
    other.write_text(before.file.read_text())
    assert changes_of(load_study(other)).former_name is None, "two studies may share simulations"
    before.file.unlink()
    hint = "results/small has its simulations, and no study file: was it small.yaml? Then: parley rename "
    hint += "small.yaml other.yaml"
    study = load_study(other)
    assert list(status(study))[1] == next(diff(study)) == hint
    other.write_text(other.read_text().replace("max_rounds: 5", "max_rounds: 6"))
    assert changes_of(load_study(other)).former_name is None, "results of another study"
    other.write_text(other.read_text().replace("max_rounds: 6", "max_rounds: 5"))
    list(rename("small.yaml", "other.yaml"))
    study = load_study(other)
    assert (changes_of(study).former_name, changes_of(study).kept) == (None, 4)


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


HOSTILE: list[Any] = [
    {"parameters": nested(5_000)},
    {},
    {"parameters": [1], "groups": {"a": 1}, "prompt_digests": "x", "axes": None},
    {"groups": [1, None, {"role": ["x"], "count": {}, "policy": "\x1b[31m"}]},
    {"parameters": {"a\nb\x1b": {"c": {"d": {"e": {"f": float("nan")}}}}}},
    {"parameters": {"x" * 10_000: "y" * 10_000}},
]


@pytest.mark.parametrize("described", HOSTILE)
def test_hostile_descriptions_are_told_in_plain_lines(before: Study, described: Any) -> None:
    _, differences = module._Nearest(before).to(described)
    for part in (text for difference in differences for text in difference):
        assert part.isprintable()
        assert len(part) < 300


def test_large_studies_are_compared_with_some_of_their_conditions(
    before: Study, study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_COMPARED", 1)
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 4})
    assert sum(changes_of(study).former.values()) == 4
