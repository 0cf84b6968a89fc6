"""Points with their intervals: rates and means along an axis.

Rates are of outcomes and of yes-or-no metrics, means of numbers. Lines are the values of another axis, or the metrics;
what else varies is panels.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.conditions import outcomes_of
from parley.analysis.pairs import beside_undisturbed
from parley.analysis.rates import all_quantities, quantity_table
from parley.figures import common
from parley.figures.page import axis_label, empty, evenly, room, wrapped
from parley.figures.style import HEIGHT, line_style
from parley.games.evidence import FigureSpec, Quantity
from parley.statistics.stats import wilson_of_mean
from parley.study import Study

Place = tuple[Any, str]  # a value along x, and how it is written
AxisOfLines = Callable[[pd.DataFrame, Sequence[str]], str | None]  # of those of the axes that vary and are not along x

_ALONE = 1.4  # inches, of a row of panels that is the only one
_CONDITION = "_condition"
_SIDES = ("reached", "achievable")  # columns
BEST = "best known protocol in the same seats"


def rates(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row of panels per outcome with its rate by `spec.x`, a line per prompt, for the smallest b alone."""
    if table.empty or spec.x not in study.axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    notes: list[str] = []
    if more := int((table["b"] > table["b"].min()).sum()):
        notes.append(f"Conditions with a larger b are not shown here: {more}.")
        table = table[table["b"] == table["b"].min()]
    outcomes = outcomes_of(table, study.game, spec.of)
    notes.append(f"Rate of each outcome with its {common.WILSON}.")
    parts = ("rate", "low", "high")
    rows = pd.concat(
        table.rename(columns={f"{outcome.name}_{part}": part for part in parts}).assign(outcome=outcome.name)
        for outcome in outcomes
    )
    each = 0.15 * table["prompt"].nunique() + 0.15
    labels = {outcome.name: outcome.label for outcome in outcomes}
    prompt = lambda _, others: "prompt" if "prompt" in others else None  # noqa: E731
    return _points(study, spec, rows, "outcome", labels, notes, each, prompt)


def indicators(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the rates of the indicators in `spec.of` by `spec.x`, a panel per value of all else; `table` is `rates`."""
    notes: list[str] = []
    table, labels = common.shown_of(table, "indicator", study.game.evidence.indicators, spec.of, notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    notes.append(f"Rate with its {common.WILSON}.")
    styles = [spec.of.index(name) for name in labels]  # as in other studies of the game
    lines = common.Lines("indicator", labels, styles)
    return _points(study, spec, table, "indicator", labels, notes, max(0.35, 0.13 * len(labels) + 0.1), lines)


def quantities(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row of panels per quantity in `spec.of`, with its mean by `spec.x`, lines by `spec.lines` if any."""
    notes: list[str] = []
    table = _of_blocks(study, table) if spec.blocks else table
    described = all_quantities(table["quantity"], study.game)
    table, labels = common.shown_of(table, "quantity", described, spec.of, notes)
    if not labels:
        return empty(study, spec, " ".join(["Nothing to draw.", *notes]))
    shown = {what.name: what for what in described if what.name in labels}
    titles = {name: f"{label} ({unit})" if (unit := shown[name].unit) else label for name, label in labels.items()}
    notes.append(_interval_note(shown.values()))
    of = {name: table[table["quantity"] == name] for name in labels}
    ranges = {name: _range(of[name], whole=shown[name].bounded) for name in labels if not shown[name].share}
    cut = {name for name, what in shown.items() if not what.bounded}
    by = partial(common.axis_of_lines, wish=spec.lines)
    return _points(study, spec, table, "quantity", titles, notes, 0.35, by, "mean", ranges, cut)


def achievable(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a row of panels per share that games reach, with what the best known protocol reached beside it."""
    if table.empty:
        return empty(study, spec, "Nothing to draw: no game was held against a protocol.")
    labels = {of.name: of.label for of in study.game.evidence.about("regret") if of.share}
    table = table[table["measure"].isin(labels)]
    both = [table.assign(side=side, rate=table[side]) for side in _SIDES]
    rows = pd.concat(both, ignore_index=True)
    rows["low"], rows["high"] = wilson_of_mean(rows["rate"], rows["simulations"])
    notes = [f"Share of games with its {common.WILSON}."]
    lines = common.Lines("side", dict(zip(_SIDES, ("reached", BEST), strict=True)), [0, 1])
    return _points(study, spec, rows, "measure", labels, notes, 0.35, lines)


def votes(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw how many independent votes first and last answers are worth, by `spec.x`."""
    if table["effective"].isna().all():
        return empty(study, spec, "Nothing to draw: no condition has answers that differ, and three games.")
    rows, notes = table.assign(what="effective"), [f"Estimate with its {common.T_INTERVAL}."]
    most = 1.05 * max(table["voters"].max(), table["effective"].max())
    lines = common.Lines("answers", {"first": "first answers", "last": "last answers"}, [0, 1])
    titles = {"effective": "independent votes"}
    ranges = {"effective": (0.0, most, bool((table["high"] > most).any()))}
    return _points(study, spec, rows, "what", titles, notes, 0.35, lines, "effective", ranges, {"effective"})


def _of_blocks(study: Study, blocks: pd.DataFrame) -> pd.DataFrame:
    # A condition that never agreed keeps its rows: figures count what they leave out.
    return quantity_table(
        blocks.assign(block_bytes=blocks["block_bytes"].where(blocks["agreed"])), study.axes, study.game
    )


def _points(
    study: Study,
    spec: FigureSpec,
    table: pd.DataFrame,
    column: str,
    titles: Mapping[str, str],
    notes: list[str],
    each: float,
    lines: common.Lines | AxisOfLines,
    of: str = "rate",
    ranges: Mapping[str, tuple[float, float, bool]] | None = None,
    cut: Collection[str] = (),
) -> list[Figure]:
    """Return a figure of rows in `table`, whose `column` says of what they are: a row of panels for each of `titles`.

    `each` is the width of a place along x in inches. `lines` are known, or chosen among the axes; those that `column`
    names stand in one row. `ranges` are the limits of y of what is no share, and whether they cut an interval; what
    is in `cut` has intervals that end at the edge.
    """
    table, of_paper = common.with_paper(study, table, column)
    same = common.counted(table, notes, "blocks" if spec.blocks else "sims")
    along = _places_along(study, spec, table, each, notes, lines)
    ranges = ranges or {}
    if any(is_cut for _, _, is_cut in ranges.values()):
        notes.append("Intervals that leave a panel are cut; the tables hold all.")
    names, link, one_row = list(titles), common.linker(study), along.lines.by == column

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        name = names[index]
        places = along.shown(conditions)
        by_place = {
            (row.get(along.lines.by), row.get(along.x)): row
            for row in conditions.to_dict("records")[::-1]
            if one_row or row[column] == name
        }
        if name in ranges:
            common.grid_lines(ax)
            ax.set_xlim(-0.5, along.per_panel - 0.5)
            ax.set_ylim(*ranges[name][:2])
        else:
            common.share_axis(ax, along.per_panel)
        rows = [[by_place.get((line, value)) for value, _ in places] for line in along.lines.labels]
        # Between names a line would say nothing.
        joined = not one_row and not any(isinstance(value, str) for value, _ in places)
        counts = _draw_points(ax, rows, along.lines.styles, link, of, cut=name in cut, joined=joined)
        ticks = [label if same else f"{label}\n({count})" for (_, label), count in zip(places, counts, strict=True)]
        ax.set_xticks(range(len(places)), ticks)
        ax.set_xlabel(along.label)

    size = (along.width, _ALONE if one_row else HEIGHT)
    labels = ["rate"] if one_row else list(titles.values())
    legend = [*along.lines.legend, *of_paper]
    return common.panel_rows(study, spec, labels, along.groups, along.by, size, notes, legend, draw)


def _range(rows: pd.DataFrame, *, whole: bool) -> tuple[float, float, bool]:
    """Return the limits of y, and whether they cut an interval: of few simulations some would dwarf all means."""
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


def _interval_note(shown: Iterable[Quantity]) -> str:
    """Return which interval the means of these quantities have: one for all, or which of them have which."""
    bounded, others = ([what.label for what in shown if what.bounded is kind] for kind in (True, False))
    if not bounded:
        return f"Mean with its {common.T_INTERVAL}; a single one has none."
    if not others:
        return f"Mean with its {common.WILSON}."
    return (
        f"Mean with its interval: {common.WILSON} of {', '.join(bounded)}; {common.T_INTERVAL}, which a single one "
        f"has not, of {', '.join(others)}."
    )


def _draw_points(
    ax: Axes,
    lines: Sequence[Sequence[Any]],
    styles: Sequence[int],
    link: common.Linker,
    of: str,
    cut: bool,
    joined: bool,
) -> list[str]:
    """Draw rates or means with their limits side by side at each place along x; return the counts behind each place.

    `lines` are a row of the table for each place, or None: with `simulations`, what `of` names (NaN where there is
    none), `low` and `high`. `cut` ends intervals at the edge; `joined` draws lines between the points.
    """
    step = min(0.86 / len(lines), 0.18)
    counts: list[str] = []
    points: list[list[tuple[float, float]]] = [[] for _ in lines]
    limits: list[list[tuple[float, float, float, float]]] = [[] for _ in lines]
    for place, rows in enumerate(zip(*lines, strict=True)):
        shown = ["–" if row is None else str(int(row["simulations"])) for row in rows]
        counts.append(shown[0] if len(set(shown)) == 1 else "/".join(shown))
        if of == "rate" and not any(rows):
            common.instead(ax, place, "not run")
        elif all(row is None or (row["simulations"] and math.isnan(row[of])) for row in rows) and any(rows):
            common.instead(ax, place, "cannot be")
        for index, row in enumerate(rows):
            if row and not math.isnan(row[of]):
                at = place + (index - (len(lines) - 1) / 2) * step
                style = line_style(styles[index]) | {"linestyle": "none", "clip_on": False, "zorder": 3}
                if not math.isnan(row["low"]):
                    limits[index].append((at, row[of], row["low"], row["high"]))
                # Of an outcome that none has, all simulations are behind the mark.
                common.add_line(ax, at, row[of], url=link(row, row.get("outcome") if row[of] else None), **style)
                points[index].append((at, row[of]))
                if not math.isnan(told := row.get("paper", math.nan)):
                    around: dict[str, Any] = {"markersize": 6.5, "markerfacecolor": "none", "clip_on": False}
                    common.add_line(ax, at, told, zorder=4, **around, **common.PAPER)
    for number, line, bars in zip(styles, points, limits, strict=True):
        common.error_bars(ax, bars, line_style(number)["color"], 1.1, 2, clip_on=cut, zorder=2.5)
        if joined and line:
            joint = line_style(number) | {"marker": "none", "alpha": 0.6, "zorder": 2}
            common.add_line(ax, *zip(*line, strict=True), **joint)
    return counts


@dataclass(frozen=True)
class Along:
    """Where conditions stand: an axis along x, one for lines, the others as panels at least `width` inches wide."""

    x: str | None
    label: str
    lines: common.Lines
    by: list[str]
    groups: list[common.Group]
    places: dict[Any, str]
    per_panel: int
    width: float

    def shown(self, conditions: pd.DataFrame) -> list[Place]:
        """Return the places of one panel: as many as it has room for, those of `conditions` among them."""
        places = list(self.places.items()) or [(None, "")]
        first = 0 if self.x is None else list(self.places).index(next(iter(conditions[self.x])))
        start = first // self.per_panel * self.per_panel
        return places[start : start + self.per_panel]


def _places_along(
    study: Study,
    spec: FigureSpec,
    table: pd.DataFrame,
    each: float,
    notes: list[str],
    lines: common.Lines | AxisOfLines,
) -> Along:
    """Choose what is along x (`spec.x` if it varies, else the axis with the most values), and what are lines.

    `each` is the width of a place in inches. What has no simulation is left out; `notes` say what panels share.
    """
    axes = study.axes
    # Numbered, since a condition may stand in several panels.
    table = table.assign(**{_CONDITION: table.groupby(axes, sort=False).ngroup()})
    run = table[_CONDITION].nunique()
    has = table[table["simulations"] > 0]  # values along each axis for which some simulation has something
    table = table[pd.concat([table[axis].isin(has[axis]) for axis in axes], axis=1).all(axis=1)]
    if spec.x == "b" and {"b", "n"} <= set(axes) and table["b"].nunique() > 1:
        others = [axis for axis in axes if axis != "b"]
        table, others = beside_undisturbed(table, others, study.game.roles[0], notes)
        axes = ["b", *others]
    varying = common.varied(table, axes, notes)
    numbers = {axis: len(table[axis].unique()) for axis in varying}
    x = spec.x if spec.x in varying else max(varying, key=numbers.__getitem__, default=None)
    others = [axis for axis in varying if axis != x]
    if not isinstance(lines, common.Lines):
        lines = common.Lines.of_axis(study, table, lines(table, others))
    by = [axis for axis in others if axis != lines.by]
    xs = [] if x is None else common.values_along(table[x])
    # Names that are broken at their joints take two lines or three.
    longest = max((len(str(value)) for value in xs), default=0)
    each = max(each, min(0.9, 0.034 * longest), min(1.5, 0.026 * longest))
    per_panel = evenly(max(1, len(xs)), max(1, int(room() / each)))
    places = {value: wrapped(str(value), each) for value in xs}
    groups: list[common.Group] = []
    for key, conditions in common.alike(study, table, by):
        parts = [xs[at : at + per_panel] for at in range(0, len(xs), per_panel)]
        cut = [conditions[conditions[x].isin(part)] for part in parts] if len(parts) > 1 else [conditions]
        groups += [(key, part) for part in cut if (part["simulations"] > 0).any()]
    common.not_shown(run, len({number for _, part in groups for number in part[_CONDITION]}), notes)
    width = max(1.3, each * per_panel)
    return Along(x, axis_label(study, x), lines, by, groups, places, per_panel, width)
