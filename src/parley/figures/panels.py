"""What figures that compare conditions share: which axis goes where, the panels, and points with intervals."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from parley.analysis.attacked import beside_undisturbed
from parley.analysis.stats import CONFIDENCE
from parley.figures.links import Linker
from parley.figures.page import Panel, axis_label, heading, pages, panel_width, room, words, wrapped
from parley.figures.style import FAINT, GRAY, line_handle, line_style
from parley.games.evidence import FigureSpec, Indicator, Measure, Quantity
from parley.study import Study

Group = tuple[tuple[Any, ...], pd.DataFrame]  # the values of the axes that tell panels apart, and the conditions
Place = tuple[Any, str]  # a value along x, and how it is written

MAX_LINES = 6  # in one panel
WILSON = f"{CONFIDENCE:.0%} Wilson interval"
T_INTERVAL = f"{CONFIDENCE:.0%} t interval"
_CONDITION = "_condition"


def values_along(column: pd.Series) -> list[Any]:
    """Return the values along an axis: numbers in order, names as the study lists them."""
    found = list(column.drop_duplicates())
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def alike(table: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the conditions that agree in all of `by`, in the study's order."""
    if not by:
        yield (), table
        return
    yield from table.groupby(list(by), sort=False)


def not_shown(conditions: int, shown: int, notes: list[str]) -> None:
    """Add a note if conditions are left out of a figure because no simulation of theirs has what it draws."""
    if (left_out := conditions - shown) > 0:
        notes.append(f"Not shown: {left_out} of {conditions} conditions, in which no simulation has what is drawn.")


def with_values(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the values along each axis for which some simulation has something.

    A condition without anything keeps its place where other conditions stand beside it.
    """
    has = table[table["simulations"] > 0]
    return table[pd.concat([table[axis].isin(has[axis]) for axis in axes], axis=1).all(axis=1)]


def interval_note(shown: Sequence[Quantity]) -> str:
    """Return which interval the means of these quantities have: one for all, or which of them have which."""
    bounded, others = ([what.label for what in shown if what.bounded is kind] for kind in (True, False))
    if not bounded:
        return f"Mean with its {T_INTERVAL}; a single one has none."
    if not others:
        return f"Mean with its {WILSON}."
    return (
        f"Mean with its interval: {WILSON} of {', '.join(bounded)}; {T_INTERVAL}, which a single one has not, of "
        f"{', '.join(others)}."
    )


def compared(table: pd.DataFrame, others: Sequence[str], x: str, notes: list[str]) -> pd.DataFrame:
    """Return the conditions that stand beside others that differ from them in `x` alone; `others` are all other axes.

    Adds a note on what is left out. All are returned if none differ so.
    """
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
    """Return the axis whose values are the lines of a panel; None if no axis varies or all have too many values.

    That is `wish` if it can be; else the one that leaves the fewest panels, of several the one with the most values.
    """
    numbers = {axis: len(table[axis].unique()) for axis in varying}
    fit = [axis for axis, number in numbers.items() if number <= MAX_LINES]
    if wish in fit:
        return wish

    def panels(axis: str) -> int:
        # Not the product of the values of all others: few studies cross all with all.
        others = [other for other in varying if other != axis]
        return len(table[others].drop_duplicates()) if others else 1

    return min(fit, key=lambda axis: (panels(axis), -numbers[axis]), default=None)


def chosen(table: pd.DataFrame, axis: str | None, value: Any) -> pd.DataFrame:
    """Return the conditions of one line; all where an axis of lines is None."""
    return table if axis is None else table[table[axis] == value]


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
    """Say in a note how many simulations stand behind each point, and return whether that is the same for all.

    Where it is not, it stands under each place; `of` says what is counted.
    """
    counts = set(table.loc[table["simulations"] > 0, "simulations"])
    if len(counts) == 1:
        notes.append(f"{next(iter(counts))} {of} per point.")
    elif counts:
        notes.append(f"In brackets: {of} per point, in the order of the legend where they differ.")
    return len(counts) == 1


def place_text(label: str, counts: Sequence[int | None], same: bool) -> str:
    """Return what stands under a place along x: its name, and how many are behind its points unless `same` for all."""
    if same:
        return label
    shown = ["–" if count is None else str(count) for count in counts]
    return f"{label}\n({shown[0] if len(set(shown)) == 1 else '/'.join(shown)})"


def instead(ax: Axes, place: float, why: str) -> None:
    """Say why there is nothing at this place along x."""
    ax.text(place, 0.5, why, rotation=90, ha="center", va="center", color=GRAY, style="italic", size=7)


def bar_lengths(middle: float, low: float, high: float) -> list[list[float]]:
    """Return the lengths of error bars; a limit may miss its rate by a rounding error, and must not be negative."""
    return [[max(0.0, middle - low)], [max(0.0, high - middle)]]


NOISE = "Pale bars: how far from the point the same seeds come in 95% of cases when they are played again."


def error_bars(
    ax: Axes, points: Sequence[tuple[float, float, float, float]], color: str, width: float, **style: Any
) -> None:
    """Draw the intervals of the points of one line, each x, y, low, high; at once: a call takes milliseconds."""
    if points:
        x, y, _, _ = zip(*points, strict=True)
        below, above = zip(*(bar_lengths(*point[1:]) for point in points), strict=True)
        bars = [[length for [length] in below], [length for [length] in above]]
        ax.errorbar(x, y, yerr=bars, color=color, linestyle="none", elinewidth=width, **style)


def point_panel(
    ax: Axes,
    along: "Along",
    places: Sequence[Place],
    lines: Sequence[pd.DataFrame],
    styles: Sequence[int],
    same: bool,
    link: Linker,
    joined: bool = False,
    of: str = "rate",
    cut: bool = False,
) -> None:
    """Draw rates or means with their limits side by side at each place along x.

    `lines` have the columns `simulations`, that named by `of` (NaN where there is none), `low`, `high`, and `band`
    where the noise was measured, which is drawn as a pale bar; `styles` are the numbers of their styles. `same` leaves
    out how many simulations there are; `joined` draws lines between the points; `cut` ends intervals at the edge.
    """
    step = min(0.86 / len(lines), 0.18)
    ticks: list[str] = []
    points: list[list[tuple[float, float]]] = [[] for _ in lines]
    for place, (value, label) in enumerate(places):
        found = [line if along.x is None else line[line[along.x] == value] for line in lines]
        rows: list[Any] = [next(iter(here.to_dict("records")), None) for here in found]
        ticks.append(place_text(label, [row and int(row["simulations"]) for row in rows], same))
        if of == "rate" and not any(rows):
            instead(ax, place, "not run")
        elif all(row is None or (row["simulations"] and math.isnan(row[of])) for row in rows) and any(rows):
            instead(ax, place, "cannot be")
        for index, row in enumerate(rows):
            if row and not math.isnan(row[of]):
                at = place + (index - (len(lines) - 1) / 2) * step
                style = line_style(styles[index]) | {"linestyle": "none", "clip_on": False, "zorder": 3}
                if not math.isnan(row["low"]):
                    limits = [(at, row[of], row["low"], row["high"])]
                    error_bars(ax, limits, style["color"], 1.1, capsize=2, clip_on=cut, zorder=2.5)
                # Of an outcome that none has, all simulations are behind the mark.
                ax.plot(at, row[of], url=link(row, row.get("outcome") if row[of] else None), **style)
                if (band := row.get("band", 0.0)) > 0:
                    low, high = max(0.0, row[of] - band), min(1.0, row[of] + band)
                    ax.vlines(at, low, high, color=style["color"], linewidth=7, alpha=0.2, zorder=1)
                points[index].append((at, row[of]))
    for number, line in zip(styles, points, strict=True):
        if joined and line:
            ax.plot(*zip(*line, strict=True), **line_style(number) | {"marker": "none", "alpha": 0.6, "zorder": 2})
    ax.set_xticks(range(len(places)), ticks)
    ax.set_xlabel(along.label)


def legend_of_lines(study: Study, axis: str | None, values: Sequence[Any]) -> tuple[list[int], list[Artist]]:
    """Return the number of the style of each value of an axis of lines, and their legend; none without an axis."""
    styles = styles_of(study, axis, values)
    named = zip(styles, values, strict=True) if axis else ()
    return styles, [line_handle(style, words([axis or ""], [value])) for style, value in named]


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
    tells: Callable[[pd.DataFrame], float],
    below: int = 0,
) -> list[Figure]:
    """Return pages with a row of panels per label, a column per group of conditions; what is too wide goes on below.

    `size` is the least width of a panel and its height, `by` are the axes that tell the groups apart. `draw` gets the
    panel, the number of its label, and its conditions; `tells` returns how much a group's conditions differ;
    `below` is how many lines stand under a panel besides its ticks.
    """
    told = telling(by, [key for key, _ in groups], notes := list(notes))
    width = panel_width(len(groups) if len(groups) > 1 else len(labels), size[0])

    def panel(ax: Axes, at: int, group: Group) -> None:
        draw(ax, at, group[1])
        named = wrapped(labels[at], size[1] + 0.2, 18) if len(groups) > 1 else wrapped(labels[at], width, 18)
        if len(groups) > 1:
            ax.set_ylabel(named)
            if at == 0:
                ax.set_title(heading(by, group[0], width, told))
        else:
            ax.set_title(named)

    panels = [
        Panel(
            [partial(panel, at=at, group=group) for at in range(len(labels))],
            tells(group[1]),
            heading(by, group[0], width, told).count("\n") + 1 + below,
        )
        for group in groups
    ]
    return pages(study, spec, panels, size, notes, legend)


def telling(by: Sequence[str], keys: Sequence[Sequence[Any]], notes: list[str]) -> list[str]:
    """Return the axes that headings need to tell groups apart, and add a note on those that follow from them."""
    needed = list(by)
    for axis in [axis for axis in reversed(by) if axis not in ("n", "b")]:
        rest = [other for other in needed if other != axis]
        if rest and len({tuple(dict(zip(by, key, strict=True))[x] for x in rest) for key in keys}) == len({*keys}):
            needed = rest
    if left := [axis for axis in by if axis not in needed]:
        notes.append(f"Not in headings, since it follows from what is: {', '.join(left)}.")
    return needed


def differences(rows: pd.DataFrame, value: str, by: Sequence[str] = ()) -> float:
    """Return the largest difference between numbers that stand in one panel, at one place if `by` names places."""
    groups = rows.groupby(list(by))[value] if by else [((), rows[value])]
    return max((float(part.max() - part.min()) for _, part in groups if part.notna().any()), default=0.0)


def labels_of(named: Sequence[Measure | Indicator | Quantity], names: Sequence[str]) -> dict[str, str]:
    """Return the label of each name, in the order of the names; the name itself where the game describes none."""
    known = {what.name: what.label for what in named}
    return {name: known.get(name, name) for name in names}


def known_only(table: pd.DataFrame, column: str, labels: dict[str, str], notes: list[str]) -> dict[str, str]:
    """Return the labels of what some simulation has, by the table's column `simulations`; a note names the others."""
    has = set(table[table["simulations"] > 0][column])
    if missing := [label for name, label in labels.items() if name not in has]:
        notes.append(f"No simulation has: {', '.join(missing)}.")
    return {name: label for name, label in labels.items() if name in has}


@dataclass(frozen=True)
class Along:
    """Where conditions stand: an axis along x, one for lines, the others as panels at least `width` inches wide.

    `lines` are the values of the lines; a single None where there is no axis for them.
    """

    x: str | None
    label: str
    lines_by: str | None
    lines: list[Any]
    by: list[str]
    groups: list[Group]
    places: dict[Any, str]
    per_panel: int
    width: float

    @property
    def lines_below(self) -> int:
        """How many lines the longest name of a place has."""
        return max((name.count("\n") + 1 for name in self.places.values()), default=0)

    def shown(self, conditions: pd.DataFrame) -> list[Place]:
        """Return the places of one panel: as many as it has room for, those of `conditions` among them."""
        if self.x is None:
            return [(None, "")]
        names = list(self.places)
        if len(names) <= self.per_panel:
            return list(self.places.items())
        start = names.index(next(iter(conditions[self.x]))) // self.per_panel * self.per_panel
        return [(name, self.places[name]) for name in names[start : start + self.per_panel]]


def places_along(
    study: Study,
    spec: FigureSpec,
    table: pd.DataFrame,
    each: float,
    notes: list[str],
    lines: Callable[[pd.DataFrame, Sequence[str]], str | None] | None = None,
) -> Along:
    """Choose what is along x: `spec.x` if it varies, else the axis with the most values; and what are lines, if any.

    `each` is the width of a place in inches. An axis with more values than a row has room for goes on in the next
    panels. Panels, lines and places for which no simulation has anything are left out. Adds to `notes` what all panels
    share and what is left out.
    """
    axes = study.axes
    # Numbered, since a condition may stand in several panels.
    table = table.assign(**{_CONDITION: table.groupby(axes, sort=False).ngroup()})
    run = table[_CONDITION].nunique()
    table = with_values(table, axes)
    if spec.x == "b" and {"b", "n"} <= set(axes) and table["b"].nunique() > 1:
        others = [axis for axis in axes if axis != "b"]
        table, others = beside_undisturbed(table, others, study.game.roles[0], notes)
        axes = ["b", *others]
    varying = varied(table, axes, notes)
    numbers = {axis: len(table[axis].unique()) for axis in varying}
    x = spec.x if spec.x in varying else max(varying, key=numbers.__getitem__, default=None)
    others = [axis for axis in varying if axis != x]
    lines_by = lines(table, others) if lines else None
    by = [axis for axis in others if axis != lines_by]
    xs = [] if x is None else values_along(table[x])
    # Names that are broken at their joints take two lines or three.
    longest = max((len(str(value)) for value in xs), default=0)
    each = max(each, min(0.9, 0.034 * longest), min(1.5, 0.026 * longest))
    per_panel = math.ceil(max(1, len(xs)) / math.ceil(max(1, len(xs)) / max(1, int(room() / each))))
    places = {value: wrapped(str(value), each) for value in xs}
    groups: list[Group] = []
    for key, conditions in alike(table, by):
        parts = [xs[at : at + per_panel] for at in range(0, len(xs), per_panel)]
        cut = [conditions[conditions[x].isin(part)] for part in parts] if len(parts) > 1 else [conditions]
        groups += [(key, part) for part in cut if (part["simulations"] > 0).any()]
    not_shown(run, len({number for _, part in groups for number in part[_CONDITION]}), notes)
    values = [None] if lines_by is None else values_along(table[lines_by])
    width = max(1.3, each * per_panel)
    return Along(x, axis_label(study, x), lines_by, values, by, groups, places, per_panel, width)


def styles_of(study: Study, axis: str | None, values: Sequence[Any]) -> list[int]:
    """Return the number of the style of each value of an axis: one value looks the same in all figures of a study."""
    known = list(dict.fromkeys(condition.axes.get(axis or "") for condition in study.conditions))
    return [known.index(value) if value in known else place for place, value in enumerate(values)]
