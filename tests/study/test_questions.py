"""Questions of a study: which pairs of conditions answer them, and what is refused in one line."""

from functools import partial
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study import Study
from support.studies import StudyFactory, refused

pytestmark = pytest.mark.promise("A question that nothing answers is refused with its key.")

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
POOLED = {**ASKED, "over": ["model", "n"]}
GRID = {"model": ["majority", "random"], "n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 3}
ATTACKED = {"n": 6, "b": [0, 2], "byzantine": ["silent", "random"]}


def strata(study: Study) -> list[tuple[str, str]]:
    return [(first.name, second.name) for first, second in study.comparisons[0].strata]


def test_pairs_are_pooled_over_the_axes_that_the_question_names(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[POOLED])
    assert strata(study) == [
        (f"model={m}/n={n}/b=0/prompt=may_exist", f"model={m}/n={n}/b=0/prompt=none_exist")
        for m in ("majority", "random")
        for n in (4, 6)
    ]
    assert study.comparisons[0].seeds == [3, 3, 3, 3]
    assert study.comparisons[0].label == "prompt: prompt may_exist -> none_exist"
    # An axis that differs must be named; one that the question makes constant need not.
    with pytest.raises(UsageError, match=r"questions\[0\]: n differs .* \(4, 6\); name n in over"):
        study_factory(GRID, questions=[{**ASKED, "over": ["model"]}])
    chosen = {**ASKED, "over": "model", "where": {"n": 4}}
    assert len(strata(study_factory(GRID, questions=[chosen]))) == 2
    # Repeats of a seed answer no question; without values each is compared with the first.
    repeated = study_factory(GRID | {"model": "random"}, questions=[{**ASKED, "over": ["n"]}], repeats=2)
    assert (len(repeated.conditions), len(strata(repeated))) == (8, 2)
    for values, compared in (({}, [("4", "6"), ("4", "8")]), ({"values": [8, 4]}, [("8", "4")])):
        study = study_factory({"n": [4, 6, 8]}, questions=[{**ASKED, "compare": "n", **values}])
        assert [comparison.values for comparison in study.comparisons] == compared


def test_along_b_games_without_byzantine_agents_stand_for_any_adversary(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "b", "where": {"byzantine": "random"}}
    study = study_factory(ATTACKED, questions=[question])
    assert strata(study) == [
        (
            "model=majority/n=6/b=0/prompt=may_exist/byzantine=none",
            "model=majority/n=6/b=2/prompt=may_exist/byzantine=random",
        )
    ]
    with pytest.raises(UsageError, match=r"byzantine=none would be paired .* byzantine: silent, random"):
        study_factory(ATTACKED, questions=[{**question, "where": {}, "over": ["byzantine"]}])


def test_along_b_an_adversary_is_compared_with_itself(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "b", "values": [1, 2], "over": ["byzantine"]}
    study = study_factory({**ATTACKED, "b": [1, 2]}, questions=[question])
    pairs = [tuple(each.axes["byzantine"] for each in pair) for pair in study.comparisons[0].strata]
    assert pairs == [("silent", "silent"), ("random", "random")]


def test_along_b_other_agents_are_as_many_where_n_grows_with_b(study_factory: StudyFactory) -> None:
    grid = {"honest": 4, "b": [0, 1], "byzantine": "random"}
    study = study_factory(grid, questions=[{**ASKED, "compare": "b"}])
    assert strata(study) == [("model=majority/n=4/b=0/prompt=may_exist", "model=majority/n=5/b=1/prompt=may_exist")]


def test_adversaries_beside_games_without_any_are_chosen_as_the_error_says(study_factory: StudyFactory) -> None:
    question = {**ASKED, "compare": "byzantine"}
    with pytest.raises(UsageError, match=r"in byzantine alone \(none, silent\); give two that do under values"):
        study_factory(ATTACKED, questions=[question])
    study = study_factory(ATTACKED, questions=[{**question, "values": ["silent", "random"]}])
    assert [pair[0].axes["b"] for pair in study.comparisons[0].strata] == [2]


REFUSED: list[tuple[dict[str, Any], *tuple[str, ...]]] = [
    ({"outcome": "valid_concensus"}, ".outcome: 'valid_concensus'", "consensus"),
    ({"over": ["prompt"]}, ".over: prompt", "remove it"),
    ({"over": ["max_rounds"]}, ".over: max_rounds", "no axis; remove it"),
    ({"where": {"n": 5}}, ".where: ", "n=5", "`parley expand`"),
    ({"where": {"prompt": "may_exist"}}, ".where: prompt", "values"),
    ({"values": ["may_exist", "none_exists"]}, ".values: 'none_exists'", "'none_exist'"),
    ({"compare": "b"}, ".compare: b ", "(0)"),
    ({"smallest": 1.5}, ".smallest: 1.5", "1"),
    ({"expected": [0.5]}, ".expected"),
]


def test_a_question_that_nothing_answers_is_refused_with_its_key(study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[{**ASKED, "compare": "n", "over": ["model", "prompt"], "expected": [0.5, 0.6]}])
    for change, *names in REFUSED:
        asked = partial(study_factory, GRID, questions=[POOLED | change])
        refused(asked, r"small\.yaml: questions\[0\]", *names)
    with pytest.raises(UsageError, match="no seed in common"):
        study_factory({"seeds": [0, 1]}, {"prompt": "none_exist", "seeds": [2, 3]}, questions=[ASKED])
    with pytest.raises(UsageError, match=r"in prompt alone \(may_exist, none_exist\)"):
        study_factory({"n": 4}, {"n": 6, "prompt": "none_exist"}, questions=[ASKED])


def test_a_name_of_a_question_is_given_once(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"questions: .*'prompt' is repeated"):
        study_factory(GRID, questions=[POOLED] * 2)
