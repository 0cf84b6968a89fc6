"""Rates: each outcome's share of simulations along an axis, a panel per outcome and group of conditions."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley.analysis.conditions import outcomes_of
from parley.figures.links import linker
from parley.figures.page import axis_label, empty
from parley.figures.panels import (
    NOISE,
    WILSON,
    Along,
    alike,
    counted,
    differences,
    legend_of_lines,
    panel_rows,
    point_panel,
    share_axis,
    values_along,
    varied,
)
from parley.figures.style import HEIGHT
from parley.games.evidence import FigureSpec
from parley.study import Study


def rates(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw a point with its interval per outcome and condition, a line per prompt; `table` is that of conditions.

    Where numbers of adversaries vary, the smallest alone is shown.
    """
    if table.empty or spec.x not in study.axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    by, notes = [axis for axis in study.axes if axis != spec.x], []
    if "b" in by:
        fewest = table["b"].min()
        if (left_out := int((table["b"] != fewest).sum())) > 0:
            notes.append(f"b={fewest} only ({left_out} conditions with a larger b are not shown here).")
            by.remove("b")
        table = table[table["b"] == fewest]
    varying = varied(table, by, notes)
    xs = values_along(table[spec.x])
    lines = values_along(table["prompt"]) if "prompt" in varying else [None]
    by = [axis for axis in varying if axis != "prompt"]
    styles, legend = legend_of_lines(study, "prompt" if "prompt" in varying else None, lines)
    notes.append(f"Rate of each outcome with its {WILSON}.")
    same = counted(table, notes)
    outcomes = outcomes_of(table, study.game, spec.of)
    if any(f"{outcome.name}_band" in table for outcome in outcomes):
        notes.append(NOISE)
    width = max(1.3, len(xs) * (len(lines) * 0.15 + 0.15))
    places = {value: str(value) for value in xs}
    along = Along(spec.x, axis_label(study, spec.x), None, [None], by, list(alike(table, by)), places, len(xs), width)
    link = linker(study)

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        name = outcomes[index].name
        of = conditions.rename(columns={f"{name}_{part}": part for part in ("rate", "low", "high", "band")})
        of = of.assign(outcome=name)
        shown = [of if line is None else of[of["prompt"] == line] for line in lines]
        # Between names a line would say nothing.
        joined = not any(isinstance(value, str) for value in xs)
        share_axis(ax, along.per_panel)
        point_panel(ax, along, list(places.items()), shown, styles, same, link, joined)

    def tells(group: pd.DataFrame) -> float:
        return max(differences(group, f"{outcome.name}_rate") for outcome in outcomes)

    labels = [outcome.label for outcome in outcomes]
    return panel_rows(
        study, spec, labels, along.groups, by, (width, HEIGHT), notes, legend, draw, tells, along.lines_below
    )
