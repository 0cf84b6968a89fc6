"""HTTP through httpx, where there is TLS or a proxy."""

import ssl
from collections.abc import Mapping
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from parley.engine.service.fetch import CONNECT_SECONDS, Body, RequestError, Response

# What is configured here, which no other try changes.
_MINE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class SecureClient:
    """Keeps connections; follows no redirects, which could carry a key away, and keeps no cookies."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """Raises ValueError or ImportError, perhaps with a password in it, for a proxy variable that names none."""
        try:
            self._http = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                verify=_context(),
                limits=httpx.Limits(max_connections=None),
                # Requests of different simulations have nothing in common.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                follow_redirects=False,
            )
        except httpx.InvalidURL as error:
            raise ValueError(error) from None

    async def __aenter__(self) -> "SecureClient":
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def request(self, method: str, path: str, content: bytes | None, seconds: float) -> Response:
        """Send a request once and return its answer; raises RequestError."""
        # Bodies are small, so nothing is asked to be compressed.
        headers = {"Accept-Encoding": "identity"} | ({} if content is None else {"Content-Type": "application/json"})
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        try:
            request = self._http.build_request(method, path, content=content, headers=headers, timeout=timeout)
            response = await self._http.send(request, stream=True)
            try:
                body = Body(response.status_code, response.headers.get("Content-Encoding", ""))
                async for chunk in response.aiter_raw():
                    body.add(chunk)
                    if body.is_cut:
                        break
            finally:
                await response.aclose()
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            raise RequestError("no whole answer in time", late=seconds) from None
        except UnicodeError as error:  # a host, perhaps of a proxy, that no look-up can take
            raise RequestError(str(error), sent=False) from None
        except httpx.HTTPError as error:
            text = str(error) or type(error).__name__
            refused = isinstance(error, httpx.ProxyError) and text[:1] == "4"
            final = refused or isinstance(error, _MINE) or "CERTIFICATE_VERIFY_FAILED" in text
            sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise RequestError(text, sent, final) from None
        return Response(response.status_code, dict(response.headers), body.whole(), body.is_cut)


@cache
def _context() -> ssl.SSLContext:
    """Return whom this process trusts: read once, since it takes as long as thirty requests."""
    return httpx.create_ssl_context()
