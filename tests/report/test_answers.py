"""The answers of a study as sentences, and the games that they lead to."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.paper import paper_table
from parley.analysis.questions import Pairs, question_table
from parley.figures.common import linker
from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.report.answers import (
    answer_lines,
    difference_text,
    discordant_text,
    how_tested,
    largest_differences,
    registered_text,
)
from parley.report.boxes import _examples, boxes
from parley.report.overview import achieved_sentences
from parley.study import Study
from support.figures import study_of

pytestmark = pytest.mark.promise("The report answers first, in words and numbers, and each answer leads to its games.")

ROW = {
    **{"question": "mention", "kind": "outcome", "axis": "prompt", "from": "none_exist", "to": "may_exist"},
    **{"what": "valid_consensus", "strata": 1, "pairs": 50, "only_first": 10, "only_second": 2, "both": 30},
    **{"value_from": 0.8, "value_to": 0.64, "difference": -0.16, "low": -0.28, "high": -0.04},
    **{"test": "McNemar", "p": 0.02, "p_holm": 0.04, "smallest": 0.15, "note": ""},
    **{
        "registered": "frozen before the first of 100 games",
        "confirmatory": True,
        "seeds_fixed": True,
        "stopped": False,
    },
    **{"together_low": -0.3, "together_high": -0.02, "p_equivalence": 0.6, "p_equivalence_holm": 0.6},
    **{"anytime_low": -0.31, "anytime_high": 0.02, "anytime_p": 0.06, "anytime_p_holm": 0.12},
    **{"answer": "differs", "all_from": 0.8, "all_to": 0.64},
    **{"low_from": 0.67, "high_from": 0.89, "low_to": 0.5, "high_to": 0.76},
}
WITHIN = {"what": "premature_stop -> valid_consensus", "axis": "", "from": "", "to": ""}
PROMPTS = {"prompt": ["none_exist", "may_exist"]}


def told(game: Any = ConsensusGame, **changes: Any) -> str:
    return difference_text(ROW | changes, game)


def test_a_difference_is_told_with_its_direction_and_its_interval_turned_with_it() -> None:
    assert told() == (
        "valid consensus is 16 points [4, 28] less often with prompt=may_exist than with prompt=none_exist (80% → 64%)"
    )
    assert "5 points [-10, 20] more often" in told(difference=0.05, low=-0.1, high=0.2)
    assert "5 points [-20, 10] less often" in told(difference=-0.05, low=-0.1, high=0.2)
    none = told(difference=0.0, low=-0.1, high=0.1, value_to=0.8)
    assert "as often with prompt=may_exist as with prompt=none_exist: a difference of 0 points [-10, 10]" in none
    assert told(difference=math.nan).startswith("nothing is known of valid consensus")


def test_a_trend_is_told_as_a_line_and_counts_no_pairs_that_differ() -> None:
    assert told(test="t of lines").endswith("(80% → 64% on a line)")
    none = {"test": "t of lines", **dict.fromkeys(("only_first", "only_second", "both"), math.nan)}
    assert discordant_text(ROW | none) == ""
    assert discordant_text(ROW) == "10 only first, 2 only second"


def test_numbers_and_shares_are_higher_or_lower_and_sentences_are_quoted() -> None:
    payoff = {"kind": "quantity", "what": "honest_payoff", "value_from": 10.0, "value_to": 3.25}
    text = told(StagHuntGame, **payoff, difference=-6.75, low=-8.0, high=math.nan)
    assert "“payoff of an honest player per round” is 6.75" in text
    assert "lower" in text
    assert "points" not in text.replace("(points)", "")
    assert "is 16 points [4, 28] lower" in told(StagHuntGame, kind="quantity", what="stag_share")


def test_two_outcomes_are_told_from_each_other() -> None:
    assert told(**WITHIN) == "“valid consensus” holds 16 points [4, 28] less often than “premature stop” (80% → 64%)"


# The questions of a study


def test_questions_say_what_their_pairs_are() -> None:
    outcomes = {"outcomes": ["premature_stop", "valid_consensus"], "over": ["n", "prompt"]}
    asked = {"outcome": "valid_consensus", "compare": "prompt", "over": "n"}
    questions = [{"name": "within", **outcomes, "smallest": 0.15}, {"name": "between", **asked, "smallest": 0.15}]
    study = study_of({**PROMPTS, "n": [3, 4]}, seeds=2, questions=questions)
    rows = [ROW | WITHIN | {"question": "within"}, ROW | {"question": "between"}]
    assert [row["size"] for row in answers(study, rows)] == ["50 pairs", "50 pairs of games with the same seed"]


def asked(**changes: Any) -> dict[str, Any]:
    question = {"name": "mention", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.15}
    paper = [{"what": "valid_consensus", "where": {"prompt": "may_exist"}, "rate": 0.591}]
    study = study_of(PROMPTS, seeds=2, questions=[{**question, "where": {"n": 3}}], paper=paper, name="asked")
    [row] = answers(study, [ROW | changes])
    return row


def answers(study: Study, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each row of the table `questions` answers, with what agents read under `reads`."""
    compared = ((comparison, None) for comparison, _ in zip(itertools.cycle(study.comparisons), rows, strict=False))
    none = pd.DataFrame(columns=[*study.axes, "seed", "outcome"])
    paper = paper_table(study, none, {"questions": question_table(none, study)})
    tables = {"questions": pd.DataFrame(rows), "paper": paper}
    made = boxes(study, tables, compared)
    return [answer | {"reads": box["reads"], "text": box["text"]} for box in made for answer in box["answers"]]


def test_a_question_is_answered_in_words_and_numbers() -> None:
    row = asked()
    assert row["text"] == (
        "Do games end in “valid consensus” as often with prompt=may_exist as with prompt=none_exist, where n=3?"
    )
    assert row["sentence"].endswith("(80% → 64%).")
    assert (row["verdict"], row["size"]) == ("They differ", "50 pairs of games with the same seed")
    assert row["test"] == "McNemar: p = 0.040, corrected over 1 question"
    assert not row["few"]
    for answer, words in (
        ("open", "Inconclusive"),
        ("no pairs", "Inconclusive: there are no pairs"),
        ("open: all pairs differ by the same", "Inconclusive: all pairs differ by the same"),
        ("no difference of 0.15 or more", "No difference of 15 points or more"),
        ("differs, by less than 0.15", "They differ, by less than 15 points"),
    ):
        row = asked(answer=answer, pairs=18, strata=2)
        assert (row["verdict"].startswith(words), row["few"]) == (True, True), row["verdict"]
    assert not asked(pairs=0)["few"]


def test_an_answer_says_its_test_and_over_what_it_is_corrected() -> None:
    rows = [ROW | {"question": "a"}, ROW | {"question": "b", "stopped": True}]

    def tests(*rows: dict[str, Any]) -> list[str]:
        return [how_tested(row, pd.DataFrame(rows)) for row in rows]

    assert tests(*rows) == [
        "McNemar: p = 0.040, corrected over 2 questions",
        "at any time: p = 0.120, corrected over 2 questions",
    ]
    assert tests(ROW | {"answer": "no difference of 0.15 or more"})[0].startswith("two one-sided tests: p = 0.600")
    # One without a test is not corrected for; two rows of one question are comparisons.
    none = {"question": "b", "answer": "no pairs", "test": "", "p": math.nan, "p_holm": math.nan}
    assert tests(rows[0], ROW | none)[1].startswith("no test: p = -")
    assert "over 1 question" in tests(rows[0], ROW | none)[0]
    assert "over 2 comparisons" in tests(rows[0], ROW | {"question": "a"})[0]
    [line, *_] = answer_lines(pd.DataFrame(rows), study_of(PROMPTS, seeds=2))
    assert line.startswith("a: They differ: valid consensus is 16 points")
    assert line.endswith("over 2 questions. Confirmatory: frozen before the first of 100 games.")
    assert registered_text(ROW, "not committed").endswith("100 games, but the frozen page is not committed.")


def test_an_answer_is_drawn_as_two_lines_with_what_would_not_matter_and_a_paper_s_number() -> None:
    drawn = asked()["picture"]
    assert drawn["sides"] == [
        ("prompt=none_exist", "80% [67%, 89%]", [67, 80, 89], []),
        ("prompt=may_exist", "64% [50%, 76%]", [50, 64, 76], [59.1]),
    ]
    assert (drawn["band"], drawn["ends"]) == ([65, 95], ("0%", "100%"))
    assert asked(difference=math.nan)["picture"] is None


def test_an_answer_leads_to_two_pairs_of_games_that_show_it_and_one_that_does_not() -> None:
    ids = np.array([[f"{side}{seed}" for seed in range(4)] for side in "ab"], object)
    pairs = Pairs(np.array([1.0, 1, 0, 1]), np.array([1.0, 0, 1, 0]), np.arange(4), games=ids)
    assert [(name, link.partition("#")[2]) for name, link in _examples(pairs)] == [
        ("seed 1 (differs)", "/compare/a1/b1"),
        ("seed 3 (differs)", "/compare/a3/b3"),
        ("seed 0 (does not)", "/compare/a0/b0"),
    ]


def test_what_was_reached_and_what_was_achievable_are_both_of_the_games() -> None:
    row = {"measure": "validity", "simulations": 20, "reached": 0.4, "achievable": 0.1, "promised": 0.0, "model": "m"}
    games, sentence = achieved_sentences(pd.DataFrame([row]), study_of(PROMPTS, seeds=2))
    assert games == "Of 20 games of m:"
    assert sentence == "In valid agreement: 40%; with the best known protocol 10%; theory promises it in 0%."


def test_what_agents_read_differently_stands_beside_the_answer_and_is_escaped() -> None:
    assert [reads[:2] for reads in asked()["reads"]] == [("none_exist", "may_exist")]
    line = "<script>alert(1)</script> & [-so-] {+on+}"
    prompts = {"w": {"from": "may_exist", "append": {"system": line}, "replace": {"an HONEST": "a nice"}}}
    groups = [
        {"role": "honest", "count": 2, "policy": "majority", "prompt": prompt} for prompt in (None, ["may_exist", "w"])
    ]
    grid = {"groups": [{k: v for k, v in each.items() if v} for each in groups], "model": None, "n": None}
    questions = [{"name": "half", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.1}]
    study = study_of(grid, seeds=2, prompts=prompts, questions=questions)
    [row] = answers(study, [ROW | {"question": "half"}])
    [(one, other, lines)] = row["reads"]
    assert (one, other) == ("may_exist", "w")
    shown = "\n".join(map(str, lines))
    added = "{+&lt;script&gt;alert(1)&lt;/script&gt; &amp; [-so-] {+on+}+}"
    assert f"    <ins>{added}</ins>" in shown.split("\n")
    assert "<del>[-an-]</del><ins>{+a+}</ins> <del>[-HONEST-]</del><ins>{+nice+}</ins> agent" in shown
    assert "honest_propose_system" in shown.split("\n")[0]


def test_without_questions_what_differs_most_is_told() -> None:
    plain = ROW | {"model": "a", "n": "4", "prompt": ""}
    rows = [
        plain | {"p": 0.01, "p_holm": 0.02},
        plain | {"p": 0.001, "p_holm": 0.01, "n": "8"},
        plain | {"p": 0.02, "p_holm": 0.06, "n": "16"},
        plain | {"p": 1e-9, "p_holm": 1e-8, "what": "no_consensus"},
    ]

    def sentences(*rows: dict[str, Any]) -> list[str]:
        return largest_differences(pd.DataFrame(rows), ["model", "n", "prompt"], ConsensusGame)

    assert [text.split("at ")[1] for text in sentences(*rows)] == ["n=8; 50 pairs.", "n=4; 50 pairs."]


# Links


def test_links_of_a_study_with_repeats_lead_to_what_is_counted() -> None:
    study = study_of({"model": "random"}, seeds=2, repeats=2, name="repeated")
    assert "axis.repeat=0" in str(linker(study.shown)({}))  # tables and figures count nothing else
