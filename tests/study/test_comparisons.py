"""Questions that compare two outcomes of the same simulations, or two sides: what answers them, what is refused."""

import json
from typing import Any

import jsonschema
import pytest

from parley.errors import UsageError
from parley.study.frozen import content_of
from parley.study.questions import question_text
from parley.study.schema import schemas
from support.studies import StudyFactory

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


def test_two_outcomes_are_compared_within_each_simulation(study_factory: StudyFactory) -> None:
    [comparison] = study_factory(*GRIDS, questions=[WITHIN], **BASE).comparisons
    assert [(one.path, other.path) for one, other in comparison.strata] == [(THREE, THREE)]
    assert comparison.outcomes == (FIRST, LAST)
    assert (comparison.axis, comparison.values, comparison.seeds()) == ("", ("", ""), [4])
    assert comparison.label == f"turn: {FIRST} -> {LAST}"


def test_two_outcomes_are_pooled_over_the_axes_that_the_question_names(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"questions\[0\]: n differs between its conditions \(3, 4, 7\); name n in"):
        study_factory(*GRIDS, questions=[{**WITHIN, "where": {}}], **BASE)
    [comparison] = study_factory(
        *GRIDS, questions=[{**WITHIN, "where": {}, "over": ["n", "b", "turns"]}], **BASE
    ).comparisons
    assert len(comparison.strata) == 3


def test_two_sides_may_differ_in_several_axes(study_factory: StudyFactory) -> None:
    [comparison] = study_factory(*GRIDS, questions=[BETWEEN], **BASE).comparisons
    assert [(one.path, other.path) for one, other in comparison.strata] == [(SEVEN, THREE)]
    assert (comparison.axis, comparison.values) == ("n, turns", ("n=7, turns=0", "n=3, turns=1"))
    assert comparison.label == "size: n=7, turns=0 -> n=3, turns=1"
    assert comparison.what == FIRST


def test_each_side_may_have_an_outcome_of_its_own(study_factory: StudyFactory) -> None:
    asked = sides(first={"outcome": FIRST}, second={"outcome": LAST}) | {"outcome": None}
    [comparison] = study_factory(*GRIDS, questions=[asked], **BASE).comparisons
    assert comparison.outcomes == (FIRST, LAST)
    assert comparison.label == f"size: {FIRST}, n=7, turns=0 -> {LAST}, n=3, turns=1"
    # One may be said for both, but for a side that has its own.
    asked = sides(second={"outcome": LAST})
    assert study_factory(*GRIDS, questions=[asked], **BASE).comparisons[0].outcomes == (FIRST, LAST)


def test_two_sides_are_pooled_over_what_both_have(study_factory: StudyFactory) -> None:
    models = ["solver", {"name": "solver", "accuracy": 0.9}]
    grids = [{**grid, "model": models} for grid in GRIDS]
    with pytest.raises(
        UsageError, match=r"compare.first.where: 2 conditions have .*; choose one of model: solver, so"
    ):
        study_factory(*grids, questions=[BETWEEN], **BASE)
    [comparison] = study_factory(*grids, questions=[{**BETWEEN, "over": "model"}], **BASE).comparisons
    assert [(one.axes["model"], other.axes["model"]) for one, other in comparison.strata] == [
        ("solver", "solver"),
        ("solver-accuracy-0.9", "solver-accuracy-0.9"),
    ]
    assert comparison.axis == "n, turns"


def test_games_without_byzantine_agents_stand_for_any_adversary(study_factory: StudyFactory) -> None:
    grid = {"n": None, "honest": 4, "b": [0, 1], "byzantine": ["silent", "random"]}
    compare = {"first": {"where": {"b": 0}}, "second": {"where": {"b": 1}}}
    asked = {"name": "b", "outcome": "valid_consensus", "compare": compare, "smallest": 0.2}
    [comparison] = study_factory(grid, questions=[{**asked, "where": {"byzantine": "random"}}]).comparisons
    assert comparison.values == ("n=4, b=0, byzantine=none", "n=5, b=1, byzantine=random")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (sides(first={"where": {"size": 3}}), "compare.first.where: 'size': not an axis of this study; "),
        (sides(first={"where": {"honest": 5}}), "compare.first.where: no condition has honest=5; `parley expand`"),
        (
            sides(second={"where": {"honest": 3}}),
            "compare.second.where: 2 conditions have honest=3; choose one of n: 3, 4",
        ),
        (sides(second=SIDES["first"]), f"questions[0].compare: both sides are {SEVEN}; give them other values"),
        (
            sides(second={"outcome": "final_participation"}),
            f"{FIRST} is a rate, final_participation is a mean of shares",
        ),
        (
            sides(second={"outcome": "unanimous"}),
            "questions[0].outcome: 'unanimous': the game deliberation has no such",
        ),
        (
            {**WITHIN, "outcomes": [FIRST, "unreadable"]},
            f"outcomes: {FIRST} is a rate, unreadable is a mean of unread",
        ),
        ({**WITHIN, "outcomes": ["turn_of_consensus", "unreadable"]}, "turn_of_consensus, unreadable is a mean of"),
        ({**WITHIN, "outcomes": [FIRST, FIRST]}, "the two must differ"),
        (
            {**WITHIN, "outcomes": ["correct_consensus", "wrong_consensus"], "expected": [0.7, 0.7]},
            "expected: a simulation ends in one way, so the two are at most 1 together",
        ),
        ({**WITHIN, "outcomes": [FIRST]}, "questions[0].outcomes: "),
        ({**WITHIN, "compare": "b"}, "compare: outcomes are compared within the same simulations; remove one of both"),
        ({**WITHIN, "smallest": 2.0}, "questions[0].smallest: 2: a difference of rates is at most 1"),
        ({**BETWEEN, "outcome": None}, "outcome: missing; add it, or one to each of first and second"),
        ({**sides(first={"outcome": FIRST}, second={"outcome": LAST})}, "first and second have their own; remove it"),
        ({**BETWEEN, "values": [0, 1]}, "values: first and second say what is compared; remove it"),
        ({**BETWEEN, "compare": None}, "compare: missing; give an axis, or first and second, or two outcomes instead"),
        ({**BETWEEN, "compare": "turns", "outcome": None}, "outcome: missing; add it"),
        ({**BETWEEN, "compare": {"first": {}}}, "questions[0].compare.second: missing; add it"),
        ({**BETWEEN, "compare": {**SIDES, "third": {}}}, "questions[0].compare.third: unknown key; "),
        ({**BETWEEN, "over": "n"}, "questions[0].over: first and second have no n in common; `parley expand` lists"),
        ({**BETWEEN, "over": "size"}, "questions[0].over: 'size': not an axis of this study"),
    ],
)
def test_what_no_conditions_answer_is_refused_in_one_line(
    study_factory: StudyFactory, question: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        study_factory(*GRIDS, questions=[question], **BASE)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_outcome_that_a_side_cannot_have_is_refused(study_factory: StudyFactory) -> None:
    grid = {"model": "always_stag", "n": [3, 4], "prompt": "plain"}
    asked = {"name": "some", "outcomes": ["partial_cooperation", "cooperation"], "over": "n", "smallest": 0.1}
    with pytest.raises(UsageError, match="can have partial_cooperation and cooperation; choose another"):
        study_factory(grid, game="stag_hunt", questions=[asked])


def test_sides_without_a_common_seed_are_refused(study_factory: StudyFactory) -> None:
    grids = [{**grid, "seeds": seeds} for grid, seeds in zip(GRIDS, ([0, 1], [2, 3]), strict=True)]
    with pytest.raises(UsageError, match="no seed in common"):
        study_factory(*grids, questions=[BETWEEN], **BASE)


def test_they_are_said_in_words_and_frozen_as_they_are_written(study_factory: StudyFactory) -> None:
    asked = sides(first={"outcome": FIRST}, second={"outcome": LAST})
    del asked["outcome"]
    study = study_factory(*GRIDS, questions=[WITHIN, asked], **BASE)
    assert [question_text(question) for question in study.questions] == [
        f"{FIRST} -> {LAST}, in the same simulations, where b=0, turns=1; smallest difference that matters: 0.2",
        f"{FIRST} at honest=7, turns=0 -> {LAST} at b=0, honest=3, turns=1; smallest difference that matters: 0.2",
    ]
    listed = {
        "first": {"outcome": FIRST, "where": {"honest": [7], "turns": [0]}},
        "second": {"outcome": LAST, "where": {"honest": [3], "turns": [1], "b": [0]}},
    }
    assert content_of(study)["questions"][1] == {"name": "size", "compare": listed, "smallest": 0.2}


@pytest.mark.parametrize(
    ("question", "valid"),
    [
        (WITHIN, True),
        (BETWEEN, True),
        ({"name": "n", "outcome": FIRST, "compare": "n", "smallest": 0.2}, True),
        ({"name": "n", "outcome": FIRST, "smallest": 0.2}, False),
        ({**BETWEEN, "compare": {"first": {}}}, False),
    ],
)
def test_the_schema_for_editors_takes_each_form(question: dict[str, Any], valid: bool) -> None:
    grids = [{key: value for key, value in grid.items() if value is not None} for grid in GRIDS]
    file = json.loads(json.dumps({**BASE, "grids": grids, "questions": [question]}))
    assert jsonschema.Draft202012Validator(schemas()["study"]).is_valid(file) is valid
