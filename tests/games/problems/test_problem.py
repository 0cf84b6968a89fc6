"""Problems: what they are made of, what is read as an answer, and what a plausible wrong one is."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.problem import Problem, normal_policy

NUMBER = Problem("n-1", "number", "What is 9 * 2?", "18")
CARDS = Problem("c-1", "cards", "Which cards?", "7,A", ("A", "K", "4", "7"))
POLICIES = Problem("p-1", "policies", "What first?", None, ("Close on Mondays.", "Charge a fee", "Buy fewer books"))


def test_policies_are_read_sorted_and_once_and_others_are_counted() -> None:
    texts = ["2. Close on Mondays", "charge a fee.", "CLOSE ON MONDAYS", "Burn the books", ""]
    assert POLICIES.read_policies(texts) == ("charge a fee", "close on mondays")
    assert POLICIES.unknown(texts) == 2
    assert POLICIES.read_policies(["Burn the books"]) is None
    assert POLICIES.read_policies([]) is None
    assert NUMBER.read_policies(["18"]) is None


@given(st.fractions(max_denominator=1_000).filter(lambda value: abs(value) < 10**30), st.integers(0, 99))
def test_a_wrong_number_is_another_one_of_the_same_sign_in_normal_form(value: Fraction, seed: int) -> None:
    problem = Problem("n", "number", "?", str(value))
    wrong = problem.wrong(np.random.default_rng(seed))
    assert wrong != problem.answer
    assert problem.read(wrong) == wrong
    assert (Fraction(wrong) < 0) == (value < 0)


def test_a_problem_is_read_back_from_its_json() -> None:
    for problem in (NUMBER, CARDS, POLICIES):
        assert Problem.from_json(json.loads(json.dumps(problem.as_json()))) == problem


GOOD, ONE, SEVERAL = CARDS.as_json(), NUMBER.as_json(), POLICIES.as_json()
BAD: list[Any] = [
    *(None, [], "problem", 7, {}, {**GOOD, "more": 1}),
    *({**GOOD, **change} for change in ({"id": 7}, {"id": ""}, {"question": None}, {"kind": "essay"}, {"kind": []})),
    *({**GOOD, "answer": answer} for answer in (None, 7, "A, 7", "9")),
    *({**GOOD, "options": options} for options in ("AK47", ["A", 7], ["A", "A", "7"], [], ["A", "seven"], {"A": 1})),
    *({**ONE, "answer": "18.0"}, {**ONE, "options": ["18"]}, {**SEVERAL, "answer": "Charge a fee"}),
    *({**SEVERAL, "options": options} for options in (["A fee", "a fee."], ["A fee"], ["A fee", " - "])),
]  # fmt: skip


def test_anything_else_is_no_problem() -> None:
    for value in BAD:
        with pytest.raises(ValueError):  # noqa: PT011 - many texts, one kind
            print(value, Problem.from_json(value))


# Policies: which texts are the same


SAME = [
    *("Close on Mondays", " Close  on\nMondays ", "Close on Mondays.", "- Close on Mondays", "1. Close on Mondays"),
    *("(a) Close on Mondays;", '"Close on Mondays"', "• Close on Mondays", "**Close on Mondays**"),
    *("2) Close on Mondays", "Ｃｌｏｓｅ on Mondays", "1. - “CLOSE on Mondays!”", "Close\u00a0on Mondays"),
]  # fmt: skip
OTHER = {
    "3 branches stay open": "branches stay open",
    "-5 degrees": "5 degrees",
    "2.5 percent less": "5 percent less",
    "Close on Mondays": "Do not close on Mondays",
    "A third fewer books": "third fewer books",
}


def test_spelling_marks_and_list_numbers_make_no_difference_and_content_does() -> None:
    assert {normal_policy(text) for text in SAME} == {"close on mondays"}
    assert [one for one, other in OTHER.items() if normal_policy(one) == normal_policy(other)] == []


@given(st.text(max_size=80) | st.lists(st.sampled_from([*'1. )(a-*"ßﬁﷺİ', "ΐ", "\u0345"]), max_size=20).map("".join))
def test_the_normal_form_is_its_own_normal_form(text: str) -> None:
    normal = normal_policy(text)
    assert normal_policy(normal) == normal


def test_what_has_no_words_or_is_far_too_long_has_no_normal_form() -> None:
    assert normal_policy(" - . ") == normal_policy("x" * 1_001) == normal_policy("ﷺ" * 900) == ""
