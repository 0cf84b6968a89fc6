"""Settings of the documentation's site, which `make docs` builds with Sphinx. Pages are Markdown (MyST)."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
_WORD = re.compile(r"(?<!`)`([^`]+)`(?!`)")
sys.path.insert(0, str(DOCS / "_extensions"))

import site_links  # noqa: E402

import parley  # noqa: E402

project = "Parley"
author = "The Parley authors"
version = release = parley.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}

# Links from page to page and to headings are checked: `make docs` fails on any warning.
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
highlight_language = "none"

html_theme = "furo"
html_title = "Parley"
html_show_sphinx = html_show_copyright = html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]

# Pages that lie beside what they describe, and are shown in the site, too.
FOLDERS = ("config", "envs", "examples", "benchmarks", "findings")
ELSEWHERE = [
    name
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", *(f"{place}/README.md" for place in FOLDERS))
    if (DOCS.parent / name).exists()
]


def write_pages(app: Sphinx) -> None:
    """Write copies of the pages that lie elsewhere."""
    for name in ELSEWHERE:
        copy = site_links.place(name)
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        _write(DOCS / copy, site_links.relinked(text, name, f"docs/{copy}", ELSEWHERE, DOCS.parent))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def show_copies(app: Sphinx, page: str, source: list[str]) -> None:
    """Make links to pages that lie elsewhere links to their copies in the site."""
    if not page.startswith("_generated/"):
        name = f"docs/{page}.md"
        source[0] = site_links.relinked(source[0], name, name, ELSEWHERE, DOCS.parent)


def adapt_docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Leave out what a module says of itself: that is for those who read its code."""
    if what == "module":
        lines.clear()
    lines[:] = [_WORD.sub(r"``\1``", line) for line in lines]  # docstrings are no reStructuredText


def setup(app: Sphinx) -> None:
    """Connect what is generated; Sphinx calls this."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", show_copies)
    app.connect("autodoc-process-docstring", adapt_docstring)
