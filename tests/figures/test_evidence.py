"""Figures of indicators and of quantities, and that all kinds of evidence of a game are drawn."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.figures.points import indicators, quantities
from parley.figures.style import own_style
from parley.study import Study
from support.figures import (
    MeasuredEvidence,
    data,
    intervals,
    measured,
    pages_of,
    panels_of,
    played,
    study_of,
    text_of,
    ticks,
)

pytestmark = pytest.mark.promise("All kinds of evidence that a game declares are drawn with their intervals.")

BY_ROUND, IN_THE_END, SIZES = MeasuredEvidence.figures
AXES = ["model", "n", "b", "prompt"]


@pytest.fixture(scope="module")
def study() -> Study:
    return measured(study_of({"model": ["majority", "random"], "n": [3, 4]}, seeds=2))


# Indicators


def answered(**rates: float) -> pd.DataFrame:
    rows = [
        [model, n, 0, "p", name, 4, 2, rate, max(0, rate - 0.2), min(1, rate + 0.2)]
        for model in ("a", "b")
        for n in (4, 16, 8)
        for name, rate in rates.items()
    ]
    return pd.DataFrame(rows, columns=[*AXES, "indicator", "simulations", "count", "rate", "low", "high"])


def rated(study: Study, table: pd.DataFrame, **changes: Any) -> list[Figure]:
    with own_style():
        return indicators(study, dataclasses.replace(IN_THE_END, **changes), table)


def points_at(ax: Any, place: int) -> list[float]:
    return [y for xs, ys in data(ax) for x, y in zip(xs, ys, strict=True) if abs(x - place) < 0.5]


def test_indicators_stand_side_by_side_along_x_with_their_intervals(study: Study) -> None:
    figure = rated(study, answered(unanimous=0.5, early=0.25))
    panels = panels_of(figure)
    assert [ax.get_title() for ax in panels] == ["a", "b"]
    assert ticks(panels[0])[0] == ["4", "8", "16"]
    assert "4 sims per point" in text_of(figure)
    assert "No simulation has: what has no answer" in text_of(figure)
    assert sorted(intervals(panels[0])) == [pytest.approx(e) for e in 3 * [(0.05, 0.45)] + 3 * [(0.3, 0.7)]]
    assert not panels[0].texts  # no numbers beside the bars: the tables have them


def test_conditions_that_differ_in_any_axis_are_never_pooled(study: Study) -> None:
    both = [answered(unanimous=rate).assign(prompt=prompt) for prompt, rate in (("p", 0.2), ("q", 0.9))]
    panels = panels_of(rated(study, pd.concat(both)))
    assert len(panels) == 4
    assert sorted(rate for ax in panels for rate in points_at(ax, 0)) == pytest.approx([0.2, 0.2, 0.9, 0.9])


def test_an_indicator_that_a_condition_lacks_leaves_its_place(study: Study) -> None:
    table = answered(unanimous=0.5, early=0.25)
    gone = (table["n"] == 8) & (table["model"] == "a")
    silent = (table["n"] == 16) & (table["indicator"] == "early")
    table.loc[silent, ["simulations", "rate", "low", "high"]] = [0, np.nan, np.nan, np.nan]
    ax = panels_of(rated(study, table[~gone]))[0]
    said = [text.get_text() for text in ax.texts]
    assert said.count("not run") == 1
    assert not any("nan" in text for text in said)
    assert ticks(ax)[0] == ["4", "8", "16"]
    assert [len(points_at(ax, place)) for place in range(3)] == [2, 0, 1]


@pytest.mark.slow
def test_more_places_than_a_row_holds_go_on_in_the_next_panel(study: Study) -> None:
    figure = rated(study, pd.concat([answered(early=0.5).iloc[:1].assign(n=n) for n in range(50)]))
    labels = [label.split("\n")[0] for ax in panels_of(figure) for label in ticks(ax)[0]]
    assert labels == [str(n) for n in range(50)]
    assert all(page.get_figwidth() <= 7 for page in figure)


# Quantities


def sized(rows: list[tuple[str, int, float, float, float]], quantity: str = "size") -> pd.DataFrame:
    """Return a table of quantities from model, n, mean and limits."""
    full = [[m, n, 0, "p", quantity, "kB", 3, mean, 1.0, low, high, mean] for m, n, mean, low, high in rows]
    columns = [*AXES, "quantity", "unit", "simulations", "mean", "sd", "low", "high", "median"]
    return pd.DataFrame(full, columns=columns)


def told(study: Study, *tables_of: pd.DataFrame, **changes: Any) -> list[Figure]:
    with own_style():
        return quantities(study, dataclasses.replace(SIZES, **changes), pd.concat(tables_of))


def test_quantities_are_drawn_along_x_in_order_with_units(study: Study) -> None:
    table = sized([("a", 16, 3.0, 2.0, 4.0), ("a", 4, 1.0, 0.5, 1.5), ("b", 4, 2.0, 1.0, 3.0), ("b", 16, 5.0, 4, 6)])
    [ax] = panels_of(told(study, table))
    assert " ".join(ax.get_title().split()) == "size of what was said (kB)"
    assert ticks(ax)[0] == ["4", "16"]
    assert sorted((round(x), y) for xs, ys in data(ax) for x, y in zip(xs, ys, strict=True)) == [
        *((0, 1.0), (0, 2.0), (1, 3.0), (1, 5.0)),
    ]
    assert sorted(intervals(ax)) == [(0.5, 1.5), (1.0, 3.0), (2.0, 4.0), (4.0, 6.0)]
    [ax] = panels_of(told(study, sized([("a", 4, 7.0, np.nan, np.nan)])))  # a single simulation
    assert (data(ax), len(ax.collections)) == ([([0.0], [7.0])], 0)


def test_shares_go_from_0_to_100_percent_and_each_interval_is_named(study: Study) -> None:
    of = {"of": ("size", "final_honest_share")}
    size_rows = sized([("a", 4, 1.0, 0.5, 1.5)])
    figure = told(study, size_rows, sized([("a", 4, 1.0, 0.44, 1.0)], "final_honest_share"), **of)
    size, share = panels_of(figure)
    assert share.get_ylim() == (0, 1)
    assert [ax.yaxis.get_major_formatter()(1) for ax in (size, share)] == ["1.0", "100%"]
    both = text_of(figure)
    assert "95% Wilson interval of share that agrees in the end" in both
    assert "of size of what was said" in both[both.index("95% t interval") :]
    alone = text_of(told(study, size_rows, **of))
    assert ("95% Wilson interval" in alone, " t interval" in alone) == (False, True)


# All kinds


@pytest.mark.slow
def test_all_kinds_are_drawn_from_a_study_with_what_a_game_does_not_have() -> None:
    study = played(measured(study_of(seeds=1, parameters={"max_rounds": 1}, name="one")))  # one simulation
    assert [spec.name for spec in study.figures if not pages_of(study, spec.name)] == []
    for spec, words in (
        (BY_ROUND, ["share that agrees", "share that votes to stop"]),
        (IN_THE_END, ["all agree", "stopped early", "No simulation has: what has no answer"]),
        (SIZES, ["size of what was said", "(kB)", "wall time (s)"]),
    ):
        shown = text_of(pages_of(study, spec.name))
        assert [word for word in words if word not in shown] == [], spec.name
        nothing = text_of(pages_of(study, spec.name, of=("unheard", "unanswered", "unmeasured")))
        assert "Nothing to draw" in nothing, spec.name
