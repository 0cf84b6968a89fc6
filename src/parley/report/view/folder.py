"""Writing the explorer: a page, and data files beside it that are made anew only where records changed."""

import hashlib
from functools import cache
from pathlib import Path
from time import monotonic

import parley
from parley import paths
from parley.files import write_atomically
from parley.identity import digest
from parley.report.view.chosen import Chosen, Part
from parley.report.view.content import part_content
from parley.report.view.index import index_content
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
    for number, part in enumerate(chosen.parts, 1):
        path = folder / part.file
        if not _is_current(path, part_key(part)):
            content = data_file(part)
            write_atomically(path, lambda file, content=content: file.write(content))  # type: ignore[misc]
        _log.info("data: %s of %s files", f"{number:,}", f"{len(chosen.parts):,}", extra=every(5, since=began))
    html = page_html(index_content(chosen)).encode()
    write_atomically(page, lambda file: file.write(html))
    kept = {part.file for part in chosen.parts}
    for path in (folder / "data").glob("*.js"):
        if f"data/{path.name}" not in kept:
            path.unlink(missing_ok=True)
    return page


def data_file(part: Part) -> bytes:
    """Return the content of a data file."""
    return f"{_KEY}{part_key(part)}\n{data_js(part.name, part_content(part))}".encode()


def part_key(part: Part) -> str:
    """Return what changes when a data file has to be made anew: the state of its records, or what reads them."""
    files = [(found.simulation.id, found.running, found.size, found.modified) for found in part.simulations]
    return digest([_code(), part.name, files])


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
