"""The table `margins`: which conditions are compared, by hand, and rates that are known beforehand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from parley.analysis.margins import margin_table
from parley.analysis.tables import read_table
from parley.games.consensus.game import ConsensusGame
from parley.statistics.differences import CLUSTERED, STRATIFIED
from support.figures import played
from support.studies import AXES, VALID, StudyFactory, condition

pytestmark = pytest.mark.promise(
    "Rates over several axes are those of known rules (accuracy^n); a paper's stand beside them."
)


def margins(*conditions: list[dict[str, Any]], axes: list[str] = AXES, **more: Any) -> pd.DataFrame:
    return margin_table(pd.DataFrame([row for each in conditions for row in each]), axes, ConsensusGame, **more)


def of(table: pd.DataFrame, axis: str, value: Any = "", what: str = VALID) -> dict[Any, Any]:
    rows = table[(table["what"] == what) & (table["axis"] == axis) & (table["value"] == str(value))]
    [row] = rows.to_dict("records")
    return {name: round(cell, 12) if isinstance(cell, float) else cell for name, cell in row.items()}


def along(table: pd.DataFrame, axis: str, *values: Any, columns: str) -> list[list[Any]]:
    """Return these columns of an axis, each for these values."""
    return [[of(table, axis, value)[name] for value in values] for name in columns.split()]


def test_a_rate_is_the_mean_of_the_rates_of_conditions_by_hand() -> None:
    table = margins(
        condition("yyyyyyyynn", n=4), condition("yynnn", n=8), condition("ynnnnnnnnn", n=4, prompt="q"),
        condition("yyynn", n=8, prompt="q"), condition("yyyyy", n=16, prompt="q"),
    )  # fmt: skip
    assert of(table, "")["rate"] == pytest.approx((0.8 + 0.4 + 0.1 + 0.6 + 1) / 5)
    # n=16 has no counterpart with p.
    rates, conditions, left_out, first = along(table, "prompt", "p", "q", columns="rate conditions left_out from")
    assert (rates, conditions, left_out, first) == ([0.6, 0.35], [2, 2], [0, 1], ["", "p"])
    p, q = of(table, "prompt", "p"), of(table, "prompt", "q")
    assert (p["simulations"], p["seeds"], q["difference"]) == (15, 10, -0.25)
    assert np.isnan(p["difference"])
    assert (q["pairs"], q["only_from"], q["only_value"], q["test"]) == (15, 7, 1, CLUSTERED)


def test_a_difference_is_of_the_seeds_that_both_have() -> None:
    table = margins(condition("yyyyn" + "n" * 45), condition("yynnn", n=8))
    row, four = of(table, "n", 8), of(table, "n", 4)
    assert (four["rate"], four["simulations"]) == (0.08, 50)
    assert (row["rate_from"], row["rate_value"], row["difference"], row["pairs"]) == (0.8, 0.4, -0.4, 5)
    alone = of(margins(condition("yyyyn"), condition("yynnn", n=8)), "n", 8)
    told = ("difference", "difference_low", "difference_high", "p", "only_from", "only_value")
    assert [row[name] for name in told] == [alone[name] for name in told]


def test_along_b_each_number_is_compared_in_the_games_that_have_it() -> None:
    """Six agents with 1 and 2 adversaries, twelve with 2 and 4: nothing has 1, 2 and 4."""
    games = [(6, 0), (6, 1), (6, 2), (12, 0), (12, 2), (12, 4)]
    table = margins(*(condition("yyynn" if b else "yyyyy", n=n, b=b) for n, b in games))
    assert along(table, "b", 0, 1, 2, 4, columns="conditions left_out") == [[2, 1, 2, 1], [0, 0, 0, 0]]
    assert along(table, "b", 1, 2, 4, columns="difference") == [[-0.4, -0.4, -0.4]]


def test_along_b_honest_agents_are_alike_as_in_figures() -> None:
    table = margins(
        condition("yyyyy", n=4), condition("yyynn", n=8), condition("yynnn", n=9, b=1), condition("ynnnn", n=10, b=2)
    )
    assert along(table, "b", 0, 1, 2, columns="rate left_out") == [[0.6, 0.4, 0.2], [1, 0, 0]]
    assert list(table[(table["axis"] == "n") & (table["what"] == VALID)]["value"]) == ["4", "8"]


def test_along_b_games_without_byzantine_agents_stand_beside_each_adversary() -> None:
    table = margins(
        condition("yyyyn", n=5, byzantine="none"),
        condition("yynnn", n=5, b=1, byzantine="random"),
        condition("ynnnn", n=5, b=1, byzantine="silent"),
        axes=[*AXES, "byzantine"],
    )
    assert along(table, "b", 0, 1, columns="rate conditions simulations") == [[0.8, 0.3], [1, 2], [5, 10]]
    assert (of(table, "b", 1)["pairs"], of(table, "b", 1)["difference"]) == (10, -0.5)
    assert along(table, "byzantine", "random", "silent", columns="rate") == [[0.4, 0.2]]
    assert "none" not in set(table["value"])


def test_values_that_share_no_combination_are_compared_with_what_links_them_or_not_at_all() -> None:
    table = margins(condition("yyyyy", n=4), condition("yynnn", n=8, prompt="q"))
    assert list(table["axis"].unique()) == [""]
    table = margins(
        condition("yyyyy", n=4), condition("yyyyn", n=8), condition("yyynn", n=8, prompt="q"),
        condition("yyyyy", n=16, prompt="q"),
    )  # fmt: skip
    first, left_out, rates = along(table, "n", 4, 8, 16, columns="from left_out rate")
    assert (first, left_out, rates) == (["", "4", "8"], [0, 1, 0], [1, 0.8, 1])
    assert along(table, "n", 8, 16, columns="difference") == [[-0.2, 0.4]]


def test_an_outcome_that_cannot_be_leaves_its_conditions_out() -> None:
    conditions = [condition("yyyyy"), condition("ynnnn", prompt="q"), condition("nnnnn", n=8)]
    table = margins(*conditions, impossible={("a", 8, 0, "p"): frozenset({VALID})})
    assert (of(table, "")["rate"], of(table, "")["conditions"]) == (0.6, 2)
    assert [len(table[(table["axis"] == "n") & (table["what"] == what)]) for what in (VALID, "no_consensus")] == [0, 2]
    empty = pd.DataFrame(columns=[*AXES, "seed", "outcome"])
    assert margin_table(empty, AXES, ConsensusGame).empty


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
    p, corrected = along(table, "n", 8, 16, columns="p p_holm")
    assert corrected == pytest.approx([2 * p[0], p[1]])


@pytest.mark.slow
def test_a_scripted_study_whose_answers_are_known_is_found_through_all_of_it(study_factory: StudyFactory) -> None:
    """Solvers who are right with a known chance, each by itself: all n agree on the right answer in accuracy ** n."""
    solver = {"name": "solver", "conformity": 0.0}
    study = study_factory(
        {"model": [solver, {**solver, "accuracy": 0.9}], "n": [3, 5], "prompt": "improve"},
        game="deliberation",
        seeds=60,
        parameters={"problems": {"kind": "arithmetic", "steps": 2, "digits": 1}, "turns": 1},
        paper=[{"what": "correct_consensus", "where": {"n": 3}, "rate": 0.536, "source": "0.7 and 0.9, cubed"}],
    )
    played(study)
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
    [named] = read_table(study.name, "paper").to_dict("records")
    assert (named["where"], named["paper"], named["low"] < 0.536 < named["high"]) == ("n=3", 0.536, True)
