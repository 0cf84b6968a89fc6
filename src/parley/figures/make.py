"""The `figures` stage: draws every figure of a study's game, as PNG and SVG, from the tables and a few records.

No game is known here: what is drawn follows from the game's figure specs and outcome classes and from the study's
axes. Conditions are never pooled: an axis that varies becomes a panel, a line or a place along x. The same tables
give the same bytes. Marks differ in shape, hatch or dash as well as in color.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parley.analysis import tables
from parley.analysis.attacked import beside_undisturbed
from parley.analysis.conditions import outcomes_of
from parley.analysis.rates import quantity_table
from parley.figures.curves import curves
from parley.figures.effects import effects
from parley.figures.endings import endings
from parley.figures.indicators import indicators
from parley.figures.map import quantity_map, rate_map
from parley.figures.page import (
    empty,
    heading,
    in_blocks,
    interval_text,
    line_handle,
    own_style,
    page,
    save,
    words,
)
from parley.figures.panels import (
    NOISE,
    WILSON,
    alike,
    at_most,
    bar_lengths,
    columns_of,
    compared,
    instead,
    panel_rows,
    rate_panel,
    share_axis,
    sims_text,
    values_along,
    varied,
)
from parley.figures.quantities import quantities
from parley.figures.scatter import scatter
from parley.figures.sweep import sweep
from parley.figures.timeline import timelines
from parley.figures.trajectories import trajectories
from parley.games.evidence import FigureSpec, OutcomeClass
from parley.play.usable import usable_part
from parley.study import Study


def figures(study: Study, processes: int = 1) -> list[Path]:
    """Draw all figures of `study` in so many processes, and return their paths, PNG and SVG of each.

    Raises RecordError if the tables or a record are missing, or the disk refuses.
    """
    drawn = usable_part(study).first_repeat
    processes = min(processes, len(study.figures))
    if processes < 2:
        return [path for spec in study.figures for path in _written(drawn, spec)]
    # Forked: else each would import Matplotlib again, and be sent the study. No other thread runs here before that.
    begin = (_forked.append, ((drawn, study.figures),))
    with ProcessPoolExecutor(processes, get_context("fork"), *begin) as pool:
        return [path for paths in pool.map(_written_by_number, range(len(study.figures))) for path in paths]


_forked: list[tuple[Study, Sequence[FigureSpec]]] = []  # in a process of the pool: what it draws


def _written_by_number(number: int) -> list[Path]:
    study, specs = _forked[0]
    return _written(study, specs[number])


def _written(study: Study, spec: FigureSpec) -> list[Path]:
    """Draw one figure and return its paths."""
    with own_style():
        return save(draw(study, spec, partial(tables.read_table, study.name)), study, spec)


def draw(study: Study, spec: FigureSpec, table: Callable[[str], pd.DataFrame]) -> Figure:
    """Return one figure of `study`; `table` returns a table of the study by its name. Call it within `own_style`."""
    conditions = table("conditions")
    if spec.kind == "trajectories":
        return trajectories(study, spec)
    if spec.kind == "sweep":
        return sweep(study, spec, table("thresholds"))
    if spec.kind == "effects":
        return effects(study, spec, table("effects"))
    if spec.kind == "timeline":
        return timelines(study, spec)
    if spec.kind == "map" and spec.of:
        return quantity_map(study, spec, table("quantities"))
    if spec.kind == "map":
        first = study.game.outcomes[0].name  # a cell where it cannot be stays empty
        return rate_map(study, spec, conditions[conditions[f"{first}_rate"].notna()])
    if spec.kind == "curves":
        return curves(study, spec, table("rounds"))
    if spec.kind == "endings":
        return endings(study, spec, table("endings"))
    if spec.kind == "scatter":
        return scatter(study, spec, table("simulations"), table("quality"))
    if spec.kind == "indicators":
        bands = _bands(table("noise"), "indicator").rename(columns={"what": "indicator"})
        return indicators(study, spec, _with_bands(table("rates"), bands))
    if spec.kind == "quantities" and spec.blocks:
        return quantities(study, spec, _of_blocks(study, table("ledger")))
    if spec.kind == "quantities":
        return quantities(study, spec, table("quantities"))
    bands = _bands(table("noise"), "outcome")
    wide = bands.pivot(index=study.axes, columns="what", values="band").add_suffix("_band").reset_index()
    return _along_x(study, spec, _with_bands(conditions, wide))


def _bands(noise: pd.DataFrame, kind: str) -> pd.DataFrame:
    return noise[noise["kind"] == kind].drop(columns=["kind", "pairs", "difference", "spread"])


def _with_bands(table: pd.DataFrame, bands: pd.DataFrame) -> pd.DataFrame:
    """Return conditions with how far they differ from themselves, where seeds were played again."""
    return table.merge(bands, how="left") if len(bands) else table


def _of_blocks(study: Study, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the quantities of the blocks that hold what was said, in the form of the table `quantities`."""
    blocks, by = blocks.copy(), study.axes
    blocks["spread_bytes"] = blocks[["announce_bytes", "request_bytes", "data_bytes"]].sum(axis=1)
    # A condition that never agreed keeps its rows: figures count what they leave out.
    for name in map(str, blocks.columns):
        if name.endswith("_bytes"):
            blocks[name] = blocks[name].where(blocks["agreed"])
    return quantity_table(blocks, by, study.game)


# Conditions along an axis: rates and stacked bars


def _along_x(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw a figure that compares conditions along `spec.x`; every other axis that varies is kept apart."""
    axes = study.axes
    if table.empty or spec.x not in axes:
        why = f"{spec.x} is not an axis of this study" if len(table) else "the study has no conditions"
        return empty(study, spec, f"Nothing to draw: {why}.")
    by, notes = [axis for axis in axes if axis != spec.x], []
    if spec.kind == "rates" and "b" in by:
        fewest = table["b"].min()
        if (left_out := int((table["b"] != fewest).sum())) > 0:
            notes.append(f"b={fewest} only ({left_out} conditions with a larger b are not shown here).")
            by.remove("b")
        table = table[table["b"] == fewest]
    elif spec.x == "b" and "n" in by:
        table, by = beside_undisturbed(table, by, study.game.roles[0], notes)
    if spec.kind == "stacked":
        table = compared(table, by, spec.x, notes)
    varying = varied(table, by, notes)
    return (_rates if spec.kind == "rates" else _stacked)(study, spec, table, varying, notes)


def _rates(study: Study, spec: FigureSpec, table: pd.DataFrame, varying: list[str], notes: list[str]) -> Figure:
    """Draw a row of panels per outcome: a point with its interval per condition, one line per prompt."""
    xs = values_along(table[spec.x])
    lines = values_along(table["prompt"]) if "prompt" in varying else [None]
    by = [axis for axis in varying if axis != "prompt"]
    panels = at_most(list(alike(table, by)), notes)
    w = max(1.5, len(xs) * (len(lines) * 0.27 + 0.12))
    legend = [line_handle(i, words(["prompt"], [name])) for i, name in enumerate(lines) if name is not None]
    notes = [*notes, f"Rate of each outcome with its {WILSON}; sims: simulations per point."]
    if legend:
        notes.append("Where they differ between lines, sims are in the order of the legend.")
    outcomes = outcomes_of(table, study.game)
    if any(f"{outcome.name}_band" in table for outcome in outcomes):
        notes.append(NOISE)

    between = not any(isinstance(value, str) for value in xs)  # between names a line would say nothing

    def draw(ax: Axes, index: int, conditions: pd.DataFrame) -> None:
        rates = conditions.rename(
            columns={f"{outcomes[index].name}_{part}": part for part in ("rate", "low", "high", "band")}
        )
        shown = [rates if name is None else rates[rates["prompt"] == name] for name in lines]
        rate_panel(ax, spec.x, [(value, str(value)) for value in xs], shown, len(xs), w, joined=between)

    return panel_rows(study, spec, [o.label for o in outcomes], panels, by, (w, 1.7), notes, legend, draw)


def _stacked(study: Study, spec: FigureSpec, table: pd.DataFrame, varying: list[str], notes: list[str]) -> Figure:
    """Draw a panel per group of conditions: the outcomes stacked to 100% along x, and the interval of one.

    That is the first outcome that the panel's conditions can have, which is lowest in the bars.
    """
    panels = at_most(list(alike(table, varying)), notes)
    xs = values_along(pd.concat([group[spec.x] for _, group in panels]))
    w = max(1.5, 0.62 * len(xs))
    outcomes = outcomes_of(pd.concat([group for _, group in panels]), study.game)
    first = [outcomes_of(group, study.game)[0] for _, group in panels]
    legend = [
        Patch(facecolor=o.color, hatch=o.hatch, edgecolor="#333333", linewidth=0.6, label=o.label) for o in outcomes
    ]
    what = " or, where a panel cannot have it, ".join(outcome.label for outcome in outcomes if outcome in first)
    notes = [*notes, f"Above each bar and as its error bar: {what}, with its {WILSON}; sims: simulations per bar."]
    if any(group[f"{o.name}_rate"].isna().any() for o, (_, group) in zip(first, panels, strict=True)):
        notes.append("–: cannot be.")

    def draw(ax: Axes, index: int) -> None:
        key, conditions = panels[index]
        ax.set_title(heading(varying, key, w), size=8, pad=24)
        _bars(ax, outcomes, first[index], conditions, spec.x, xs)

    rows = in_blocks([partial(draw, index=index) for index in range(len(panels))], min(4, columns_of(w)))
    return page(study, spec, rows, (w, 2.1), notes, legend)


def _bars(
    ax: Axes, outcomes: list[OutcomeClass], first: OutcomeClass, conditions: pd.DataFrame, x: str, xs: list[Any]
) -> None:
    """Draw a bar per condition; `first` is the outcome with its interval, which a single condition may be without."""
    share_axis(ax, len(xs))
    ticks = [f"{value}\n–" for value in xs]
    for place in set(range(len(xs))) - {xs.index(value) for value in conditions[x]}:
        instead(ax, place, "not run")
    for _, row in conditions.iterrows():
        place, base = xs.index(row[x]), 0.0
        ticks[place] = f"{row[x]}\n{sims_text([row['simulations']])}"
        for outcome in outcomes:
            rate = row[f"{outcome.name}_rate"]
            if pd.isna(rate):
                continue
            style: dict[str, Any] = {"facecolor": outcome.color, "hatch": outcome.hatch}
            if rate:
                ax.bar(place, rate, 0.66, base, edgecolor="#333333", linewidth=0.6, clip_on=False, **style)
            base += rate
        rate, low, high = (float(row[f"{first.name}_{part}"]) for part in ("rate", "low", "high"))
        if math.isnan(rate):
            ax.text(place, 1.03, "–", ha="center", va="bottom", size=6.5)
            continue
        for color, width, cap in (("white", 3.2, 4.0), ("black", 1.2, 3.0)):  # the halo shows on a dark bar
            ax.errorbar(
                place,
                rate,
                yerr=bar_lengths(rate, low, high),
                color=color,
                linewidth=width,
                capsize=cap,
                capthick=width,
                clip_on=False,
            )
        ax.text(place, 1.03, f"{rate:.0%}\n{interval_text(low, high)}", ha="center", va="bottom", size=6.5)
    ax.set_xticks(range(len(xs)), ticks)
    ax.set_xlabel(x)
