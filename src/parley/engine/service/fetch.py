"""One HTTP request and its whole answer, bounded in time and in size: what answers is not trusted.

In the clear it goes through aiohttp, to an engine on this machine or in this network. httpx, which TLS and proxies go
through (`secure.py`), takes three times as much of a CPU for a request (docs/decisions.md).
"""

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

MAX_BODY_BYTES = 4_000_000  # decoded; the largest list of models seen had one million, a reply a few thousand
CONNECT_SECONDS = 30.0
_ZIPPED = frozenset(("gzip", "x-gzip", "deflate"))


class RequestError(Exception):
    """A request that got no answer, or none that can be read."""

    def __init__(self, text: str, sent: bool = True, final: bool = False, late: float | None = None) -> None:
        """`sent` is whether it may have been; `final` failures stay; `late` are the seconds that passed in vain."""
        super().__init__(text)
        self.sent, self.final, self.late = sent, final, late


@dataclass(frozen=True)
class Response:
    """A whole answer; `headers` by names in lower case, the body decoded, and `is_cut` if it was larger."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    is_cut: bool = False

    def json(self) -> Any:
        """Return the body as JSON; raises ValueError or RecursionError."""
        return json.loads(self.content)

    @property
    def text(self) -> str:
        """The body as text in UTF-8, whatever charset it claims: a name there may be of no charset at all."""
        return self.content.decode("utf-8", "replace")


class Http(Protocol):
    """What requests to one engine go through, as an async context manager."""

    async def __aenter__(self) -> Any:
        """Open it."""

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""

    async def request(self, method: str, path: str, content: bytes | None, seconds: float) -> Response:
        """Send a request once and return its answer; raises RequestError."""
        ...


async def fetch(http: Http, method: str, path: str, seconds: float, content: bytes | None = None) -> Response:
    """Send a request once; return the answer, its body at most MAX_BODY_BYTES long.

    Raises RequestError, also if the whole of it is not there after `seconds`, whatever came until then.
    """
    try:
        async with asyncio.timeout(seconds):
            return await http.request(method, path, content, seconds)
    except TimeoutError:
        raise RequestError("no whole answer in time", late=seconds) from None


class Body:
    """The body of an answer, decoded as it comes."""

    def __init__(self, status: int, encoding: str) -> None:
        """Raises RequestError for an encoding that was not asked for, and is not read."""
        encoding = encoding.strip().lower()
        self._ignored = encoding not in ("", "identity", *_ZIPPED)
        if self._ignored and status == 200:  # any other status says enough
            raise RequestError("its body is compressed in a way that was not asked for", final=True)
        # Some gateways compress whatever is asked for. A limit for each step: one packet can hold gigabytes.
        self._unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in _ZIPPED else None
        self._received = 0
        self._body = bytearray()

    @property
    def is_cut(self) -> bool:
        """Whether it is larger than what is read."""
        return max(self._received, len(self._body)) > MAX_BODY_BYTES

    def add(self, chunk: bytes) -> None:
        """Take what came; raises RequestError if it cannot be decoded."""
        self._received += len(chunk)
        try:
            if self._unzip is not None:
                chunk = self._unzip.decompress(chunk, MAX_BODY_BYTES + 1 - len(self._body))
        except zlib.error as error:
            raise RequestError(str(error)) from None
        if not self._ignored:
            self._body += chunk

    def whole(self) -> bytes:
        """Return all of it, or as much as is read; raises RequestError if it ends too early."""
        if self._unzip is not None and self._received and not self._unzip.eof and not self.is_cut:
            raise RequestError("its body ends too early")
        return bytes(self._body[:MAX_BODY_BYTES])


class PlainClient:
    """Sends each request on a connection of its own: one that is idle may be about to be closed, and lose the next."""

    def __init__(self, address: str | tuple[str, int], headers: Mapping[str, str], above: str = "") -> None:
        """`address` is the path of a Unix socket, or host and port; `headers` go with each request.

        Paths of requests begin below `above`.
        """
        self._address, self._headers = address, {"Accept-Encoding": "identity", **headers}
        host, port = ("engine", 80) if isinstance(address, str) else address
        self._above = f"http://{f'[{host}]' if ':' in host else host}:{port}{above}"

    async def __aenter__(self) -> "PlainClient":
        connector: aiohttp.BaseConnector
        if isinstance(self._address, str):
            connector = aiohttp.UnixConnector(self._address, force_close=True, limit=0)
        else:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(self, method: str, path: str, content: bytes | None, seconds: float) -> Response:
        """Send a request once and return its answer; raises RequestError."""
        typed = {} if content is None else {"Content-Type": "application/json"}
        # Less than all `seconds`: a request that found no connection costs nothing.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, 0.9 * seconds))
        try:
            async with self._session.request(
                method, self._above + path, data=content, headers=typed, timeout=timeout, allow_redirects=False
            ) as response:
                body = Body(response.status, response.headers.get("Content-Encoding", ""))
                async for chunk in response.content.iter_any():
                    body.add(chunk)
                    if body.is_cut:
                        response.close()
                        break
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            raise RequestError(str(error), sent=False) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise RequestError(str(error) or type(error).__name__) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, body.whole(), body.is_cut)
