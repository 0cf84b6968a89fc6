"""Scatter: what agents agreed on by what they began with, a point per simulation and a panel per condition."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from parley.analysis.rates import by_condition
from parley.figures.page import empty, heading, in_blocks, page
from parley.figures.panels import at_most, columns_of, evenly, not_shown, varied
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIDE = 1.9  # inches, of a panel
_MARKERS = "osD^vP"
_EQUAL: dict[str, Any] = {"color": "#777777", "linestyle": (0, (4, 2)), "linewidth": 0.9}
_FITTED: dict[str, Any] = {"color": "black", "linewidth": 1.2}


def scatter(study: Study, spec: FigureSpec, simulations: pd.DataFrame, quality: pd.DataFrame) -> Figure:
    """Draw the metrics that the game's evidence names `regressed`; `quality` is the table of that name.

    Outcomes differ in color and marker. Conditions without a simulation that has both are left out.
    """
    names = study.game.evidence.regressed
    rows = simulations.dropna(subset=list(names)) if names and set(names) <= set(simulations) else simulations.iloc[:0]
    if names is None or rows.empty:
        return empty(study, spec, "Nothing to draw: no simulation ended in agreement on a value.")
    notes: list[str] = []
    by = varied(rows, study.axes, notes)
    panels = at_most(list(by_condition(rows, study.axes)), notes)
    not_shown(len(study.conditions), rows.groupby(study.axes, sort=False).ngroups, notes)
    notes.append("Black: least squares, with its slope and 95% t interval; bias: mean of y less x, with its own.")
    drawn = pd.concat([group for _, group in panels])
    low, high = (float(end) for end in (drawn[list(names)].min().min(), drawn[list(names)].max().max()))
    room = 0.05 * (high - low or 1.0)
    shown = [outcome for outcome in study.game.outcomes if outcome.name in set(drawn["outcome"])]
    styles: dict[str, dict[str, Any]] = {
        outcome.name: {"marker": _MARKERS[place % len(_MARKERS)], "color": outcome.color, "linestyle": "none"}
        for place, outcome in enumerate(shown)
    }
    lines = {tuple(row[axis] for axis in study.axes): row for row in quality.to_dict("records")}

    def draw(ax: Axes, key: tuple[Any, ...], group: pd.DataFrame) -> None:
        values = dict(zip(study.axes, key, strict=True))
        ax.set_title(heading(by, [values[axis] for axis in by], _SIDE), size=8)
        ax.set(xlim=(low - room, high + room), ylim=(low - room, high + room), ylabel="agreed value")
        ax.plot([low, high], [low, high], **_EQUAL)
        for outcome in shown:
            here = group[group["outcome"] == outcome.name]
            ax.plot(here[names[0]], here[names[1]], markersize=3.2, alpha=0.6, **styles[outcome.name])
        _fitted(ax, lines[key], (float(group[names[0]].min()), float(group[names[0]].max())))

    drawings = [partial(draw, key=key, group=group) for key, group in panels]
    legend = [Line2D([], [], label=outcome.label, markersize=4, **styles[outcome.name]) for outcome in shown]
    legend += [Line2D([], [], label="equal", **_EQUAL), Line2D([], [], label="least squares", **_FITTED)]
    rows_of = in_blocks(drawings, evenly(len(drawings), columns_of(_SIDE)))
    return page(study, spec, rows_of, (_SIDE, _SIDE), notes, legend)


def _fitted(ax: Axes, line: dict[Any, Any], ends: tuple[float, float]) -> None:
    """Draw the line of one condition between two values of x, and write its numbers below."""
    if not pd.isna(line["slope"]):
        ax.plot(ends, [line["intercept"] + line["slope"] * x for x in ends], **_FITTED)
    told = [f"{line['simulations']} sims"]
    for name in ("slope", "bias"):
        if not pd.isna(line[name]):
            limits = (
                "" if pd.isna(line[f"{name}_low"]) else f" [{line[f'{name}_low']:.2g}, {line[f'{name}_high']:.2g}]"
            )
            told.append(f"{name} {line[name]:.2g}{limits}")
    ax.set_xlabel("\n".join(["mean of initial values", *told]))
