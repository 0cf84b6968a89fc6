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
from parley.figures.curves import below_ticks
from parley.figures.links import Linker, linker
from parley.figures.page import empty
from parley.figures.panels import (
    WILSON,
    alike,
    axis_of_lines,
    chosen,
    differences,
    legend_of_lines,
    panel_rows,
    share_axis,
    values_along,
    varied,
)
from parley.figures.style import HEIGHT, line_style
from parley.games.evidence import FigureSpec
from parley.study import Study

_WIDTH = 1.4  # inches, of a panel
_TICKS = 4


def endings(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
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
    groups = list(alike(table, by))
    last = int(table["round"].max())
    notes += [
        f"Share of games that ended so by each {study.game.evidence.round_name} (Aalen-Johansen), with its {WILSON}. "
        "Games that met their deadline ended in no way.",
        "Under the panels: games that still play, if any.",
    ]
    styles, legend = legend_of_lines(study, lines_by, lines)
    link = linker(study)

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        share_axis(ax, last)
        ax.set_xlim(0, last)
        ax.xaxis.set_major_locator(MaxNLocator(_TICKS, integer=True))
        everyone = conditions[conditions["ending"] == ANY]
        playing = [chosen(everyone, lines_by, value) for value in lines]
        for number, value in enumerate(lines):
            here = chosen(conditions, lines_by, value)
            ended = bool((playing[number]["incidence"] > 1 - 1e-9).any())
            curve = here[here["ending"] == ways[index].name]
            _steps(ax, curve, line_style(styles[number]), last, link, ways[index].name, ended=ended)
        ax.set_xlabel(study.game.evidence.round_name)
        ticks = [int(tick) for tick in ax.get_xticks() if 0 < tick <= last]
        below_ticks(ax, ticks, _playing(dict(zip(styles, playing, strict=True)), ticks), changes=False)

    def tells(group: pd.DataFrame) -> float:
        return differences(group, "incidence", ["ending", "round"])

    labels = [way.label for way in ways]
    return panel_rows(
        study, spec, labels, groups, by, (_WIDTH, HEIGHT), notes, legend, draw, tells, min(2, len(lines))
    )


def _steps(
    ax: Axes, curve: pd.DataFrame, style: dict[str, Any], last: int, link: Linker, way: str, *, ended: bool
) -> None:
    """Draw one line from round 0 on, with its interval as a band: to the end of the panel if all games `ended`."""
    if curve.empty:  # the condition cannot have it, or was not run
        return
    x = [0, *curve["round"]]
    share, low, high = ([0.0, *curve[part]] for part in ("incidence", "low", "high"))
    if ended and x[-1] < last:
        x, (share, low, high) = [*x, last], ([*part, part[-1]] for part in (share, low, high))
    ax.fill_between(x[1:], low[1:], high[1:], step="post", color=style["color"], alpha=0.13, linewidth=0)
    marks = {"markersize": 3.0, "markevery": max(1, len(x) // 6)}
    url = link(curve.iloc[0], way if max(share) else None)
    ax.step(x, share, where="post", clip_on=False, zorder=3, url=url, **style | marks)


def _playing(lines: dict[int, pd.DataFrame], ticks: Sequence[int]) -> list[tuple[dict[int, str], str]]:
    """Return how many games neither ended nor met their deadline before each tick, with the color of their line.

    One row in black stands for lines that are all the same.
    """
    rows = []
    for style, curve in lines.items():
        if len(curve):
            later = {tick: curve.loc[curve["round"] >= tick, "at_risk"] for tick in ticks}
            counts = {
                tick: str(int(left.iloc[0])) if len(left) and left.iloc[0] else "" for tick, left in later.items()
            }
            rows.append((counts, str(line_style(style)["color"])))
    same = all(counts == rows[0][0] for counts, _ in rows)
    return [(rows[0][0], "black")] if rows and same else rows
