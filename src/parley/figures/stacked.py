"""Stacked bars: how the simulations of each condition ended, with the interval of one outcome."""

import math
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parley.analysis.conditions import outcomes_of
from parley.analysis.pairs import beside_undisturbed
from parley.figures import common
from parley.figures.page import Panel, axis_label, empty, evenly, heading, pages, panel_width, room, wrapped
from parley.figures.style import HEIGHT
from parley.games.evidence import FigureSpec, OutcomeClass
from parley.study import Study

_BAR, _LONGEST = 0.2, 0.8  # inches of a bar, and at most of its name
_BESIDE, _SEEN = 0.25, 0.05  # of a place: where a paper's mark stands; the part above which a second one is apart
_MARK: dict[str, Any] = {"markersize": 5, "markerfacecolor": "white", "clip_on": False, "zorder": 4}
_EDGE: dict[str, Any] = {"edgecolor": "#333333", "linewidth": 0.5}


def stacked(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a panel per group of conditions: outcomes stacked to 100% along `spec.x`, the lowest with its interval."""
    if table.empty or spec.x not in study.axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    table, of_paper = common.with_paper(study, table)
    numbers = table[study.axes].nunique()
    x = spec.x if numbers[spec.x] > 1 else max([spec.x, *study.axes], key=numbers.__getitem__)
    by, notes = [axis for axis in study.axes if axis != x], list[str]()
    if x == "b" and "n" in by:
        table, by = beside_undisturbed(table, by, study.game.roles[0], notes)
    table = common.compared(table, by, x, notes)
    varying = common.varied(table, by, notes)
    groups = [each for each in common.alike(study, table, varying) if outcomes_of(each[1], study.game, spec.of)]
    bars = common.values_along(table[x])
    each = max(_BAR, min(_LONGEST, 0.064 * max(len(str(bar)) for bar in bars)))
    per_panel = evenly(len(bars), int(room() / each))
    outcomes = outcomes_of(table, study.game, spec.of)
    occurring = [outcome for outcome in outcomes if (table[f"{outcome.name}_rate"] > 0).any()]
    legend: list[Artist] = [Patch(facecolor=o.color, hatch=2 * o.hatch, label=o.label, **_EDGE) for o in occurring]
    legend += of_paper
    notes += ["Paper: where its parts of a bar end."] * len(of_paper)
    first = [outcomes_of(group, study.game, spec.of)[0] for _, group in groups]
    what = " or, where a panel cannot have it, ".join(outcome.label for outcome in outcomes if outcome in first)
    notes.append(f"Error bars: {what}, with its {common.WILSON}.")
    same = common.counted(table, notes)
    if any(group[f"{o.name}_rate"].isna().any() for o, (_, group) in zip(first, groups, strict=True)):
        notes.append("–: cannot be.")
    link, width = common.linker(study), max(1.3, each * per_panel)
    inches = panel_width(len(groups), width)

    def draw(ax: Axes, part: list[Any], outcome: OutcomeClass, group: common.Group) -> None:
        rows = {row[x]: row for row in group[1].to_dict("records")}
        common.share_axis(ax, per_panel)
        ax.set_title(heading(varying, group[0], inches))
        _bars(ax, [rows.get(bar) for bar in part], outcomes, outcome, link)
        ticks = [wrapped(str(bar), inches / per_panel) for bar in part]
        if not same:
            counts = [int(rows[bar]["simulations"]) if bar in rows else "–" for bar in part]
            ticks = [f"{tick}\n({count})" for tick, count in zip(ticks, counts, strict=True)]
        ax.set_xticks(range(len(part)), ticks)
        ax.tick_params(axis="x", length=0)
        ax.set_xlabel(axis_label(study, x))

    parts = [bars[at : at + per_panel] for at in range(0, len(bars), per_panel)]
    panels = [
        Panel([partial(draw, part=part, outcome=outcome, group=group)])
        for group, outcome in zip(groups, first, strict=True)
        for part in parts
        if group[1][x].isin(part).any()
    ]
    return pages(study, spec, panels, (width, HEIGHT), notes, legend)


def _bars(
    ax: Axes, rows: list[dict[Any, Any] | None], outcomes: list[OutcomeClass], first: OutcomeClass, link: common.Linker
) -> None:
    """Draw a bar per condition, None for one that was not run; `first` is the outcome with its interval."""
    for place, row in enumerate(rows):
        if row is None:
            common.instead(ax, place, "not run")
            continue
        base, told = 0.0, 0.0
        for outcome in outcomes:
            part = row.get(f"{outcome.name}_paper", math.nan)
            told += part  # known if the paper has all parts below
            if not math.isnan(told) and (outcome is first or part > _SEEN):
                common.add_line(ax, place + _BESIDE, told, **_MARK, **common.PAPER)
            rate = row[f"{outcome.name}_rate"]
            if not pd.isna(rate) and rate:
                style: dict[str, Any] = {"facecolor": outcome.color, "hatch": 2 * outcome.hatch, **_EDGE}
                ax.bar(place, rate, 0.72, base, url=link(row, outcome.name), clip_on=False, **style)
                base += rate
        rate, low, high = (float(row[f"{first.name}_{part}"]) for part in ("rate", "low", "high"))
        if math.isnan(rate):
            ax.text(place, 1.02, "–", ha="center", va="bottom")
            continue
        for color, thick, cap in (("white", 2.4, 3.0), ("black", 1.0, 2.2)):  # the halo shows on a dark bar
            common.error_bars(ax, [(place, rate, low, high)], color, thick, cap, cap_width=thick)
