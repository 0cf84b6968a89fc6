"""Questions that compare two outcomes of the same simulations, or two sides: what answers them, what is refused."""

from functools import partial
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study.comparisons import Comparison, labels_of, question_text
from parley.study.frozen import content_of
from support.studies import StudyFactory, refused

pytestmark = pytest.mark.promise("A question may compare two outcomes of the same games, or two sides.")

FIRST, LAST = "first_majority_correct_honest", "last_majority_correct_honest"
BASE = {"game": "deliberation", "parameters": {"problems": "arithmetic"}, "seeds": 4}
GRIDS: list[dict[str, Any]] = [
    {"model": "solver", "n": None, "honest": 3, "b": [0, 1], "prompt": "improve", "vary": {"turns": [1]}},
    {"model": "solver", "n": None, "honest": 7, "b": 0, "prompt": "improve", "vary": {"turns": [0]}},
]
WITHIN = {"name": "turn", "outcomes": [FIRST, LAST], "where": {"b": 0, "turns": 1}, "smallest": 0.2}
SIDES = {"first": {"where": {"honest": 7, "turns": 0}}, "second": {"where": {"honest": 3, "turns": 1, "b": 0}}}
BETWEEN = {"name": "size", "outcome": FIRST, "compare": SIDES, "smallest": 0.2}
THREE, SEVEN = ("model=solver/n=3/b=0/prompt=improve/turns=1", "model=solver/n=7/b=0/prompt=improve/turns=0")


def sides(**changes: dict[str, Any]) -> dict[str, Any]:
    """The question with other keys in its sides."""
    return {**BETWEEN, "compare": {key: {**side, **changes.get(key, {})} for key, side in SIDES.items()}}


def compared(make: StudyFactory, question: dict[str, Any], grids: list[dict[str, Any]] = GRIDS) -> Comparison:
    [comparison] = make(*grids, questions=[question], **BASE).comparisons
    return comparison


def pairs(comparison: Comparison) -> list[tuple[str, str]]:
    return [(one.name, other.name) for one, other in comparison.strata]


def test_two_outcomes_are_compared_within_each_simulation(study_factory: StudyFactory) -> None:
    comparison = compared(study_factory, WITHIN)
    assert pairs(comparison) == [(THREE, THREE)]
    assert comparison.outcomes == (FIRST, LAST)
    assert (comparison.axis, comparison.values, comparison.seeds) == ("", ("", ""), [4])
    assert comparison.label == f"turn: {FIRST} -> {LAST}"
    with pytest.raises(UsageError, match=r"questions\[0\]: n differs .* \(3, 4, 7\); name n in over"):
        compared(study_factory, {**WITHIN, "where": {}})
    assert len(compared(study_factory, {**WITHIN, "where": {}, "over": ["n", "b", "turns"]}).strata) == 3


def test_two_sides_may_differ_in_several_axes(study_factory: StudyFactory) -> None:
    comparison = compared(study_factory, BETWEEN)
    assert pairs(comparison) == [(SEVEN, THREE)]
    assert (comparison.axis, comparison.values) == ("n, turns", ("n=7, turns=0", "n=3, turns=1"))
    assert comparison.label == "size: n=7, turns=0 -> n=3, turns=1"
    assert comparison.what == FIRST


def test_each_side_may_have_an_outcome_of_its_own(study_factory: StudyFactory) -> None:
    comparison = compared(study_factory, sides(first={"outcome": FIRST}, second={"outcome": LAST}) | {"outcome": None})
    assert comparison.outcomes == (FIRST, LAST)
    assert comparison.label == f"size: {FIRST}, n=7, turns=0 -> {LAST}, n=3, turns=1"
    # One may be said for both, but for a side that has its own.
    assert compared(study_factory, sides(second={"outcome": LAST})).outcomes == (FIRST, LAST)


def test_two_sides_are_pooled_over_what_both_have(study_factory: StudyFactory) -> None:
    models = ["solver", {"name": "solver", "accuracy": 0.9}]
    grids = [{**grid, "model": models} for grid in GRIDS]
    with pytest.raises(UsageError, match=r"compare.first.where: 2 conditions .* model: solver, solver-accuracy-0.9"):
        compared(study_factory, BETWEEN, grids)
    comparison = compared(study_factory, {**BETWEEN, "over": "model"}, grids)
    models = ["solver", "solver-accuracy-0.9"]
    assert [[each.axes["model"] for each in pair] for pair in comparison.strata] == [[model] * 2 for model in models]


ENDINGS = ["correct_consensus", "wrong_consensus"]
REFUSED: list[tuple[dict[str, Any], *tuple[str, ...]]] = [
    (sides(first={"where": {"honest": 5}}), "compare.first.where: ", "honest=5", "`parley expand`"),
    (sides(second={"where": {"honest": 3}}), "compare.second.where: ", "n: 3, 4"),
    (sides(second=SIDES["first"]), "compare: ", SEVEN),
    ({**WITHIN, "outcomes": [FIRST, "unreadable"]}, "outcomes: ", f"{FIRST} is a rate", "unreadable"),
    ({**WITHIN, "outcomes": [FIRST, FIRST]}, "outcomes: ", "differ"),
    ({**WITHIN, "outcomes": ENDINGS, "expected": [0.7, 0.7]}, "expected: ", "at most 1"),
    ({**WITHIN, "compare": "b"}, "compare: ", "remove one"),
    ({**BETWEEN, "outcome": None}, "outcome: missing", "first and second"),
    (sides(first={"outcome": FIRST}, second={"outcome": LAST}), "outcome: ", "remove it"),
    ({**BETWEEN, "over": "n"}, "over: ", " n ", "`parley expand`"),
]


def test_what_no_conditions_answer_is_refused_with_its_key(study_factory: StudyFactory) -> None:
    for question, *names in REFUSED:
        refused(partial(compared, study_factory, question), r"small\.yaml: questions\[0\]", *names)


def test_they_are_said_in_words_and_frozen_as_they_are_written(study_factory: StudyFactory) -> None:
    asked = sides(first={"outcome": FIRST}, second={"outcome": LAST})
    del asked["outcome"]
    study = study_factory(*GRIDS, questions=[WITHIN, asked], **BASE)
    labels = labels_of(study.game)
    first, last = f"“{labels[FIRST]}”", f"“{labels[LAST]}”"
    assert [question_text(each.question, [each]) for each in study.comparisons] == [
        f"Is {last} as frequent as {first} in the same games, where b=0, turns=1?",
        f"Is {last} with n=3, turns=1 as frequent as {first} with n=7, turns=0?",
    ]
    listed = {
        "first": {"outcome": FIRST, "where": {"honest": [7], "turns": [0]}},
        "second": {"outcome": LAST, "where": {"honest": [3], "turns": [1], "b": [0]}},
    }
    assert content_of(study)["questions"][1] == {"name": "size", "compare": listed, "smallest": 0.2}
