"""Effects: what each value of each axis changes in the rate of an outcome, by the model over all axes."""

import math
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.effects import CHANGES
from parley.analysis.stats import CONFIDENCE
from parley.figures.page import Panel, empty, pages, wrapped
from parley.figures.style import FAINT, line_style, look
from parley.games.evidence import FigureSpec
from parley.study import Study
from parley.study.comparisons import labels_of_rates

_ROWS, _ROW = 40, 0.18  # of a page, and inches of a row


def effects(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row per effect, with its interval, in percentage points; `table` is that of effects."""
    if table.empty:
        return empty(study, spec, "Nothing to draw: no two conditions that can have the outcome differ in one axis.")
    what = labels_of_rates(study.game)[str(table["what"].iloc[0])]
    notes = [
        f"What a value changes in the rate of: {what}, in percentage points with its {CONFIDENCE:.0%} interval; all "
        "else stays the same. From a binomial model over all axes whose simulations are correlated by seed (GEE): "
        f"{sum(len(condition.seeds) for condition in study.conditions)} simulations."
    ]
    if table["at"].str.contains(CHANGES, regex=False).any():
        notes.append("Squares: how an effect changes from one value of another axis to the next.")
    if (table["separated"] > 0).any():
        notes.append("By Firth's likelihood where a condition that is compared has the outcome always, or never.")
    if table["low"].isna().any():
        notes.append("Open marks have no interval: too few seeds, or no variation.")
    if said := list(dict.fromkeys(note for note in table["note"] if note)):
        notes.append(f"The fit warned: {said[0]}.")
    parts = [table.iloc[at : at + _ROWS] for at in range(0, len(table), _ROWS)]
    heights = [_ROW * float(_places(part)[-1]) + 0.1 for part in parts]
    reach = 105 * float(np.nanmax(table[["effect", "low", "high"]].abs().to_numpy(), initial=0.0))
    panels = [
        Panel(
            [partial(_forest, table=part, reach=reach)],
            float(part["effect"].abs().fillna(0).max()),
            0,
            height,
        )
        for part, height in zip(parts, heights, strict=True)
    ]
    return pages(study, spec, panels, (3.0, max(heights)), notes, [], columns=1, beside=3.6)


def _forest(ax: Axes, table: pd.DataFrame, reach: float) -> None:
    rows = table.to_dict("records")
    ax.axvline(0, color="#333333", linewidth=0.8, zorder=1)
    ax.set_axisbelow(True)
    ax.grid(axis="x", color=FAINT, linewidth=0.6)
    edges = _places(table)
    middles = [(top + bottom) / 2 for top, bottom in pairwise([0, *edges])]
    for number, (row, place) in enumerate(zip(rows, middles, strict=True)):
        change, low, high = (100 * row[name] for name in ("effect", "low", "high"))
        style = {**line_style(1 if CHANGES in row["at"] else 0), "linestyle": "none"}
        if math.isnan(low):
            style |= {"markerfacecolor": "white"}
        else:
            style |= {"xerr": [[max(0.0, change - low)], [max(0.0, high - change)]], "capsize": 2.5}
        if not math.isnan(change):
            ax.errorbar(change, place, zorder=3, clip_on=False, **style)
        else:
            ax.text(0, place, "cannot be fitted", va="center", size=7)
        if number and row["axis"] != rows[number - 1]["axis"]:
            ax.axhline(edges[number - 1], color="#BBBBBB", linewidth=0.6)
    ax.set_yticks(middles, [_label(row) for row in rows])
    ax.set_ylim(edges[-1], 0)
    ax.set_xlim(-max(reach, 5.0), max(reach, 5.0))
    ax.set_xlabel("percentage points")


def _places(table: pd.DataFrame) -> list[float]:
    """Return where each row ends, in heights of a row of one line."""
    return list(accumulate(1 + 0.8 * _label(row).count("\n") for row in table.to_dict("records")))


def _label(row: dict[Any, Any]) -> str:
    changes = CHANGES in row["at"]
    at = f" ({'change, ' if changes else ''}{row['at'].replace(CHANGES, ' → ')})" if row["at"] else ""
    return wrapped(f"{row['axis']}: {row['from']} → {row['to']}{at}", min(3.2, 0.46 * look().inches))
