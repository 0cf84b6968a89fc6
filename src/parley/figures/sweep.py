"""Sweeps: how the shares of kinds of agents move with the threshold that tells them apart, a panel per condition."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures.links import Linker, linker
from parley.figures.page import empty
from parley.figures.panels import (
    WILSON,
    alike,
    counted,
    differences,
    error_bars,
    labels_of,
    not_shown,
    panel_rows,
    share_axis,
    varied,
)
from parley.figures.style import HEIGHT, line_handle, line_style
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIZE = (1.4, HEIGHT)  # inches, of a panel
_MAX_MARKS = 6  # with intervals, on one line
_APART = 0.012  # of the range of thresholds, between lines
_MAX_TICKS = 6


def sweep(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the mean of each share in `spec.of` by the threshold; `table` is `thresholds`."""
    notes: list[str] = []
    table = table[table["share"].isin(spec.of)]
    if table.empty:
        return empty(study, spec, "Nothing to draw: no simulation has shares by threshold.")
    labels = labels_of(study.game.evidence.quantities, spec.of)
    varying = varied(table, study.axes, notes)
    found = list(alike(table, varying))
    not_shown(len(study.conditions), len(found), notes)
    notes.append(f"Mean of the simulations that have the shares, with its {WILSON}.")
    same = table["simulations"].nunique() == 1  # else it stands under each panel
    if same:
        counted(table, notes)
    heads = {label.rpartition(": ")[0] for label in labels.values()}
    common = heads.pop() if len(heads) == 1 else ""  # stands along y, once
    legend = [line_handle(index, label.removeprefix(f"{common}: ")) for index, label in enumerate(labels.values())]
    link = linker(study)

    def draw(ax: Axes, index: int, rows: pd.DataFrame) -> None:
        _panel(ax, rows, list(labels), link)
        ax.set_xlabel(spec.x if same else f"{spec.x}\n{int(rows['simulations'].max())} sims")

    def tells(rows: pd.DataFrame) -> float:
        return max(differences(rows[rows["share"] == name], "mean") for name in labels)

    return panel_rows(study, spec, [common or "mean share"], found, varying, _SIZE, notes, legend, draw, tells)


def _panel(ax: Axes, rows: pd.DataFrame, names: list[str], link: Linker) -> None:
    share_axis(ax, 1)
    thresholds = sorted(rows["threshold"].unique())
    span = (thresholds[-1] - thresholds[0]) or 1.0
    ax.set_xlim(thresholds[0] - 0.05 * span, thresholds[-1] + 0.05 * span)
    ax.set_xticks(thresholds[:: math.ceil(len(thresholds) / _MAX_TICKS)])
    for index, name in enumerate(names):
        here = rows[rows["share"] == name].sort_values("threshold")
        x = here["threshold"].to_numpy(float) + (index - (len(names) - 1) / 2) * _APART * span
        style = line_style(index)
        every = math.ceil(len(x) / _MAX_MARKS)
        marked = slice(index % every if len(x) > every else 0, None, every)
        ax.plot(x, here["mean"], clip_on=False, zorder=3, markevery=marked, url=link(rows.iloc[0]), **style)
        points = list(zip(x, here["mean"], here["low"], here["high"], strict=True))[marked]
        error_bars(ax, points, style["color"], 0.8, 1.5)
