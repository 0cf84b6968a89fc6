"""Degenerate replies in the tables and in the report: how many of those asked of models, by class and condition.

Records of before they were counted do not tell them: they are missing there, never 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, MEANINGS, WARN_FROM
from parley.study.axes import axes_text

ALL = "degenerate"
RATE = "degenerate_rate"
COLUMNS = {name: f"{ALL}_{name}" for name in DEGENERATE_CLASSES}
_COUNTS = (ASKED, ALL, *COLUMNS.values())


def simulation_cells(telemetry: Mapping[str, Any], asks_model: bool) -> dict[str, Any]:
    """Return the counts of one simulation for its row; nothing if it asks no model, missing if the record has none."""
    if not asks_model:
        return {}
    counts = telemetry.get("degenerate")
    if counts is None:
        return dict.fromkeys(_COUNTS)
    by_class = {column: counts.get(name, 0) for name, column in COLUMNS.items()}
    return {ASKED: counts[ASKED], ALL: sum(by_class.values()), **by_class}


def with_counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its counts, if it has them, as integers that may be missing."""
    return rows.astype({name: "Int64" for name in _COUNTS if name in rows})


def condition_cells(group: pd.DataFrame) -> dict[str, Any]:
    """Return the counts of the simulations of one condition, and the share in [0, 1]; nothing if none asks a model."""
    if ASKED not in group:
        return {}
    counts = {name: group[name].sum(min_count=1) for name in _COUNTS}
    known = not pd.isna(counts[ASKED]) and counts[ASKED] > 0
    return {**counts, RATE: counts[ALL] / counts[ASKED] if known else float("nan")}


def outcome_cells(row: Any) -> dict[str, Any]:
    """Return the cells of `condition_cells` from a row of the table of conditions."""
    return {name: row[name] for name in (*_COUNTS, RATE) if name in row}


def degenerate_warnings(conditions: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return a line for each condition in which at least WARN_FROM of the replies of models are degenerate."""
    if RATE not in conditions:
        return []
    return [_warning(row, by) for _, row in conditions[conditions[RATE] >= WARN_FROM].iterrows()]


def _warning(row: Any, by: Sequence[str]) -> str:
    where = axes_text({axis: row[axis] for axis in by})
    name = max(DEGENERATE_CLASSES, key=lambda name: row[COLUMNS[name]])
    most = f"{row[COLUMNS[name]] / row[ASKED]:.1%} {name} ({MEANINGS[name]})"
    return f"{where}: {row[RATE]:.1%} of {row[ASKED]} replies of models are degenerate; {most}"


def degenerate_rows(conditions: pd.DataFrame, by: Sequence[str]) -> dict[str, Any]:
    """Return the classes with what they mean, and per condition its axes and counts as text, for the report."""
    if ASKED not in conditions:
        return {"classes": [], "rows": []}
    rows = []
    for _, row in conditions.iterrows():
        if pd.isna(row[ASKED]):  # older records, or scripted agents
            rows.append(([row[axis] for axis in by], ["-"] * (2 + len(COLUMNS))))
            continue
        counts = [f"{row[name]} ({row[name] / row[ASKED]:.1%})" for name in (ALL, *COLUMNS.values())]
        rows.append(([row[axis] for axis in by], [f"{row[ASKED]:,}", *counts]))
    return {"classes": list(MEANINGS.items()), "rows": rows}
