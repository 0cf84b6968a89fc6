"""Indicators: the rates of a game's yes-or-no metrics side by side, for each condition."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures.page import empty, line_handle
from parley.figures.panels import (
    WILSON,
    Along,
    known_only,
    labels_of,
    not_run,
    panel_rows,
    places_along,
    rate_point,
    share_axis,
    sims_text,
)
from parley.games.evidence import FigureSpec
from parley.study import Study

_HEIGHT = 2.0  # inches


def indicators(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw the rates of the indicators in `spec.of` by `spec.x`, a panel per value of all else; `table` is `rates`.

    If `spec.x` does not vary, the axis with the most values is along x.
    """
    notes: list[str] = []
    labels = known_only(table, "indicator", labels_of(study.game.evidence.indicators, spec.of), notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    names = list(labels)
    each = 0.27 * len(names) + 0.12  # inches of a place along x
    table = table[table["indicator"].isin(names)]
    along = places_along(study, spec, table, each, notes)
    notes += [f"Rate with its {WILSON}; sims: simulations that have an answer, in the order of the legend."]

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        _panel(ax, conditions, along, names)

    legend = [line_handle(i, label) for i, label in enumerate(labels.values())]
    size = (along.width, _HEIGHT)
    return panel_rows(study, spec, ["rate"], along.panels, along.by, size, notes, legend, draw)


def _panel(ax: Axes, conditions: pd.DataFrame, along: Along, names: Sequence[str]) -> None:
    x, places = along.x, along.shown(conditions)
    share_axis(ax, along.per_panel)
    inch = along.per_panel / along.width
    step = min(0.86 / len(names), 0.32 * inch)
    ticks = []
    for place, (value, label) in enumerate(places):
        here = conditions if x is None else conditions[conditions[x] == value]
        rows: list[Any] = [next(iter(here[here["indicator"] == name].to_dict("records")), None) for name in names]
        ticks.append(f"{label}\n{sims_text([row and int(row['simulations']) for row in rows])}")
        if here.empty:
            not_run(ax, place)
        for index, row in enumerate(rows):
            if row and row["simulations"]:
                at = place + (index - (len(names) - 1) / 2) * step - 0.06 * inch
                rate_point(ax, at, (row["rate"], row["low"], row["high"]), index, inch)
    ax.set_xticks(range(len(places)), ticks)
    ax.set_xlabel(x or "")
