"""The explorer's pages: written into a folder, or served on this machine, made anew when they are asked for.

A browser opens a folder without a server, so data travel packed in scripts. A server answers only with what the view
has, below the address that was printed: nobody else knows the secret in it, no other user and no page of another site.
"""

import base64
import contextlib
import hashlib
import json
import secrets
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

import parley
from parley import paths
from parley.errors import ParleyError, UsageError
from parley.files import keep_only, open_regular, write_atomically
from parley.forked import forked_map
from parley.identity import digest
from parley.report.explorer.game import part_content
from parley.report.explorer.index import Known, Row, index_content, part_rows, read_rows
from parley.report.explorer.selection import Part, Selection, find_file
from parley.report.html import json_in_html, page
from parley.text import one_line, valid_unicode, with_progress

_HOST = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class ViewServer(ThreadingHTTPServer):
    """Serves the page, its index as a script of its own, and the data files, on the loopback address alone."""

    daemon_threads = True

    def __init__(self, select: Callable[[], Selection], port: int) -> None:
        """Listen on `port`, or with 0 on any that is free; raises UsageError if it is taken.

        `select` returns what is shown now; raises ParleyError if there is nothing.
        """
        self._select, self._selection = select, select()
        self._one_at_a_time = Lock()
        self._known: Known = {}
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror}; choose another, or 0 for any that is free") from None
        self.root = f"/{secrets.token_urlsafe()}"
        self.url = f"http://{_HOST}:{self.server_port}{self.root}/"

    def content(self, path: str) -> tuple[str, bytes] | None:
        """Return the type and the content of a path; None if there is no such file."""
        with self._one_at_a_time:
            if path in ("/", "/index.html"):
                return "text/html", page_html(self._index()).encode()
            if path == "/data/index.js":
                return "text/javascript", data_js("index", self._index()).encode()
            part = next((part for part in self._selection.parts if path == f"/{part.file}"), None)
            return None if part is None else ("text/javascript", self._data(part))

    def _index(self) -> dict[str, Any]:
        self._selection = self._select()
        return index_content(self._selection, read_rows(self._selection.parts, self._known), served=True)

    def _data(self, part: Part) -> bytes:
        now = (find_file(self._selection.study, file.simulation, journals=True) for file in part.simulations)
        part = replace(part, simulations=tuple(file for file in now if file is not None))
        return data_file(part, part_key(part, part_rows(part, self._known)))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def serve_view(select: Callable[[], Selection], port: int, say: Callable[[str], object]) -> None:
    """Serve until Ctrl-C, and `say` where; raises ParleyError if there is nothing to show."""
    with ViewServer(select, port) as server:
        say(f"{server.url} (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    server_version = "Parley"
    sys_version = ""
    timeout = 60.0  # seconds without a word of the client

    def do_GET(self) -> None:
        """Answer a request."""
        root, path = self.path[: len(self.server.root)], self.path[len(self.server.root) :]
        if not secrets.compare_digest(root.encode(), self.server.root.encode()):
            self._send(HTTPStatus.FORBIDDEN, b"only for the address that was printed\n")
            return
        try:
            answer = self.server.content(path.partition("?")[0])
        except ParleyError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"parley: {one_line(str(error))}\n".encode())
            return
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, b"no such file\n")
        else:
            self._send(HTTPStatus.OK, answer[1], answer[0])

    def _send(self, status: HTTPStatus, content: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        about = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in {**_HEADERS, **about}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is for the address."""


# Files


_KEY = "//"  # a data file begins with a line of what it was made from
_LEVEL = 6  # of zlib: 9 takes three times as long for a few percent


def write_view(selection: Selection, folder: Path, processes: int = 1) -> Path:
    """Write the page and its data files, remove those of an earlier view, return the page.

    Raises RecordError if the disk refuses, UsageError for a folder with files of somebody else.
    """
    target = paths.view_page(folder)
    there = list(folder.iterdir()) if folder.is_dir() and folder != paths.view(selection.study.name) else []
    if (there and paths.listing(folder) not in there) or any(map(Path.is_symlink, there)):
        raise UsageError(f"--output {folder}: has files that are not Parley's; give an empty folder, or a new one")
    made = forked_map(partial(_write_part, folder), selection.parts, processes)
    rows = list(with_progress(made, len(selection.parts), "file"))
    html = page_html(index_content(selection, rows)).encode()
    write_atomically(target, lambda file: file.write(html))
    keep_only([target, *(folder / part.file for part in selection.parts)], paths.listing(folder))
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
        with open_regular(path) as file:
            return file.readline(100) == f"{_KEY}{key}\n".encode()
    except OSError:
        return False


def page_html(index: Mapping[str, Any]) -> str:
    """Return the page with this index in it."""
    return page("explorer/page.html", "explorer", adds_scripts=True, index=index, content=json_in_html(index))


def data_js(name: str, content: Mapping[str, Any]) -> str:
    """Return a script that hands JSON over to the page: what to call it, and base64 of raw-deflated JSON."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(valid_unicode(text).encode()) + deflate.flush()
    return f'parleyData("{name}","{base64.b64encode(raw).decode("ascii")}");\n'
