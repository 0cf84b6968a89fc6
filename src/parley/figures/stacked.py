"""Stacked bars: how the simulations of each condition ended, with the interval of one outcome.

Games without adversaries are one bar, in front of those of all kinds of adversaries.
"""

import math
from collections import Counter
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axes._secondary_axes import SecondaryAxis
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parley.analysis.conditions import outcomes_of
from parley.analysis.pairs import with_group_size
from parley.figures import common
from parley.figures.page import Panel, axis_label, empty, heading, pages, panel_width, room, wrapped
from parley.figures.style import HEIGHT
from parley.games.evidence import FigureSpec, OutcomeClass
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS

_BAR, _LONGEST = 0.2, 0.8  # inches of a bar, and at most of its name
_EDGE: dict[str, Any] = {"edgecolor": "#333333", "linewidth": 0.5}

Bar = tuple[str, Any]  # what plays the adversaries, "" where that is all one, and the value along x


def stacked(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a panel per group of conditions: outcomes stacked to 100% along `spec.x`, the lowest with its interval."""
    if table.empty or spec.x not in study.axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    numbers = table[study.axes].nunique()
    x = spec.x if numbers[spec.x] > 1 else max([spec.x, *study.axes], key=numbers.__getitem__)
    by, notes = [axis for axis in study.axes if axis != x], []
    kinds = list(table[table["b"] > 0][BYZANTINE_AXIS].unique()) if x == "b" and BYZANTINE_AXIS in by else []
    several = len(kinds) > 1
    if several:
        by.remove(BYZANTINE_AXIS)
    elif kinds:
        table = table.assign(**{BYZANTINE_AXIS: kinds[0]})
    if x == "b" and "n" in by:
        table, by, note = with_group_size(table, by, study.game.roles[0])
        notes.append(note)
    table = common.compared(table, by, x, notes)
    varying = common.varied(table, by, notes)
    groups = [each for each in common.alike(study, table, varying) if outcomes_of(each[1], study.game, spec.of)]
    axes = common.telling(varying, [key for key, _ in groups], notes)
    # Where kinds of adversaries differ, each panel has those that were run in it.
    bars_of = [_bars_of(group if several else table, x, kinds if several else []) for _, group in groups]
    most = max(len(bars) for bars in bars_of)
    each = max(_BAR, min(_LONGEST, 0.064 * max(len(str(value)) for bars in bars_of for _, value in bars)))
    per_panel = math.ceil(most / math.ceil(most / int(room() / each)))
    outcomes = outcomes_of(table, study.game, spec.of)
    found = [outcome for outcome in outcomes if (table[f"{outcome.name}_rate"] > 0).any()]
    legend = [Patch(facecolor=o.color, hatch=2 * o.hatch, label=o.label, **_EDGE) for o in found]
    first = [outcomes_of(group, study.game, spec.of)[0] for _, group in groups]
    what = " or, where a panel cannot have it, ".join(outcome.label for outcome in outcomes if outcome in first)
    notes.append(f"Error bars: {what}, with its {common.WILSON}.")
    same = common.counted(table, notes)
    if any(group[f"{o.name}_rate"].isna().any() for o, (_, group) in zip(first, groups, strict=True)):
        notes.append("–: cannot be.")
    link, label = common.linker(study), axis_label(study, x)
    width = max(1.3, each * per_panel)
    inches = panel_width(len(groups), width)
    panels = []
    for (key, conditions), outcome, bars in zip(groups, first, bars_of, strict=True):
        title, differ = (
            heading(varying, key, inches, axes),
            common.differences(conditions, f"{outcome.name}_rate"),
        )
        for at in range(0, len(bars), per_panel):
            part = bars[at : at + per_panel]
            wide = max(len(part), per_panel // 2)  # a few bars do not leave most of their panel white
            draw = partial(_panel, outcomes=outcomes, first=outcome, conditions=conditions, bars=part)
            draw = partial(draw, x=x, labels=(title, label), inside=several, same=same, link=link)
            draw = partial(draw, wide=wide, each=inches / wide)
            lines = title.count("\n") + 1 + _lines_below(part, inches / wide)
            panels.append(Panel([draw], differ, lines, family=common.family(study, varying, key)))
    return pages(study, spec, panels, (width, HEIGHT), notes, legend)


def _bars_of(table: pd.DataFrame, x: str, kinds: list[str]) -> list[Bar]:
    """Return the places of a panel's bars: without adversaries once, then those of each of the `kinds`, if any."""
    if not kinds:
        return [("", value) for value in common.values_along(table[x])]
    nobody: list[Bar] = [("", 0)] if (table[x] == 0).any() else []
    attacked = {bar for bar in zip(table[BYZANTINE_AXIS], table[x], strict=True) if bar[1]}
    return nobody + sorted(attacked, key=lambda bar: (kinds.index(bar[0]), bar[1]))


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
    link: common.Linker,
    wide: int,
    each: float,
) -> None:
    """Draw a bar per condition in a panel with room for `wide` bars; `first` is the outcome with its interval."""
    common.share_axis(ax, wide)
    ax.set_title(labels[0])
    rows = {(str(r[BYZANTINE_AXIS]) if inside and r[x] else "", r[x]): r for r in conditions.to_dict("records")}
    for place, bar in enumerate(bars):
        if bar not in rows:
            common.instead(ax, place, "not run")
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
            common.error_bars(ax, [(place, rate, low, high)], color, thick, cap, cap_width=thick)
    ticks = [wrapped(str(value), each) for _, value in bars]
    if not same:
        counts = [int(rows[bar]["simulations"]) if bar in rows else "–" for bar in bars]
        ticks = [f"{tick}\n({count})" for tick, count in zip(ticks, counts, strict=True)]
    ax.set_xticks(range(len(bars)), ticks)
    ax.tick_params(axis="x", length=0)
    _kinds(ax, bars, same, each).set_xlabel(labels[1])


def _kind_names(bars: list[Bar], width: float) -> tuple[dict[str, str], bool]:
    """Return the names of the kinds of adversaries, wrapped to what is under their bars, or whole and to be turned."""
    rooms = {kind: width * number for kind, number in Counter(kind for kind, _ in bars).items() if kind}
    names = {kind: wrapped(kind, room) for kind, room in rooms.items()}
    lines = {kind: name.split("\n") for kind, name in names.items()}
    # A word is wrapped to no less than six letters: over a single bar it would run into the next name.
    turned = any(len(of) > 2 or 0.064 * max(map(len, of)) > 1.3 * rooms[kind] for kind, of in lines.items())
    return ({kind: kind for kind in names} if turned else names), turned


def _lines_below(bars: list[Bar], width: float) -> int:
    names, turned = _kind_names(bars, width)
    if turned:
        return math.ceil(0.5 * max(map(len, names.values())))
    return max((name.count("\n") + 1 for name in names.values()), default=0)


def _kinds(ax: Axes, bars: list[Bar], same: bool, width: float) -> Axes | SecondaryAxis:
    """Name the kinds of adversaries under their bars; return what has the names, if any, which stand lowest."""
    names, turned = _kind_names(bars, width)
    if not names:
        return ax
    spans = {kind: [place for place, (of, _) in enumerate(bars) if of == kind] for kind in names}
    each = ax.secondary_xaxis(location=0)
    each.set_xticks([(places[0] + places[-1]) / 2 for places in spans.values()], list(names.values()))
    each.tick_params(length=0, pad=(14 if same else 24), rotation=90 if turned else 0)
    each.spines["bottom"].set_visible(False)
    for places in spans.values():
        if places[0]:
            ax.axvline(places[0] - 0.5, color="#BBBBBB", linewidth=0.6, zorder=0)
    return each
