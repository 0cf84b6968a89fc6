"""One HTTP request and its whole answer, bounded in time and in size; and what the error of a service means.

What answers is not trusted. An error answers the question, or will pass, or will not: by its status, then by its
`code`, `type` and words; docs/how-to/services.md has the table. The forms and words are those of the services'
documents and of public bug reports, each named where it is looked for.
"""

import asyncio
import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from yarl import URL

from parley.errors import UsageError
from parley.policies import NO_SCHEMA, PROMPT_TOO_LONG, Tokens, usage_of
from parley.trust import is_loopback

MAX_BODY_BYTES = 4_000_000  # decoded; the largest list of models seen had one million, a reply a few thousand
_CONNECT_SECONDS = 30.0
_IDLE_SECONDS = 5.0  # that a connection over TLS is kept
_OWN_IDLE_SECONDS = 1.0  # to an engine of ours, which closes what is idle after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE)


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

    @cached_property
    def body(self) -> Any:
        """The body as JSON, which callers leave as it is; raises ValueError or RecursionError."""
        return json.loads(self.content)

    @cached_property
    def error(self) -> "ServiceError | None":
        """The error that it is; None for one that is none, whatever else it is."""
        return _error_of(self)

    @property
    def used(self) -> Tokens | None:
        """What it used: nothing where it is an error, None where it does not say."""
        if self.error is not None:
            return Tokens()
        try:
            used = usage_of(self.body["usage"])
        except NOT_AS_ASKED:
            return None
        if used.prompt is None or used.completion is None:
            return None
        return Tokens(used.prompt, used.completion, used.cached or 0)

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

        Raises UsageError for a proxy of the environment that cannot be used.
        """
        self._url, self._socket = url, unix_socket
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._proxy = None if unix_socket else _proxy_of(URL(url))

    async def __aenter__(self) -> "Client":
        connector: aiohttp.BaseConnector
        if self._socket is not None:
            connector = aiohttp.UnixConnector(self._socket, keepalive_timeout=_OWN_IDLE_SECONDS, limit=0)
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
            proxy=self._proxy,  # not trust_env, which would also send what ~/.netrc has for the host
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def fetch(self, method: str, path: str, seconds: float, content: bytes | None = None) -> Response:
        """Send a request once; return the answer, its body at most `MAX_BODY_BYTES` long.

        Raises RequestError, also if the whole of it is not there after `seconds`, whatever came until then.
        """
        request = self._session.request(
            method,
            self._url + path,
            data=content,
            headers={} if content is None else {"Content-Type": "application/json"},
            # Less than all `seconds`: a request that found no connection costs nothing.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_SECONDS, 0.9 * seconds)),
            allow_redirects=False,
        )
        try:
            async with asyncio.timeout(seconds), request as response:
                body = bytearray()
                async for chunk in response.content.iter_any():  # decompressed in steps: a packet can hold gigabytes
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        response.close()
                        break
        except aiohttp.ClientHttpProxyError as error:  # its text has the proxy's URL
            final = 400 <= error.status < 500
            raise RequestError(f"the proxy answered {error.status}", sent=False, final=final) from None
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            final = isinstance(error, aiohttp.ClientConnectorCertificateError) or _is_of_no_host(error)
            is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
            who = "the proxy of the environment: " if is_proxy else ""
            raise RequestError(f"{who}{error}", sent=False, final=final) from None
        except TimeoutError:
            raise RequestError("no whole answer in time", late=seconds) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise RequestError(str(error) or type(error).__name__) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, bytes(body[:MAX_BODY_BYTES]), len(body) > MAX_BODY_BYTES)


def _is_of_no_host(error: Exception) -> bool:
    """Whether nobody has the name of a host, which most often is misspelled."""
    return isinstance(error, aiohttp.ClientConnectorDNSError) and error.os_error.errno == socket.EAI_NONAME


def _proxy_of(url: URL) -> URL | None:
    """Return the proxy of the environment that requests to `url` go through; none leads to this machine.

    Raises UsageError for one that cannot be used, without its URL, which may hold a password.
    """
    proxies, host = getproxies(), url.host or ""
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or is_loopback(host) or proxy_bypass(host) or _is_excepted(host, proxies.get("no", "")):
        return None
    with suppress(ValueError):
        proxy = URL(named if "://" in named else f"http://{named}")
        if proxy.scheme in ("http", "https") and proxy.host:
            return proxy
    kind = url.scheme if proxies.get(url.scheme) else "all"
    remedy = "write one such as http://proxy.example:3128; for SOCKS open a tunnel (ssh -L)"
    raise UsageError(f"{kind.upper()}_PROXY holds no usable URL; {remedy}")


def _is_excepted(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY means a host, in the two forms that Python's own look at it does not know."""
    for each in filter(None, map(str.strip, no_proxy.split(","))):
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


# What it can raise to look into JSON of another shape than the one asked for, or nested too deep.
NOT_AS_ASKED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
READ_CHARS = 2_000  # characters of what a service says: a prompt may be quoted in it
# Time-outs and conflicts of load on the way, rate limits, errors of a server that may be another one next time; 424
# is TGI's for a generation that failed, 498 Groq's for no capacity. 501 and 505 say what a server never does.
_PASSING = frozenset((408, 409, 424, 425, 429, 498, 499, *range(500, 600))) - {501, 505}
# Why a reply ended that its service broke off: OpenRouter and vLLM, SGLang, DeepSeek, Zhipu.
_BROKEN_OFF = ("error", "abort", "insufficient_system_resource", "network_error")
# No answer to a question: keys, addresses, money, and what passes.
_NO_ANSWER = frozenset((401, 402, 404, 405, 408, 409, 424, 425, 429, 498, 499))
# OpenAI, Azure, OpenRouter and Cerebras (`context_length_exceeded`), llama.cpp, Anthropic, GitHub, OpenAI.
_CONTEXT_CODES = re.compile(
    r"context_length_exceeded|exceed_context_size_error|request_too_large|tokens_limit|string_above_max_length",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"maximum (?:context|model|prompt) length|maximum (?:context|input) (?:size|tokens)|"  # vLLM, OpenAI, Mistral, xAI
    # Anthropic, Bedrock, Baidu, Ollama, LM Studio, MiniMax; no time that is over in a server of Go
    r"(?:prompt|input|messages?|context(?! deadline))\b[^.]{0,40}(?:too long|exceed)|too large for model with|"
    # llama.cpp, Moonshot, Zhipu, Cloudflare, watsonx, Volcengine
    r"(?:exceed(?:s|ed|ing)?|(?:longer|larger|greater) than|over) .{0,60}"
    r"(?:context(?! deadline)|model (?:token )?limit|tokens? limit|max length|max message)|"
    r"exceeds? the (?:maximum number of tokens|configured limit)|"  # Gemini, GPT-5
    r"\btokens? \+ .{0,40}max_new_tokens|`inputs` must have less|"  # TGI and Together
    r"input token count is .{0,40}only supports|context length of only|"  # Vertex, LM Studio
    r"reduce the length of the (?:messages|prompt|input)|range of input length|too many (?:input )?tokens",
    re.IGNORECASE | re.DOTALL,
)
# A reply that may not be as long as the entry asks for is no fault of the prompt (Bedrock and others).
_OF_REPLY = re.compile(r"(?is)(?!.*(?:context|input|prompt|message)).*(?:max(?:imum)?[_ ](?:\w+[_ ])?|output )tokens")
# OpenAI and Azure, DashScope, Volcengine; words of DeepSeek ("exists risk"), OpenRouter, Vertex, xAI, Zhipu, Cohere.
_FILTER_CODES = re.compile(
    r"content_?filter|content_policy|ResponsibleAIPolicy|invalid_prompt|data_?inspection|moderation|sensitive_?content",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content (?:management|filter|polic|exists risk)|usage (?:polic|guideline)|safety (?:system|filter|polic|setting)"
    r"|\bflagged\b|inappropriate content|prohibited[ _]content|(?<!case[ -])sensitive (?:content|info|words)|"
    r"new_sensitive|responsible ai|guardrail|blocked (?:input|output)",
    re.IGNORECASE,
)
# The model did not do it: Groq's codes, and the words of llama.cpp (#27279).
_SCHEMA_CODES = re.compile(r"json_validate_failed|tool_use_failed|output_parse_failed", re.IGNORECASE)
_SCHEMA = re.compile(r"output (?:that )?does not match the expected|failed to parse input at pos", re.IGNORECASE)
# OpenAI and Moonshot; the words of Zhipu, xAI, Anthropic, Moonshot. Gemini says "your current quota" of a minute's.
_QUOTA_CODES = re.compile(r"insufficient_(?:quota|balance|funds)|billing|exceeded_current_quota_error", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient (?:balance|funds|credit)|spending limit|credit (?:balance|limit)|recharge", re.I)


@dataclass(frozen=True)
class ServiceError:
    """What a service said in place of a reply; `message` as it came."""

    status: int
    code: str = ""  # its codes and types
    message: str = ""

    @property
    def answers(self) -> str | None:
        """The finish reason of the reply that it stands for: no other try would have another; None for no reply."""
        if not 400 <= self.status <= 500 or self.status in _NO_ANSWER:
            return None
        words = self.words
        if _FILTER_CODES.search(self.code) or (_FILTER.search(words) and not _CONTEXT_CODES.search(self.code)):
            return "content_filter"
        if self.status == 403 or "rate_limit" in self.code:  # Groq says 413 of a limit by the minute
            return None
        is_prompt = _CONTEXT.search(words) and not _OF_REPLY.match(words)
        if self.status == 413 or _CONTEXT_CODES.search(self.code) or is_prompt:
            return PROMPT_TOO_LONG
        return NO_SCHEMA if _SCHEMA_CODES.search(self.code) or _SCHEMA.search(words) else None

    @property
    def passes(self) -> bool:
        """Whether another try may be answered: not where it answers the question, or no money is left."""
        return self.status in _PASSING and not self.wants_money and self.answers is None

    @property
    def wants_money(self) -> bool:
        """Whether no money is left, which some say with a status that would pass."""
        said = _QUOTA_CODES.search(self.code) or _QUOTA.search(self.words)
        return self.status == 402 or (self.status in (400, 403, 429) and said is not None)

    @property
    def words(self) -> str:
        """As much of its message as is read."""
        return self.message[:READ_CHARS]


def _error_of(response: Response) -> ServiceError | None:
    try:
        content = response.body
    except NOT_AS_ASKED:
        content = None
    # Gemini's is in a list.
    body = _mapping(content[0] if isinstance(content, list) and len(content) == 1 else content)
    said = body.get("error") or (body if body.get("object") == "error" else None)
    if response.status_code != 200:  # Mistral says it in the body, FastAPI in `detail`
        said = said or (body if "message" in body else body.get("detail") or response.text)
    else:
        said = _said_for_a_reply(response, body, said)
    if said is None:
        return None
    error = said if isinstance(said, Mapping) else {"message": said}
    raw = _mapping(error.get("metadata")).get("raw")  # OpenRouter: what its provider said
    try:
        of_provider = _mapping(json.loads(str(raw))["error"])
    except NOT_AS_ASKED:
        of_provider = {}
    status = response.status_code
    if status == 200:  # it has its own, or passes
        status = code if isinstance(code := error.get("code"), int) and 400 <= code < 600 else 502
    layers = (body, error, _mapping(error.get("innererror")), of_provider)  # Azure has inner ones
    codes = [str(code) for layer in layers for key in ("code", "type", "status") if (code := layer.get(key))]
    message = " ".join(str(part) for part in (error.get("message"), raw) if part)
    return ServiceError(status, " ".join(codes), message)


def _said_for_a_reply(response: Response, body: Mapping[str, Any], said: Any) -> Any:
    """Return what was said with status 200 where a reply should be; None for a reply.

    That is an answer which is empty, holds no choice but an error or nothing, or a choice that ended with one
    (OpenRouter).
    """
    choices = body.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    if choice.get("finish_reason") in _BROKEN_OFF:
        return said or choice.get("error") or {}
    if choice:
        return None
    is_empty = not (response.is_cut or response.content.strip()) or ("choices" in body and not choices)
    return said or ("no choice, and no reason" if is_empty else None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
