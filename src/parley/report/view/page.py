"""The page of the explorer: one HTML file with its script, its style and the index, which loads the data files.

A policy allows this one script, by its hash, and what it adds; nothing else is loaded, and nothing is sent.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from parley.report.view.index import condition_counts
from parley.report.view.packing import in_html
from parley.text import one_line

_MOST_ROWS = 500  # of the table for browsers without JavaScript


def page_html(index: dict[str, Any]) -> bytes:
    """Return the page with this index in it."""
    style, script = _assets()
    counts = list(condition_counts(index))
    return (
        _environment()
        .get_template("view.html")
        .render(
            index=index,
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            content=Markup(in_html(index)),
            rows=counts[:_MOST_ROWS],
            more=len(counts) - _MOST_ROWS,
            damaged=[text for text in index["simulations"]["damaged"] if text][:_MOST_ROWS],
        )
        .encode()
    )


def _policy(style: str, script: str) -> str:
    """Return the content security policy of the page."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}' 'strict-dynamic'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types parley"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _assets() -> tuple[str, str]:
    """Return the style and the script as they stand between their tags: all files of the page, joined."""
    folder = files("parley.report").joinpath("templates", "view")
    parts = [
        part.read_text(encoding="utf-8") for part in sorted(folder.iterdir(), key=str) if part.name.endswith(".js")
    ]
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    return style, '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


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
