"""Quantities: the means of a game's numbers along an axis, with their intervals."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.rates import all_quantities
from parley.figures.page import empty, line_handle, line_style, words
from parley.figures.panels import (
    Along,
    Place,
    axis_of_lines,
    chosen,
    error_bars,
    grid_lines,
    interval_note,
    known_only,
    labels_of,
    panel_rows,
    places_along,
    share_axis,
    sims_text,
)
from parley.games.evidence import FigureSpec
from parley.study import Study

_HEIGHT = 1.8  # inches


def quantities(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
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
    along = places_along(study, spec, table, 0.62, notes, lines=axis_of_lines)
    counted = "blocks" if spec.blocks else "sims"
    what = "blocks: those behind a point." if spec.blocks else "sims: simulations per point."
    notes += [interval_note(shown), what]
    if along.lines_by is not None:
        notes.append(f"Where they differ between lines, {counted} are in the order of the legend.")
    legend = [line_handle(i, words([along.lines_by], [x])) for i, x in enumerate(along.lines) if along.lines_by]
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
        _panel(ax, here, along, along.shown(conditions), counted, cut=name not in whole)

    size = (along.width, _HEIGHT)
    return panel_rows(study, spec, titles, along.panels, along.by, size, notes, legend, draw)


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


def _panel(
    ax: Axes, conditions: pd.DataFrame, along: Along, places: Sequence[Place], counted: str, *, cut: bool
) -> None:
    """Draw the points of one panel; `cut` says whether intervals end at its edge."""
    lines = along.lines
    apart = min(0.12, 0.6 / len(lines))
    counts: list[list[int | None]] = [[] for _ in places]
    for index, line in enumerate(lines):
        points, intervals = [], []
        rows = chosen(conditions, along.lines_by, line).to_dict("records")
        for place, (value, _) in enumerate(places):
            row = next((row for row in rows if along.x is None or row[along.x] == value), None)
            counts[place].append(None if row is None else int(row["simulations"]))
            if row is None or not row["simulations"]:
                continue
            points.append((place + (index - (len(lines) - 1) / 2) * apart, row["mean"]))
            if not pd.isna(row["low"]):
                intervals.append((*points[-1], row["low"], row["high"]))
        if not points:
            continue
        style = line_style(index)
        ax.plot(*zip(*points, strict=True), clip_on=False, zorder=3, **style | {"linestyle": "none"})
        error_bars(ax, intervals, style["color"], style["linewidth"], capsize=2.5, clip_on=cut, zorder=2.5)
        if not any(isinstance(value, str) for value, _ in places):  # between names a line would say nothing
            ax.plot(*zip(*points, strict=True), **style | {"marker": "none", "alpha": 0.6, "zorder": 2})
    labels = [f"{label}\n{sims_text(known, counted)}" for (_, label), known in zip(places, counts, strict=True)]
    ax.set_xticks(range(len(places)), labels)
    ax.set_xlabel(along.x or "")
