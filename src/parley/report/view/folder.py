"""Writing the explorer: a page, and data files beside it that are made anew only where records changed."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import monotonic

import parley
from parley import paths
from parley.files import write_atomically
from parley.identity import digest
from parley.report.view.chosen import Chosen, Part
from parley.report.view.content import part_content
from parley.report.view.index import Row, index_content, read_rows
from parley.report.view.writing import data_js, page_html
from parley.text.logs import every, limited_logger

_log = limited_logger(__name__)
_KEY = "//"  # a data file begins with a line of what it was made from


def write_view(chosen: Chosen, folder: Path) -> Path:
    """Write the page and its data files into a folder, remove those of an earlier view, and return the page.

    Raises RecordError if the disk refuses.
    """
    page = paths.view_page(folder)
    began = monotonic()
    rows = read_rows(chosen.parts)
    for number, (part, own) in enumerate(zip(chosen.parts, rows, strict=True), 1):
        path = folder / part.file
        key = part_key(part, own)
        if not _is_current(path, key):
            content = data_file(part, key)
            write_atomically(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
        _log.info("data: %s of %s files", f"{number:,}", f"{len(chosen.parts):,}", extra=every(5, since=began))
    html = page_html(index_content(chosen, rows)).encode()
    write_atomically(page, lambda file: file.write(html))
    kept = {part.file for part in chosen.parts}
    for path in (folder / "data").glob("*.js"):
        if f"data/{path.name}" not in kept:
            path.unlink(missing_ok=True)
    return page


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
