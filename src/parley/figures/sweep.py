"""Sweeps: how the shares of kinds of agents move with the threshold that tells them apart, a panel per condition."""

import math
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures.page import empty, heading, in_blocks, line_handle, line_style, page
from parley.figures.panels import (
    WILSON,
    Panel,
    alike,
    at_most,
    columns_of,
    error_bars,
    labels_of,
    not_shown,
    share_axis,
    sims_text,
    varied,
)
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIZE = (2.4, 1.7)  # inches, of a panel
_MAX_PANELS = 24  # intervals at every threshold need room
_APART = 0.012  # of the range of thresholds, between lines
_MAX_TICKS = 6


def sweep(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw the mean of each share in `spec.of` by the threshold; `table` is `thresholds`."""
    notes: list[str] = []
    table = table[table["share"].isin(spec.of)]
    if table.empty:
        return empty(study, spec, "Nothing to draw: no simulation has shares by threshold.")
    labels = labels_of(study.game.evidence.quantities, spec.of)
    varying = varied(table, study.axes, notes)
    found = list(alike(table, varying))
    not_shown(len(study.conditions), len(found), notes)
    panels = at_most(found, notes, _MAX_PANELS)
    notes.append(f"Mean of the simulations that have the shares, with its {WILSON}; sims: how many these are.")
    legend = [line_handle(index, label) for index, label in enumerate(labels.values())]

    def draw(ax: Axes, panel: Panel) -> None:
        key, rows = panel
        counted = sims_text([int(rows["simulations"].max())])
        ax.set_title("\n".join(filter(None, [heading(varying, key, _SIZE[0]), counted])), size=8)
        ax.set_xlabel(spec.x)
        _panel(ax, rows, list(labels))

    rows = in_blocks([partial(draw, panel=panel) for panel in panels], columns_of(_SIZE[0]))
    return page(study, spec, rows, _SIZE, notes, legend)


def _panel(ax: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    share_axis(ax, 1)
    thresholds = sorted(rows["threshold"].unique())
    span = (thresholds[-1] - thresholds[0]) or 1.0
    ax.set_xlim(thresholds[0] - 0.05 * span, thresholds[-1] + 0.05 * span)
    ax.set_xticks(thresholds[:: math.ceil(len(thresholds) / _MAX_TICKS)])
    for index, name in enumerate(names):
        here = rows[rows["share"] == name].sort_values("threshold")
        x = here["threshold"].to_numpy(float) + (index - (len(names) - 1) / 2) * _APART * span
        style = line_style(index)
        ax.plot(x, here["mean"], clip_on=False, zorder=3, **style)
        points = list(zip(x, here["mean"], here["low"], here["high"], strict=True))
        error_bars(ax, points, style["color"], 0.8, capsize=1.5, clip_on=False, zorder=2)
