"""The explorer's pages, written into a folder. A browser opens it without a server: data travel packed in scripts."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import parley
from parley import paths
from parley.files import keep_only, open_regular, write_atomically
from parley.forked import forked_map
from parley.identity import digest
from parley.report.explorer.game import part_content
from parley.report.explorer.index import Row, index_content, part_rows
from parley.report.explorer.selection import Part, Selection
from parley.report.html import json_in_html, page
from parley.text import valid_unicode, with_progress

_KEY = "//"  # a data file begins with a line of what it was made from
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
    """Write a data file, unless it is there as its records are now; return its rows of the index."""
    path, rows = folder / part.file, part_rows(part)
    key = _part_key(part, rows)
    if not _is_current(path, key):
        content = f"{_KEY}{key}\n{data_js(part.name, part_content(part))}".encode()
        write_atomically(path, lambda file: file.write(content))
    return rows


def _part_key(part: Part, rows: Sequence[Row]) -> str:
    """Return what changes when a data file has to be made anew: what its records hold, or what reads them."""
    return digest([_code(), part.name, [[row["id"], row["content"]] for row in rows]])


@cache
def _code() -> str:
    """Return the SHA-256 of what makes data files of records, which may change while the version does not."""
    whole = hashlib.sha256()
    root = Path(parley.__file__).parent
    for path in sorted(path for room in ("games", "play", "report") for path in (root / room).rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def _is_current(path: Path, key: str) -> bool:
    try:
        with open_regular(path) as file:
            return file.readline(100) == f"{_KEY}{key}\n".encode()
    except OSError:
        return False


def page_html(index: Mapping[str, Any]) -> str:
    """Return the page with this index in it."""
    return page("explorer/page.html", adds_scripts=True, index=index, content=json_in_html(index))


def data_js(name: str, content: Mapping[str, Any]) -> str:
    """Return a script that hands JSON over to the page: what to call it, and base64 of raw-deflated JSON."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(valid_unicode(text).encode()) + deflate.flush()
    return f'parleyData("{name}","{base64.b64encode(raw).decode("ascii")}");\n'
