"""HTTP in the clear through aiohttp, to an engine on this machine or in this network.

httpx, which TLS and proxies go through, takes three times as much of a CPU for a request (docs/decisions.md).
"""

from collections.abc import Mapping

import aiohttp

from parley.engine.service.fetch import CONNECT_SECONDS, Body, RequestError, Response


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
