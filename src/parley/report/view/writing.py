"""The files of the explorer as texts: the page, with its script, its style and the index in it, and the data files.

A policy allows this one script, by its hash, and what it adds; nothing else is loaded, and nothing is sent.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from parley.report.view.packing import in_html, packed
from parley.text import one_line

_MOST_ROWS = 500  # of the table for browsers without JavaScript
_PAGE = files("parley.report").joinpath("templates", "view")


def page_html(index: Mapping[str, Any]) -> str:
    """Return the page with this index in it."""
    style, script = _style(), _script()
    rows = list(_rows(index))
    damaged = [text for text in index["simulations"]["damaged"] if text]
    return (
        _environment()
        .get_template("view.html")
        .render(
            index=index,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            content=Markup(in_html(index)),
            rows=rows[:_MOST_ROWS],
            more=len(rows) - _MOST_ROWS,
            damaged=damaged[:_MOST_ROWS],
        )
    )


def data_js(name: str, content: Mapping[str, Any]) -> str:
    """Return a script that hands JSON over to the page: what to call it, and base64 of raw-deflated JSON."""
    return f'parleyData("{name}","{packed(content)}");\n'


def _rows(index: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield for each condition its label, its simulations, and how many ended in each way."""
    counts = [dict.fromkeys([outcome["name"] for outcome in index["outcomes"]], 0) for _ in index["conditions"]]
    for place, outcome in zip(index["simulations"]["condition"], index["simulations"]["outcome"], strict=True):
        if outcome in counts[place]:
            counts[place][outcome] += 1
    for condition, found in zip(index["conditions"], counts, strict=True):
        yield [condition["label"], f"{condition['n']:,}", *(f"{number:,}" for number in found.values())]


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}' 'strict-dynamic'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types parley"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _script() -> str:
    """Return the page's scripts as one, in which they share what they define and the page shares nothing."""
    names = sorted(file.name for file in _PAGE.iterdir() if file.name.endswith(".js"))
    parts = "\n".join(_PAGE.joinpath(name).read_text(encoding="utf-8") for name in names)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


@cache
def _style() -> str:
    return _PAGE.joinpath("page.css").read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("parley.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
