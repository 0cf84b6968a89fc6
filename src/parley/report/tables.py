"""The one way to make a table of the report: rows of a table on the disk, and a list of columns."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd

from parley.study.condition import axes_text

Row = Mapping[Any, Any]
MAX_AXES = 3  # with a column of their own


@dataclass(frozen=True)
class Column:
    """A column: its header, and a cell's text, small print and address, each a key of the row or a function of it."""

    label: str
    text: str | Callable[[Row], Any]
    small: str | Callable[[Row], Any] | None = None
    link: str | None = None
    is_number: bool = True

    def cell(self, row: Row) -> "Cell":
        """Return the cell of a row."""
        text, small, link = (
            "" if each is None else row[each] if isinstance(each, str) else each(row)
            for each in (self.text, self.small, self.link)
        )
        return Cell(text, small, link)


@dataclass(frozen=True)
class Cell:
    """What stands in a cell, in small print under it, and behind it as an address."""

    text: Any
    small: Any = ""
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table; `alike` says in words which axes all rows share, `about` has what else the page says of it."""

    id: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    alike: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)


def words(label: str, text: str | Callable[[Row], Any], small: str | None = None) -> Column:
    """Return a column of words."""
    return Column(label, text, small, is_number=False)


def table(
    id: str, rows: Iterable[Row], *columns: Column, by: Sequence[str] = (), first: int = 0, **about: Any
) -> Table:
    """Return a table of rows; axes of `by` that differ become columns after the first so many, many become one."""
    rows = list(rows)
    varying = [axis for axis in by if len({str(row[axis]) for row in rows}) > 1]
    alike = {axis: _value(rows[0], axis) for axis in by if rows and axis not in varying}

    def condition(row: Row) -> str:
        return axes_text({axis: _value(row, axis) for axis in varying if row[axis] != ""})

    of_axes = [words(axis, partial(_value, axis=axis)) for axis in varying]
    if len(varying) > MAX_AXES:
        of_axes = [words("condition", condition)]
    whole = [*columns[:first], *of_axes, *columns[first:]]
    return Table(id, whole, [[column.cell(row) for column in whole] for row in rows], axes_text(alike), about)


def _value(row: Row, axis: str) -> str:
    return str(row[axis]).replace(" -> ", " → ")  # between the two values of an axis that differs


def interval_text(estimate: Iterable[Any], form: str, *, limits: str = "", scale: float = 1, unit: str = "") -> str:
    """Return a number and its two limits as text, `-6 [..., -2]`: "-" is missing, "..." an open limit."""
    value, low, high = estimate
    middle = "-" if pd.isna(value) else f"{scale * value:{form}}"
    if pd.isna(low) and pd.isna(high):
        return middle if pd.isna(value) else middle + unit
    low_text, high_text = ("..." if pd.isna(limit) else f"{scale * limit:{limits or form}}" for limit in (low, high))
    return f"{middle} [{low_text}, {high_text}]{unit}"


def estimate(name: str, form: str, low: str = "low", high: str = "high", **more: Any) -> Callable[[Row], str]:
    """Return what shows a number of a row with the limits in two other columns; `more` is for `interval_text`."""
    return lambda row: interval_text((row[name], row[low], row[high]), form, **more)


def p_text(value: float | None) -> str:
    """Return a p value as text."""
    if value is None or pd.isna(value):
        return "-"
    if value < 1e-300:
        return "< 1e-300"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def p_column(label: str, name: str, small: str | None = None) -> Column:
    """Return a column of p values."""
    return Column(label, lambda row: p_text(row.get(name, math.nan)), small)
