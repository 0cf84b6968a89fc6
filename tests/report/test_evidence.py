"""The report's tables of questions, rates, quantities and contrasts."""

import math
from typing import Any

import pandas as pd
import pytest

from parley.analysis import tables
from parley.analysis.summarize import summarize
from parley.figures import make as figures
from parley.report import page as report
from parley.report.evidence import MAX_CONTRASTS, contrast_rows, measures_of
from parley.study.frozen import write_frozen
from support.measured import MeasuredGame, measured, played
from support.pages import Page
from support.studies import StudyFactory

BY = ["model", "n"]


def a_contrast(**changes: Any) -> dict[str, Any]:
    row = {
        "kind": "outcome",
        "axis": "model",
        "from": "a",
        "to": "b",
        "what": "valid_consensus",
        "model": "",
        "n": "4",
    }
    row |= {"pairs": 9, "simulations_from": 9, "simulations_to": 9, "only_first": 5, "only_second": 1, "both": 2}
    row |= {"value_from": 0.75, "value_to": 0.25, "difference": -0.5, "low": -0.75, "high": -0.125}
    row |= {"all_from": 0.75, "all_to": 0.25}
    return {**row, "test": "McNemar", "p": 0.04, "p_holm": 0.4, **changes}


def shown(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = contrast_rows(pd.DataFrame(rows), BY, MeasuredGame)["rows"]
    return found


def test_a_contrast_of_shares_is_told_in_points() -> None:
    (row,) = shown(a_contrast())
    assert (row["what"], row["compared"], row["pairs"]) == ("valid consensus", "model: a → b", "9 pairs")
    assert (row["values"], row["difference"]) == ("75% → 25%", "-50 [-75, -12] points")
    assert row["discordant"] == "5 only first, 1 only second"
    assert (row["p"], row["p_holm"], row["test"]) == ("0.040", "0.400", "McNemar")


def test_a_contrast_of_some_seeds_tells_the_rates_of_all_simulations_too() -> None:
    (row,) = shown(a_contrast(simulations_from=50, all_from=0.58))
    assert (row["values"], row["all"]) == ("75% → 25%", "all: 58% of 50 → 25% of 9")
    (row,) = shown(a_contrast())
    assert row["all"] == ""  # these are the pairs
    numbers = {"kind": "quantity", "what": "size", "all_from": 2.25, "all_to": 5.5, "simulations_to": 10}
    (row,) = shown(a_contrast(**numbers))
    assert row["all"] == "all: 2.25 of 9 → 5.5 of 10"
    (row,) = shown(a_contrast(pairs=0))
    assert row["all"] == ""  # the values themselves are those of all


def test_a_contrast_of_numbers_has_their_own_scale() -> None:
    changes = {"kind": "quantity", "what": "size", "value_from": 2.0, "value_to": 5.5, "difference": 3.5, "low": 1.25}
    (row,) = shown(a_contrast(**changes, high=5.75, test="t", p=1e-12, only_first=pd.NA))
    assert (row["values"], row["difference"]) == ("2 → 5.5", "+3.5 [+1.25, +5.75]")
    assert (row["p"], row["discordant"]) == ("1.0e-12", "")


def test_a_contrast_of_mean_shares_is_told_in_points_too() -> None:
    alone = {"kind": "quantity", "what": "final_honest_share", "test": "t", "only_first": pd.NA}
    (row,) = shown(a_contrast(**alone))
    assert (row["values"], row["difference"], row["discordant"]) == ("75% → 25%", "-50 [-75, -12] points", "")
    (single,) = shown(a_contrast(**alone, low=math.nan, high=math.nan))
    assert single["difference"] == "-50 points"


def test_what_is_undefined_is_a_dash() -> None:
    none = {"difference": math.nan, "low": math.nan, "high": math.nan, "p": math.nan, "p_holm": math.nan}
    assert shown(a_contrast(p=0.0))[0]["p"] == "< 1e-300"
    (row,) = shown(a_contrast(**none, pairs=0, simulations_from=0))
    assert (row["values"], row["difference"], row["p"], row["p_holm"]) == ("-", "-", "-", "-")
    assert row["pairs"] == "0, 9 unpaired"


def test_a_comparison_within_a_condition_names_its_indicators() -> None:
    (row,) = shown(a_contrast(kind="comparison", axis="", **{"from": "unanimous", "to": "early"}))
    assert (row["what"], row["compared"]) == ("indicators of one condition", "all agree → stopped early")


def test_the_smallest_p_come_first_and_the_others_are_counted() -> None:
    rows = [a_contrast(p=(1 + number * 37 % 101) / 102, to=f"b{number}") for number in range(MAX_CONTRASTS + 5)]
    rows.insert(3, a_contrast(p=math.nan, to="undefined"))
    found = contrast_rows(pd.DataFrame(rows), BY, MeasuredGame)
    assert found["all"] == MAX_CONTRASTS + 6
    assert len(found["rows"]) == MAX_CONTRASTS
    assert found["rows"][0]["compared"] == "model: a → b0"
    assert [row["p"] for row in found["rows"]] == sorted(row["p"] for row in found["rows"])
    assert not any("undefined" in row["compared"] for row in found["rows"])


def test_rates_and_quantities_are_cells_of_conditions() -> None:
    rates = pd.DataFrame(
        [["a", 4, "early", 4, 2, 0.5, 0.15, 0.85], ["b", 4, "early", 0, 0, math.nan, math.nan, math.nan]],
        columns=[*BY, "indicator", "simulations", "count", "rate", "low", "high"],
    )
    columns = [*BY, "quantity", "unit", "simulations", "mean", "sd", "low", "high", "median"]
    numbers = [
        ["a", 4, "size", "kB", 3, 2.0, 1.0, 1.5, 2.5, 2.25],
        ["a", 4, "seconds", "s", 1, 9.0, *[math.nan] * 3, 9],
        ["a", 4, "final_honest_share", "", 3, 0.75, 0.25, 0.25, 0.96, 0.5],
    ]
    told = measures_of(rates, pd.DataFrame(numbers, columns=columns), BY, MeasuredGame)
    found = {measure["title"]: measure["rows"] for measure in told}
    assert found["stopped early"] == [{"axes": ["a", 4], "value": "50% [15%, 85%]", "small": "2 of 4"}]
    size = {"axes": ["a", 4], "value": "2 [1.5, 2.5]", "small": "median 2.25, of 3"}
    assert found["size of what was said (kB)"] == [size]
    assert found["wall time (s)"] == [{"axes": ["a", 4], "value": "9", "small": "median 9, of 1"}]
    assert "changes of value" not in found  # no simulation has one
    assert found["share that agrees in the end"][0]["value"] == "75% [25%, 96%]"
    assert [measure["title"] for measure in told if measure["is_time"]] == ["wall time (s)"]


@pytest.mark.parametrize("hostile", ["<img src=x onerror=alert(1)>"])
@pytest.mark.slow
def test_the_report_holds_them_escaped(study_factory: StudyFactory, hostile: str) -> None:
    study = played(measured(study_factory({"model": ["majority", "random"], "n": [3, 4]}, seeds=3)))
    figures.figures(study)
    contrasts = tables.read_table("small", "contrasts")
    contrasts.loc[0, ["from", "p"]] = [hostile, 0.0]
    tables.write_table(contrasts, study, "contrasts")
    html = report.report(study).read_text()
    parsed = Page(html)
    assert {"rate-early", "mean-size", "contrasts"} <= {attributes.get("id") for _, attributes in parsed.tags}
    assert hostile not in html
    assert hostile in parsed.text
    for words in (
        "stopped early",
        "wall time (s)",
        "corrected by Holm over the rows that compare the same thing",
        "McNemar",
        "3 pairs",
    ):
        assert words in " ".join(parsed.text.split())


def test_a_study_of_one_condition_has_no_contrasts(study_factory: StudyFactory) -> None:
    study = played(study_factory())
    figures.figures(study)
    html = report.report(study).read_text()
    assert "No two conditions differ in one axis alone." in html
    assert "Rate: " not in html


@pytest.mark.slow
def test_questions_are_confirmatory_and_the_page_says_whether_they_were_frozen(study_factory: StudyFactory) -> None:
    asked = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
    grid = {"prompt": ["may_exist", "none_exist"], "seeds": 6}
    study = study_factory(grid, questions=[asked])
    played(study)
    figures.figures(study)
    write_frozen(study)
    shown = " ".join(Page(report.report(study).read_text()).text.split())
    assert "the study is as it was frozen" in shown
    assert "prompt: valid_consensus by prompt; smallest difference that matters: 0.2" in shown
    assert "Contrasts that show no difference (exploratory)" in shown
    assert "p (BH)" in shown
    assert (
        "Question prompt: valid consensus is as often with prompt=none_exist as with prompt=may_exist: a diff" in shown
    )
    row = shown[shown.index("valid_consensus by prompt") :]
    assert "1 stratum; 0 only first, 0 only second" in row
    assert "+0 [" in row  # majority agents agree under either prompt
    other = study_factory(grid, questions=[{**asked, "smallest": 0.5}])
    summarize(other)
    assert "CHANGED since it was frozen: questions changed: prompt" in Page(report.report(other).read_text()).text
