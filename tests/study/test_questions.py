"""Questions of a study: which pairs of conditions answer them, and what is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study import Study, load_study
from parley.study.planned import plan_of
from support import REPOSITORY
from support.studies import StudyFactory

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
GRID = {"model": ["majority", "random"], "n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 3}
ATTACKED = {"n": 6, "b": [0, 2], "byzantine": ["silent", "random"]}


def strata(study: Study, place: int = 0) -> list[tuple[str, str]]:
    return [(first.path, second.path) for first, second in study.comparisons[place].strata]


def test_pairs_are_pooled_over_the_axes_that_the_question_names(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[{**ASKED, "over": ["model", "n"]}])
    assert strata(study) == [
        (f"model={m}/n={n}/b=0/prompt=may_exist", f"model={m}/n={n}/b=0/prompt=none_exist")
        for m in ("majority", "random")
        for n in (4, 6)
    ]
    assert study.comparisons[0].seeds() == [3, 3, 3, 3]
    assert study.comparisons[0].label == "prompt: prompt may_exist -> none_exist"


def test_an_axis_that_differs_and_is_not_named_is_refused_by_name(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"questions\[0\]: n differs between its conditions \(4, 6\); name n in over"):
        study_factory(GRID, questions=[{**ASKED, "over": ["model"]}])
    one = study_factory(GRID, questions=[{**ASKED, "over": "model", "where": {"n": 4}}])
    assert len(strata(one)) == 2  # a constant axis need not be named


def test_without_values_each_is_compared_with_the_first(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [4, 6, 8]}, questions=[{**ASKED, "compare": "n"}])
    assert [comparison.values for comparison in study.comparisons] == [("4", "6"), ("4", "8")]
    other = study_factory({"n": [4, 6, 8]}, questions=[{**ASKED, "compare": "n", "values": [8, 4]}])
    assert [comparison.values for comparison in other.comparisons] == [("8", "4")]


def test_along_b_games_without_byzantine_agents_stand_for_any_adversary(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "b", "where": {"byzantine": "random"}}
    study = study_factory(ATTACKED, questions=[question])
    assert strata(study) == [
        (
            "model=majority/n=6/b=0/prompt=may_exist/byzantine=none",
            "model=majority/n=6/b=2/prompt=may_exist/byzantine=random",
        )
    ]
    with pytest.raises(UsageError, match=r"byzantine=none would be paired with several .* byzantine: silent, random"):
        study_factory(ATTACKED, questions=[{**question, "where": {}, "over": ["byzantine"]}])


def test_along_b_an_adversary_is_compared_with_itself(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "b", "values": [1, 2], "over": ["byzantine"]}
    study = study_factory({**ATTACKED, "b": [1, 2]}, questions=[question])
    assert [[each.axes["byzantine"] for each in pair] for pair in study.comparisons[0].strata] == [
        ["silent", "silent"],
        ["random", "random"],
    ]


def test_along_b_other_agents_are_as_many_where_n_grows_with_b(study_factory: StudyFactory) -> None:
    grid = {"honest": 4, "b": [0, 1], "byzantine": "random"}
    study = study_factory(grid, questions=[{**ASKED, "compare": "b"}])
    assert strata(study) == [("model=majority/n=4/b=0/prompt=may_exist", "model=majority/n=5/b=1/prompt=may_exist")]


def test_adversaries_beside_games_without_any_are_chosen_as_the_error_says(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "byzantine"}
    said = r"in byzantine alone \(none, silent\); choose two that do: values: \[silent, random\]$"
    with pytest.raises(UsageError, match=said):
        study_factory(ATTACKED, questions=[question])
    study = study_factory(ATTACKED, questions=[{**question, "values": ["silent", "random"]}])
    assert [pair[0].axes["b"] for pair in study.comparisons[0].strata] == [2]
    grids = {**ATTACKED, "b": 0}, {"n": 6, "b": 2, "byzantine": "silent"}
    with pytest.raises(UsageError, match=r"in byzantine alone \(none, silent\); `parley expand` lists them$"):
        study_factory(*grids, questions=[question])


def test_values_may_be_written_as_in_the_study(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [True, False]}}
    asked = {"name": "talk", "outcome": "stag_share", "compare": "cheap_talk", "smallest": 0.1}
    study = study_factory(grid, game="stag_hunt", questions=[{**asked, "values": [False, True]}])
    assert study.comparisons[0].values == ("false", "true")
    assert study.comparisons[0].kind == "quantity"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"outcome": "valid_concensus"},
            "questions[0].outcome: 'valid_concensus': the game consensus has no such; did",
        ),
        ({"compare": "promt"}, "questions[0].compare: 'promt': not an axis of this study; did you mean 'prompt'?"),
        ({"over": ["modle"]}, "questions[0].over: 'modle': not an axis of this study; did you mean 'model'?"),
        ({"over": ["prompt"]}, "questions[0].over: prompt is what is compared; remove it"),
        ({"where": {"size": 4}}, "questions[0].where: 'size': not an axis of this study"),
        ({"where": {"n": 5}}, "questions[0].where: no condition has n=5; `parley expand` lists them"),
        (
            {"where": {"prompt": "may_exist"}},
            "questions[0].where: prompt is what is compared; give the two under values",
        ),
        (
            {"values": ["may_exist", "none_exists"]},
            "questions[0].values: 'none_exists': no condition has it; did you mean 'none_exist'",
        ),
        (
            {"values": ["may_exist", "may_exist"]},
            "questions[0].values: ['may_exist', 'may_exist']: the two must differ",
        ),
        ({"compare": "b"}, "questions[0].compare: b has one value only (0)"),
        ({"smallest": 1.5}, "questions[0].smallest: 1.5: a difference of rates is at most 1"),
        ({"smallest": "0.1"}, "questions[0].smallest: '0.1': input should be a valid number"),
        ({"smallest": 0}, "questions[0].smallest: 0: input should be greater than 0"),
        ({"expected": [0.5]}, "questions[0].expected"),
        ({"compare": "n", "over": ["model", "prompt"], "expected": [0.5, 0.6]}, ""),
    ],
)
def test_a_question_that_nothing_answers_is_refused_in_one_line(
    study_factory: StudyFactory, change: dict[str, Any], said: str
) -> None:
    if not said:  # two values need no choice
        study_factory(GRID, questions=[{**ASKED, **change}])
        return
    with pytest.raises(UsageError) as caught:
        study_factory(GRID, questions=[{**ASKED, "over": ["model", "n"], **change}])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_conditions_without_a_common_seed_are_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match="no seed in common"):
        study_factory({"seeds": [0, 1]}, {"prompt": "none_exist", "seeds": [2, 3]}, questions=[ASKED])


def test_conditions_that_differ_in_more_than_what_is_compared_are_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"no two conditions differ in prompt alone \(may_exist, none_exist\)"):
        study_factory({"n": 4}, {"n": 6, "prompt": "none_exist"}, questions=[ASKED])


def test_an_outcome_that_cannot_be_answers_nothing(study_factory: StudyFactory) -> None:
    grid = {"model": "always_stag", "n": [3, 4], "prompt": "plain"}
    asked = {"name": "some", "outcome": "partial_cooperation", "compare": "n", "smallest": 0.1}
    with pytest.raises(UsageError, match="no two of its conditions can have partial_cooperation"):
        study_factory(grid, game="stag_hunt", questions=[asked])


def test_names_are_unique(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"questions: .*'prompt' is repeated"):
        study_factory(GRID, questions=[{**ASKED, "over": ["model", "n"]}] * 2)


@pytest.mark.parametrize("change", [{}, {"over": ["n", "model"]}])
def test_a_question_is_asked_once(study_factory: StudyFactory, change: dict[str, Any]) -> None:
    asked = {**ASKED, "over": ["model", "n"]}
    with pytest.raises(UsageError, match=r"questions: .*'again' asks the same as 'prompt'; remove one") as caught:
        study_factory(GRID, questions=[asked, {**asked, **change, "name": "again"}])
    assert "\n" not in str(caught.value)
    study_factory(GRID, questions=[asked, {**asked, "name": "again", "outcome": "no_consensus"}])


def test_questions_are_in_the_plans_but_in_no_identity(study_factory: StudyFactory) -> None:
    plain = study_factory(GRID)
    asked = study_factory(GRID, questions=[{**ASKED, "over": ["model", "n"]}])
    other = study_factory(GRID, questions=[{**ASKED, "over": ["model", "n"], "smallest": 0.3}])
    assert [s.id for s in plain.simulations()] == [s.id for s in asked.simulations()]
    assert [s.record("x") for s in plain.simulations()] == [s.record("x") for s in asked.simulations()]
    assert len({plain.plan, asked.plan, other.plan}) == 3  # tables are made anew
    assert len({plan_of(study) for study in (plain, asked, other)}) == 3  # jobs of a run notice


def test_the_shipped_studies_ask_what_their_papers_claim() -> None:
    paper = load_study(REPOSITORY / "config" / "paper.yaml")
    assert [(c.question.name, len(c.strata), sum(c.seeds())) for c in paper.comparisons] == [
        ("prompt", 3, 150),
        ("group_size", 4, 200),
        ("model", 6, 300),
        ("byzantine", 1, 25),
    ]
    assert [
        (c.question.name, len(c.strata)) for c in load_study(REPOSITORY / "config" / "stag-hunt.yaml").comparisons
    ] == [
        ("betrayal", 12),
        ("cheap_talk", 6),
        ("told", 18),
    ]


def test_the_schema_for_editors_has_them() -> None:
    schema = json.loads(Path(REPOSITORY / "config" / "schemas" / "study.schema.json").read_text())
    assert {"name", "outcome", "compare", "over", "smallest"} <= set(schema["$defs"]["Question"]["properties"])


def test_repeats_of_a_seed_answer_no_question(study_factory: StudyFactory) -> None:
    study = study_factory(GRID | {"model": "random"}, questions=[{**ASKED, "over": ["n"]}], repeats=2)
    assert len(study.conditions) == 8
    assert len(strata(study)) == 2
