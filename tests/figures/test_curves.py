"""Curves by round: what a line and a number stand for, whose lines stand in one panel, and what is left out."""

import dataclasses
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.figures.common import axis_of_lines
from parley.figures.curves import curves
from parley.figures.style import own_style
from parley.study import Study
from support.figures import (
    MeasuredEvidence,
    data,
    measured,
    panels_of,
    study_of,
    text_of,
    ticks,
)

pytestmark = pytest.mark.promise("Curves by round pool no conditions.")

BY_ROUND = MeasuredEvidence.figures[0]
AXES = ["model", "n", "b", "prompt"]


def test_lines_are_the_axis_that_the_figure_names_else_the_model_else_the_fullest() -> None:
    table = pd.DataFrame({"model": list("aab"), "n": [1, 2, 3], "b": [0, 1, 1], "prompt": list("pqr")})
    assert [axis_of_lines(table, AXES, wanted) for wanted in ("prompt", "model")] == ["prompt", "model"]
    assert axis_of_lines(table, AXES) == "n"
    assert axis_of_lines(table, [], "model") is None
    many = pd.DataFrame({"model": range(7), "n": [1, 2, 1, 2, 1, 2, 1]})  # more than a panel has lines
    assert axis_of_lines(many, ["model", "n"], "model") == "n"
    # Of a study that does not cross all its axes: the one that leaves the fewest panels.
    bound = pd.DataFrame({"n": [1, 1, 2, 2, 3, 3], "prompt": list("ppqqrr"), "b": [0, 1, 0, 1, 0, 1]})
    assert axis_of_lines(bound, ["n", "prompt", "b"]) == "b"


# Lines and numbers


@pytest.fixture(scope="module")
def study() -> Study:
    return measured(study_of({"model": ["majority", "random"], "n": [3, 4]}, seeds=2, name="measured"))


def by_round(**lines: list[tuple[int, int, float]]) -> pd.DataFrame:
    """Return a table of rounds from (round, simulations, mean) by model."""
    rows = [
        [model, 4, 0, "p", "agreed", number, n, n, mean, max(0, mean - 0.1), min(1, mean + 0.1)]
        for model, points in lines.items()
        for number, n, mean in points
    ]
    return pd.DataFrame(rows, columns=[*AXES, "measure", "round", "simulations", "playing", "mean", "low", "high"])


def drawn(study: Study, table: pd.DataFrame, **changes: Any) -> list[Figure]:
    with own_style():
        return curves(study, dataclasses.replace(BY_ROUND, **changes), table)


def numbers_of(ax: Any) -> list[list[str]]:
    """The numbers of each line by round, which stand below its ticks."""
    return [list(row) for row in list(zip(*(label.split("\n") for label in ticks(ax)[0]), strict=True))[1:]]


def test_each_model_has_a_line_and_its_numbers_of_simulations(study: Study) -> None:
    figure = drawn(study, by_round(a=[(1, 9, 0.5), (2, 9, 0.6), (3, 4, 0.9)], b=[(1, 8, 0.5), (2, 8, 0.2)]))
    [ax] = panels_of(figure)
    (x, y), (u, v) = data(ax)
    assert (y, v) == ([0.5, 0.6, 0.9], [0.5, 0.2])
    assert (x, u) == (pytest.approx([1, 2, 3], abs=0.3), pytest.approx([1, 2], abs=0.3))
    assert u[0] != x[0]  # equal means stay apart
    assert numbers_of(ax) == [["9", "9", "4"], ["8", "8", "0"]]
    assert "No simulation has: share that votes to stop." in text_of(figure)
    equal = drawn(study, by_round(a=[(1, 9, 0.5), (2, 9, 0.6)], b=[(1, 9, 0.1), (2, 9, 0.2)]))
    assert not numbers_of(panels_of(equal)[0])
    assert "9 sims in each mean" in text_of(equal)


def test_it_tells_how_many_still_play(study: Study) -> None:
    table = by_round(a=[(1, 10, 0.5), (2, 10, 0.6), (3, 10, 0.9)], b=[(1, 8, 0.1), (2, 8, 0.2)])
    table["playing"] = [10, 9, 4, 8, 8]
    figure = drawn(study, table)
    [ax] = panels_of(figure)
    assert numbers_of(ax) == [["10", "9/10", "4/10"], ["8", "8", "0"]]
    assert "Only games that still play count" in text_of(figure)


def test_curves_pool_no_conditions_and_count_those_without_any_measure(study: Study) -> None:
    rows = [by_round(a=[(1, 3, 0.1 * n)], b=[(1, 3, 0.1 * n)]).assign(n=n, prompt=p) for n in (1, 2) for p in "pq"]
    figure = drawn(study, pd.concat(rows))
    assert [len(data(ax)) for ax in panels_of(figure)] == [2] * 4
    assert "n=2, prompt=q" in text_of(figure)
    three = measured(study_of({"model": ["majority", "random", "minimum"]}, name="three"))
    told = text_of(drawn(three, by_round(majority=[(1, 9, 0.5)], random=[(1, 9, 0.6)])))
    assert "Not shown: 1 of 3 conditions" in told
