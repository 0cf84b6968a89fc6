"""One HTTP request and its whole answer, bounded in time and in size: what answers is not trusted."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from yarl import URL

MAX_BODY_BYTES = 4_000_000  # decoded; the largest list of models seen had one million, a reply a few thousand
_CONNECT_SECONDS = 30.0
_IDLE_SECONDS = 5.0  # that a connection over TLS is kept
_SOCKS = ("socks4", "socks5", "socks5h")


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
        """Return the body as JSON, which callers leave as it is; raises ValueError or RecursionError."""
        return self._parsed

    @cached_property
    def _parsed(self) -> Any:
        return json.loads(self.content)  # several look: whether it is an error, what it used, what it says

    @property
    def text(self) -> str:
        """The body as text in UTF-8, whatever charset it claims: a name there may be of no charset at all."""
        return self.content.decode("utf-8", "replace")


class Client:
    """Sends requests to one engine, through the proxy of the environment if there is one; an async context manager.

    It follows no redirects, which could carry a key away, and keeps no cookies.
    """

    def __init__(self, url: str, headers: Mapping[str, str], unix_socket: str | None = None) -> None:
        """Paths of requests begin below `url`; `headers` go with each.

        Raises ValueError, which names the variable, for a proxy of the environment that cannot be used.
        """
        self._url, self._socket = url, unix_socket
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._proxy = None if unix_socket else _proxy_of(URL(url))

    async def __aenter__(self) -> "Client":
        connector: aiohttp.BaseConnector
        if self._socket is not None:
            connector = aiohttp.UnixConnector(self._socket, force_close=True, limit=0)
        elif self._proxy is not None and self._proxy.scheme in _SOCKS:
            from aiohttp_socks import ProxyConnector

            proxy = self._proxy.with_scheme(self._proxy.scheme.removesuffix("h")).with_port(self._proxy.port or 1080)
            connector = ProxyConnector.from_url(str(proxy), force_close=True, limit=0, ssl=_tls_context())
        elif self._proxy is None and self._url.startswith("http:"):
            # A connection for each: one that is idle may be about to be closed, and lose the next request.
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
        else:
            connector = aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS, limit=0, ssl=_tls_context())
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            proxy=None if self._proxy is None or self._proxy.scheme in _SOCKS else self._proxy,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(
        self,
        method: str,
        path: str,
        seconds: float,
        content: bytes | aiohttp.FormData | None = None,
        most: int = MAX_BODY_BYTES,
    ) -> Response:
        """Send a request once, JSON or a form; return the answer, its body at most `most` bytes long.

        Raises RequestError, also if the whole of it is not there after `seconds`, whatever came until then.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._fetch(method, path, seconds, content, most)
        except TimeoutError:
            raise RequestError("no whole answer in time", late=seconds) from None

    async def _fetch(
        self, method: str, path: str, seconds: float, content: bytes | aiohttp.FormData | None, most: int
    ) -> Response:
        typed = {"Content-Type": "application/json"} if isinstance(content, bytes) else {}
        # Less than all `seconds`: a request that found no connection costs nothing.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_SECONDS, 0.9 * seconds))
        try:
            async with self._session.request(
                method, self._url + path, data=content, headers=typed, timeout=timeout, allow_redirects=False
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():  # decompressed in steps: a packet can hold gigabytes
                    body += chunk
                    if len(body) > most:
                        response.close()
                        break
        except aiohttp.ClientHttpProxyError as error:  # its text has the proxy's URL
            final = 400 <= error.status < 500
            raise RequestError(f"the proxy answered {error.status}", sent=False, final=final) from None
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            final = isinstance(error, aiohttp.ClientConnectorCertificateError)
            of_proxy = (
                "the proxy of the environment: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
            )
            raise RequestError(f"{of_proxy}{error}", sent=False, final=final) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise RequestError(str(error) or type(error).__name__) from None
        except Exception as error:
            if not type(error).__module__.startswith("python_socks"):
                raise
            raise RequestError(f"the proxy failed: {error}", sent=False) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, bytes(body[:most]), len(body) > most)


def _proxy_of(url: URL) -> URL | None:
    """Return the proxy of the environment that requests to `url` go through.

    Raises ValueError, which names the variable that cannot be used, and never what is in it.
    """
    proxies = getproxies()
    kind = url.scheme if proxies.get(url.scheme) else "all"
    named = proxies.get(kind)
    if not named or proxy_bypass(url.host or "", proxies) or _is_excepted(url.host or "", proxies.get("no", "")):
        return None
    try:
        proxy = URL(named if "://" in named else f"http://{named}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in ("http", "https", *_SOCKS) or not proxy.host:
        raise ValueError(f"{kind.upper()}_PROXY holds no usable URL; write one such as http://proxy.example:3128")
    if proxy.scheme in _SOCKS and find_spec("aiohttp_socks") is None:
        raise ValueError(f"{kind.upper()}_PROXY names a SOCKS proxy, which needs a package: pip install aiohttp-socks")
    return proxy


def _is_excepted(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY means a host, in the forms that Python's own look at it does not know; raises ValueError."""
    for each in filter(None, map(str.strip, no_proxy.split(","))):
        if "://" in each or re.search(r"[\s;]", each):
            raise ValueError("NO_PROXY holds what is no host; write hosts such as lab.example, with commas in between")
        with suppress(ValueError):  # no addresses
            if ip_address(host) in ip_network(each.strip("[]"), strict=False):
                return True
        if each.startswith("*.") and host.lower().endswith(each[1:].lower()):
            return True
    return False


@cache
def _tls_context() -> ssl.SSLContext:
    """Return whom this process trusts: read once, since it takes as long as thirty requests."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    return ssl.create_default_context(cafile=file or (None if folder else certifi.where()), capath=folder)
