"""Tables of the report: columns and rows of cells as text. One macro draws them all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parley.study.axes import axes_text
from parley.text import counted

Row = Mapping[str, Any]
MAX_AXES = 3  # with a column of their own
_AGENTS = {"n": "agent", "b": "Byzantine agent"}


@dataclass(frozen=True)
class Column:
    """One column: its header, the key of its cells in a row, and of what stands under them in small print.

    `link` is the key of an address; "" in a row is none.
    """

    label: str
    key: str
    small: str = ""
    number: bool = True
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table; `alike` says in words which axes all of its rows have in common, and is "" if there is no such axis."""

    id: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    alike: str = ""


def table(id: str, rows: Sequence[Row], *columns: Column, by: Sequence[str] = (), first: int = 0) -> Table:
    """Return a table of rows, of which those of conditions have the values of the axes `by` under "axes".

    Axes that differ between rows become columns, after the first so many of `columns`; many become one, so that the
    table is not too wide. The others are said in words.
    """
    values = list(zip(*(row["axes"] for row in rows), strict=True)) if by and rows else []
    varying = [place for place, found in enumerate(values) if len(set(map(str, found))) > 1]
    alike = {axis: values[place][0] for place, axis in enumerate(by) if values and place not in varying}
    if len(varying) > MAX_AXES:
        axes = [text_column("condition", "axes")]
        told: list[Row] = [
            {
                **row,
                "axes": axes_text({by[place]: row["axes"][place] for place in varying if row["axes"][place] != ""}),
            }
            for row in rows
        ]
    else:
        axes = [text_column(by[place], f"axis {place}") for place in varying]
        told = [{**row, **{f"axis {place}": row["axes"][place] for place in varying}} for row in rows]
    return Table(id, [*columns[:first], *axes, *columns[first:]], told, axes_text(alike))


def text_column(label: str, key: str, small: str = "", link: str = "") -> Column:
    """Return a column of words, which stand at its left."""
    return Column(label, key, small, number=False, link=link)


def value_text(row: Mapping[Any, Any], end: str) -> str:
    """Return the value of the compared axis at one `end` ("from" or "to") in words: `4 Byzantine agents`."""
    axis, value = row["axis"], str(row[end])
    if axis in _AGENTS and value.isdecimal():
        return value if end == "from" else counted(int(value), _AGENTS[axis])
    return value if axis == "model" or "," in axis else f"{axis}={value}"
