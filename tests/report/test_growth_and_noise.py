"""The report of a study whose seeds grew, or were played again, says so."""

import re
from typing import Any

from parley.analysis.precision import anytime_interval
from parley.report.page import report
from support.figures import played, study_of
from support.pages import Page, with_pictures


def words_of(name: str, max_rounds: int, **content: Any) -> str:
    made = study_of({"model": "random", "n": 5}, name=name, parameters={"max_rounds": max_rounds}, **content)
    html = report(with_pictures(played(made))).read_text()
    return Page(re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL).replace("<", " <")).words


def test_growth_is_said_with_limits_that_hold_for_it() -> None:
    growing = {"from": 6, "by": 2, "to": 9, "until": {"outcome": "premature_stop", "width": 0.5}}
    text = words_of("growing", 6, seeds=growing)
    assert "Seeds grew from 6 by 2 to at most 9, until the 95% Wilson interval of premature_stop" in text
    assert "WARNING: seeds that grew" in text
    low, high = anytime_interval(0, 6)
    assert f"0 of 6; at any time [{low:.0%}, {high:.0%}]" in text  # no valid consensus among random agents


def test_repeats_are_said_and_shown_and_without_either_there_is_no_word_of_them() -> None:
    text = words_of("again", 6, seeds=8, repeats=2)
    assert "each played 2 times: tables and figures show the first" in text
    row = r"outcome pairs again less first noise premature stop 8 [+-]\d+ ±\d+"
    assert re.search(f"In all rows: model=random, n=5, b=0, prompt=may_exist {row}", text)
    assert "8 simulations of the game consensus" in text
    assert "Each was played 2 times with other sampling seeds" in text
    assert not re.search("at any time|Seeds grew|Noise|again", words_of("once", 2, seeds=3))
