"""The one way in which pages are made: all in one file, every text escaped, nothing loaded and nothing sent.

Styles and scripts stand in the page and are allowed by their hashes alone; figures are data URIs in <img>, where
nothing in an SVG is executed. Links lead to the explorer, and to files that are there.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup

from parley import __version__
from parley.statistics.stats import CONFIDENCE
from parley.study.condition import axes_text
from parley.text import one_line

TEMPLATES = files("parley.report").joinpath("templates")
_INTERVAL = re.compile(r"\[[^\[\]]*\]")


def page(template: str, *, adds_scripts: bool = False, **content: Any) -> str:
    """Return a page with style and script of its folder in it; with `adds_scripts` its script may load others."""
    folder = template.partition("/")[0]
    style, script = _joined(folder, ".css"), f'(() => {{\n"use strict";\n{_joined(folder, ".js")}\n}})();'
    more = " 'strict-dynamic'" if adds_scripts else ""
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_hash(script)}'{more}; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types parley"
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": Markup(policy)}
    facts = {"confidence": f"{CONFIDENCE:.0%}", "version": __version__}
    return _environment().get_template(template).render(**own, **facts, **content)


def json_in_html(content: Mapping[str, Any]) -> Markup:
    """Return JSON in ASCII that can stand in a <script> of a page: nothing in it can end that, or open a comment."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _joined(folder: str, suffix: str) -> str:
    """Return the texts of all files that end so, the shared ones first, then by name."""
    named = [TEMPLATES.joinpath("shared"), TEMPLATES.joinpath(folder)]
    parts = [sorted((f for f in place.iterdir() if f.name.endswith(suffix)), key=lambda f: f.name) for place in named]
    return "\n".join(file.read_text(encoding="utf-8") for part in parts for file in part)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("parley.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _cell
    return environment


def _cell(value: Any) -> Markup:
    """Return the content of a cell, whose intervals stay on one line."""
    escaped = str(Markup.escape(one_line(str(value))))  # a Markup would escape what is put in
    return Markup(_INTERVAL.sub(r"<span>\g<0></span>", escaped))


def _printable(value: Any) -> Any:
    """Take the control and format characters out of whatever a template prints; markup is the template's own."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def downloads(report: Path, files: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the kind and the address of those files that are there, relative to the report; of several, the name."""
    there = [file for file in files if file.is_file()]
    kinds = [file.suffix.removeprefix(".").upper() for file in there]
    return [
        (f"{kind} ({file.stem})" if kinds.count(kind) > 1 else kind, os.path.relpath(file, report.parent))
        for kind, file in zip(kinds, there, strict=True)
    ]


Row = Mapping[Any, Any]
MAX_AXES = 3  # with a column of their own


class HtmlCell(NamedTuple):
    """What stands in a cell, in small print under it, and behind it as an address."""

    text: Any
    small: Any
    link: Any


@dataclass(frozen=True)
class HtmlColumn:
    """A column: its header, and a cell's text, small print and address, each a key of the row or a function of it."""

    label: str
    text: str | Callable[[Row], Any]
    small: str | Callable[[Row], Any] | None = None
    link: str | None = None
    is_number: bool = True

    def cell(self, row: Row) -> HtmlCell:
        """Return the cell of a row."""
        parts = (self.text, self.small, self.link)
        return HtmlCell(*("" if not part else row[part] if isinstance(part, str) else part(row) for part in parts))


@dataclass(frozen=True)
class HtmlTable:
    """A table; `alike` says in words which axes all rows share, `total` counts rows where not all are shown."""

    id: str
    columns: Sequence[HtmlColumn]
    rows: Sequence[Sequence[HtmlCell]]
    alike: str = ""
    total: int = 0


def words(label: str, text: str | Callable[[Row], Any]) -> HtmlColumn:
    """Return a column of words."""
    return HtmlColumn(label, text, is_number=False)


def table(
    id: str, rows: Iterable[Row], *columns: HtmlColumn, by: Sequence[str] = (), first: int = 0, total: int = 0
) -> HtmlTable:
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
    return HtmlTable(id, whole, [[column.cell(row) for column in whole] for row in rows], axes_text(alike), total)


def _value(row: Row, axis: str) -> str:
    return str(row[axis]).replace(" -> ", " → ")  # between the two values of an axis that differs


def interval_text(estimate: Iterable[Any], form: str, *, limits: str = "", scale: float = 1, unit: str = "") -> str:
    """Return a number and its two limits as text, `-6 [-8, -2]`: "-" is missing."""
    value, low, high = estimate
    middle = "-" if pd.isna(value) else f"{scale * value:{form}}"
    if pd.isna(low) and pd.isna(high):
        return middle if pd.isna(value) else middle + unit
    low_text, high_text = (f"{scale * limit:{limits or form}}" for limit in (low, high))
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


def p_column(label: str, name: str, small: str | None = None) -> HtmlColumn:
    """Return a column of p values."""
    return HtmlColumn(label, lambda row: p_text(row[name]), small)
