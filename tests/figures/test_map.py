"""The map: which rows and cells it has, and what it says of those that it leaves out."""

from dataclasses import replace
from typing import Any

import matplotlib
import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley import paths
from parley.analysis.attacked import with_undisturbed
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.figures.make import figures
from parley.figures.map import interval_text, quantity_map, rate_map
from parley.figures.page import heading
from parley.play.simulate import simulate
from parley.study import Study
from support import hunting
from support.measured import played
from support.studies import StudyFactory

SHORT = {"max_rounds": 2}


def drawn(study: Study, name: str) -> Figure:
    """Play a study, and return one of its maps."""
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    [spec] = [spec for spec in study.figures if spec.name == name]
    return rate_map(study, spec, summarize(study))[0]


def cells(figure: Figure) -> list[list[str]]:
    """Return the rates as they stand, row by row; "" where no cell is."""
    [ax] = figure.axes
    rows, columns = len(ax.get_yticks()), len(ax.get_xticks())
    shown = [[""] * columns for _ in range(rows)]
    for text in ax.texts:
        x, y = text.get_position()
        if text.get_text().endswith("%"):
            shown[round(y)][round(x)] = text.get_text()
    return shown


def names(figure: Figure) -> tuple[list[str], list[str]]:
    [ax] = figure.axes
    return [t.get_text() for t in ax.get_yticklabels()], [t.get_text() for t in ax.get_xticklabels()]


def words_of(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def test_undisturbed_conditions_begin_every_row(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"n": 4, "b": [0, 1, 2], "byzantine": ["silent", "opposite"]}, parameters={**SHORT, "stop_threshold": 0.5}
    )
    figure = drawn(study, "valid_by_adversary")
    assert names(figure) == (["silent", "opposite"], ["0", "1", "2"])
    # Majority agents alone agree in round 2; two silent ones of four do not keep half of all from stopping.
    assert cells(figure)[0] == ["100%", "100%", "100%"]
    assert cells(figure)[1][0] == "100%"


def test_what_was_not_run_is_empty_and_what_cannot_be_compared_is_told(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"n": 4, "b": [1, 2], "byzantine": ["silent"]},
        {"n": 4, "b": [1, 3], "byzantine": ["random"]},
        {"n": 4, "b": 1, "byzantine": ["stubborn"]},
        parameters=SHORT,
    )
    figure = drawn(study, "valid_by_adversary")
    assert names(figure) == (["silent", "random"], ["1", "2", "3"])
    assert [[bool(cell) for cell in row] for row in cells(figure)] == [[True, True, False], [True, False, True]]
    assert "Not shown: 1 of 3 groups of conditions, run with one b only." in words_of(figure)
    assert "In all rows: majority, n=4, prompt=may_exist." in words_of(figure)


def test_rows_are_named_by_what_varies_among_them(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"n": 4, "b": [1, 2], "byzantine": ["silent", "random"], "prompt": "may_exist"},
        {"n": 4, "b": 1, "byzantine": ["silent"], "prompt": "none_exist"},
        parameters=SHORT,
    )
    figure = drawn(study, "valid_by_adversary")
    assert names(figure)[0] == ["silent", "random"]
    assert "In all rows: majority, n=4, prompt=may_exist." in words_of(figure)


def test_nothing_to_compare_is_said(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"n": 3, "b": 1, "byzantine": ["silent"]}, {"n": 5, "b": 2, "byzantine": ["random"]}, parameters=SHORT
    )
    figure = drawn(study, "valid_by_adversary")
    assert "Nothing to compare: no two conditions differ in b alone." in figure.axes[0].texts[0].get_text()


def test_a_cell_holds_the_rate_and_its_interval(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 4, "b": [0, 1], "byzantine": ["silent"]}, parameters=SHORT, seeds=5)
    figure = drawn(study, "valid_by_adversary")
    [ax] = figure.axes
    assert [text.get_text() for text in ax.texts][:2] == ["100%", "[57, 100]"]  # Wilson's for 5 of 5
    assert "Rate of “valid consensus” by b, with its 95% Wilson interval" in words_of(figure)


@pytest.mark.parametrize(
    ("grid", "maps"),
    [
        ({"n": [3, 4]}, set()),
        ({"n": 4, "b": [0, 1], "byzantine": ["silent"]}, {"valid_by_adversary"}),
        ({"n": 4, "vary": {"topology": ["ring", "star"]}}, {"valid_by_topology"}),
        ({"n": 4, "vary": {"topology": ["ring"]}}, set()),
    ],
)
@pytest.mark.slow
def test_a_map_is_drawn_where_its_axes_vary(study_factory: StudyFactory, grid: dict[str, Any], maps: set[str]) -> None:
    study = study_factory(grid, parameters=SHORT)
    assert {spec.name for spec in study.figures if spec.kind == "map"} == maps
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    assert set(figures(study)) == {
        paths.figure("small", spec.name, suffix) for spec in study.figures for suffix in (".png", ".svg", ".pdf")
    } | {paths.figure_list("small")}


def test_a_map_of_topologies_has_a_column_for_each(study_factory: StudyFactory) -> None:
    wide = {"kind": "watts_strogatz", "k": 2, "p": 0.5}
    study = study_factory({"n": [4, 6], "vary": {"topology": ["ring", wide]}}, parameters=SHORT)
    figure = drawn(study, "valid_by_topology")
    assert names(figure) == (["n=4", "n=6"], ["ring", "watts_strogatz-k-2-p-0.5"])
    # The slanted name of the last column stays on the page.
    [ax] = figure.axes
    last = ax.get_xticklabels()[-1].get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    assert last.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0, 0.004, "[0, 0.4]"),
        (0.996, 1.0, "[99.6, 100]"),
        (0.12, 0.345, "[12, 34]"),
        (1e-17, 1 - 1e-12, "[0, 100]"),
    ],
)
def test_intervals_near_the_ends_have_a_decimal(low: float, high: float, text: str) -> None:
    assert interval_text(low, high) == text


def test_long_names_break_at_their_joints() -> None:
    assert heading(["model", "topology"], ["minimum", "watts_strogatz-k-4-p-0.2"], 1.5).splitlines() == [
        "minimum,",
        "topology=watts_",
        "strogatz-k-4-p-0.2",
    ]
    assert "".join(heading(["model"], ["x" * 50], 1.0).splitlines()) == "x" * 50


def test_adversaries_are_compared_where_they_come_on_top(study_factory: StudyFactory) -> None:
    study = study_factory(
        {"honest": 3, "b": [0, 1, 2], "byzantine": ["silent", "random"]}, parameters={**SHORT, "stop_threshold": 0.5}
    )
    figure = drawn(study, "valid_by_adversary")
    assert names(figure) == (["silent", "random"], ["0", "1", "2"])
    assert [bool(cell) for row in cells(figure) for cell in row] == [True] * 6
    assert "n = honest agents + b, so n grows with b." in words_of(figure)


def test_undisturbed_games_stand_beside_every_adversary_of_their_group() -> None:
    table = pd.DataFrame(
        [
            {"n": 4, "b": 0, "byzantine": "none", "rate": 1.0},
            {"n": 4, "b": 1, "byzantine": "silent", "rate": 0.5},
            {"n": 4, "b": 1, "byzantine": "random", "rate": 0.4},
            {"n": 6, "b": 0, "byzantine": "none", "rate": 0.9},
        ]
    )
    found = with_undisturbed(table, ["n", "byzantine"])
    assert [tuple(row) for row in found[["n", "b", "byzantine", "rate"]].to_numpy()] == [
        (6, 0, "none", 0.9),
        (4, 0, "silent", 1.0),
        (4, 0, "random", 1.0),
        (4, 1, "silent", 0.5),
        (4, 1, "random", 0.4),
    ]
    alone = with_undisturbed(table[:3], ["byzantine"])
    assert list(alone["byzantine"]) == ["silent", "random", "silent", "random"]
    assert with_undisturbed(table, ["n"]) is table


# Maps of a quantity

HUNTERS = {**hunting.HUNTERS, "n": 4}


def mapped(study: Study, name: str, **changes: Any) -> Figure:
    [spec] = [spec for spec in study.figures if spec.name == name]
    return quantity_map(study, replace(spec, **changes), read_table(study.name, "quantities"))[0]


def test_a_map_of_payoffs_has_means_and_wilson_intervals(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS, game="stag_hunt", seeds=2, parameters={"rounds": 4}))
    figure = mapped(study, "payoff_map")
    assert names(figure) == (["grim_trigger", "always_stag"], ["0", "1"])
    [ax] = figure.axes
    # Betrayed from round 2 of 4: grim triggers get 10, 0, 3, 3 points, the loyal 10, 0, 0, 0.
    # Of 10 points; both simulations are equal. With z * z = 3.8415: 2 / 5.8415 of all 10, for p 0.4 and 0.25
    # (p + 0.9604 -+ 1.96 * sqrt(p * (1 - p) / 2 + 0.2401)) / 2.9207.
    assert [text.get_text() for text in ax.texts] == [
        *("10", "[3.42, 10]", "4", "[0.631, 8.68]"),
        *("10", "[3.42, 10]", "2.5", "[0.267, 8.02]"),
    ]
    shades = [sum(patch.get_facecolor()[:3]) for patch in ax.patches]
    assert shades[0] == shades[2] > shades[1] > shades[3]  # from the least to the greatest mean
    said = words_of(figure)
    assert (
        "Mean payoff of an honest player per round (points) by b, with its 95% Wilson interval; 2 simulations" in said
    )
    assert "2 simulations per cell" in said
    assert "t interval" not in said
    rounds = mapped(study, "payoff_map", of=("first_betrayal_round",), x="model")
    assert "by model, with its 95% t interval; a single simulation has none; 2 simulations" in words_of(rounds)


def test_single_simulations_have_no_t_interval_and_missing_numbers_no_cell(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS | {"b": [0, 1, 2]}, game="stag_hunt", seeds=1, parameters={"rounds": 4}))
    [ax] = mapped(study, "payoff_map").axes
    assert [text.get_text() for text in ax.texts][:4] == ["10", "[2.07, 10]", "4", "[0.358, 9.23]"]
    rounds = mapped(study, "payoff_map", of=("first_betrayal_round",), x="model")
    assert {text.get_text() for text in rounds.axes[0].texts} == {"2", ""}
    only_betrayed = mapped(study, "payoff_map", of=("defection_prone",))
    assert names(only_betrayed)[1] == ["1", "2"]
    never = mapped(study, "payoff_map", of=("rounds_until_retreat",), x="model")
    assert "Nothing to compare" in never.axes[0].texts[0].get_text()  # the loyal never act otherwise


def test_a_map_of_shares_is_one_of_rates(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS | {"b": [0, 1, 2]}, game="stag_hunt", seeds=5, parameters={"rounds": 4}))
    figure = mapped(study, "payoff_map", of=("kept_hunting",))
    assert names(figure) == (["grim_trigger", "always_stag"], ["1", "2"])
    [ax] = figure.axes
    # Grim triggers never hunt the stag again. Wilson's for 0 and 5 of 5.
    assert [text.get_text() for text in ax.texts] == [*("0%", "[0, 43]") * 2, *("100%", "[57, 100]") * 2]
    assert "keep hunting the stag by b, with its 95% Wilson interval; 5 simulations" in words_of(figure)
    assert "Not shown: 2 of 6 conditions, in which no simulation has what is drawn." in words_of(figure)
    [ax] = mapped(study, "payoff_map", of=("stag_share",)).axes
    assert [text.get_text() for text in ax.texts][::2] == ["100%", "50%", "50%"] + ["100%"] * 3
    # Colors are those of all shares, whatever the means are.
    assert [patch.get_facecolor() for patch in ax.patches[:2]] == [
        matplotlib.colormaps["cividis"](s) for s in (1.0, 0.5)
    ]


def test_maps_of_payoffs_are_drawn_where_their_axes_vary(study_factory: StudyFactory) -> None:
    def maps(grid: dict[str, Any], **parameters: Any) -> set[str]:
        study = study_factory(grid, game="stag_hunt", parameters={"rounds": 2, **parameters})
        return {spec.name for spec in study.figures if spec.kind == "map" and spec.of}

    assert maps(HUNTERS) == {"payoff_map"}
    assert maps(HUNTERS | {"b": 1}) == set()
    seen = {"topology": ["complete", "ring"], "disclosure": ["silent", "explicit"]}
    assert maps(HUNTERS | {"b": 0, "vary": seen}) == {"payoff_by_disclosure"}


@pytest.mark.slow
def test_the_figures_stage_draws_maps_of_quantities(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS, game="stag_hunt", seeds=2, parameters={"rounds": 2}))
    figures(study)
    assert "points" in paths.figure(study.name, "payoff_map", ".svg").read_text()
