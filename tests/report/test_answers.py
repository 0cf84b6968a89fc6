"""The answers of a study as sentences."""

import math
from typing import Any

import pandas as pd
import pytest

from parley.figures.links import linker
from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.report.answers import answers, difference_text, found
from parley.report.links import Links
from support.studies import StudyFactory

ROW = {
    "question": "mention",
    "kind": "outcome",
    "axis": "prompt",
    "from": "none_exist",
    "to": "may_exist",
    "what": "valid_consensus",
    "strata": 1,
    "pairs": 50,
    "only_first": 10,
    "only_second": 2,
    "both": 30,
    "value_from": 0.8,
    "value_to": 0.64,
    "difference": -0.16,
    "low": -0.28,
    "high": -0.04,
    "test": "McNemar",
    "p": 0.02,
    "p_holm": 0.04,
    "p_by_seed": 0.03,
    "smallest": 0.15,
    "answer": "differs",
    "all_from": 0.8,
    "all_to": 0.64,
}


def told(game: Any = ConsensusGame, **changes: Any) -> str:
    return difference_text(ROW | changes, game)


def test_a_lower_rate_is_less_often_and_its_interval_turns_with_it() -> None:
    assert told() == (
        "valid consensus is 16 points [4, 28] less often with prompt=may_exist than with prompt=none_exist (80% → 64%)"
    )


def test_a_higher_rate_keeps_the_signs_of_its_interval() -> None:
    text = told(difference=0.05, low=-0.1, high=0.2)
    assert "5 points [-10, 20] more often" in text
    assert "5 points [-20, 10] less often" in told(difference=-0.05, low=-0.1, high=0.2)


def test_no_difference_says_so() -> None:
    text = told(difference=0.0, low=-0.1, high=0.1, value_to=0.8)
    assert "is as often with prompt=may_exist as with prompt=none_exist: a difference of 0 points [-10, 10]" in text


@pytest.mark.parametrize(
    ("axis", "first", "second", "words"),
    [
        ("b", "0", "4", "with 4 Byzantine agents than with 0"),
        ("b", "4", "1", "with 1 Byzantine agent than with 4"),
        ("n", "4", "16", "with 16 agents than with 4"),
        ("model", "small", "large", "with large than with small"),
    ],
)
def test_axes_that_everybody_knows_are_words(axis: str, first: str, second: str, words: str) -> None:
    assert words in told(axis=axis, **{"from": first, "to": second})


def test_numbers_and_shares_are_higher_or_lower_and_sentences_are_quoted() -> None:
    payoff = {"kind": "quantity", "what": "honest_payoff", "value_from": 10.0, "value_to": 3.25}
    text = told(StagHuntGame, **payoff, difference=-6.75, low=-8.0, high=math.nan)
    assert "“payoff of an honest player per round” is 6.75" in text
    assert "lower" in text
    assert "points" not in text.replace("(points)", "")
    share = told(StagHuntGame, kind="quantity", what="stag_share")
    assert "is 16 points [4, 28] lower" in share


def test_what_has_no_pairs_is_not_known() -> None:
    assert told(difference=math.nan).startswith("nothing is known of valid consensus")


def test_two_outcomes_are_told_from_each_other() -> None:
    rates = {"what": "premature_stop -> valid_consensus", "axis": "", "from": "", "to": ""}
    assert told(**rates) == "“valid consensus” holds 16 points [4, 28] less often than “premature stop” (80% → 64%)"
    alike = told(**rates, difference=0.0, low=-0.1, high=0.1)
    assert "“valid consensus” holds as often as “premature stop”: a difference of 0 points [-10, 10]" in alike
    assert told(**rates, difference=math.nan) == "nothing is known of “valid consensus” and “premature stop”"
    sides = {"axis": "n, prompt", "from": "n=7, prompt=a", "to": "n=3, prompt=b"}
    text = told(**rates | sides)
    assert "“valid consensus” with n=3, prompt=b holds 16 points" in text
    assert "less often than “premature stop” with n=7, prompt=a (80% → 64%)" in text
    means = {"kind": "quantity", "what": "rounds -> value_changes", "axis": "", "value_from": 3.0, "value_to": 5.5}
    assert "is 2.5 [1, 4] higher than “" in told(**means, difference=2.5, low=1.0, high=4.0)


def test_two_sides_of_one_outcome_are_told_as_two_values() -> None:
    text = told(axis="n, prompt", **{"from": "n=7, prompt=a", "to": "n=3, prompt=b"})
    assert text == (
        "valid consensus is 16 points [4, 28] less often with n=3, prompt=b than with n=7, prompt=a (80% → 64%)"
    )


def test_questions_of_two_outcomes_and_of_two_sides_have_their_numbers(study_factory: StudyFactory) -> None:
    compare = {
        "first": {"where": {"n": 3, "prompt": "none_exist"}},
        "second": {"where": {"n": 4, "prompt": "may_exist"}},
    }
    questions = [
        {
            "name": "within",
            "outcomes": ["premature_stop", "valid_consensus"],
            "over": ["n", "prompt"],
            "smallest": 0.15,
        },
        {"name": "between", "outcome": "valid_consensus", "compare": compare, "smallest": 0.15},
    ]
    study = study_factory({"prompt": ["none_exist", "may_exist"], "n": [3, 4]}, seeds=2, questions=questions)
    rows = [
        ROW | {"question": "within", "what": "premature_stop -> valid_consensus", "axis": "", "from": "", "to": ""},
        ROW
        | {
            "question": "between",
            "axis": "n, prompt",
            "from": "n=3, prompt=none_exist",
            "to": "n=4, prompt=may_exist",
        },
    ]
    within, between = answers(study, pd.DataFrame(rows), Links(study, planned=True))
    assert within["what"] == within["compared"] == "premature stop → valid consensus"
    assert within["sentence"].endswith(", pooled over n, prompt; 50 pairs.")
    leading = [(name, address.partition("?")[2]) for name, address in within["links"]]
    assert [name for name, _ in leading] == [f"n={n}, prompt={p}" for n in (3, 4) for p in ("none_exist", "may_exist")]
    # A condition beside itself, since its games have both.
    side = "model=majority&{0}.n=3&{0}.b=0&{0}.prompt=none_exist"
    both = "&".join(f"{name}.{side.format(name)}" for name in "ab")
    assert leading[0][1] == f"{both}&outcome=premature_stop&outcome.b=valid_consensus"
    assert between["compared"] == "n=3, prompt=none_exist → n=4, prompt=may_exist"
    [(_, link)] = between["links"]
    assert "a.n=3&a.b=0&a.prompt=none_exist&b.model=majority&b.n=4&b.b=0&b.prompt=may_exist" in link


def asked(make: StudyFactory, **changes: Any) -> dict[str, Any]:
    question = {"name": "mention", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.15}
    study = make({"prompt": ["none_exist", "may_exist"]}, seeds=2, questions=[{**question, "where": {"n": 3}}])
    [row] = answers(study, pd.DataFrame([ROW | changes]), Links(study, planned=True))
    return row


def test_a_question_is_answered_in_words_and_numbers(study_factory: StudyFactory) -> None:
    row = asked(study_factory)
    assert row["sentence"].endswith("(80% → 64%), where n=3; 50 pairs.")
    assert row["verdict"] == "It differs (p = 0.040, corrected)."
    assert not row["few"]
    [(_, link)] = row["links"]
    assert link.startswith(
        "../view/index.html#/pairs?a.model=majority&a.n=3&a.b=0&a.prompt=none_exist&b.model=majority"
    )
    assert link.endswith("&outcome=valid_consensus")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("open", "Open: "),
        ("no pairs", "Open: there are no pairs"),
        ("open: all pairs differ by the same", "Open: all pairs differ by exactly the same, which says"),
        ("no difference of 0.15 or more", "No difference of 15 points or more (p"),
        ("differs, by less than 0.15", "It differs, by less than 15 points (p"),
    ],
)
def test_each_answer_has_words(study_factory: StudyFactory, answer: str, words: str) -> None:
    row = asked(study_factory, answer=answer, pairs=9)
    assert row["verdict"].startswith(words)
    assert row["few"]


def test_without_questions_what_differs_most_is_told(study_factory: StudyFactory) -> None:
    links = Links(study_factory())
    plain = {"model": "a", "n": "4"}
    rows = [
        ROW | plain | {"prompt": "", "p": 0.01, "p_holm": 0.02},
        ROW | plain | {"prompt": "", "p": 0.001, "p_holm": 0.01, "n": "8"},
        ROW | plain | {"prompt": "", "p": 0.5, "p_holm": 1.0, "n": "16"},
        ROW | plain | {"prompt": "", "p": 1e-9, "p_holm": 1e-8, "what": "no_consensus"},
    ]
    sentences = [
        each["sentence"] for each in found(pd.DataFrame(rows), ["model", "n", "prompt"], ConsensusGame, links)
    ]
    assert [text.split("at ")[1] for text in sentences] == ["n=8; 50 pairs.", "n=4; 50 pairs."]
    others = found(pd.DataFrame(rows[3:]), ["model", "n", "prompt"], ConsensusGame, links)
    assert others[0]["sentence"].startswith("no consensus is")


def test_links_lead_nowhere_without_an_explorer(study_factory: StudyFactory) -> None:
    study = study_factory()
    assert Links(study).simulations(["majority", 3, 0, "may_exist"]) == ""
    assert Links(study).contrast({**ROW}) == ""
    there = Links(study, planned=True)
    expected = "../view/index.html#/?axis.model=majority&axis.n=3&axis.b=0&axis.prompt=may_exist&outcome=no_consensus"
    assert there.simulations(["majority", 3, 0, "may_exist"], "no_consensus") == expected


def test_links_of_a_study_with_repeats_lead_to_what_is_counted(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "random"}, seeds=2, repeats=2)
    values = list(study.conditions[0].axes.values())
    tables = study.first_repeat  # tables and figures count nothing else
    for address in (Links(study, planned=True).simulations(values), linker(tables)({})):
        assert "axis.repeat=0" in str(address)
    ends = {"axis": "b", "from": "0", "to": "1"}
    pairs = Links(study, planned=True).contrast(ROW | dict.fromkeys(study.axes, "x") | ends)
    assert "&a.repeat=0&" in pairs
    assert "&b.repeat=0&" in pairs


def test_a_contrast_leads_to_its_pairs(study_factory: StudyFactory) -> None:
    links = Links(study_factory(), planned=True)
    row = ROW | {"axis": "b", "from": "0", "to": "1", "model": "a", "n": "4 -> 5", "b": "", "prompt": "p"}
    address = links.contrast(row)
    assert "a.model=a&a.n=4&a.b=0&a.prompt=p&b.model=a&b.n=5&b.b=1&b.prompt=p&outcome=valid_consensus" in address
    assert links.contrast(row | {"kind": "quantity", "what": "rounds"}).endswith("&outcome=rounds")
    assert links.contrast(row | {"pairs": 0}) == ""
    within = {
        "axis": "",
        "kind": "comparison",
        "from": "first",
        "to": "last",
        "what": "last - first",
        "n": "4",
        "b": "1",
    }
    both = "a.model=a&a.n=4&a.b=1&a.prompt=p&b.model=a&b.n=4&b.b=1&b.prompt=p&outcome=first&outcome.b=last"
    assert links.contrast(row | within).endswith(both)


def test_a_question_over_several_strata_leads_to_each(study_factory: StudyFactory) -> None:
    question = {"name": "q", "outcome": "valid_consensus", "compare": "prompt", "over": "n", "smallest": 0.1}
    study = study_factory({"prompt": ["none_exist", "may_exist"], "n": [3, 4]}, seeds=2, questions=[question])
    found_links = Links(study, planned=True).question(study.comparisons[0])
    assert [name for name, _ in found_links] == ["n=3", "n=4"]
    assert Links(study).question(study.comparisons[0]) == []
