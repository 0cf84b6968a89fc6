"""Policies: which texts are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.matching import MATCHING, normal_policy

SAME = [
    *("Close on Mondays", "close on mondays", " Close  on\nMondays ", "Close on Mondays.", "- Close on Mondays"),
    *(
        "1. Close on Mondays",
        "(a) Close on Mondays;",
        "2) Close on Mondays",
        '"Close on Mondays"',
        "• Close on Mondays",
    ),
    *("**Close on Mondays**", "Ｃｌｏｓｅ on Mondays", "1. - “CLOSE on Mondays!”", "Close\u00a0on Mondays"),
]


@pytest.mark.parametrize("text", SAME)
def test_spelling_marks_and_list_numbers_make_no_difference(text: str) -> None:
    assert normal_policy(text) == "close on mondays"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 branches stay open", "branches stay open"),
        ("-5 degrees", "5 degrees"),
        ("2.5 percent less", "5 percent less"),
        ("Free entry under 21", "Free entry under 12"),
        ("Close on Mondays", "Do not close on Mondays"),
        ("A third fewer books", "third fewer books"),
    ],
)
def test_what_is_content_makes_a_difference(one: str, other: str) -> None:
    assert normal_policy(one) != normal_policy(other)


@given(st.text(max_size=80) | st.lists(st.sampled_from([*'1. )(a-*"ßﬁﷺİ', "ΐ", "\u0345"]), max_size=20).map("".join))
def test_the_normal_form_is_its_own_normal_form(text: str) -> None:
    normal = normal_policy(text)
    assert normal_policy(normal) == normal


def test_what_has_no_words_or_is_far_too_long_has_no_normal_form() -> None:
    assert normal_policy(" - . ") == normal_policy("x" * 1_001) == normal_policy("ﷺ" * 900) == ""


def test_the_rule_has_the_name_that_games_record() -> None:
    assert MATCHING == "nfkc-casefold-v1"
