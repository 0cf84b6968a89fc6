"""One HTTP request and its whole answer, bounded in time and in size: what answers is not trusted.

httpx bounds each read, so a byte now and then would hold a request for ever, and it keeps and unpacks whatever comes.
"""

import asyncio
import zlib
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

MAX_BODY_BYTES = 4_000_000  # decoded; the largest list of models seen had one million, a reply a few thousand
_CONNECT_SECONDS = 30.0
_ZIPPED = frozenset(("gzip", "x-gzip", "deflate"))
_CUT = "parley_cut"  # in a response's extensions


class UnknownEncoding(httpx.DecodingError):
    """A body in an encoding that was not asked for, and is not read."""


async def fetch(
    http: httpx.AsyncClient, method: str, path: str, seconds: float, content: bytes | None = None
) -> httpx.Response:
    """Send a request once; return the answer, its body decoded and at most MAX_BODY_BYTES long (see `is_cut`).

    Raises httpx.ReadTimeout if the whole of it is not there after `seconds`, whatever came until then, and another
    httpx.HTTPError if the connection fails or the body cannot be decoded.
    """
    # Bodies are small, so nothing is asked to be compressed.
    headers = {"Accept-Encoding": "identity"} | ({} if content is None else {"Content-Type": "application/json"})
    timeout = httpx.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds))
    request = http.build_request(method, path, content=content, headers=headers, timeout=timeout)
    try:
        async with asyncio.timeout(seconds):
            response = await http.send(request, stream=True)
            try:
                body, cut = await _body(response)
            finally:
                await response.aclose()
    except TimeoutError:
        raise httpx.ReadTimeout("no whole answer in time", request=request) from None
    except zlib.error as error:
        raise httpx.DecodingError(str(error), request=request) from None
    except UnicodeError as error:  # a host, perhaps of a proxy, that no look-up can take
        raise httpx.ConnectError(str(error), request=request) from None
    plain = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx.Response(response.status_code, headers=plain, content=body, request=request, extensions={_CUT: cut})


async def _body(response: httpx.Response) -> tuple[bytes, bool]:
    """Return the decoded body, and whether it is only its beginning."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *_ZIPPED):
        if response.status_code != 200:  # the status says enough
            return b"", False
        raise UnknownEncoding("its body is compressed in a way that was not asked for", request=response.request)
    # Some gateways compress whatever is asked for. A limit for each step: one packet can hold gigabytes.
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if encoding in _ZIPPED else None
    body, received = bytearray(), 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        body += chunk if unzip is None else unzip.decompress(chunk, MAX_BODY_BYTES + 1 - len(body))
        if max(received, len(body)) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), True
    if unzip is not None and received and not unzip.eof:
        raise httpx.DecodingError("its body ends too early", request=response.request)
    return bytes(body), False


def is_cut(response: httpx.Response) -> bool:
    """Whether the body of an answer was larger than what is read."""
    return bool(response.extensions.get(_CUT))


def body_text(response: httpx.Response) -> str:
    """Return the body as text in UTF-8, whatever charset it claims: a name there may be of no charset at all."""
    return response.content.decode("utf-8", "replace")


def no_cookies() -> CookieJar:
    """Return a jar that keeps nothing: requests of different simulations have nothing in common."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))
