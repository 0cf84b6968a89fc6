"""The table `paper`: numbers of a paper beside one's own, by hand, and how often same rates are said to differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from parley.analysis.paper import paper_lines, paper_table
from parley.analysis.questions import question_table
from parley.statistics.clustered import added_squares, wilson_by_seeds
from parley.study import Study
from support.studies import VALID, StudyFactory, condition

GRID = {"model": "majority", "n": [3, 4], "prompt": ["may_exist", "none_exist"]}
ASKED = {"name": "size", "outcome": VALID, "compare": "n", "over": "prompt", "smallest": 0.2}
THREE, FOUR = {"n": 3}, {"n": 4, "prompt": "may_exist"}


def beside(factory: StudyFactory, *paper: dict[str, Any], **letters: str) -> tuple[Study, pd.DataFrame]:
    """Return a study and its table; `letters` are what the games with n=3, then n=4, come to with either prompt."""
    study = factory(GRID, seeds=25, questions=[ASKED], paper=list(paper))
    rows = [
        row | {"rounds": 3 + row["seed"] % 2}
        for n, size in ((3, "three"), (4, "four"))
        for prompt in GRID["prompt"]
        for row in condition(letters.get(size, "y" * 14 + "n" * 11), model="majority", n=n, prompt=prompt)
    ]
    table = pd.DataFrame(rows)
    made = {"questions": question_table(table, study), "rounds": ROUNDS}
    return study, paper_table(study, table, made)


ROUNDS = pd.DataFrame(
    [{"model": "majority", "n": 4, "b": 0, "prompt": "may_exist", "measure": "agreement", "round": 2}]
).assign(simulations=25, mean=0.6)


@pytest.mark.promise("Beside each number of a paper stands one's own of the same conditions, and whether they differ.")
def test_counts_rates_means_and_measures_stand_beside_ones_own(study_factory: StudyFactory) -> None:
    study, table = beside(
        study_factory,
        {"what": VALID, "where": FOUR, "count": 13, "of": 25, "source": "Table 1"},
        {"what": VALID, "rate": 0.9},
        {"what": "rounds", "where": THREE, "mean": 5, "margin": 0.5},
        {"what": "agreement", "round": 2, "where": FOUR, "mean": 0.1, "of": 25},
        {"what": "rounds", "most": 3},
    )
    lines = paper_lines(table, study.game)
    expected = [
        (
            "valid consensus, n=4, prompt=may_exist: the paper's 13 of 25 (Table 1), yours 14 of 25: no difference",
            "+4 points",
        ),
        ("the paper's 90%, yours 56% in 100 games: the paper's is outside of your interval [", "]"),
        ("the paper's 5, yours 3.48 in 50 games: they differ, by -1.52 [-2.062, -0.9775", "]"),
        ("round=2: the paper's 10%, yours 60% in 25 games: they differ, by +50 points", "]"),
        ("rounds played: the paper's at most 3, yours at most 4 in 100 games: more", ""),
    ]
    for line, (start, end) in zip(lines, expected, strict=True):
        assert start in line
        assert end in line
    first = table.iloc[0]
    low, high = wilson_by_seeds(13 / 25, 25, 25)
    assert (first["paper_low"], first["paper_high"]) == (low, high)
    assert first["difference_low"] == pytest.approx(0.04 - np.hypot(14 / 25 - first["low"], high - 13 / 25))


def test_a_question_has_the_paper_s_difference_where_it_gives_both_sides(study_factory: StudyFactory) -> None:
    sides = [{"what": VALID, "where": {"n": n}, "count": count, "of": 25} for n, count in ((3, 20), (4, 5))]
    study, table = beside(study_factory, *sides, three="y" * 21 + "nnnn", four="y" * 6 + "n" * 19)
    row = table.iloc[2]
    assert (row["question"], row["from"], row["to"], row["paper"]) == ("size", "3", "4", pytest.approx(-0.6))
    assert (row["own"], row["simulations"]) == (pytest.approx(-0.6), 50)
    assert "no difference can be told: +0 points" in paper_lines(table, study.game)[2]
    # What is of other conditions is no side of it.
    for where in ({}, {"n": 3, "prompt": "may_exist"}):
        assert len(beside(study_factory, {**sides[0], "where": where}, sides[1])[1]) == 2


def test_without_games_there_is_the_paper_s_number_alone(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, paper=[{"what": VALID, "rate": 0.4, "source": "section 4.1"}], questions=[ASKED])
    none = pd.DataFrame(columns=["model", "n", "b", "prompt", "seed", "outcome"])
    table = paper_table(study, none, {"questions": question_table(none, study)})
    assert paper_lines(table, study.game) == [
        "valid consensus: the paper's 40% (section 4.1); yours is not in the tables"
    ]


def claims(own: int, paper: int) -> np.ndarray[Any, Any]:
    """Return for each count of `own` games and each of the paper's whether a difference is said."""
    one = [(x / paper, *wilson_by_seeds(x / paper, paper, paper)) for x in range(paper + 1)]
    two = [(y / own, *wilson_by_seeds(y / own, own, own)) for y in range(own + 1)]
    limits = np.array([[added_squares(x, y) for x in one] for y in two])
    return (limits[..., 0] > 0) | (limits[..., 1] < 0)


def chance(own: int, paper: int, rates: Sequence[float]) -> float:
    """Return how often a difference is said of games that end well at these rates: one's own, the paper's."""
    laws = [scipy.stats.binom.pmf(np.arange(n + 1), n, p) for n, p in zip((own, paper), rates, strict=True)]
    return float((claims(own, paper) * np.outer(*laws)).sum())


@pytest.mark.promise("Of two counts at one rate at most 5% are said to differ, and 40 points are told.")
@pytest.mark.parametrize(("own", "paper"), [(25, 25), (50, 25), (20, 13), (300, 25)])
def test_counts_at_one_rate_seldom_differ_and_forty_points_are_told(own: int, paper: int) -> None:
    assert max(chance(own, paper, (p, p)) for p in np.linspace(0.02, 0.98, 25)) <= 0.05
    assert chance(own, paper, (0.3, 0.7)) > (0.75 if paper == 25 else 0.5)
