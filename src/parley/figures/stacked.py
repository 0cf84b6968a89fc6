"""Stacked bars: how the simulations of each condition ended, with the interval of one outcome.

Games without adversaries are one bar, in front of those of all kinds of adversaries.
"""

import math
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parley.analysis.attacked import beside_undisturbed, with_group_size
from parley.analysis.conditions import outcomes_of
from parley.figures.links import Linker, linker
from parley.figures.page import Panel, axis_label, empty, heading, pages, panel_width, room, wrapped
from parley.figures.panels import (
    WILSON,
    alike,
    compared,
    counted,
    differences,
    error_bars,
    instead,
    share_axis,
    telling,
    values_along,
    varied,
)
from parley.figures.style import HEIGHT
from parley.games.evidence import FigureSpec, OutcomeClass
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS

_BAR = 0.2  # inches
_EDGE: dict[str, Any] = {"edgecolor": "#333333", "linewidth": 0.5}

Bar = tuple[str, Any]  # what plays the adversaries, "" where that is all one, and the value along x


def stacked(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a panel per group of conditions: the outcomes stacked to 100% along `spec.x`, and the interval of one.

    That is the first outcome that the panel's conditions can have, which is lowest in the bars. `table` is that of
    conditions.
    """
    if table.empty or spec.x not in study.axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    by, notes = [axis for axis in study.axes if axis != spec.x], []
    inside = spec.x == "b" and BYZANTINE_AXIS in by and _dense(table, [axis for axis in by if axis != BYZANTINE_AXIS])
    if inside:
        by.remove(BYZANTINE_AXIS)
    if spec.x == "b" and "n" in by and inside:
        table, by, note = with_group_size(table, by, study.game.roles[0])
        notes.append(note)
    elif spec.x == "b" and "n" in by:
        table, by = beside_undisturbed(table, by, study.game.roles[0], notes)
    table = compared(table, by, spec.x, notes)
    varying = varied(table, by, notes)
    groups = list(alike(table, varying))
    told = telling(varying, [key for key, _ in groups], notes)
    bars = _bars_of(table, spec.x, inside)
    per_panel = math.ceil(len(bars) / math.ceil(len(bars) / int(room() / _BAR)))
    outcomes = outcomes_of(table, study.game)
    legend = [Patch(facecolor=o.color, hatch=2 * o.hatch, label=o.label, **_EDGE) for o in outcomes]
    first = [outcomes_of(group, study.game)[0] for _, group in groups]
    what = " or, where a panel cannot have it, ".join(outcome.label for outcome in outcomes if outcome in first)
    notes.append(f"Error bars: {what}, with its {WILSON}.")
    same = counted(table, notes)
    if any(group[f"{o.name}_rate"].isna().any() for o, (_, group) in zip(first, groups, strict=True)):
        notes.append("–: cannot be.")
    link, label = linker(study), axis_label(study, spec.x)
    width = max(1.3, _BAR * per_panel)
    panels = []
    for (key, conditions), outcome in zip(groups, first, strict=True):
        title, differ = (
            heading(varying, key, panel_width(len(groups), width), told),
            differences(conditions, f"{outcome.name}_rate"),
        )
        for at in range(0, len(bars), per_panel):
            draw = partial(
                _panel, outcomes=outcomes, first=outcome, conditions=conditions, bars=bars[at : at + per_panel]
            )
            draw = partial(draw, x=spec.x, labels=(title, label), inside=inside, same=same, link=link)
            panels.append(Panel([draw], differ, title.count("\n") + 1))
    return pages(study, spec, panels, (width, HEIGHT), notes, legend)


def _dense(table: pd.DataFrame, by: list[str]) -> bool:
    """Return whether several kinds of adversaries were run, and most of them in each group of conditions."""
    attacked = table[table["b"] > 0]
    kinds = attacked[BYZANTINE_AXIS].nunique()
    sized = [axis for axis in by if axis != "n"]
    groups = len(attacked[sized].drop_duplicates()) if sized else 1
    return kinds > 1 and len(attacked[[*sized, BYZANTINE_AXIS]].drop_duplicates()) > 0.6 * kinds * groups


def _bars_of(table: pd.DataFrame, x: str, inside: bool) -> list[Bar]:
    """Return the places of the bars of all panels: without adversaries once, then those of each kind."""
    if not inside:
        return [("", value) for value in values_along(table[x])]
    attacked = table[table[x] > 0]
    kinds = values_along(attacked[BYZANTINE_AXIS])
    nobody: list[Bar] = [("", 0)] if (table[x] == 0).any() else []
    return nobody + [
        (kind, value) for kind in kinds for value in values_along(attacked[attacked[BYZANTINE_AXIS] == kind][x])
    ]


def _panel(
    ax: Axes,
    outcomes: list[OutcomeClass],
    first: OutcomeClass,
    conditions: pd.DataFrame,
    bars: list[Bar],
    x: str,
    labels: tuple[str, str],
    inside: bool,
    same: bool,
    link: Linker,
) -> None:
    """Draw a bar per condition; `first` is the outcome with its interval, which a single condition may be without."""
    share_axis(ax, len(bars))
    ax.set_title(labels[0])
    rows = {(str(r[BYZANTINE_AXIS]) if inside and r[x] else "", r[x]): r for r in conditions.to_dict("records")}
    for place, bar in enumerate(bars):
        if bar not in rows:
            instead(ax, place, "not run")
            continue
        row, base = rows[bar], 0.0
        for outcome in outcomes:
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
            error_bars(ax, [(place, rate, low, high)], color, thick, capsize=cap, capthick=thick, clip_on=False)
    ticks = [str(value) for _, value in bars]
    if not same:
        counts = [int(rows[bar]["simulations"]) if bar in rows else "–" for bar in bars]
        ticks = [f"{tick}\n({count})" for tick, count in zip(ticks, counts, strict=True)]
    ax.set_xticks(range(len(bars)), ticks)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(labels[1])
    _kinds(ax, bars, same)


def _kinds(ax: Axes, bars: list[Bar], same: bool) -> None:
    """Name the kinds of adversaries under their bars."""
    kinds = [kind for kind in dict.fromkeys(kind for kind, _ in bars) if kind]
    if not kinds:
        return
    spans = {kind: [place for place, (of, _) in enumerate(bars) if of == kind] for kind in kinds}
    each = ax.secondary_xaxis(location=0)
    names = [wrapped(kind, _BAR * len(spans[kind]) + 0.1) for kind in kinds]
    lines = 1 + max(name.count("\n") for name in names)
    turned = lines > 2
    each.set_xticks([(places[0] + places[-1]) / 2 for places in spans.values()], kinds if turned else names)
    each.tick_params(length=0, pad=(14 if same else 24), rotation=90 if turned else 0)
    each.spines["bottom"].set_visible(False)
    for places in spans.values():
        if places[0]:
            ax.axvline(places[0] - 0.5, color="#BBBBBB", linewidth=0.6, zorder=0)
    # The layout counts the names, not that the label of the axis has to stand below them.
    ax.xaxis.labelpad = 4 + (4.6 * max(len(kind) for kind in kinds) if turned else 10.0 * lines)
