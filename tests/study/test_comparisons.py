"""Questions that compare two outcomes of the same simulations: what answers them, what is refused."""

from functools import partial
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study.comparisons import Comparison, labels_of, question_text
from parley.study.frozen import content_of
from support.studies import StudyFactory, refused

pytestmark = pytest.mark.promise("A question may compare two outcomes of the same games.")

FIRST, LAST = "first_majority_correct_honest", "last_majority_correct_honest"
BASE = {"game": "deliberation", "parameters": {"problems": "arithmetic"}, "seeds": 4}
GRIDS: list[dict[str, Any]] = [
    {"model": "solver", "n": None, "honest": 3, "b": [0, 1], "prompt": "improve", "vary": {"turns": [1]}},
    {"model": "solver", "n": None, "honest": 7, "b": 0, "prompt": "improve", "vary": {"turns": [0]}},
]
WITHIN = {"name": "turn", "outcomes": [FIRST, LAST], "where": {"b": 0, "turns": 1}, "smallest": 0.2}


def compared(make: StudyFactory, question: dict[str, Any], grids: list[dict[str, Any]] = GRIDS) -> Comparison:
    [comparison] = make(*grids, questions=[question], **BASE).comparisons
    return comparison


def pairs(comparison: Comparison) -> list[tuple[str, str]]:
    return [(one.name, other.name) for one, other in comparison.strata]


def test_two_outcomes_are_compared_within_each_simulation(study_factory: StudyFactory) -> None:
    comparison = compared(study_factory, WITHIN)
    three = "model=solver/n=3/b=0/prompt=improve/turns=1"
    assert pairs(comparison) == [(three, three)]
    assert comparison.outcomes == (FIRST, LAST)
    assert (comparison.axis, comparison.values, comparison.seeds) == ("", ("", ""), [4])
    assert comparison.label == f"turn: {FIRST} -> {LAST}"
    with pytest.raises(UsageError, match=r"questions\[0\]: n differs .* \(3, 4, 7\); name n in over"):
        compared(study_factory, {**WITHIN, "where": {}})
    assert len(compared(study_factory, {**WITHIN, "where": {}, "over": ["n", "b", "turns"]}).strata) == 3


REFUSED: list[tuple[dict[str, Any], *tuple[str, ...]]] = [
    ({**WITHIN, "outcomes": [FIRST, "unreadable"]}, "outcomes: ", f"{FIRST} is a rate", "unreadable"),
    ({**WITHIN, "outcomes": [FIRST, FIRST]}, "outcomes: ", "differ"),
    ({**WITHIN, "compare": "b"}, "compare: ", "remove one"),
    ({"name": "size", "compare": "n", "smallest": 0.2}, "outcome: missing"),
]


def test_what_no_conditions_answer_is_refused_with_its_key(study_factory: StudyFactory) -> None:
    for question, *names in REFUSED:
        refused(partial(compared, study_factory, question), r"small\.yaml: questions\[0\]", *names)


def test_they_are_said_in_words_and_frozen_as_they_are_written(study_factory: StudyFactory) -> None:
    study = study_factory(*GRIDS, questions=[WITHIN], **BASE)
    labels = labels_of(study.game)
    [comparison] = study.comparisons
    said = f"Is “{labels[LAST]}” as frequent as “{labels[FIRST]}” in the same games, where b=0, turns=1?"
    assert question_text(comparison.question, [comparison]) == said
    assert content_of(study)["questions"] == [WITHIN | {"where": {"b": [0], "turns": [1]}}]
