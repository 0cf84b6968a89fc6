"""Indicators: the rates of a game's yes-or-no metrics side by side, for each condition."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures.links import linker
from parley.figures.page import empty
from parley.figures.panels import (
    NOISE,
    WILSON,
    counted,
    differences,
    known_only,
    labels_of,
    panel_rows,
    places_along,
    point_panel,
    share_axis,
)
from parley.figures.style import line_handle
from parley.games.evidence import FigureSpec
from parley.study import Study

_HEIGHT = 1.4  # inches


def indicators(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the rates of the indicators in `spec.of` by `spec.x`, a panel per value of all else; `table` is `rates`.

    If `spec.x` does not vary, the axis with the most values is along x.
    """
    notes: list[str] = []
    labels = known_only(table, "indicator", labels_of(study.game.evidence.indicators, spec.of), notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    names = list(labels)
    styles = [spec.of.index(name) for name in names]  # as in other studies of the game
    table = table[table["indicator"].isin(names)]
    notes.append(f"Rate with its {WILSON}.")
    same = counted(table, notes)
    along = places_along(study, spec, table, max(0.35, 0.13 * len(names) + 0.1), notes)
    if "band" in table:
        notes.append(NOISE)
    link = linker(study)

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        lines = [conditions[conditions["indicator"] == name] for name in names]
        share_axis(ax, along.per_panel)
        point_panel(ax, along, along.shown(conditions), lines, styles, same, link)

    def tells(group: pd.DataFrame) -> float:
        # Of panels that differ as much, those with more to compare come first.
        return max(differences(group[group["indicator"] == name], "rate") for name in names) + 1e-6 * len(group)

    legend = [line_handle(i, label) for i, label in zip(styles, labels.values(), strict=True)]
    size = (along.width, _HEIGHT)
    return panel_rows(
        study, spec, ["rate"], along.groups, along.by, size, notes, legend, draw, tells, along.lines_below
    )
