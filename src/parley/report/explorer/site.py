"""The explorer's pages, written into a folder. A browser opens it without a server: data travel packed in scripts."""

import base64
import json
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from parley import paths
from parley.files import keep_only, write_atomically
from parley.forked import forked_map
from parley.report.explorer.game import part_content
from parley.report.explorer.index import Row, index_content, part_rows
from parley.report.explorer.selection import Part, Selection
from parley.report.html import json_in_html, page
from parley.text import valid_unicode, with_progress

_LEVEL = 6  # of zlib: 9 takes three times as long for a few percent


def write_view(selection: Selection, processes: int = 1) -> Path:
    """Write the page and its data files, remove those of an earlier view, return the page.

    Raises RecordError if the disk refuses.
    """
    folder = paths.view(selection.study.name)
    target = paths.view_page(folder)
    made = forked_map(partial(_write_part, folder), selection.parts, processes)
    rows = list(with_progress(made, len(selection.parts), "file"))
    html = page_html(index_content(selection, rows)).encode()
    write_atomically(target, lambda file: file.write(html))
    keep_only([target, *(folder / part.file for part in selection.parts)], paths.listing(folder))
    return target


def _write_part(folder: Path, part: Part) -> list[Row]:
    """Write a data file; return its rows of the index."""
    script = data_js(part.name, part_content(part)).encode()
    write_atomically(folder / part.file, lambda file: file.write(script))
    return part_rows(part)


def page_html(index: Mapping[str, Any]) -> str:
    """Return the page with this index in it."""
    return page("explorer/page.html", adds_scripts=True, index=index, content=json_in_html(index))


def data_js(name: str, content: Mapping[str, Any]) -> str:
    """Return a script that hands JSON over to the page: what to call it, and base64 of raw-deflated JSON."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(valid_unicode(text).encode()) + deflate.flush()
    return f'parleyData("{name}","{base64.b64encode(raw).decode("ascii")}");\n'
