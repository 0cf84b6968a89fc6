"""Curves: the means of a game's measures over the rounds, a line per condition.

Games end early: under each panel stand the numbers of simulations in the means, and how many of them still play, as
under survival curves; a dotted line shows these as a share.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.attacked import beside_undisturbed
from parley.figures.page import MAX_PANELS, empty, line_handle, line_style, words
from parley.figures.panels import (
    MAX_LINES,
    WILSON,
    alike,
    at_most,
    axis_of_lines,
    chosen,
    compared,
    error_bars,
    known_only,
    labels_of,
    not_shown,
    panel_rows,
    share_axis,
    values_along,
    varied,
)
from parley.games.evidence import FigureSpec
from parley.study import Study

_WIDEST, _NARROWEST, _HEIGHT = 2.9, 1.9, 1.8  # inches, of a panel
_ROUND = 0.45  # inches that a round takes where there are few
_MAX_TICKS = 7
_MAX_MARKS = 12  # with intervals, on one line
_APART = 0.08  # inches between lines at one round, as long as there is room between rounds
_LINE = 9  # points from one row of numbers to the next


def curves(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw a row of panels per measure in `spec.of`, with the mean and its interval by round; `table` is `rounds`.

    Lines are the values of `spec.x` if it varies, else of the model, else of the axis that leaves the fewest panels;
    all other axes that vary are panels. Conditions that no other differs from in `spec.x` alone are left out. Where
    that is true of all, the figure says so, and shows them all.
    """
    notes: list[str] = []
    labels = known_only(table, "measure", labels_of(study.game.evidence.measures, spec.of), notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    table = table[table["measure"].isin(labels)]
    axes = study.axes
    not_shown(len(study.conditions), len(table[axes].drop_duplicates()), notes)
    table, axes = _side_by_side(study, spec.x, table, axes, notes)
    if spec.x in axes and not _differ(table, axes, spec.x):
        notes.append(f"Nothing to compare: no two conditions differ in {spec.x} alone.")
    varying = varied(table, axes, notes)
    lines_by = axis_of_lines(table, varying, spec.x if spec.x in varying else "model")
    if spec.x in varying and lines_by != spec.x:
        notes.append(f"{spec.x} has more values than a panel has lines ({MAX_LINES}): a panel for each.")
    lines = [None] if lines_by is None else values_along(table[lines_by])
    by = [axis for axis in varying if axis != lines_by]
    panels = at_most(list(alike(table, by)), notes, max(1, MAX_PANELS // len(labels)))
    shown = pd.concat([conditions for _, conditions in panels])
    extent = (int(shown["round"].min()), int(shown["round"].max()))
    width = min(_WIDEST, max(_NARROWEST, _ROUND * (extent[1] - extent[0] + 1)))
    names = list(labels)
    carried = [m.name for m in study.game.evidence.measures if m.carried]
    notes += [
        f"Mean with its {WILSON}; of many rounds every few have a mark.",
        *_of_whom([label for name, label in labels.items() if name in carried], list(labels.values())),
        "n under the rounds: simulations in the mean, in the order of the legend where lines differ; told where it "
        "changes.",
        *(["6/9: of 9 in the mean 6 still play; dotted: their share."] if set(carried) & set(labels) else []),
    ]
    legend = [] if lines_by is None else [line_handle(i, words([lines_by], [x])) for i, x in enumerate(lines)]

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        _panel(
            ax,
            conditions[conditions["measure"] == names[index]],
            lines_by,
            lines,
            extent,
            width,
            study.game.evidence.round_name,
        )

    return panel_rows(study, spec, list(labels.values()), panels, by, (width, _HEIGHT), notes, legend, draw)


def _of_whom(carried: Sequence[str], labels: Sequence[str]) -> Iterator[str]:
    """Yield whose means these are, where some of the measures stay as they are when a game has ended."""
    if carried:
        of = "" if len(carried) == len(labels) else f" of {', '.join(carried)}"
        yield f"Finished games count with their last value{of}."
    if len(carried) < len(labels):
        yield f"Only games that still play count{' for all others' if carried else ''}."


def _side_by_side(
    study: Study, x: str, table: pd.DataFrame, axes: list[str], notes: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the conditions to compare along `x`, all if it does not vary, and the axes that tell them apart."""
    if x not in axes or table[x].nunique() < 2:
        return table, axes
    others = [axis for axis in axes if axis != x]
    if x == "b" and "n" in others:
        table, others = beside_undisturbed(table, others, study.game.roles[0], notes)
    return compared(table, others, x, notes), [x, *others]


def _differ(table: pd.DataFrame, axes: Sequence[str], x: str) -> bool:
    """Return whether any two conditions differ in `x` alone, or none differ in it at all."""
    others = [axis for axis in axes if axis != x]
    if not others or table[x].nunique() < 2:
        return True
    return bool(table.groupby(others, sort=False)[x].nunique().max() > 1)


def _panel(
    ax: Axes,
    conditions: pd.DataFrame,
    lines_by: str | None,
    lines: Sequence[Any],
    extent: tuple[int, int],
    width: float,
    rounds_are: str,
) -> None:
    first, last = extent
    share_axis(ax, last - first + 1, first)
    rounds = last - first + 1
    every = math.ceil(rounds / _MAX_MARKS)
    apart = min(_APART * rounds / width, 0.8 / len(lines))
    playing = []
    for index, value in enumerate(lines):
        here = chosen(conditions, lines_by, value).sort_values("round")
        x = here["round"].to_numpy(dtype=float) + (index - (len(lines) - 1) / 2) * apart
        mean, low, high = (here[part].to_numpy(dtype=float) for part in ("mean", "low", "high"))
        marked = list(range(index % every if len(x) > every else 0, len(x), every))
        style = line_style(index)
        points = [(x[at], mean[at], low[at], high[at]) for at in marked]
        error_bars(ax, points, style["color"], 0.9, capsize=2.0, clip_on=False, zorder=2)
        ax.plot(x, mean, clip_on=False, zorder=3, markevery=marked, **style)
        playing.append((x, (here["playing"] / here["simulations"]).to_numpy(dtype=float), style["color"]))
    for x, share, color in playing:
        if share.size and share.min() < 1:
            ax.plot(x, share, color=color, linestyle=":", linewidth=0.9, drawstyle="steps-mid", zorder=1.5)
    _below(ax, conditions, lines_by, lines, extent, rounds_are)


def _below(
    ax: Axes,
    conditions: pd.DataFrame,
    lines_by: str | None,
    lines: Sequence[Any],
    extent: tuple[int, int],
    rounds_are: str,
) -> None:
    """Write the rounds, and under them the number of simulations of each line, where it changes."""
    first, last = extent
    ticks = list(range(first, last + 1, max(1, math.ceil((last - first + 1) / _MAX_TICKS))))
    ax.set_xticks(ticks)
    rows = _numbers(conditions, lines_by, lines)
    for place, (counts, color) in enumerate(rows):
        before = None
        for tick in ticks:
            if (count := counts.get(tick, "0")) == before:
                continue
            text = f"n={count}" if before is None else count
            under = (0, -16 - _LINE * (place + 0.5))
            ax.annotate(
                text,
                (tick, 0),
                under,
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="center",
                size=6.5,
                color=color,
            )
            before = count
    ax.set_xlabel(rounds_are, labelpad=4 + _LINE * len(rows))


def _numbers(conditions: pd.DataFrame, lines_by: str | None, lines: Sequence[Any]) -> list[tuple[dict[int, str], str]]:
    """Return the number of simulations by round, with its color, of each line; one in black where all are the same."""
    rows = []
    for index, value in enumerate(lines):
        here = chosen(conditions, lines_by, value)
        numbers = zip(here["round"], here["playing"], here["simulations"], strict=True)
        counts = {int(number): str(n) if left == n else f"{left}/{n}" for number, left, n in numbers}
        if counts:  # else this line has no points here
            rows.append((counts, str(line_style(index)["color"])))
    same = all(counts == rows[0][0] for counts, _ in rows)
    return [(rows[0][0], "black")] if rows and same else rows
