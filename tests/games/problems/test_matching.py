"""Policies: which texts are the same."""

from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.problem import normal_policy

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
