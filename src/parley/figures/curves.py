"""Lines with their intervals: means of measures by round, shares by the number of others.

Games end early: under the panels of rounds stand the numbers of simulations in the means, and how many of them still
play, as under survival curves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.figures import common
from parley.figures.page import empty
from parley.figures.style import HEIGHT, line_handle, line_style
from parley.games.evidence import ANY, FigureSpec
from parley.study import Study

_SIZE = (1.3, HEIGHT)  # inches, of a panel
_MAX_TICKS, _MAX_FACED = 5, 4  # along x: rounds, others
_MAX_MARKS = 6  # with intervals, on one line
_APART = 0.08  # inches between lines at one round, as long as there is room between rounds
_END: dict[str, Any] = {"marker": "|", "markersize": 9, "markeredgewidth": 1.4, "linestyle": "none"}


def curves(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row of panels per measure in `spec.of`, with the mean and its interval by round; `table` is `rounds`.

    Lines are the values of `spec.x`, else of the model, else of the axis that leaves the fewest panels.
    """
    notes: list[str] = []
    table, labels = common.shown_of(table, "measure", study.game.evidence.measures, spec.of, notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    axes = study.axes
    common.not_shown(len(study.conditions), len(table[axes].drop_duplicates()), notes)
    if spec.x in axes:
        others = [axis for axis in axes if axis != spec.x]
        table, axes = common.compared(table, others, spec.x, notes), [spec.x, *others]
    varying = common.varied(table, axes, notes)
    lines_by = common.axis_of_lines(table, varying, spec.x if spec.x in varying else "model")
    if spec.x in varying and lines_by != spec.x:
        notes.append(f"{spec.x} has more values than a panel has lines ({common.MAX_LINES}): a panel for each.")
    lines = common.Lines.of_axis(study, table, lines_by)
    by = [axis for axis in varying if axis != lines_by]
    groups = common.alike(study, table, by)
    extent = (int(table["round"].min()), int(table["round"].max()))
    names = list(labels)
    carried = [m.name for m in study.game.evidence.measures if m.carried]
    numbers = {*table["simulations"], *table["playing"]}
    counts = int(numbers.pop()) if len(numbers) == 1 else None  # where all still play, and are as many
    ticks = list(range(extent[0], extent[1] + 1, max(1, math.ceil((extent[1] - extent[0] + 1) / _MAX_TICKS))))
    notes += [
        f"Mean with its {common.WILSON}.",
        _of_whom([label for name, label in labels.items() if name in carried], list(labels.values())),
        f"{counts} sims in each mean."
        if counts
        else "Under the rounds: sims in the mean, in the order of the legend where they differ.",
        *(["6/9: of 9 in the mean 6 still play."] if not counts and set(carried) & set(labels) else []),
    ]
    if (table.groupby([*study.axes, "measure"], sort=False)["round"].max() < extent[1]).any():
        notes.append("A line that ends in a bar: no game got further.")
    link = common.linker(study)

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        here = conditions[conditions["measure"] == names[index]]
        shown = lines.split(here.sort_values("round", kind="stable"))
        _panel(ax, shown, extent, link)
        ax.set_xlabel(study.game.evidence.round_name)
        count_ticks(ax, ticks, [] if counts else [_numbers(rows) for _, rows in shown])

    return common.panel_rows(study, spec, list(labels.values()), groups, by, _SIZE, notes, lines.legend, draw)


def _of_whom(carried: Sequence[str], labels: Sequence[str]) -> str:
    """Return whose means these are, where some of the measures stay as they are when a game has ended."""
    if not carried:
        return "Only games that still play count."
    finished = "Finished games count with their last value"
    if len(carried) == len(labels):
        return f"{finished}."
    return f"{finished} of {', '.join(carried)}. Only games that still play count for all others."


def _panel(ax: Axes, lines: Sequence[tuple[int, pd.DataFrame]], extent: tuple[int, int], link: common.Linker) -> None:
    first, last = extent
    common.share_axis(ax, last - first + 1, first)
    rounds = last - first + 1
    apart = min(_APART * rounds / _SIZE[0], 0.8 / len(lines))
    for index, (number, here) in enumerate(lines):
        if here.empty:
            continue
        x = here["round"].to_numpy(dtype=float) + (index - (len(lines) - 1) / 2) * apart
        style = line_style(number) | {"markersize": 3.5}
        _line(ax, x, here, ("mean", "low", "high"), index, rounds, link(here.iloc[0]), style)
        if here["round"].max() < last:
            ax.plot(x[-1], here["mean"].iloc[-1], color=style["color"], zorder=3, clip_on=False, **_END)


def _line(
    ax: Axes,
    x: Any,
    rows: pd.DataFrame,
    columns: Sequence[str],
    index: int,
    places: int,
    url: str | None,
    style: dict[str, Any],
) -> None:
    """Draw means with limits at `x`, with marks and intervals at a few of so many `places`: on each line at others."""
    mean, low, high = (rows[part].to_numpy(dtype=float) for part in columns)
    every = math.ceil(places / _MAX_MARKS)
    marked = list(range(index % every if len(x) > every else 0, len(x), every))
    common.error_bars(ax, [(x[at], mean[at], low[at], high[at]) for at in marked], style["color"], 0.8, 1.5)
    ax.plot(x, mean, clip_on=False, zorder=3, markevery=marked, url=url, **style)


def count_ticks(ax: Axes, ticks: Sequence[int], counts: Sequence[Mapping[int, str]]) -> None:
    """Label ticks with their numbers and, below, with the `counts` there of each line that has any; once if alike."""
    rows = [row for row in counts if row]
    rows = rows[:1] if all(row == rows[0] for row in rows) else rows
    ax.set_xticks(ticks, ["\n".join([str(tick), *(row.get(tick, "0") for row in rows)]) for tick in ticks])


def _numbers(rows: pd.DataFrame) -> dict[int, str]:
    """Return of one line the number of simulations in the mean of each round, and how many of them still play."""
    numbers = zip(rows["round"], rows["playing"], rows["simulations"], strict=True)
    return {int(number): str(n) if left == n else f"{left}/{n}" for number, left, n in numbers}


# Answers given up, by the number of others


_FACED = {  # columns of `conformity`: the share, its limits, and what it is
    "any answer given up": ("gave_way", "low", "high"),
    "a right one for a wrong one": ("misled", "misled_low", "misled_high"),
}


def faced(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the shares of answers given up by the number of others faced; `table` is `conformity`."""
    table = table[(table["faced"] != ANY) & table["gave_way"].notna()]
    if table.empty:
        return empty(study, spec, "Nothing to draw: no simulation has such shares.")
    table = table.assign(faced=table["faced"].astype(float)).sort_values("faced", kind="stable")
    notes: list[str] = []
    varying = common.varied(table, study.axes, notes)
    groups = common.alike(study, table, varying)
    common.not_shown(len(study.conditions), len(groups), notes)
    notes.append(f"Share with its {common.WILSON}, clustered by game.")
    same = table["simulations"].nunique() == 1  # else it stands under each panel
    if same:
        common.counted(table, notes)
    link = common.linker(study)

    def draw(ax: Axes, _: int, rows: pd.DataFrame) -> None:
        common.share_axis(ax, 1)
        numbers = sorted(rows["faced"].unique())
        span = (numbers[-1] - numbers[0]) or 1.0
        ax.set_xlim(numbers[0] - 0.05 * span, numbers[-1] + 0.05 * span)
        ax.set_xticks(numbers[:: math.ceil(len(numbers) / _MAX_FACED)])
        ax.set_xlabel(spec.x if same else f"{spec.x}\n{int(rows['simulations'].max())} sims")
        for index, columns in enumerate(_FACED.values()):
            here = rows.dropna(subset=[columns[0]])
            if len(here):
                x = here["faced"].to_numpy(float) + (index - (len(_FACED) - 1) / 2) * 0.012 * span
                _line(ax, x, here, columns, index, len(x), link(rows.iloc[0]), line_style(index))

    legend = [line_handle(index, label) for index, label in enumerate(_FACED)]
    return common.panel_rows(study, spec, ["mean share"], groups, varying, _SIZE, notes, legend, draw)
