"""What each rule decides, from elections by hand and from groups of which the truth is known."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.tables import read_table
from parley.games.deliberation.decisions import decisions, effect_of_talking
from parley.games.deliberation.talking import Martingale
from support.studies import StudyFactory, summarized


def trace_of(*turns: str, session: int = 0, most: int = 9, stops: bool = False) -> list[Any]:
    """Return a trace of `most` turns: a letter per agent and turn, "-" for what could not be read; all hear all."""
    names = [f"agent_{place + 1}" for place in range(len(turns[0]))]
    heard = {name: [other for other in names if other != name] for name in names}
    return [
        {
            "session": session,
            "turn": number,
            "answers": {name: None if letter == "-" else letter for name, letter in zip(names, turn, strict=True)},
            "heard": heard,
            "rules": {"turns": most, "stop_when_unanimous": stops},
        }
        for number, turn in enumerate(turns)
    ]


def by_rule(trace: list[Any], answers: str, voters: str = "honest", honest: int = 99) -> dict[str, str | None]:
    names = [f"agent_{place + 1}" for place in range(honest)]
    found = decisions("r", Fraction(2, 3), names, trace)
    return {each.rule: each.winner for each in found if (each.answers, each.voters) == (answers, voters)}


@pytest.mark.promise("Every rule has an election by hand in which it decides and no stricter one does.")
@pytest.mark.parametrize(
    ("votes", "deciding"),
    [
        ("aabbcd", []),  # a tie decides nothing
        ("aabcd", ["plurality"]),
        ("aab--", ["plurality"]),  # who cannot be read counts among those of whom a majority is asked
        ("aabb-", []),
        ("aabb", []),
        ("aaabc", ["plurality", "majority"]),
        ("aabc--", ["plurality"]),
        ("aab", ["plurality", "majority", "two_thirds"]),
        ("aaaab", ["plurality", "majority", "two_thirds"]),
        ("aaa", ["plurality", "majority", "two_thirds", "unanimity"]),
        ("---", []),
    ],
)
def test_elections_by_hand(votes: str, deciding: list[str]) -> None:
    for answers, trace in (("first", trace_of(votes, "z" * len(votes))), ("last", trace_of("z" * len(votes), votes))):
        found = by_rule(trace, answers)
        assert [rule for rule, value in found.items() if value == "a"] == deciding
        assert {value for rule, value in found.items() if rule not in deciding} <= {None}


def test_what_all_hold_for_two_turns_is_steady() -> None:
    assert by_rule(trace_of("ab", "aa", stops=True), "course") == {}  # nothing is held twice
    for turns, expected in ((("ab", "aa", "bb", "bb", "aa", "aa"), "b"), (("aa", "ab", "aa"), None)):
        assert by_rule(trace_of(*turns), "course") == {"steady": expected}


def test_agents_who_agree_at_once_hold_their_answers_to_the_end() -> None:
    """Else rules would be compared over other games: votes have a decision there, too."""
    assert by_rule(trace_of("aa"), "last") == by_rule(trace_of("aa"), "first")
    assert by_rule(trace_of("aa", most=0), "last") == by_rule(trace_of("aa", most=0), "course") == {}


def test_adversaries_vote_where_all_do_and_earlier_panels_do_not() -> None:
    trace = [*trace_of("bbb", session=0), *trace_of("aab", "abb", session=1)]
    assert by_rule(trace, "first", honest=2)["unanimity"] == "a"
    assert by_rule(trace, "last", "all", honest=2)["majority"] == "b"
    assert by_rule(trace, "last", "all") == {}  # nobody but honest agents


def test_what_talking_changed_by_hand() -> None:
    names = ["agent_1", "agent_2", "agent_3"]
    found = effect_of_talking("r", names, trace_of("raa", "rar", "aaa"))
    assert found == {
        "first_accuracy": pytest.approx(1 / 3),
        "last_accuracy": 0.0,
        "majority_adopted": 1.0,
        "right_present": True,
        "right_voted_out": True,
        "right_to_wrong_changes": 2,
        "wrong_to_right_changes": 1,
        "corrected_after_hearing": 1,
    }
    assert effect_of_talking(None, names, trace_of("abc", "aaa")) == {"majority_adopted": None}
    assert effect_of_talking("r", names, trace_of("aab", "rrr"))["corrected_after_hearing"] == 0


def played(make: StudyFactory, model: Any, n: int, seeds: int, turns: int = 2) -> dict[str, pd.DataFrame]:
    parameters = {"turns": turns, "stop_when_unanimous": False}
    study = make(
        {"model": model, "n": n, "prompt": "improve"}, game="deliberation", parameters=parameters, seeds=seeds
    )
    summarized(study)
    names = ("decisions", "decision_rates", "martingale", "measures")
    return {name: read_table(study.name, name) for name in names}


@pytest.mark.promise("The test of a martingale rejects an urn, which is one, as often as it says (null).")
def test_an_urn_is_rejected_as_often_as_the_level_says(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "solver", "n": 3, "prompt": "improve"}, game="deliberation")
    name, random, studies, seeds = study.conditions[0].name, np.random.default_rng(5), 200, 150
    rejected = {"minority": 0, "majority": 0, "any": 0}
    for _ in range(studies):
        shares = [random.binomial(3, 0.5, seeds) / 3]
        for _ in range(5):  # each agent draws one of the last answers of all
            shares.append(random.binomial(3, shares[-1]) / 3)
        courses = np.array(shares).T
        steps = [(name, seed, *step) for seed, course in enumerate(courses) for step in pairwise(course)]
        for row in Martingale(study, []).tables(steps)["martingale"].to_dict("records"):
            rejected[row["state"]] += row["p"] < 0.05
    assert all(0.01 * studies < count < 0.1 * studies for count in rejected.values()), rejected


@pytest.mark.promise("Agents that give in to majorities gather around what leads (positive control).")
def test_conformity_is_found(study_factory: StudyFactory) -> None:
    tables = played(study_factory, {"name": "solver", "accuracy": 0.5, "conformity": 1.0}, 5, 30)
    rows = tables["martingale"].set_index("state")
    assert rows.loc["majority", "low"] > 0
    assert tables["measures"]["majority_adopted"].mean() > 0.9


@pytest.mark.promise("Questions ask whether accuracy and confidence rise from the first answers to the last.")
@pytest.mark.parametrize(
    ("problems", "outcomes", "model"),
    [
        ("arithmetic", ["first_accuracy", "last_accuracy"], {"accuracy": 0.5, "conformity": 0.0, "recognize": 1.0}),
        ("policies", ["first_confidence", "final_confidence"], {"conformity": 1.0}),
    ],
)
def test_a_question_asks_what_turns_do(
    problems: str, outcomes: list[str], model: dict[str, Any], study_factory: StudyFactory
) -> None:
    asked = [{"name": "gain", "outcomes": outcomes, "smallest": 0.1}]
    parameters = {"turns": 2, "stop_when_unanimous": False, "problems": problems}
    grid = {"model": {"name": "solver", **model}, "n": 5, "prompt": "improve"}
    study = study_factory(grid, game="deliberation", parameters=parameters, seeds=30, questions=asked)
    summarized(study)
    [row] = read_table(study.name, "questions").to_dict("records")
    measures = read_table(study.name, "measures")
    assert row["value_from"] == pytest.approx(measures[outcomes[0]].mean())
    assert row["low"] > 0
