"""Indicators: the rates of a game's yes-or-no metrics side by side, for each condition."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures.page import empty, line_handle
from parley.figures.panels import NOISE, WILSON, known_only, labels_of, panel_rows, places_along, rate_panel
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

    if "band" in table:
        notes.append(NOISE)

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        lines = [conditions[conditions["indicator"] == name] for name in names]
        rate_panel(ax, along.x, along.shown(conditions), lines, along.per_panel, along.width)

    legend = [line_handle(i, label) for i, label in enumerate(labels.values())]
    size = (along.width, _HEIGHT)
    return panel_rows(study, spec, ["rate"], along.panels, along.by, size, notes, legend, draw)
