"""Figures of measures by round, of indicators and of quantities."""

import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley import paths
from parley.analysis import averages, contrasts, rates, stats, tables
from parley.figures import (
    curves as figures_curves,
)
from parley.figures import (
    make as figures,
)
from parley.figures import (
    panels as figures_panels,
)
from parley.figures import (
    points as figures_points,
)
from parley.figures.curves import curves
from parley.figures.page import write
from parley.figures.points import indicators, quantities
from parley.figures.style import own_style
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import FigureSpec
from parley.report import evidence as report_evidence
from parley.study import Study
from support.measured import MeasuredEvidence, measured, played
from support.panels import data, intervals, panels_of, text_of
from support.studies import StudyFactory

BY_ROUND, IN_THE_END, SIZES = MeasuredEvidence.figures
AXES = ["model", "n", "b", "prompt"]


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return measured(study_factory({"model": ["majority", "random"], "n": [3, 4]}, seeds=2))


def by_round(**lines: list[tuple[int, int, float]]) -> pd.DataFrame:
    """Return a table of rounds from (round, simulations, mean) by model."""
    rows = [
        [model, 4, 0, "p", "agreed", number, n, n, mean, max(0, mean - 0.1), min(1, mean + 0.1)]
        for model, points in lines.items()
        for number, n, mean in points
    ]
    return pd.DataFrame(rows, columns=[*AXES, "measure", "round", "simulations", "playing", "mean", "low", "high"])


# Drawn from a study


@pytest.mark.slow
def test_all_kinds_are_drawn_from_a_study_and_twice_alike(study: Study) -> None:
    played(study)
    first = {path: path.read_bytes() for path in figures.figures(study)}
    assert len(first) == 13  # with that of effects, and the list of all
    assert {path: path.read_bytes() for path in figures.figures(study)} == first
    for spec, words in (
        (BY_ROUND, ["share that agrees", "share that votes to stop", "round", "sims"]),
        (IN_THE_END, ["all agree", "stopped early", "No simulation has: what has no answer.", "2 sims per point."]),
        (SIZES, ["size of what was said", "(kB)", "wall time (s)", "95% t interval"]),
    ):
        root = ElementTree.parse(paths.figure("small", spec.name, ".svg")).getroot()
        text = " ".join(" ".join(root.itertext()).split())
        for word in words:
            assert word in text


def test_one_simulation_alone_is_drawn(study_factory: StudyFactory) -> None:
    study = played(measured(study_factory(seeds=1, parameters={"max_rounds": 1})))
    assert all(path.stat().st_size for path in figures.figures(study))


def test_a_game_with_none_of_it_says_so(study_factory: StudyFactory) -> None:
    specs = tuple(
        dataclasses.replace(spec, of=("unheard", "unanswered", "unmeasured")) for spec in MeasuredEvidence.figures
    )
    evidence = type("Silent", (MeasuredEvidence,), {"figures": specs})()
    study = played(measured(study_factory(), evidence))
    figures.figures(study)
    for spec in specs:
        assert "Nothing to draw." in paths.figure("small", spec.name, ".svg").read_text()


def test_tables_without_rows_say_so(study: Study) -> None:
    with own_style():
        assert "Nothing to draw" in text_of(curves(study, BY_ROUND, by_round()))
        empty = pd.DataFrame(columns=[*AXES, "indicator", "simulations", "count", "rate", "low", "high"])
        assert "Nothing to draw" in text_of(indicators(study, IN_THE_END, empty))
        empty = pd.DataFrame(columns=[*AXES, "quantity", "unit", "simulations", "mean", "sd", "low", "high", "median"])
        assert "Nothing to draw" in text_of(quantities(study, SIZES, empty))


@pytest.mark.slow
def test_sixty_conditions_with_long_and_hostile_names_are_drawn_in_part(study_factory: StudyFactory) -> None:
    title = "Costs $5 and $\\bad{ <script>&amp; \u4e2d\u6587 " + "long " * 20
    study = measured(study_factory({"n": [3, 4]}, title=title))
    rows = [[f"$x_{{{i}}}<b>-{'very-' * 9}long", 3 + j, 0, "p"] for i in range(60) for j in range(2)]
    frame = pd.DataFrame(rows, columns=AXES)
    measures = frame.assign(measure="agreed", round=1, simulations=3, playing=3, mean=0.5, low=0.1, high=0.9)
    answers = frame.assign(indicator="early", simulations=3, count=3, rate=1.0, low=0.4, high=1.0)
    sizes = frame.assign(quantity="size", unit="kB", simulations=3, mean=2.0, sd=1.0, low=-1.0, high=5.0, median=2.0)
    many = {"x": "n", "of": ("agreed", "early", "size")}
    with own_style():
        for draw, spec, table, axis in (
            (curves, BY_ROUND, measures, "n=3"),
            (indicators, IN_THE_END, answers, "<b>"),
            (quantities, SIZES, sizes, "<b>"),
        ):
            figure = draw(study, dataclasses.replace(spec, of=many["of"]), table)
            assert len(figure) <= 4
            assert all((f.get_size_inches() <= (7.0, 9.0)).all() for f in figure)
            text = text_of(figure)
            assert axis in text
            assert "<script>&amp;" in text
            written = write(figure, lambda suffix, page: Path(f"{page}{suffix}"))
            assert len(written) == 3 * len(figure)


@pytest.mark.parametrize(
    "module",
    [
        *(averages, contrasts, figures_curves, figures_panels, figures_points),
        *(rates, report_evidence, stats),
    ],
)
def test_shared_modules_name_no_game(module: object) -> None:
    source = Path(str(module.__file__)).read_text()  # type: ignore[attr-defined]
    assert not re.search(r"consensus|deliberation|stag.hunt|honest|byzantine", source, re.IGNORECASE)


# Curves


def test_curves_have_a_line_per_model_and_say_how_many_are_left(study: Study) -> None:
    table = by_round(a=[(1, 9, 0.5), (2, 9, 0.6), (3, 4, 0.9)], b=[(1, 8, 0.1), (2, 8, 0.2)])
    with own_style():
        figure = curves(study, BY_ROUND, table)
    (ax,) = panels_of(figure)
    (x, y), (u, v) = data(ax)
    assert (y, v) == ([0.5, 0.6, 0.9], [0.1, 0.2])
    assert x == pytest.approx([1, 2, 3], abs=0.3)
    assert u == pytest.approx([1, 2], abs=0.3)
    assert u[0] != x[0]  # equal means stay apart
    assert [text.get_text() for text in ax.texts] == ["9", "4", "8", "0"]
    text = text_of(figure)
    assert "a b" in text  # the legend
    assert "No simulation has: share that votes to stop." in text


def test_curves_draw_how_many_still_play(study: Study) -> None:
    table = by_round(a=[(1, 10, 0.5), (2, 10, 0.6), (3, 10, 0.9)], b=[(1, 8, 0.1), (2, 8, 0.2)])
    table["playing"] = [10, 9, 4, 8, 8]
    with own_style():
        figure = curves(study, BY_ROUND, table)
    (ax,) = panels_of(figure)
    assert [text.get_text() for text in ax.texts] == ["10", "9/10", "4/10", "8", "0"]
    assert [y for _, y in data(ax)] == [[0.5, 0.6, 0.9], [0.1, 0.2]]
    text = text_of(figure)
    assert "Only games that still play count." in text
    assert "count with their last value" not in text  # this measure does not stay
    carried = dataclasses.replace(MeasuredEvidence.measures[0], carried=True)
    evidence = MeasuredEvidence()
    evidence.measures = (carried, *MeasuredEvidence.measures[1:])
    with own_style():
        text = text_of(curves(measured(study, evidence), BY_ROUND, table))
    assert "Finished games count with their last value." in text
    assert "6/9: of 9 in the mean 6 still play." in text


def test_curves_write_equal_numbers_once(study: Study) -> None:
    table = by_round(a=[(1, 9, 0.5), (2, 9, 0.6)], b=[(1, 9, 0.1), (2, 9, 0.2)])
    with own_style():
        figure = curves(study, BY_ROUND, table)
    # No numbers, but the names of the lines at their ends.
    assert {text.get_text() for ax in panels_of(figure) for text in ax.texts} == {"a", "b"}
    assert "9 sims in each mean." in text_of(figure)


def test_curves_pool_no_conditions(study: Study) -> None:
    tables_of = [
        by_round(a=[(1, 3, 0.1 * n)], b=[(1, 3, 0.1 * n)]).assign(n=n, prompt=p) for n in (1, 2) for p in "pq"
    ]
    with own_style():
        figure = curves(study, BY_ROUND, pd.concat(tables_of))
    assert len(panels_of(figure)) == 4
    assert all(len(data(ax)) == 2 for ax in panels_of(figure))
    assert "n=2, prompt=q" in text_of(figure)


def test_lines_are_the_axis_that_leaves_the_fewest_panels_of_a_study_that_does_not_cross_all() -> None:
    bound = pd.DataFrame({"n": [1, 1, 2, 2, 3, 3], "prompt": list("ppqqrr"), "b": [0, 1, 0, 1, 0, 1]})
    assert figures_panels.axis_of_lines(bound, ["n", "prompt", "b"]) == "b"


def test_lines_are_the_axis_that_the_figure_names_else_the_model_else_the_fullest(study: Study) -> None:
    table = pd.DataFrame({"model": list("aab"), "n": [1, 2, 3], "b": [0, 1, 1], "prompt": list("pqr")})
    choose = figures_panels.axis_of_lines
    assert choose(table, AXES, "prompt") == "prompt"
    assert choose(table, AXES, "model") == "model"
    assert choose(table, AXES) == "n"
    assert choose(table, [], "model") is None
    many = pd.DataFrame({"model": range(7), "n": [1, 2, 1, 2, 1, 2, 1]})
    assert choose(many, ["model", "n"], "model") == "n"
    assert choose(many, ["model"], "model") is None
    specified = dataclasses.replace(BY_ROUND, x="prompt")
    rows = pd.concat([by_round(a=[(1, 2, 0.5)], b=[(1, 2, 0.5)]).assign(prompt=p) for p in "pqr"])
    with own_style():
        assert len(panels_of(curves(study, specified, rows))) == 2


def test_many_rounds_have_a_few_marks(study: Study) -> None:
    table = by_round(a=[(number, 5, 0.5) for number in range(1, 51)])
    with own_style():
        (ax,) = panels_of(curves(study, BY_ROUND, table))
    assert len(ax.collections) <= 12  # error bars
    assert len(data(ax)[0][0]) == 50
    assert len(ax.get_xticks()) <= 8


def test_a_limit_that_is_missing_draws_its_point(study: Study) -> None:
    table = by_round(a=[(1, 1, 0.5)]).assign(low=np.nan, high=np.nan)
    with own_style():
        assert data(panels_of(curves(study, BY_ROUND, table))[0]) == [([1.0], [0.5])]


# Indicators


def points_at(ax: Any, place: int) -> list[float]:
    return [y for xs, ys in data(ax) for x, y in zip(xs, ys, strict=True) if abs(x - place) < 0.5]


def answered(**rates: float) -> pd.DataFrame:
    rows = [
        [model, n, 0, "p", name, 4, 2, rate, max(0, rate - 0.2), min(1, rate + 0.2)]
        for model in ("a", "b")
        for n in (4, 16, 8)
        for name, rate in rates.items()
    ]
    return pd.DataFrame(rows, columns=[*AXES, "indicator", "simulations", "count", "rate", "low", "high"])


def test_indicators_stand_side_by_side_along_x_with_their_intervals(study: Study) -> None:
    with own_style():
        figure = indicators(study, IN_THE_END, answered(unanimous=0.5, early=0.25))
    panels = panels_of(figure)
    assert [ax.get_title() for ax in panels] == ["a", "b"]
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["4", "8", "16"]
    assert "4 sims per point." in text_of(figure)
    assert intervals(panels[0]) == [pytest.approx(ends) for ends in [(0.3, 0.7), (0.05, 0.45)] * 3]
    assert not panels[0].texts  # no numbers beside the bars: the tables have them
    marks = {line.get_marker() for line in panels[0].lines if line.get_marker() in "osD^"}
    assert len(marks) == 2


def test_indicators_without_x_take_the_fullest_axis(study: Study) -> None:
    with own_style():
        figure = indicators(study, dataclasses.replace(IN_THE_END, x="retries"), answered(early=0.25))
    assert panels_of(figure)[0].get_xlabel() == "agents (n)"


def test_an_indicator_that_a_condition_lacks_leaves_its_place(study: Study) -> None:
    table = answered(unanimous=0.5, early=0.25)
    gone = (table["n"] == 8) & (table["model"] == "a")
    silent = (table["n"] == 16) & (table["indicator"] == "early")
    table.loc[silent, ["simulations", "rate", "low", "high"]] = [0, np.nan, np.nan, np.nan]
    with own_style():
        ax = panels_of(indicators(study, IN_THE_END, table[~gone]))[0]
    assert [text.get_text() for text in ax.texts].count("not run") == 1
    assert not any("nan" in text.get_text() for text in ax.texts)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "8", "16"]
    assert [len(data_at) for data_at in (points_at(ax, 0), points_at(ax, 1), points_at(ax, 2))] == [2, 0, 1]


def test_more_places_than_a_row_holds_go_on_in_the_next_panel(study: Study) -> None:
    table = pd.concat([answered(early=0.5).iloc[:1].assign(n=n) for n in range(50)])
    with own_style():
        figure = indicators(study, IN_THE_END, table)
    labels = [label.get_text().split("\n")[0] for ax in panels_of(figure) for label in ax.get_xticklabels()]
    assert labels == [str(n) for n in range(50)]
    assert len(panels_of(figure)) > 1
    assert all(f.get_figwidth() <= 7 for f in figure)


def test_the_undisturbed_stand_first_in_every_comparison_along_b(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "b": [0, 1], "byzantine": ["random", "silent"]}
    spec = dataclasses.replace(IN_THE_END, x="b")
    evidence = type("Along", (MeasuredEvidence,), {"figures": (spec,)})()
    study = played(measured(study_factory(grid), evidence))
    with own_style():
        figure = indicators(study, spec, tables.read_table("small", "rates"))
    assert [len(ax.get_xticks()) for ax in panels_of(figure)] == [2, 2]
    assert "not run" not in text_of(figure)


# Quantities


def sized(rows: list[tuple[str, int, float, float, float]], quantity: str = "size") -> pd.DataFrame:
    """Return a table of quantities from model, n, mean and limits."""
    full = [[m, n, 0, "p", quantity, "kB", 3, mean, 1.0, low, high, mean] for m, n, mean, low, high in rows]
    columns = [*AXES, "quantity", "unit", "simulations", "mean", "sd", "low", "high", "median"]
    return pd.DataFrame(full, columns=columns)


def test_quantities_are_drawn_along_x_in_order_with_units(study: Study) -> None:
    table = sized([("a", 16, 3.0, 2.0, 4.0), ("a", 4, 1.0, 0.5, 1.5), ("b", 4, 2.0, 1.0, 3.0), ("b", 16, 5.0, 4, 6)])
    with own_style():
        figure = quantities(study, SIZES, table)
    (ax,) = panels_of(figure)
    assert ax.get_title().split() == ["size", "of", "what", "was", "said", "(kB)"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "16"]
    points = sorted((round(x), y) for xs, ys in data(ax) for x, y in zip(xs, ys, strict=True))
    assert points == [(0, 1.0), (0, 2.0), (1, 3.0), (1, 5.0)]
    assert sum(len(bars.get_segments()) for bars in ax.collections) == 4  # of the intervals
    assert {text.get_text() for text in ax.texts} == {"a", "b"}  # at the ends of their lines


def test_a_single_simulation_is_a_point_without_an_interval(study: Study) -> None:
    with own_style():
        (ax,) = panels_of(quantities(study, SIZES, sized([("a", 4, 7.0, np.nan, np.nan)])))
    assert data(ax) == [([0.0], [7.0])]
    assert not ax.collections


def test_an_interval_that_dwarfs_all_means_is_cut_in_words(study: Study) -> None:
    with own_style():
        figure = quantities(study, SIZES, sized([("a", 4, 7.0, -900.0, 900.0), ("a", 8, 6.0, 5.0, 7.0)]))
        assert "Intervals that leave a panel are cut" in text_of(figure)
        low, high = panels_of(figure)[0].get_ylim()
        assert low == 0 < 7 < high < 30
        figure = quantities(study, SIZES, sized([("a", 4, -7.0, -900.0, 900.0), ("a", 8, 6.0, 5.0, 7.0)]))
        low, high = panels_of(figure)[0].get_ylim()
        assert -30 < low < -7 < 6 < high < 40
        figure = quantities(study, SIZES, sized([("a", 4, 7.0, 5.0, 9.0)]))
        assert "are cut" not in text_of(figure)
        assert panels_of(figure)[0].get_ylim()[0] == 0


def shares(rows: list[tuple[str, int, float, float, float]]) -> pd.DataFrame:
    return sized(rows, "final_honest_share")


def test_shares_go_from_0_to_100_percent_and_each_interval_is_named(study: Study) -> None:
    spec = dataclasses.replace(SIZES, of=("size", "final_honest_share"))
    table = pd.concat([sized([("a", 4, 1.0, 0.5, 1.5)]), shares([("a", 4, 1.0, 0.44, 1.0)])])
    with own_style():
        figure = quantities(study, spec, table)
        alone = quantities(study, spec, shares([("a", 4, 0.9, 0.5, 0.99)]))
        numbers = quantities(study, spec, sized([("a", 4, 1.0, 0.5, 1.5)]))
    size, share = panels_of(figure)
    assert share.get_ylim() == (0, 1)
    assert [share.yaxis.get_major_formatter()(at) for at in (0, 1)] == ["0%", "100%"]
    assert size.get_ylim()[1] > 1.5
    assert size.yaxis.get_major_formatter()(1) != "100%"
    assert share.get_xlim() == size.get_xlim()
    assert share.collections[0].get_clip_on() is False  # the cap at 100% is whole
    assert (
        "Mean with its interval: 95% Wilson interval of share that agrees in the end; 95% t interval, which a single "
        "one has not, of size of what was said." in text_of(figure)
    )
    assert "Mean with its 95% Wilson interval. 3 sims per point." in text_of(alone)
    assert "Mean with its 95% t interval; a single one has none. 3 sims per point." in text_of(numbers)
    assert " t interval" not in text_of(alone)
    assert "Wilson" not in text_of(numbers)


class BoundedEvidence(MeasuredEvidence):
    """The measured game with a greatest size."""

    quantities = tuple(
        dataclasses.replace(what, most="greatest" if what.name == "size" else "")
        for what in MeasuredEvidence.quantities
    )


def test_intervals_within_what_is_possible_are_whole_and_named(study: Study) -> None:
    study = measured(study, BoundedEvidence())
    table = sized([("a", 4, 0.0, 0.0, 3.9), ("a", 8, 0.1, 0.0, 4.0)])
    with own_style():
        figure = quantities(study, SIZES, table)
        both = quantities(study, SIZES, pd.concat([table, sized([("a", 4, 1.0, 0.5, 1.5)], "value_changes")]))
    (ax,) = panels_of(figure)
    assert ax.get_ylim() == (0, pytest.approx(1.05 * 4))
    assert "are cut" not in text_of(figure)
    assert ax.collections[0].get_clip_on() is False
    assert ax.yaxis.get_major_formatter()(1) != "100%"
    assert "Mean with its 95% Wilson interval. 3 sims per point." in text_of(figure)
    assert (
        "95% Wilson interval of size of what was said; 95% t interval, which a single one has not, of changes of value"
        in text_of(both)
    )


def test_what_no_simulation_has_is_left_out_and_counted(study: Study) -> None:
    none = (np.nan, np.nan, np.nan)
    rows = [("a", 4, 0.5, 0.2, 0.8), ("a", 8, *none), ("a", 16, 0.5, 0.2, 0.8), ("b", 4, 0.6, 0.2, 0.8)]
    rows += [("b", 8, *none), ("b", 16, *none), ("c", 4, *none), ("c", 8, *none), ("c", 16, *none)]
    table = shares(rows)
    table.loc[table["mean"].isna(), "simulations"] = 0
    with own_style():
        figure = quantities(study, dataclasses.replace(SIZES, of=("final_honest_share",)), table)
    [ax] = panels_of(figure)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "16"]
    assert [text.get_text() for text in figure[0].legends[0].get_texts()] == ["a", "b"]
    assert "Not shown: 5 of 9 conditions, in which no simulation has what is drawn." in text_of(figure)
    # Panels: 0 and 1 Byzantine agents in each of two prompts; one of the four has nothing.
    panels = pd.concat([table[:4].assign(b=b, prompt=prompt) for b in (0, 1) for prompt in "pq"])
    gone = (panels["b"] == 0) & (panels["prompt"] == "q")
    panels.loc[gone, "simulations"] = 0
    with own_style():
        figure = quantities(study, dataclasses.replace(SIZES, of=("final_honest_share",)), panels)
    assert [ax.get_title() for ax in panels_of(figure)] == ["b=0, prompt=p", "b=1, prompt=p", "b=1, prompt=q"]
    # Of each the place n=8; of the one without anything its other three conditions.
    assert "Not shown: 7 of 16 conditions" in text_of(figure)


def test_a_condition_without_attackers_counts_once_however_often_it_stands(study: Study) -> None:
    """It begins the comparison with each adversary, and is left out where no simulation has anything."""
    rows = [(b, adversary) for b, adversary in ((0, "none"), (1, "random"), (1, "silent"))]
    table = pd.concat(
        [
            answered(early=0.5, unanimous=0.5).iloc[:2].assign(b=b, byzantine=adversary, simulations=b)
            for b, adversary in rows
        ]
    )
    condition = study.conditions[0]
    axes = {**condition.axes, "byzantine": "none"}
    study = dataclasses.replace(study, conditions=(dataclasses.replace(condition, axes=axes),))
    spec = dataclasses.replace(IN_THE_END, x="b", of=("early", "unanimous"))
    with own_style():
        assert "Not shown: 1 of 3 conditions" in text_of(indicators(study, spec, table))
        figure = indicators(study, spec, table.assign(simulations=1))
        assert [len(ax.get_xticks()) for ax in panels_of(figure)] == [2, 2]
        assert "Not shown" not in text_of(figure)
        figure = indicators(study, spec, table.assign(simulations=[1, 1, 1, 1, 0, 0]))
        assert [len(ax.get_xticks()) for ax in panels_of(figure)] == [2]
        assert "Not shown: 1 of 3 conditions" in text_of(figure)


def test_curves_count_the_conditions_that_have_none_of_the_measures(study_factory: StudyFactory) -> None:
    study = measured(study_factory({"model": ["majority", "random", "minimum"]}))
    with own_style():
        figure = curves(study, BY_ROUND, by_round(majority=[(1, 9, 0.5)], random=[(1, 9, 0.6)]))
        assert "Not shown: 1 of 3 conditions, in which no simulation has what is drawn." in text_of(figure)


# The consensus game's own


@pytest.mark.slow
def test_agreement_by_round_is_drawn_where_networks_vary(study_factory: StudyFactory) -> None:
    grid = {"model": "minimum", "n": 6, "vary": {"topology": ["complete", "ring"]}}
    study = played(study_factory(grid, seeds=3, parameters={"max_rounds": 5, "stop_threshold": 1}))
    assert "agreement_by_round" in {spec.name for spec in study.figures}
    assert "agreement_by_round" not in {spec.name for spec in study_factory(grid | {"vary": None}).figures}
    figures.figures(study)
    text = paths.figure("small", "agreement_by_round", ".svg").read_text()
    assert "topology=ring" in text
    table = tables.read_table("small", "rounds")
    flooded = table[table["topology"] == "complete"].set_index("round")["mean"]
    assert flooded[2] == 1.0 > flooded[1]  # a complete network has the diameter 1
    around = table[table["topology"] == "ring"].set_index("round")["mean"]
    assert around[2] < 1.0


def test_agreement_of_nobody_is_none() -> None:
    trace = [{"round": 1, "honest_share": None}, {"round": 2, "honest_share": 0.5}]
    assert ConsensusGame.evidence.series({}, trace) == {"agreement": [(2, 0.5)]}
    assert isinstance(BY_ROUND, FigureSpec)
    assert json.dumps(ConsensusGame.evidence.series({}, trace))
