"""The figure of `parley plan`: power of each question by number of seeds; without questions, widths of intervals."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from parley import paths
from parley.analysis.planning import TARGETS, Planned, level
from parley.analysis.stats import CONFIDENCE
from parley.figures.page import Panel, pages, wrapped, write
from parley.figures.panels import share_axis
from parley.figures.style import line_handle, line_style, own_style
from parley.games.evidence import FigureSpec
from parley.study import Study

_SIZE = (1.9, 1.3)  # inches, of a panel
_POINTS, _FEW_POINTS = 60, 12  # along x; few where samples are drawn for each
_MARKED = 8  # of them
_LONGEST_LABEL = 50  # in the title of a panel
_POWER = FigureSpec("power", "curves", "Power by number of seeds", "")
_WIDTHS = FigureSpec("power", "curves", "Width of an outcome's interval by number of seeds", "")
_PLANNED = Line2D([], [], color="black", linewidth=1, linestyle=(0, (2, 2)), label="seeds of the study")


def draw_power(study: Study, plans: Sequence[Planned], table: pd.DataFrame) -> list[Path]:
    """Draw what the table says, a panel per comparison, or the widths of a study without questions; return paths."""
    with own_style():
        drawn = _power(study, plans, table) if plans else _widths(study, table)
        return write(drawn, partial(paths.power, study.name, "power"))


def _power(study: Study, plans: Sequence[Planned], table: pd.DataFrame) -> list[Figure]:
    alpha, alone = level(study), 1 - CONFIDENCE
    notes = ["Probability that a question is answered with “differs” if the difference is as large as its title says."]
    if any(plan.power is not None and not plan.pairs for plan in plans):
        notes.append("Pairs are taken to be independent where no records tell otherwise.")
    if any(condition.growing for condition in study.conditions):
        notes.append("Where seeds grow, vertical lines are at the least and at the most.")
    asked = list(zip(plans, table.to_dict("records"), strict=True))
    lines = [("not corrected (p < 0.05)", alone, False)]
    if len(plans) > 1:
        lines = [(f"corrected for {len(plans)} comparisons", alpha, False), *lines]
    if any(row["strata"] > 1 for _, row in asked):
        lines.append(("one stratum alone, not corrected", alone, True))
    legend = [line_handle(index, label) for index, (label, *_) in enumerate(lines)]

    def draw(ax: Axes, panel: tuple[Planned, dict[Any, Any]]) -> None:
        plan, row = panel
        ax.set_title(wrapped(_title(plan), _SIZE[0], 12))
        share_axis(ax, 1)
        ax.set_ylabel("power")
        if plan.power is None:
            ax.text(0.5, 0.5, wrapped(plan.basis, _SIZE[0]), ha="center", va="center", transform=ax.transAxes)
            _seeds_axis(ax, max(100, row["seeds_most"]), _ends(row))
            return
        needed = [row[f"seeds_{100 * target:.0f}"] for target in TARGETS]
        most = max(
            [2 * row["seeds"], 1.3 * row["seeds_most"], *(1.3 * seeds for seeds in needed if not pd.isna(seeds))]
        )
        drawn = plan.comparison.kind == "quantity"
        seeds = np.unique(np.geomspace(2, max(most, 10), _FEW_POINTS if drawn else _POINTS).round().astype(int))
        for index, (_, at, single) in enumerate(lines):
            if single and row["strata"] == 1:
                continue
            strata = 1 if single else row["strata"]
            powers = [plan.power(int(n) * strata, plan.difference, at) for n in seeds]
            ax.plot(seeds, powers, clip_on=False, markevery=max(1, len(seeds) // _MARKED), **line_style(index))
        for target in TARGETS:
            ax.axhline(target, color="#777777", linewidth=0.7)
        _seeds_axis(ax, most, _ends(row))

    panels = [
        Panel(
            [partial(draw, panel=(plan, row))], abs(plan.difference), wrapped(_title(plan), _SIZE[0]).count("\n") + 1
        )
        for plan, row in asked
    ]
    return pages(study, _POWER, panels, _SIZE, notes, [*legend, _PLANNED])


def _ends(row: dict[Any, Any]) -> list[int]:
    return sorted({row["seeds"], row["seeds_most"]})


def _title(plan: Planned) -> str:
    label = plan.comparison.label
    label = label if len(label) <= _LONGEST_LABEL else plan.comparison.question.name  # the rest is printed beside it
    if math.isnan(plan.first):
        return f"{label}; difference {plan.difference:g}"
    return f"{label}; {plan.first:.0%} -> {plan.first + plan.difference:.0%}"


def _widths(study: Study, table: pd.DataFrame) -> list[Figure]:
    most = float(table["seeds"].max())
    notes = ["A condition's rate is known to within half of this, above and below (95% Wilson interval)."]
    columns = [name for name in table if str(name).startswith("width_at_")]
    legend = [line_handle(i, f"rate {str(name).rpartition('_')[2]}%") for i, name in enumerate(columns)]

    def draw(ax: Axes) -> None:
        for index, name in enumerate(columns):
            ax.plot(table["seeds"], table[name], **line_style(index))
        share_axis(ax, 1)
        ax.set_ylabel("width of the interval")
        _seeds_axis(ax, most, table[table["of_the_study"]]["seeds"].tolist())

    return pages(study, _WIDTHS, [Panel([draw])], (2.6, 2.0), notes, [*legend, _PLANNED])


def _seeds_axis(ax: Axes, most: float, planned: Sequence[int]) -> None:
    ax.set_xscale("log")
    ax.set_xlim(2, 1.1 * max(most, 10))
    steps = [step * 10**power for power in range(6) for step in (1, 2, 5)]
    ticks = [step for step in steps if 2 <= step <= max(most, 10)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=45 if len(ticks) > 5 else 0)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("seeds per condition")
    for seeds in planned:
        ax.axvline(seeds, color="black", linewidth=1, linestyle=(0, (2, 2)), zorder=1)
