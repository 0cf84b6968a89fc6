"""Writing the explorer: a page, and data files beside it that are made anew only where records changed.

A browser opens them without a server, so data travel packed in scripts.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import parley
from parley import paths
from parley.files import write_atomically
from parley.forked import forked_map
from parley.identity import digest
from parley.report.explorer.game import part_content
from parley.report.explorer.index import Row, index_content, part_rows
from parley.report.explorer.selection import Part, Selection
from parley.report.html import json_in_html, page
from parley.text import valid_unicode
from parley.text.logs import every, limited_logger

_log = limited_logger(__name__)
_KEY = "//"  # a data file begins with a line of what it was made from
_LEVEL = 6  # of zlib: 9 takes three times as long for a few percent
_MAX_ROWS = 500  # of the table for browsers without JavaScript


def write_view(selection: Selection, folder: Path, processes: int = 1) -> Path:
    """Write the page and its data files, remove those of an earlier view, return the page. May raise RecordError."""
    target = paths.view_page(folder)
    began = monotonic()
    rows = []
    for own in forked_map(partial(_write_part, folder), selection.parts, processes):
        rows.append(own)
        _log.info("data: %s of %s files", f"{len(rows):,}", f"{len(selection.parts):,}", extra=every(5, since=began))
    html = page_html(index_content(selection, rows)).encode()
    write_atomically(target, lambda file: file.write(html))
    kept = {part.file for part in selection.parts}
    for path in (folder / "data").glob("*.js"):
        if f"data/{path.name}" not in kept:
            path.unlink(missing_ok=True)
    return target


def _write_part(folder: Path, part: Part) -> list[Row]:
    """Write a data file, unless it is there as its records are now; return its rows of the index."""
    path, rows = folder / part.file, part_rows(part, {})
    key = part_key(part, rows)
    if not _is_current(path, key):
        content = data_file(part, key)
        write_atomically(path, lambda file: file.write(content))
    return rows


def data_file(part: Part, key: str) -> bytes:
    """Return the content of a data file, which begins with its `part_key`."""
    return f"{_KEY}{key}\n{data_js(part.name, part_content(part))}".encode()


def part_key(part: Part, rows: Sequence[Row]) -> str:
    """Return what changes when a data file has to be made anew: what its records hold, or what reads them."""
    return digest([_code(), part.name, [[row["id"], row["running"], row["content"]] for row in rows]])


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
        with path.open("rb") as file:
            return file.readline(100) == f"{_KEY}{key}\n".encode()
    except OSError:
        return False


def page_html(index: Mapping[str, Any]) -> str:
    """Return the page with this index in it."""
    rows = list(_rows(index))
    damaged = [text for text in index["simulations"]["damaged"] if text]
    return page(
        "explorer/page.html",
        "explorer",
        adds_scripts=True,
        index=index,
        content=json_in_html(index),
        rows=rows[:_MAX_ROWS],
        more=len(rows) - _MAX_ROWS,
        damaged=damaged[:_MAX_ROWS],
    )


def data_js(name: str, content: Mapping[str, Any]) -> str:
    """Return a script that hands JSON over to the page: what to call it, and base64 of raw-deflated JSON."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(valid_unicode(text).encode()) + deflate.flush()
    return f'parleyData("{name}","{base64.b64encode(raw).decode("ascii")}");\n'


def _rows(index: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield for each condition its label, its simulations, and how many ended in each way."""
    counts = [dict.fromkeys([outcome["name"] for outcome in index["outcomes"]], 0) for _ in index["conditions"]]
    for place, outcome in zip(index["simulations"]["condition"], index["simulations"]["outcome"], strict=True):
        if outcome in counts[place]:
            counts[place][outcome] += 1
    for condition, count in zip(index["conditions"], counts, strict=True):
        yield [condition["label"], f"{condition['n']:,}", *(f"{number:,}" for number in count.values())]
