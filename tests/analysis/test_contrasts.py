import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis import tables
from parley.analysis.contrasts import MAX_VALUES, contrast_table
from parley.analysis.stats import holm, mcnemar, paired_difference, paired_mean, unpaired_difference, unpaired_p
from parley.games.consensus.game import ConsensusGame
from parley.study import load_study
from support.measured import MeasuredGame, measured, played
from support.studies import StudyFactory

BY = ["model", "n", "b", "prompt"]
WON, LOST = "valid_consensus", "no_consensus"


def simulations(outcomes: str, seeds: list[int] | None = None, **axes: Any) -> list[dict[str, Any]]:
    """Return a row per letter, w for the first outcome class and l for the last, of seeds 0, 1, ..."""
    return [
        {"model": "a", "n": 4, "b": 0, "prompt": "p", **axes, "seed": seed, "outcome": WON if letter == "w" else LOST}
        for seed, letter in zip(seeds or range(len(outcomes)), outcomes, strict=True)
    ]


def of(table: pd.DataFrame, what: str = WON, **values: Any) -> dict[str, Any]:
    """Return the one row about `what` in which columns have `values`."""
    here = table[table["what"] == what]
    for name, value in values.items():
        here = here[here[name.rstrip("_")] == value]
    (row,) = here.to_dict("records")
    return {str(name): value for name, value in row.items()}


def pairs_of(table: pd.DataFrame) -> set[tuple[str, str, str]]:
    return set(table[["axis", "from", "to"]].itertuples(index=False, name=None))


def test_conditions_that_differ_in_one_axis_are_compared_by_seed() -> None:
    rows = simulations("wwwlll") + simulations("wlllww", model="b")[::-1]
    table = contrast_table(pd.DataFrame(rows), BY, ConsensusGame)
    row = of(table)
    assert (row["kind"], row["axis"], row["from"], row["to"], row["n"]) == ("outcome", "model", "a", "b", "4")
    assert (row["pairs"], row["only_first"], row["only_second"], row["both"]) == (6, 2, 2, 1)
    assert (row["value_from"], row["value_to"], row["difference"], row["test"]) == (0.5, 0.5, 0.0, "McNemar")
    assert (row["low"], row["high"]) == tuple(float(limit) for limit in paired_difference(1, 2, 2, 1))
    assert row["p"] == float(mcnemar(2, 2))
    assert set(table["what"]) == {outcome.name for outcome in ConsensusGame.outcomes}


def test_the_difference_is_to_minus_from() -> None:
    table = contrast_table(pd.DataFrame(simulations("wwww") + simulations("wlll", n=8)), BY, ConsensusGame)
    row = of(table)
    assert (row["axis"], row["from"], row["to"], row["n"], row["model"]) == ("n", "4", "8", "", "a")
    assert row["difference"] == -0.75
    assert row["low"] < -0.75 < row["high"] < 1
    assert of(table, LOST)["difference"] == 0.75


def test_only_shared_seeds_are_paired() -> None:
    rows = simulations("wwll", [0, 1, 2, 3]) + simulations("lwl", [9, 3, 1], model="b")
    row = of(contrast_table(pd.DataFrame(rows), BY, ConsensusGame))
    assert (row["pairs"], row["only_first"], row["only_second"], row["both"]) == (2, 1, 1, 0)
    assert (row["simulations_from"], row["simulations_to"]) == (4, 3)
    assert row["value_from"] == 0.5  # of the pairs
    assert (row["all_from"], row["all_to"]) == (0.5, pytest.approx(1 / 3))  # of all simulations, as in `conditions`


def test_without_shared_seeds_all_simulations_are_compared_unpaired() -> None:
    rows = simulations("wwwl", [0, 1, 2, 3]) + simulations("llw", [7, 8, 9], model="b")
    row = of(contrast_table(pd.DataFrame(rows), BY, ConsensusGame))
    assert (row["pairs"], row["simulations_from"], row["simulations_to"], row["test"]) == (0, 4, 3, "chi-squared")
    assert (row["value_from"], row["value_to"]) == (0.75, pytest.approx(1 / 3))
    assert (row["all_from"], row["all_to"]) == (row["value_from"], row["value_to"])
    assert (row["low"], row["high"]) == tuple(float(limit) for limit in unpaired_difference(3, 4, 1, 3))
    assert row["p"] == float(unpaired_p(3, 4, 1, 3))


def test_two_axes_at_once_are_no_contrast() -> None:
    rows = simulations("ww") + simulations("wl", model="b", n=8)
    assert len(contrast_table(pd.DataFrame(rows), BY, ConsensusGame)) == 0


def test_every_pair_of_a_few_values_and_the_first_against_each_of_many() -> None:
    few = [row for n in range(MAX_VALUES) for row in simulations("w", n=n)]
    assert len(contrast_table(pd.DataFrame(few), BY, ConsensusGame)) == 4 * math.comb(MAX_VALUES, 2)
    many = [row for n in (5, 3, *range(6, 6 + MAX_VALUES)) for row in simulations("w", n=n)]
    table = contrast_table(pd.DataFrame(many), BY, ConsensusGame)
    assert set(table["from"]) == {"5"}  # as the study lists them
    assert len(table) == 4 * (MAX_VALUES + 1)


def test_values_are_counted_within_the_group_that_is_compared() -> None:
    # Seven sizes in all, three of them where nobody attacks: each pair of these three is compared.
    rows = [row for n in (4, 8, 16) for row in simulations("w", n=n)]
    rows += [row for n in range(20, 20 + MAX_VALUES + 1) for row in simulations("w", n=n, b=1, prompt="q")]
    table = contrast_table(pd.DataFrame(rows), BY, ConsensusGame)
    found = {(start, end) for axis, start, end in pairs_of(table) if axis == "n"}
    assert {pair for pair in found if int(pair[0]) < 20} == {("4", "8"), ("4", "16"), ("8", "16")}
    # Of the others, each is compared with the first of its own group, which is not the study's first.
    assert {pair for pair in found if int(pair[0]) >= 20} == {("20", str(n)) for n in range(21, 21 + MAX_VALUES)}


def test_the_papers_study_compares_each_two_of_its_group_sizes() -> None:
    study = load_study(Path(__file__).parents[2] / "config" / "paper.yaml")
    rows = [{**c.axes, "seed": seed, "outcome": WON} for c in study.conditions for seed in c.seeds]
    table = contrast_table(pd.DataFrame(rows), study.axes, study.game)
    along_n = table[(table["axis"] == "n") & (table["what"] == WON)]
    assert along_n.groupby(["model", "prompt"]).size().to_list() == [3] * 4
    assert set(zip(along_n["from"], along_n["to"], strict=True)) == {("4", "8"), ("4", "16"), ("8", "16")}


def test_attackers_are_compared_with_nobody_whatever_they_are() -> None:
    rows = simulations("ww", byzantine="none")
    for b in (1, 2):
        for kind in ("random", "silent"):
            rows += simulations("wl", b=b, byzantine=kind)
    found = contrast_table(pd.DataFrame(rows), [*BY, "byzantine"], ConsensusGame)
    along = found[(found["axis"] == "b") & (found["what"] == WON)]
    assert sorted(along[["from", "to", "byzantine"]].itertuples(index=False, name=None)) == [
        ("0", "1", "none -> random"),
        ("0", "1", "none -> silent"),
        ("0", "2", "none -> random"),
        ("0", "2", "none -> silent"),
        ("1", "2", "random"),
        ("1", "2", "silent"),
    ]


def test_attackers_that_come_on_top_are_compared_by_the_others() -> None:
    rows = [row for b in (0, 1, 2) for row in simulations("wl", b=b, n=4 + b)]
    table = contrast_table(pd.DataFrame(rows), BY, ConsensusGame)
    assert pairs_of(table) == {("b", "0", "1"), ("b", "0", "2"), ("b", "1", "2")}
    assert of(table, from_="0", to="2")["n"] == "4 -> 6"


def test_indicators_are_compared_where_both_have_an_answer() -> None:
    rows = pd.DataFrame(simulations("wwww") + simulations("wwww", model="b"))
    rows["unanimous"] = [True, True, None, False, False, True, True, None]
    rows["early"] = False
    table = contrast_table(rows, BY, MeasuredGame)
    row = of(table, "unanimous", kind="indicator")
    assert (row["pairs"], row["simulations_from"], row["simulations_to"]) == (2, 3, 3)
    assert (row["only_first"], row["only_second"], row["both"]) == (1, 0, 1)
    assert "unanswered" not in set(table["what"])  # nobody answered: there is nothing to compare


def test_an_indicator_that_says_the_same_as_an_outcome_is_not_compared_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame(simulations("wwll") + simulations("wlll", model="b"))
    rows["unanimous"] = rows["early"] = rows["outcome"] == WON
    first, *others = MeasuredGame.evidence.indicators
    monkeypatch.setattr(MeasuredGame.evidence, "indicators", (dataclasses.replace(first, contrasted=False), *others))
    table = contrast_table(rows, BY, MeasuredGame)
    assert set(table[table["kind"] == "indicator"]["what"]) == {"early"}
    assert len(table[table["kind"] == "comparison"]) == 2  # it may still be compared within a condition


def test_quantities_have_mean_differences_with_t() -> None:
    rows = pd.DataFrame(simulations("wwwww") + simulations("wwwww", model="b"))
    rows["value_changes"] = [1, 2, 3, 4, None, 3, 5, 5, 9, 7]
    row = of(contrast_table(rows, BY, MeasuredGame), "value_changes")
    assert (row["kind"], row["test"], row["pairs"]) == ("quantity", "t", 4)
    assert (row["simulations_from"], row["simulations_to"]) == (4, 5)
    assert (row["value_from"], row["value_to"], row["difference"]) == (2.5, 5.5, 3.0)
    assert (row["all_from"], row["all_to"]) == (2.5, 5.8)
    half = 3.182446305284263 * np.std([2, 3, 2, 5], ddof=1) / 2
    assert (row["low"], row["high"]) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert row["p"] == paired_mean([1, 2, 3, 4], [3, 5, 5, 9])[2]
    assert pd.isna(row["both"])


def test_shares_that_are_all_equal_have_the_interval_of_rates() -> None:
    rows = pd.DataFrame(simulations("wwwww") + simulations("wwwww", model="b"))
    table = contrast_table(rows.assign(final_honest_share=0.5, value_changes=3), BY, ConsensusGame)
    row = of(table, "final_honest_share")
    assert (row["low"], row["high"]) == pytest.approx([float(x) for x in paired_difference(5, 0, 0, 0)])
    assert row["p"] == 1
    assert math.isnan(of(table, "value_changes")["low"])  # of a number nothing says how much it varies


def test_quantities_without_shared_seeds_have_no_interval() -> None:
    rows = pd.DataFrame(simulations("ww", [0, 1]) + simulations("ww", [2, 3], model="b"))
    rows["value_changes"] = [1, 3, 5, 5]
    row = of(contrast_table(rows, BY, MeasuredGame), "value_changes")
    assert (row["pairs"], row["difference"], row["test"]) == (0, 3.0, "")
    assert all(math.isnan(row[name]) for name in ("low", "high", "p"))


def test_indicators_of_the_same_simulations_are_compared_within_each_condition() -> None:
    rows = pd.DataFrame(simulations("wwww") + simulations("wwww", model="b"))
    rows["unanimous"] = [True, True, True, False, True, True, True, True]
    rows["early"] = [False, False, True, None, True, True, True, True]
    table = contrast_table(rows, BY, MeasuredGame)
    row = of(table, "early - unanimous", model="a")
    assert (row["kind"], row["axis"], row["from"], row["to"]) == ("comparison", "", "unanimous", "early")
    assert (row["pairs"], row["only_first"], row["only_second"], row["both"]) == (3, 2, 0, 1)
    assert row["difference"] == pytest.approx(-2 / 3)
    assert of(table, "early - unanimous", model="b")["p"] == 1.0


def test_p_values_are_corrected_over_what_is_compared_along_the_same_axis() -> None:
    rows = pd.DataFrame(simulations("w" * 12) + simulations("l" * 12, model="b") + simulations("wl" * 6, prompt="q"))
    rows["early"] = rows["unanimous"] = True
    rows["size"] = range(len(rows))
    table = contrast_table(rows, BY, MeasuredGame)
    assert {"outcome", "indicator", "quantity", "comparison"} == set(table["kind"])
    for _, family in table.groupby(["kind", "axis", "what"]):
        assert family["p_holm"].to_numpy() == pytest.approx(holm(family["p"].to_numpy(dtype=float)), nan_ok=True)
    along = table[(table["axis"] == "prompt") & (table["kind"] == "outcome")]
    assert set(along.groupby("what").size()) == {1}
    assert (along["p_holm"] == along["p"]).all()


def test_a_condition_alone_has_an_empty_table_that_is_written(study_factory: StudyFactory) -> None:
    played(study_factory(seeds=2))
    table = tables.read_table("small", "contrasts")
    assert len(table) == 0
    assert {"axis", "from", "to", "what", "pairs", "difference", "low", "high", "p", "p_holm"} <= set(table.columns)


def test_contrasts_of_a_study_are_written(study_factory: StudyFactory) -> None:
    played(measured(study_factory({"model": ["majority", "random"], "n": [3, 4]}, seeds=3)))
    table = tables.read_table("small", "contrasts")
    assert pairs_of(table[table["kind"] != "comparison"]) == {("model", "majority", "random"), ("n", "3", "4")}
    assert len(table[table["kind"] == "comparison"]) == 4
    assert (table[table["kind"] != "quantity"]["pairs"].dropna() <= 3).all()


# Outcomes that a condition cannot have


@pytest.mark.parametrize(("cannot", "compared"), [([4], {("8", "9")}), ([4, 8], set()), ([], {"all"})])
def test_an_outcome_is_compared_only_where_both_conditions_can_have_it(
    cannot: list[int], compared: set[tuple[str, str]]
) -> None:
    rows = pd.DataFrame(simulations("w" * 8) + simulations("l" * 8, n=8) + simulations("wlwlwlwl", n=9))
    impossible = {("a", n, 0, "p"): frozenset({WON}) for n in cannot}
    every = contrast_table(rows, BY, ConsensusGame)
    table = contrast_table(rows, BY, ConsensusGame, impossible)
    mine = table[table["what"] == WON]
    if compared == {"all"}:
        pd.testing.assert_frame_equal(table, every)
        return
    assert set(zip(mine["from"], mine["to"], strict=True)) == compared
    # One comparison is left to correct for, not three; whatever else is compared is as it was.
    assert (mine["p_holm"] == mine["p"]).all()
    assert (every[every["what"] == WON]["p_holm"] > every[every["what"] == WON]["p"]).any()
    others = [part[part["what"] != WON].reset_index(drop=True).drop(columns="p_bh") for part in (table, every)]
    pd.testing.assert_frame_equal(*others)
