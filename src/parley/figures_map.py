"""Maps: the rate of a game's first outcome as colored cells, for studies whose axes make too many bars.

A cell holds the rate and its Wilson interval, so that the color is never all there is to read. Cells that no
condition stands for stay empty.
"""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley import tables
from parley.figures_page import MOST_PANELS, WIDEST, heading, page, room, words
from parley.games.base import FigureSpec
from parley.stats import CONFIDENCE
from parley.study import Study

_CELL = (0.74, 0.42)  # inches
_COLORS = "cividis"  # as good for color-blind readers, and in gray
_CHARACTER = 0.07  # width of a character of a row's name, in inches
_LONGEST_NAME = 34


def rate_map(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw a panel per combination of the axes that are neither x nor y: a cell per condition.

    `table` is the table of conditions, a row for each; x and the first of `spec.y` that varies must be among its axes.
    """
    axes = tables.axes(study)
    y = next(axis for axis in spec.y if axis in axes and table[axis].nunique() > 1)
    others = [axis for axis in axes if axis not in (spec.x, y)]
    varying = [axis for axis in others if table[axis].nunique() > 1]
    fixed = [axis for axis in others if axis not in varying]
    outcome = study.game.outcomes[0]
    counts = sorted(set(table["simulations"]))
    notes = [
        f"Rate of {outcome.label} with its {CONFIDENCE:.0%} Wilson interval; "
        f"{counts[0] if len(counts) == 1 else f'{counts[0]} to {counts[-1]}'} simulations per cell."
    ]
    if fixed:
        notes.append(f"In all panels: {words(fixed, [table[axis].iloc[0] for axis in fixed])}.")
    panels = list(table.groupby(varying, sort=False)) if varying else [((), table)]
    if len(panels) > MOST_PANELS:
        notes.append(f"The first {MOST_PANELS} of {len(panels)} panels are shown; the tables hold all.")
        panels = panels[:MOST_PANELS]
    xs, ys = _values(table[spec.x]), _values(table[y])
    names = [_cut(str(value)) for value in ys]
    margin = _CHARACTER * max(len(name) for name in names)
    width, height = _CELL[0] * len(xs), _CELL[1] * len(ys)
    columns = max(1, min(len(panels), int((WIDEST - margin) / (width + margin + 0.2))))
    headings = [heading(varying, key if isinstance(key, tuple) else (key,), width + margin) for key, _ in panels]
    grid = (math.ceil(len(panels) / columns), columns)
    # The names of the rows stand in the gap before each panel.
    figure, rows = page(study, spec, grid, (width, height), notes, [], room(headings), margin + 0.3)
    for index, ax in enumerate(ax for row in rows for ax in row):
        if index >= len(panels):
            ax.set_visible(False)
            continue
        ax.set_title(headings[index], size=8)
        _panel(ax, panels[index][1], (spec.x, xs), (y, ys), names, outcome.name)
        if index % columns == 0:
            ax.set_ylabel(y)
    return figure


def _panel(
    ax: Axes,
    conditions: pd.DataFrame,
    x: tuple[str, Sequence[Any]],
    y: tuple[str, Sequence[Any]],
    names: Sequence[str],
    outcome: str,
) -> None:
    colors = matplotlib.colormaps[_COLORS]
    (x_axis, xs), (y_axis, ys) = x, y
    for _, row in conditions.iterrows():
        place = (xs.index(row[x_axis]) - 0.5, ys.index(row[y_axis]) - 0.5)
        rate, low, high = (float(row[f"{outcome}_{part}"]) for part in ("rate", "low", "high"))
        ax.add_patch(
            matplotlib.patches.Rectangle(place, 1, 1, facecolor=colors(rate), edgecolor="white", linewidth=1.5)
        )
        ink = "white" if rate < 0.55 else "black"
        middle = place[0] + 0.5, place[1] + 0.5
        ax.text(middle[0], middle[1] - 0.17, f"{rate:.0%}", ha="center", va="center", size=8, color=ink)
        interval = f"[{100 * low:.0f}, {100 * high:.0f}]"
        ax.text(middle[0], middle[1] + 0.24, interval, ha="center", va="center", size=6, color=ink)
    ax.set_xlim(-0.5, len(xs) - 0.5)
    ax.set_ylim(len(ys) - 0.5, -0.5)
    labels = [_cut(str(value)) for value in xs]
    slanted = max(len(label) for label in labels) > 9
    ax.set_xticks(range(len(xs)), labels, rotation=30 if slanted else 0, ha="right" if slanted else "center")
    ax.set_yticks(range(len(ys)), names)
    ax.set_xlabel(x_axis)
    ax.tick_params(length=0)
    ax.set_facecolor("#F2F2F2")
    ax.spines[:].set_visible(False)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def _values(column: pd.Series) -> list[Any]:
    """Return the values of an axis: numbers in order, names as the study lists them."""
    values = list(column.drop_duplicates())
    return values if any(isinstance(value, str) for value in values) else sorted(values)
