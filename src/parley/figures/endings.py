"""Endings: the share of games that ended in each way by each round (cumulative incidence), a line per condition.

Under each panel stand the numbers of games that still play, as under survival curves.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from parley.analysis.endings import ANY
from parley.figures.page import MAX_PANELS, empty, line_handle, line_style, words
from parley.figures.panels import (
    WILSON,
    alike,
    at_most,
    axis_of_lines,
    chosen,
    panel_rows,
    share_axis,
    values_along,
    varied,
)
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIZE = (1.9, 1.4)  # inches, of a panel
_TICKS = 4
_LINE = 9  # points from one row of numbers to the next


def endings(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw a row of panels per way to end, with its cumulative incidence by round; `table` is `endings`.

    Lines are the values of `spec.x` if it varies, else of the axis that leaves the fewest panels; all other axes that
    vary are panels.
    """
    ways = [outcome for outcome in study.game.outcomes if outcome.name in set(table["ending"])]
    if not ways:
        return empty(study, spec, "Nothing to draw: no game ended before its deadline.")
    notes: list[str] = []
    varying = varied(table, study.axes, notes)
    lines_by = axis_of_lines(table, varying, spec.x)
    lines = [None] if lines_by is None else values_along(table[lines_by])
    by = [axis for axis in varying if axis != lines_by]
    panels = at_most(list(alike(table, by)), notes, max(1, MAX_PANELS // len(ways)))
    last = max(int(group["round"].max()) for _, group in panels)
    notes += [
        f"Share of games that ended so by each {study.game.evidence.round_name} (Aalen-Johansen), with its {WILSON}. "
        "Games that met their deadline ended in no way.",
        "Under the panels: games that still play, in the order of the legend where lines differ.",
    ]
    legend = [] if lines_by is None else [line_handle(i, words([lines_by], [x])) for i, x in enumerate(lines)]

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        share_axis(ax, last)
        ax.set_xlim(0, last)
        ax.xaxis.set_major_locator(MaxNLocator(_TICKS, integer=True))
        everyone = conditions[conditions["ending"] == ANY]
        playing = [chosen(everyone, lines_by, value) for value in lines]
        for number, value in enumerate(lines):
            here = chosen(conditions, lines_by, value)
            ended = bool((playing[number]["incidence"] > 1 - 1e-9).any())
            _steps(ax, here[here["ending"] == ways[index].name], line_style(number), last, ended=ended)
        _below(ax, playing, last, study.game.evidence.round_name)

    return panel_rows(study, spec, [way.label for way in ways], panels, by, _SIZE, notes, legend, draw)


def _steps(ax: Axes, curve: pd.DataFrame, style: dict[str, Any], last: int, *, ended: bool) -> None:
    """Draw one line from round 0 on, with its interval as a band: to the end of the panel if all games `ended`."""
    if curve.empty:  # the condition cannot have it, or was not run
        return
    x = [0, *curve["round"]]
    share, low, high = ([0.0, *curve[part]] for part in ("incidence", "low", "high"))
    if ended and x[-1] < last:
        x, (share, low, high) = [*x, last], ([*part, part[-1]] for part in (share, low, high))
    ax.fill_between(x[1:], low[1:], high[1:], step="post", color=style["color"], alpha=0.13, linewidth=0)
    marks = {"markersize": 3.0, "markevery": max(1, len(x) // 6)}
    ax.step(x, share, where="post", clip_on=False, zorder=3, **style | marks)


def _playing(curve: pd.DataFrame, moment: int) -> int:
    """Return how many games neither ended nor met their deadline before a round."""
    later = curve[curve["round"] >= moment]
    return int(later["at_risk"].iloc[0]) if len(later) else 0


def _below(ax: Axes, lines: Sequence[pd.DataFrame], last: int, rounds_are: str) -> None:
    """Write under the rounds how many games still play of each line; one row where all are the same."""
    ticks = [int(tick) for tick in ax.get_xticks() if 0 < tick <= last]
    rows = [
        ([_playing(line, tick) for tick in ticks], line_style(i)["color"]) for i, line in enumerate(lines) if len(line)
    ]
    if all(counts == rows[0][0] for counts, _ in rows):
        rows = [(rows[0][0], "black")] if rows else []
    for place, (counts, color) in enumerate(rows):
        for number, (tick, count) in enumerate(zip(ticks, counts, strict=True)):
            ax.annotate(
                f"n={count}" if number == 0 else str(count),
                (tick, 0),
                (0, -16 - _LINE * (place + 0.5)),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="center",
                size=6.5,
                color=color,
            )
    ax.set_xlabel(rounds_are, labelpad=4 + _LINE * len(rows))
