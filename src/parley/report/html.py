"""The one way in which pages are made: all in one file, every text escaped, nothing loaded and nothing sent.

Styles and scripts stand in the page and are allowed by their hashes alone; figures are data URIs in <img>, where
nothing in an SVG is executed. Every text goes through `one_line` and autoescape.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from parley.text import one_line

TEMPLATES = files("parley.report").joinpath("templates")
_INTERVAL = re.compile(r"\[[^\[\]]*\]")


def page(template: str, folder: str = "", *, adds_scripts: bool = False, **content: Any) -> str:
    """Return a page with the style and script of a `folder` in it; with `adds_scripts` its script may load others."""
    style, script = _joined(folder, ".css"), f'(() => {{\n"use strict";\n{_joined(folder, ".js")}\n}})();'
    more = " 'strict-dynamic'" if adds_scripts else ""
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_hash(script)}'{more}; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types parley"
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": Markup(policy)}
    return _environment().get_template(template).render(**own, **content)


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
    found = [sorted((f for f in place.iterdir() if f.name.endswith(suffix)), key=lambda f: f.name) for place in named]
    return "\n".join(file.read_text(encoding="utf-8") for part in found for file in part)


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
