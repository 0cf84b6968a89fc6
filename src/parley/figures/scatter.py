"""Scatter: what agents agreed on by what they began with, a point per simulation and a panel per condition."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from parley.figures import common
from parley.figures.page import Panel, empty, heading, pages, panel_width
from parley.figures.style import GRAY
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIDE = 1.3  # inches, of a panel
_MARKERS = "osD^vP"
_EQUAL: dict[str, Any] = {"color": GRAY, "linestyle": (0, (4, 2)), "linewidth": 0.9}
_FITTED: dict[str, Any] = {"color": "black", "linewidth": 1.2}


def scatter(study: Study, spec: FigureSpec, simulations: pd.DataFrame, quality: pd.DataFrame) -> list[Figure]:
    """Draw the two metrics that the table `quality` is about, a point per simulation."""
    names = list(study.game.evidence.about("quality"))
    rows = simulations.dropna(subset=names) if set(names) <= set(simulations) else simulations.iloc[:0]
    if rows.empty:
        return empty(study, spec, "Nothing to draw: no simulation ended in agreement on a value.")
    notes, (first, second) = list[str](), names
    by = common.varied(rows, study.axes, notes)
    groups = common.alike(study, rows, study.axes)
    common.not_shown(len(study.conditions), rows.groupby(study.axes, sort=False).ngroups, notes)
    if quality["slope"].notna().any():
        notes.append("The table quality has the slope of the line, and the bias, with their intervals.")
    drawn = pd.concat([group for _, group in groups])
    low, high = float(drawn[names].min().min()), float(drawn[names].max().max())
    room = 0.05 * (high - low or 1.0)
    shown = [outcome for outcome in study.game.outcomes if outcome.name in set(drawn["outcome"])]
    styles: dict[str, dict[str, Any]] = {
        outcome.name: {"marker": _MARKERS[place % len(_MARKERS)], "color": outcome.color, "linestyle": "none"}
        for place, outcome in enumerate(shown)
    }
    lines = {tuple(row[axis] for axis in study.axes): row for row in quality.to_dict("records")}

    link = common.linker(study)

    def draw(ax: Axes, key: tuple[Any, ...], group: pd.DataFrame) -> None:
        values = dict(zip(study.axes, key, strict=True))
        ax.set_title(heading(by, [values[axis] for axis in by], panel_width(len(groups), _SIDE)))
        ends = (low - room, high + room)
        ax.set(xlim=ends, ylim=ends, xlabel="mean of initial values", ylabel="agreed value")
        ax.plot([low, high], [low, high], **_EQUAL)
        for outcome in shown:
            here = group[group["outcome"] == outcome.name]
            if len(here):  # else a link would lead nowhere
                style = styles[outcome.name] | {"markersize": 2.8, "alpha": 0.6}
                ax.plot(here[first], here[second], url=link(values, outcome.name), **style)
        _fitted(ax, lines[key], (float(group[first].min()), float(group[first].max())))

    panels = [Panel([partial(draw, key=key, group=group)]) for key, group in groups]
    legend = [Line2D([], [], label=outcome.label, markersize=4, **styles[outcome.name]) for outcome in shown]
    legend.append(Line2D([], [], label="equal", **_EQUAL))
    if quality["slope"].notna().any():
        legend.append(Line2D([], [], label="least squares", **_FITTED))
    return pages(study, spec, panels, (_SIDE, _SIDE), notes, legend)


def _fitted(ax: Axes, line: dict[Any, Any], ends: tuple[float, float]) -> None:
    """Draw the line of one condition between two values of x, and say of how many simulations it is."""
    if not pd.isna(line["slope"]):
        ax.plot(ends, [line["intercept"] + line["slope"] * x for x in ends], **_FITTED)
    number = line["simulations"]
    text = f"{number} sim{'' if number == 1 else 's'}"
    ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", size=7)
