"""The table `margins`: which conditions are compared, by hand, and rates that are known beforehand."""

import functools
import operator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from parley.analysis.margins import CLUSTERED, STRATIFIED, margin_table
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.consensus.game import ConsensusGame
from parley.play.simulate import simulate
from parley.study.margins import PaperRate
from support.alike import AXES, PAPER, VALID, condition, paper
from support.measured import MeasuredGame
from support.studies import StudyFactory


def margins(*conditions: list[dict[str, Any]], **more: Any) -> pd.DataFrame:
    return margin_table(pd.DataFrame(functools.reduce(operator.iadd, conditions, [])), AXES, ConsensusGame, **more)


def of(table: pd.DataFrame, axis: str, value: Any = "", what: str = VALID) -> dict[Any, Any]:
    rows = table[(table["what"] == what) & (table["axis"] == axis) & (table["value"] == str(value))]
    [row] = rows.to_dict("records")
    return {name: round(cell, 12) if isinstance(cell, float) else cell for name, cell in row.items()}


def test_a_rate_is_the_mean_of_the_rates_of_conditions_by_hand() -> None:
    table = margins(
        condition("yyyyyyyynn", n=4), condition("yynnn", n=8), condition("ynnnnnnnnn", n=4, prompt="q"),
        condition("yyynn", n=8, prompt="q"), condition("yyyyy", n=16, prompt="q"),
    )  # fmt: skip
    assert of(table, "")["rate"] == pytest.approx((0.8 + 0.4 + 0.1 + 0.6 + 1) / 5)
    p, q = of(table, "prompt", "p"), of(table, "prompt", "q")
    assert (p["rate"], p["conditions"], p["left_out"], p["simulations"], p["seeds"]) == (0.6, 2, 0, 15, 10)
    assert (q["rate"], q["conditions"], q["left_out"]) == (pytest.approx(0.35), 2, 1)  # n=16 has no counterpart
    assert (p["from"], q["from"]) == ("", "p")
    assert np.isnan(p["difference"])
    assert q["difference"] == pytest.approx(-0.25)
    assert (q["pairs"], q["only_from"], q["only_value"], q["test"]) == (15, 7, 1, CLUSTERED)


def test_each_value_is_compared_with_the_first_in_the_combinations_that_have_both() -> None:
    table = margins(
        condition("yyyyy", n=4), condition("yynnn", n=8), condition("nnnnn", n=16),
        condition("nnnnn", n=4, prompt="q"), condition("nnnnn", n=8, prompt="q"),
    )  # fmt: skip
    four, eight, sixteen = (of(table, "n", n) for n in (4, 8, 16))
    assert [row["rate"] for row in (four, eight, sixteen)] == [0.5, 0.2, 0]
    assert (eight["rate_from"], eight["rate_value"], eight["difference"]) == (0.5, 0.2, -0.3)
    assert (sixteen["rate_from"], sixteen["difference"], sixteen["conditions"]) == (1, -1, 1)  # q has no n=16
    assert [row["left_out"] for row in (four, eight, sixteen)] == [0, 0, 0]


def test_a_difference_is_of_the_seeds_that_both_have() -> None:
    table = margins(condition("yyyyn" + "n" * 45), condition("yynnn", n=8))
    row = of(table, "n", 8)
    assert (of(table, "n", 4)["rate"], of(table, "n", 4)["simulations"]) == (0.08, 50)
    assert (row["rate_from"], row["rate_value"], row["difference"], row["pairs"]) == (0.8, 0.4, -0.4, 5)
    alone = of(margins(condition("yyyyn"), condition("yynnn", n=8)), "n", 8)
    told = ("difference", "difference_low", "difference_high", "p", "only_from", "only_value")
    assert [row[name] for name in told] == [alone[name] for name in told]


def test_along_b_each_number_is_compared_in_the_games_that_have_it() -> None:
    """Six agents with 1 and 2 adversaries, twelve with 2 and 4: nothing has 1, 2 and 4."""
    table = margins(*(condition("yyynn" if b else "yyyyy", n=n, b=b) for n, b in
                      [(6, 0), (6, 1), (6, 2), (12, 0), (12, 2), (12, 4)]))  # fmt: skip
    rows = [of(table, "b", b) for b in (0, 1, 2, 4)]
    assert [row["conditions"] for row in rows] == [2, 1, 2, 1]
    assert [row["left_out"] for row in rows] == [0, 0, 0, 0]
    assert [row["difference"] for row in rows[1:]] == [-0.4, -0.4, -0.4]


def test_values_that_share_no_combination_are_not_compared() -> None:
    table = margins(condition("yyyyy", n=4), condition("yynnn", n=8, prompt="q"))
    assert list(table["axis"].unique()) == [""]


def test_a_value_without_a_combination_with_the_first_is_compared_with_what_links_them() -> None:
    table = margins(
        condition("yyyyy", n=4), condition("yyyyn", n=8), condition("yyynn", n=8, prompt="q"),
        condition("yyyyy", n=16, prompt="q"),
    )  # fmt: skip
    rows = table[(table["axis"] == "n") & (table["what"] == VALID)]
    assert list(rows["value"]) == ["4", "8", "16"]
    assert list(rows["from"]) == ["", "4", "8"]
    assert list(rows["left_out"]) == [0, 1, 0]
    assert list(rows["rate"]) == [1, 0.8, 1]
    assert list(rows["difference"])[1:] == pytest.approx([-0.2, 0.4])


def test_along_b_honest_agents_are_alike_as_in_figures() -> None:
    table = margins(
        condition("yyyyy", n=4), condition("yyynn", n=8), condition("yynnn", n=9, b=1), condition("ynnnn", n=10, b=2)
    )
    assert [of(table, "b", b)["rate"] for b in (0, 1, 2)] == [0.6, 0.4, 0.2]
    assert of(table, "b", 0)["left_out"] == 1
    assert list(table[(table["axis"] == "n") & (table["what"] == VALID)]["value"]) == ["4", "8"]


def test_along_b_games_without_byzantine_agents_stand_beside_each_adversary() -> None:
    rows = [
        *condition("yyyyn", n=5, byzantine="none"),
        *condition("yynnn", n=5, b=1, byzantine="random"),
        *condition("ynnnn", n=5, b=1, byzantine="silent"),
    ]
    table = margin_table(pd.DataFrame(rows), [*AXES, "byzantine"], ConsensusGame)
    none, one = of(table, "b", 0), of(table, "b", 1)
    assert (none["rate"], none["conditions"], none["simulations"]) == (0.8, 1, 5)
    assert (one["rate"], one["conditions"], one["pairs"], one["difference"]) == (0.3, 2, 10, -0.5)
    assert [of(table, "byzantine", kind)["rate"] for kind in ("random", "silent")] == [0.4, 0.2]
    assert "none" not in set(table["value"])


def test_an_outcome_that_cannot_be_leaves_its_conditions_out() -> None:
    conditions = [condition("yyyyy"), condition("ynnnn", prompt="q"), condition("nnnnn", n=8)]
    impossible = {("a", 8, 0, "p"): frozenset({VALID})}
    table = margins(*conditions, impossible=impossible)
    assert (of(table, "")["rate"], of(table, "")["conditions"]) == (0.6, 2)
    assert not len(table[(table["axis"] == "n") & (table["what"] == VALID)])
    assert len(table[(table["axis"] == "n") & (table["what"] == "no_consensus")]) == 2


def test_indicators_have_margins_among_the_simulations_that_have_an_answer() -> None:
    answers = [True, False, None, True, True, False, True]
    rows = [{"n": n, "seed": s, "outcome": VALID, "unanimous": a} for n in (4, 8) for s, a in enumerate(answers)]
    table = margin_table(pd.DataFrame(rows), ["n"], MeasuredGame)
    row = of(table, "n", 8, "unanimous")
    assert (row["kind"], row["rate"], row["simulations"], row["pairs"]) == ("indicator", round(4 / 6, 12), 6, 6)
    assert "unanswered" not in set(table["what"])  # which no simulation has


def test_without_shared_seeds_the_test_is_cochran_mantel_haenszel() -> None:
    pairs = [("yyyyyyyynn", "yynnnnnnnn"), ("yyyyynnnnn", "yynnnnnnnn")]
    table = margins(
        *(condition(a, prompt=p, n=4) for p, (a, _) in zip("pq", pairs, strict=True)),
        *(condition(b, 100, prompt=p, n=8) for p, (_, b) in zip("pq", pairs, strict=True)),
    )
    row = of(table, "n", 8)
    counts = [(8, 10, 2, 10), (5, 10, 2, 10)]
    expected = sum(a - n * (a + b) / (n + m) for a, n, b, m in counts)
    variance = sum(n * m * (a + b) * (n + m - a - b) / ((n + m) ** 2 * (n + m - 1)) for a, n, b, m in counts)
    assert (row["test"], row["pairs"]) == (STRATIFIED, 0)
    assert row["p"] == pytest.approx(scipy.stats.chi2.sf(expected**2 / variance, 1))
    assert row["difference_low"] < row["difference"] == -0.45 < row["difference_high"]


def test_p_is_corrected_over_the_values_of_an_axis() -> None:
    table = margins(condition("y" * 30), condition("y" * 22 + "n" * 8, n=8), condition("y" * 25 + "n" * 5, n=16))
    p, corrected = ([of(table, "n", n)[name] for n in (8, 16)] for name in ("p", "p_holm"))
    assert corrected == pytest.approx([2 * p[0], p[1]])


def test_the_papers_rates_stand_beside_those_of_the_same_conditions() -> None:
    rates = [
        PaperRate(what=VALID, where={"b": 0, "model": "a"}, rate=0.674, source="section 4.1"),
        PaperRate(what=VALID, rate=0.5),
    ]
    table = margins(
        condition("yyynn"), condition("ynnnn", prompt="q"), condition("yyyyy", n=5, b=1),
        condition("nnnnn", model="c"),
        paper=rates,
    )  # fmt: skip
    row = of(table, "", "b=0, model=a")
    assert (row["rate"], row["paper"], row["source"], row["conditions"]) == (0.4, 0.674, "section 4.1", 2)
    assert of(table, "")["paper"] == 0.5
    assert table["paper"].notna().sum() == 2


def test_nothing_played_has_no_rows() -> None:
    empty = pd.DataFrame(columns=[*AXES, "seed", "outcome"])
    assert margin_table(empty, AXES, ConsensusGame).empty


@pytest.mark.slow
def test_what_section_4_1_says_is_found() -> None:
    """50 studies with the paper's rates: means are theirs, and 95% of the intervals hold them."""
    where = [{"b": 0}, {"b": 0, "model": "14b"}, {"b": 0, "model": "8b"}, {"b": 0, "n": 4}, {"b": 0, "n": 16}]
    truths = {
        ("", "b=0"): np.mean(list(PAPER.values())),
        ("", "b=0, model=14b"): 0.6725,
        ("", "b=0, model=8b"): 0.158,
        ("", "b=0, n=4"): np.mean(list(PAPER.values())) + 0.05,
        ("", "b=0, n=16"): np.mean(list(PAPER.values())) - 0.05,
        ("model", "8b"): 0.158, ("prompt", "none"): 0.476, ("n", "16"): 0.36525, ("b", "3"): 0.591 - 0.36,
    }  # fmt: skip
    changes = {("model", "8b"): 0.158 - 0.6725, ("prompt", "none"): 0.1215, ("n", "16"): -0.1, ("b", "3"): -0.36}
    named = [PaperRate(what=VALID, where=each, rate=0) for each in where]
    inside, found = 0, []
    studies = 50
    for seed in range(studies):
        table = margin_table(paper(np.random.default_rng(seed)), AXES, ConsensusGame, paper=named)
        table = table[table["what"] == VALID].set_index(["axis", "value"])
        found.append([table.loc[key, "rate"] for key in truths])
        inside += sum(table.loc[key, "low"] <= truth <= table.loc[key, "high"] for key, truth in truths.items())
        inside += sum(
            table.loc[key, "difference_low"] <= truth <= table.loc[key, "difference_high"]
            for key, truth in changes.items()
        )
    assert np.mean(found, axis=0) == pytest.approx(list(truths.values()), abs=0.03)
    assert 0.92 < inside / (studies * (len(truths) + len(changes))) < 0.99


@pytest.mark.slow
def test_a_scripted_study_whose_answers_are_known_is_found_through_all_of_it(study_factory: StudyFactory) -> None:
    """Solvers who are right with a known chance, each by itself: all n agree on the right answer in accuracy ** n."""
    solver = {"name": "solver", "conformity": 0.0}
    study = study_factory(
        {"model": [solver, {**solver, "accuracy": 0.9}], "n": [3, 5], "prompt": "improve"},
        game="deliberation",
        seeds=60,
        parameters={"problems": {"kind": "arithmetic", "steps": 2, "digits": 1}, "turns": 2},
        paper=[{"what": "correct_consensus", "where": {"n": 3}, "rate": 0.536, "source": "0.7 and 0.9, cubed"}],
        effects={"interactions": [["model", "n"]]},
    )
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    by_model = [(accuracy**3 + accuracy**5) / 2 for accuracy in (0.7, 0.9)]
    by_n = [(0.7**n + 0.9**n) / 2 for n in (3, 5)]
    table = read_table(study.name, "margins")
    table = table[table["what"] == "correct_consensus"]
    for axis, truths in (("model", by_model), ("n", by_n)):
        first, second = table[table["axis"] == axis].to_dict("records")
        assert first["low"] < truths[0] < first["high"]
        assert second["low"] < truths[1] < second["high"]
        assert second["difference_low"] < truths[1] - truths[0] < second["difference_high"]
        assert second["p"] < 0.05
    [named] = table[table["paper"].notna()].to_dict("records")
    assert (named["value"], named["paper"], named["low"] < 0.536 < named["high"]) == ("n=3", 0.536, True)
    effects = read_table(study.name, "effects")
    truths_of_effects = [
        by_model[1] - by_model[0], by_n[1] - by_n[0], 0.9**3 - 0.7**3, 0.9**5 - 0.7**5,
        0.9**5 - 0.7**5 - (0.9**3 - 0.7**3), 0.7**5 - 0.7**3, 0.9**5 - 0.9**3,
    ]  # fmt: skip
    inside = (effects["low"] < truths_of_effects) & (truths_of_effects < effects["high"])
    assert inside.all()
