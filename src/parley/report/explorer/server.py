"""Serving the explorer on this machine: the same pages, made anew from records and journals when they are asked for.

Other programs and pages on this machine may ask, too: only what the view has is answered, to the address that was
printed, and not to pages of other sites.
"""

import contextlib
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Timer
from typing import Any
from urllib.parse import urlsplit

from parley.errors import ParleyError, UsageError
from parley.report.explorer.files import data_file, data_js, page_html, part_key
from parley.report.explorer.index import Known, index_content, read_rows
from parley.report.explorer.selection import Part, Selection, current_file
from parley.text import one_line

_HOST = "127.0.0.1"
_HTML, _SCRIPT = "text/html; charset=utf-8", "text/javascript; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_FILES_KEPT = 20  # data files in memory
_MOST_SECONDS = 60.0


class ServedView:
    """What is served: the page, its index as a script of its own, and the data files."""

    def __init__(self, select: Callable[[], Selection]) -> None:
        """`select` returns what is shown now; raises ParleyError if there is nothing."""
        self._select = select
        self._lock = Lock()
        self._known: Known = {}
        self._files: dict[str, bytes] = {}  # by what they were made from, the latest last
        self._selection = select()

    def content(self, path: str) -> tuple[str, bytes] | None:
        """Return the type and the content of a path; None if there is no such file."""
        with self._lock:
            if path in ("/", "/index.html"):
                return _HTML, page_html(self._index()).encode()
            if path == "/data/index.js":
                return _SCRIPT, data_js("index", self._index()).encode()
            part = next((part for part in self._selection.parts if path == f"/{part.file}"), None)
            return None if part is None else (_SCRIPT, self._data(part))

    def _index(self) -> dict[str, Any]:
        self._selection = self._select()
        return index_content(self._selection, read_rows(self._selection.parts, self._known), served=True)

    def _data(self, part: Part) -> bytes:
        study = self._selection.study
        now = (current_file(study, file) for file in part.simulations)
        part = replace(part, simulations=tuple(file for file in now if file is not None))
        [rows] = read_rows([part], self._known)
        key = part_key(part, rows)
        self._files[key] = self._files.pop(key, b"") or data_file(part, key)
        while len(self._files) > _FILES_KEPT:
            del self._files[next(iter(self._files))]
        return self._files[key]


class ViewServer(ThreadingHTTPServer):
    """Answers on the loopback address alone."""

    daemon_threads = True

    def __init__(self, view: ServedView, port: int) -> None:
        """Listen on `port`, or with 0 on any that is free; raises UsageError if it is taken."""
        self.view = view
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            raise UsageError(f"--port {port}: {error.strerror}; choose another, or 0 for any that is free") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser on this machine calls it."""
        return (f"{_HOST}:{self.server_port}", f"localhost:{self.server_port}")


def serve_view(select: Callable[[], Selection], port: int, say: Callable[[str], object]) -> None:
    """Serve until Ctrl-C, and `say` where; raises ParleyError if there is nothing to show."""
    with ViewServer(ServedView(select), port) as server:
        say(f"http://{server.hosts[0]}/ (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    server_version = "Parley"
    sys_version = ""

    def handle(self) -> None:
        """Answer one request; a client that takes longer than a minute over it is cut off."""
        deadline = Timer(_MOST_SECONDS, self.connection.shutdown, (socket.SHUT_RDWR,))
        deadline.daemon = True
        deadline.start()
        try:
            super().handle()
        finally:
            deadline.cancel()

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer a request for the headers."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        # A name of another site that leads here, or a page of another site that loads a data file as its script.
        if self.headers.get("Host") not in self.server.hosts or self.headers.get("Sec-Fetch-Site") in (
            "cross-site",
            "same-site",
        ):
            self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", b"only for pages of this address\n", body)
            return
        try:
            found = self.server.view.content(urlsplit(self.path).path)
        except ValueError:  # no address
            found = None
        except ParleyError as error:
            text = f"parley: {one_line(str(error))}\n".encode()
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", text, body)
            return
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"no such file\n", body)
        else:
            self._send(HTTPStatus.OK, *found, body)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, body: bool) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is for the address."""
