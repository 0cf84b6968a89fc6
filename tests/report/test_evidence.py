"""The report's tables of questions, rates, quantities and contrasts."""

import math
import re
from typing import Any

import pandas as pd
import pytest

from parley.analysis.summarize import summarize
from parley.report.page import report
from parley.report.sections import MAX_CONTRASTS, contrast_table, mean_table, rate_table
from parley.study.frozen import write_frozen
from support.figures import MeasuredGame, played, study_of
from support.pages import Page, with_pictures

BY = ["model", "n"]


def a_contrast(**changes: Any) -> dict[str, Any]:
    row = {"kind": "outcome", "axis": "model", "from": "a", "to": "b", "what": "valid_consensus"}
    row |= {"model": "", "n": "4"}
    row |= {"pairs": 9, "simulations_from": 9, "simulations_to": 9, "only_first": 5, "only_second": 1, "both": 2}
    row |= {"value_from": 0.75, "value_to": 0.25, "difference": -0.5, "low": -0.75, "high": -0.125}
    row |= {"all_from": 0.75, "all_to": 0.25}
    return {**row, "test": "McNemar", "p": 0.04, "p_holm": 0.4, **changes}


def shown(**changes: Any) -> dict[str, str]:
    """Return the texts of a contrast by their columns, small print under "small " and the column."""
    made = contrast_table(pd.DataFrame([a_contrast(**changes)]), BY, MeasuredGame)
    cells = {column.label: cell for column, cell in zip(made.columns, made.rows[0], strict=True)}
    return {name: cell.text for name, cell in cells.items()} | {f"small {n}": cell.small for n, cell in cells.items()}


def test_a_contrast_of_shares_is_told_in_points_and_one_of_numbers_on_their_own_scale() -> None:
    row = shown()
    assert (row["what"], row["compared"], row["pairs"]) == ("valid consensus", "model: a → b", "9 pairs")
    assert (row["from → to"], row["difference"]) == ("75% → 25%", "-50 [-75, -12] points")
    assert row["small pairs"] == "5 only first, 1 only second"
    assert (row["p"], row["p (Holm)"]) == ("0.040", "0.400")
    alone = {"kind": "quantity", "what": "final_honest_share", "test": "t", "only_first": pd.NA}
    assert shown(**alone)["difference"] == "-50 [-75, -12] points"  # of mean shares, too
    numbers = {"kind": "quantity", "what": "size", "value_from": 2.0, "value_to": 5.5, "difference": 3.5, "low": 1.25}
    row = shown(**numbers, high=5.75, test="t", p=1e-12, only_first=pd.NA)
    assert (row["from → to"], row["difference"], row["p"]) == ("2 → 5.5", "+3.5 [+1.25, +5.75]", "1.0e-12")


def test_a_contrast_of_some_seeds_tells_the_rates_of_all_simulations_too() -> None:
    row = shown(simulations_from=50, all_from=0.58)
    assert (row["from → to"], row["small from → to"]) == ("75% → 25%", "all: 58% of 50 → 25% of 9")
    assert shown()["small from → to"] == ""


def test_what_is_undefined_is_a_dash() -> None:
    row = shown(**dict.fromkeys(("difference", "low", "high", "p", "p_holm"), math.nan), pairs=0, simulations_from=0)
    assert (row["from → to"], row["difference"], row["p"], row["p (Holm)"]) == ("-", "-", "-", "-")
    assert row["pairs"] == "0, 9 unpaired"
    assert shown(p=0.0)["p"] == "< 1e-300"


def test_the_smallest_p_come_first_and_the_others_are_counted() -> None:
    rows = [a_contrast(p=(1 + number * 37 % 101) / 102, to=f"b{number}") for number in range(MAX_CONTRASTS + 5)]
    rows.insert(3, a_contrast(p=math.nan, to="undefined"))
    table = contrast_table(pd.DataFrame(rows), BY, MeasuredGame)
    assert (table.total, len(table.rows)) == (MAX_CONTRASTS + 6, MAX_CONTRASTS)
    texts = [{column.label: cell.text for column, cell in zip(table.columns, row, strict=True)} for row in table.rows]
    assert texts[0]["compared"] == "model: a → b0"
    assert [row["p"] for row in texts] == sorted(row["p"] for row in texts)
    assert not any("undefined" in row["compared"] for row in texts)


def test_rates_and_quantities_are_cells_of_conditions() -> None:
    rates = pd.DataFrame(
        [["a", 4, "early", 4, 2, 0.5, 0.15, 0.85], ["b", 4, "early", 0, 0, math.nan, math.nan, math.nan]],
        columns=[*BY, "indicator", "simulations", "count", "rate", "low", "high"],
    )
    columns = [*BY, "quantity", "unit", "simulations", "mean", "sd", "low", "high", "median"]
    numbers = [
        ["a", 4, "size", "kB", 3, 2.0, 1.0, 1.5, 2.5, 2.25],
        ["a", 4, "final_honest_share", "", 3, 0.75, 0.25, 0.25, 0.96, 0.5],
    ]
    made = (rate_table(rates, BY, MeasuredGame), mean_table(pd.DataFrame(numbers, columns=columns), BY, MeasuredGame))
    cells = [(what.text, cell.text, cell.small) for each in made for what, cell in each.rows]
    assert cells == [
        ("stopped early", "50% [15%, 85%]", "2 of 4"),
        ("size of what was said (kB)", "2 [1.5, 2.5]", "median 2.25, of 3"),
        ("share that agrees in the end", "75% [25%, 96%]", "median 50%, of 3"),
    ]
    assert {each.alike for each in made} == {"model=a, n=4"}


@pytest.mark.slow
def test_the_page_says_whether_questions_were_frozen_before_their_games_and_what_changed_since() -> None:
    asked = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
    grid = {"prompt": ["may_exist", "none_exist"], "seeds": 6}
    study = with_pictures(played(study_of(grid, questions=[asked], name="asked")))
    write_frozen(study)
    shown = Page(report(study).read_text()).words
    for words in (
        "the study is as it was frozen",
        "Frozen after 12 of 12 games: exploratory.",
        "whatever decides how many are played",
        "Contrasts (exploratory)",
        "Do games end in “valid consensus” as often with prompt=none_exist as with prompt=may_exist?",
        "Valid consensus is as often with prompt=none_exist as with prompt=may_exist: a diff",
    ):
        assert words in shown, words
    other = study_of(grid, questions=[{**asked, "smallest": 0.5}], name="asked")
    summarize(other)
    text = Page(report(other).read_text()).words
    assert "CHANGED since it was frozen: exploratory." in text
    assert "WARNING: not as it was frozen" in text
    assert "CHANGED since it was frozen: 1 question changed: prompt" in text


# Seeds that were played again


def words_of(name: str, max_rounds: int, **content: Any) -> str:
    made = study_of({"model": "random", "n": 5}, name=name, parameters={"max_rounds": max_rounds}, **content)
    html = report(with_pictures(played(made))).read_text()
    return Page(re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL).replace("<", " <")).words


@pytest.mark.slow
def test_repeats_are_said_and_shown_and_without_them_there_is_no_word_of_them() -> None:
    text = words_of("again", 6, seeds=8, repeats=2)
    assert "each played 2 times: tables and figures show the first" in text
    assert "8 simulations in 1 condition. In all: model=random, n=5" in text
    assert "Each was played 2 times with other sampling seeds" in text
    assert not re.search("at any time|Noise|again", words_of("once", 2, seeds=3))
