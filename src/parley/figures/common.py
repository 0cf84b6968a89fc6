"""What figures that compare conditions share: which axis goes where, the panels, and points with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from parley.figures.page import Panel, heading, pages, panel_width, words, wrapped
from parley.figures.style import FAINT, GRAY, line_handle, look
from parley.games.evidence import FigureSpec, Indicator, Measure, Quantity
from parley.paths import simulations_link
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS
from parley.study.expand import NOBODY

Group = tuple[tuple[Any, ...], pd.DataFrame]  # the values of the axes that tell panels apart, and the conditions

MAX_LINES = 6  # in one panel
WILSON = f"{CONFIDENCE:.0%} Wilson interval"
T_INTERVAL = f"{CONFIDENCE:.0%} t interval"
Linker = Callable[..., str | None]  # what a mark stands for: its simulations in the explorer


def linker(study: Study) -> Linker:
    """Return a function from a row of a table, and an outcome if it is one's, to an address (None for a paper)."""

    def link(row: Mapping[Any, Any], outcome: str | None = None) -> str | None:
        if look().for_paper:
            return None
        axes = {axis: row[axis] for axis in study.varying if axis in row}
        if BYZANTINE_AXIS in axes and row.get("b") == 0:  # such a row may stand beside those of an adversary
            axes[BYZANTINE_AXIS] = NOBODY
        return simulations_link(axes | study.first_time, outcome)

    return link


def values_along(column: pd.Series) -> list[Any]:
    """Return the values along an axis: numbers in order, names as the study lists them."""
    values = list(column.drop_duplicates())
    return values if any(isinstance(value, str) for value in values) else sorted(values)


PAPER: dict[str, Any] = {"linestyle": "none", "marker": "D", "markeredgecolor": "black", "markeredgewidth": 1.0}


def with_paper(study: Study, table: pd.DataFrame, column: str = "") -> tuple[pd.DataFrame, list[Artist]]:
    """Return conditions with what a paper says of each of them alone, and the legend's entry of its marks, if any.

    It is a column `paper`, by what `column` names; without that one for each outcome, as `valid_consensus_paper`.
    """
    told = zip(study.content.paper, study.of_paper, strict=True)
    rows = [
        {**of[0].axes, "_what": each.what, "paper": each.value} for each, of in told if each.is_mean and len(of) == 1
    ]
    said = pd.DataFrame(rows, columns=[*study.axes, "_what", "paper"]).drop_duplicates([*study.axes, "_what"])
    said = said[said["_what"].isin(table[column] if column else [each.name for each in study.game.outcomes])]
    if said.empty:
        return table, []
    if not column:
        said = said.pivot(index=study.axes, columns="_what", values="paper").add_suffix("_paper").reset_index()
    legend = Line2D([], [], label="paper", markersize=5, markerfacecolor="none", **PAPER)
    return table.merge(said.rename(columns={"_what": column}), how="left"), [legend]


def alike(study: Study, table: pd.DataFrame, by: Sequence[str]) -> list[Group]:
    """Return the conditions that agree in all of `by`; those that a question of the study compares are neighbors."""
    if not by:
        return [((), table)]
    asked = [question.axis for question in study.content.questions]
    places = {axis: values_along(table[axis]).index for axis in sorted(by, key=lambda axis: axis in asked)}

    def order(group: Group) -> list[int]:
        key = dict(zip(by, group[0], strict=True))
        return [place(key[axis]) for axis, place in places.items()]

    return sorted(table.groupby(list(by), sort=False), key=order)


def not_shown(conditions: int, shown: int, notes: list[str]) -> None:
    """Add a note if conditions are left out of a figure because no simulation of theirs has what it draws."""
    if (left_out := conditions - shown) > 0:
        notes.append(f"Not shown: {left_out} of {conditions} conditions, in which no simulation has what is drawn.")


def compared(table: pd.DataFrame, others: Sequence[str], x: str, notes: list[str]) -> pd.DataFrame:
    """Return the conditions beside which others differ in `x` alone, all if none do; a note says what is left out."""
    if not others:
        return table
    values = table.groupby(list(others), sort=False)[x].transform("nunique")
    groups = len(table[list(others)].drop_duplicates())
    kept = len(table.loc[values > 1, list(others)].drop_duplicates())
    if kept in (0, groups):
        return table
    notes.append(f"Not shown: {groups - kept} of {groups} groups of conditions, run with one {x} only.")
    return table[values > 1]


def varied(table: pd.DataFrame, by: Sequence[str], notes: list[str]) -> list[str]:
    """Return the axes that vary, and add a note on those that do not."""
    varying = [axis for axis in by if table[axis].nunique() > 1]
    if fixed := [axis for axis in by if axis not in varying]:
        notes.append(f"In all panels: {words(fixed, [table[axis].iloc[0] for axis in fixed])}.")
    return varying


def axis_of_lines(table: pd.DataFrame, varying: Sequence[str], wish: str = "") -> str | None:
    """Return the axis of the lines: `wish` if it can be, else the one that leaves the fewest panels, or None."""
    numbers = {axis: len(table[axis].unique()) for axis in varying}
    fit = [axis for axis, number in numbers.items() if number <= MAX_LINES]
    if wish in fit:
        return wish

    def panels(axis: str) -> int:
        # Not the product of the values of all others: few studies cross all with all.
        others = [other for other in varying if other != axis]
        return len(table[others].drop_duplicates()) if others else 1

    return min(fit, key=lambda axis: (panels(axis), -numbers[axis]), default=None)


@dataclass(frozen=True)
class Lines:
    """The lines of all panels: what they are values of, their labels in the legend, and numbers of their styles."""

    by: str | None
    labels: Mapping[Any, str]  # by value; that of the one line without an axis is None
    styles: Sequence[int]

    @classmethod
    def of_axis(cls, study: Study, table: pd.DataFrame, axis: str | None) -> "Lines":
        """Return a line for each value of an axis, which looks the same in all figures of a study."""
        if axis is None:
            return cls(None, {None: ""}, [0])
        known = list(dict.fromkeys(condition.axes.get(axis) for condition in study.conditions))
        labels = {value: words([axis], [value]) for value in values_along(table[axis])}
        styles = [known.index(value) if value in known else place for place, value in enumerate(labels)]
        return cls(axis, labels, styles)

    @property
    def legend(self) -> list[Artist]:
        """The entries of the legend; none without an axis."""
        named = zip(self.styles, self.labels.values(), strict=True) if self.by else ()
        return [line_handle(style, label) for style, label in named]

    def split(self, table: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
        """Return the number of the style of each line with its conditions."""
        parts = [table if self.by is None else table[table[self.by] == value] for value in self.labels]
        return list(zip(self.styles, parts, strict=True))


def share_axis(ax: Axes, places: float, first: float = 0.0) -> None:
    """Make a panel one of shares, from 0% to 100%, with `places` places along x."""
    ax.set_xlim(first - 0.5, first + places - 0.5)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    grid_lines(ax)


def grid_lines(ax: Axes) -> None:
    """Draw faint horizontal lines behind everything."""
    ax.set_axisbelow(True)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)


def counted(table: pd.DataFrame, notes: list[str], of: str = "sims") -> bool:
    """Say in a note how many simulations (`of`) are behind each point, and return whether that is the same for all."""
    counts = set(table.loc[table["simulations"] > 0, "simulations"])
    if len(counts) == 1:
        notes.append(f"{next(iter(counts))} {of} per point.")
    elif counts:
        notes.append(f"In brackets: {of} per point, in the order of the legend where they differ.")
    return len(counts) == 1


def instead(ax: Axes, place: float, why: str) -> None:
    """Say why there is nothing at this place along x."""
    ax.text(place, 0.5, why, rotation=90, ha="center", va="center", color=GRAY, style="italic", size=7)


def error_bars(
    ax: Axes,
    points: Sequence[tuple[float, float, float, float]],
    color: str,
    width: float,
    cap: float,
    *,
    clip_on: bool = False,
    zorder: float = 2,
    cap_width: float = 1.0,
) -> None:
    """Draw the intervals of the points of one line, each x, y, low, high; ten times as fast as `errorbar`."""
    if not points:
        return
    x, y, low, high = np.asarray(points, dtype=float).T
    low, high = np.fmin(low, y), np.fmax(high, y)
    ends = np.stack([np.stack([x, low], axis=1), np.stack([x, high], axis=1)], axis=1)
    style: dict[str, Any] = {"clip_on": clip_on, "zorder": zorder}
    ax.add_collection(LineCollection(list(ends), colors=color, linewidths=width, **style), autolim=False)
    caps = {"linestyle": "none", "marker": "_", "markersize": 2 * cap, "markeredgewidth": cap_width}
    add_line(ax, np.concatenate([x, x]), np.concatenate([low, high]), color=color, **caps, **style)


def add_line(ax: Axes, x: Any, y: Any, **style: Any) -> None:
    """Add a line or points to a panel whose limits are set: `plot` would look for them each time."""
    ax.add_artist(Line2D(np.atleast_1d(x), np.atleast_1d(y), **style))


def panel_rows(
    study: Study,
    spec: FigureSpec,
    labels: Sequence[str],
    groups: Sequence[Group],
    by: Sequence[str],
    size: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    draw: Callable[[Axes, int, pd.DataFrame], None],
) -> list[Figure]:
    """Return pages with a row of panels per label, a column per group of conditions; what is too wide goes on below.

    `size` is the least width of a panel and its height, `by` are the axes that tell the groups apart. `draw` gets the
    panel, the number of its label, and its conditions.
    """
    width = panel_width(len(groups) if len(groups) > 1 else len(labels), size[0])

    def panel(ax: Axes, at: int, group: Group) -> None:
        draw(ax, at, group[1])
        if len(groups) == 1:
            ax.set_title(wrapped(labels[at], width, 18))
            return
        ax.set_ylabel(wrapped(labels[at], size[1] + 0.2, 18))
        if at == 0:
            ax.set_title(heading(by, group[0], width))

    panels = [Panel([partial(panel, at=at, group=group) for at in range(len(labels))]) for group in groups]
    return pages(study, spec, panels, size, notes, legend)


def shown_of(
    table: pd.DataFrame,
    column: str,
    named: Sequence[Measure | Indicator | Quantity],
    names: Sequence[str],
    notes: list[str],
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the rows and the labels of those of the names in `column` that some simulation has; a note on the others.

    `simulations` in the table says how many have it, `named` are what the game describes.
    """
    known = {what.name: what.label for what in named}
    has = set(table[table["simulations"] > 0][column])
    if missing := [known.get(name, name) for name in names if name not in has]:
        notes.append(f"No simulation has: {', '.join(missing)}.")
    shown = {name: known.get(name, name) for name in names if name in has}
    return table[table[column].isin(shown)], shown
