"""Quantities: the means of a game's numbers along an axis, with their intervals."""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.rates import all_quantities
from parley.figures.links import linker
from parley.figures.page import empty
from parley.figures.panels import (
    axis_of_lines,
    chosen,
    counted,
    differences,
    grid_lines,
    interval_note,
    known_only,
    labels_of,
    legend_of_lines,
    panel_rows,
    places_along,
    point_panel,
    share_axis,
)
from parley.figures.style import HEIGHT
from parley.games.evidence import FigureSpec
from parley.study import Study


def quantities(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row of panels per quantity in `spec.of`, with its mean by `spec.x`; `table` is `quantities`.

    If `spec.x` does not vary, the axis with the most values is along x. Lines are the other axis that leaves the
    fewest panels; all others are panels.
    """
    notes: list[str] = []
    described = all_quantities(table["quantity"], study.game)
    labels = known_only(table, "quantity", labels_of(described, spec.of), notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    names = list(labels)
    shown = [what for what in described if what.name in labels]
    units = {what.name: what.unit for what in shown}
    shares = {what.name for what in shown if what.share}
    titles = [f"{label} ({units[name]})" if units.get(name) else label for name, label in labels.items()]
    table = table[table["quantity"].isin(names)]
    of = "blocks" if spec.blocks else "sims"
    notes.append(interval_note(shown))
    same = counted(table, notes, of)
    along = places_along(study, spec, table, 0.35, notes, lines=partial(axis_of_lines, wish=spec.lines))
    styles, legend = legend_of_lines(study, along.lines_by, along.lines)
    link = linker(study)
    whole = {what.name for what in shown if what.bounded}
    ranges = {
        name: _range(table[table["quantity"] == name], whole=name in whole) for name in names if name not in shares
    }
    if any(cut for _, _, cut in ranges.values()):
        notes.append("Intervals that leave a panel are cut; the tables hold all.")

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        name = names[index]
        if name in shares:
            share_axis(ax, along.per_panel)
        else:
            grid_lines(ax)
            ax.set_xlim(-0.5, along.per_panel - 0.5)
            ax.set_ylim(*ranges[name][:2])
        here = conditions[conditions["quantity"] == name]
        places = along.shown(conditions)
        shown = [chosen(here, along.lines_by, value) for value in along.lines]
        joined = not any(isinstance(value, str) for value, _ in places)  # between names a line would say nothing
        point_panel(ax, along, places, shown, styles, same, link, joined, "mean", cut=name not in whole)

    def tells(group: pd.DataFrame) -> float:
        spans = {name: differences(table[table["quantity"] == name], "mean") or 1.0 for name in names}
        return max(differences(group[group["quantity"] == name], "mean") / spans[name] for name in names)

    size = (along.width, HEIGHT)
    return panel_rows(study, spec, titles, along.groups, along.by, size, notes, legend, draw, tells, along.lines_below)


def _range(rows: pd.DataFrame, *, whole: bool) -> tuple[float, float, bool]:
    """Return the limits of y, and whether they cut an interval: of few simulations some would dwarf all means.

    Intervals within what is possible are shown `whole`.
    """
    means = [0.0, *rows["mean"].dropna()]
    bottom, top = min(means), max(means)
    span = (top - bottom) or 1.0
    low, high = min([bottom, *rows["low"].dropna()]), max([top, *rows["high"].dropna()])
    if whole:
        return 0.0, 1.05 * high, False
    # Where no mean is below 0 nothing is expected there: t intervals know no bound.
    below, above = max(low, bottom - span) if bottom < 0 else 0.0, min(high, top + 2 * span)
    room = 0.05 * (above - below or 1.0)
    return (below - room if below < 0 else 0.0), above + room, low < below or high > above
