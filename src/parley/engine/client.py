"""The client of an engine: waits until it is ready, asks it, and says clearly when it is gone."""

import asyncio
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from pydantic import BaseModel

from parley.engine.endpoint import FAILED, read_endpoint
from parley.errors import EngineError
from parley.games.base import Ask
from parley.policies import Completion
from parley.text import one_line

_POLL_SECONDS = 0.5
# A request waits for its turn behind all others of the shard; on a CPU that is minutes, not seconds.
REQUEST_SECONDS = 1800.0
# What vLLM and OpenAI's API say of a prompt that does not fit.
_CONTEXT = re.compile(r"maximum (?:context|model) length|context_length_exceeded", re.IGNORECASE)
# How long a dying server is given to say why in its endpoint file.
_LAST_WORDS_SECONDS = 15.0


class Engine:
    """One running server, as an async context manager."""

    def __init__(self, path: Path) -> None:
        """Read the endpoint file; raises EngineError if there is none."""
        self._path = path
        self.endpoint = read_endpoint(path)
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=self.endpoint.socket, limits=httpx.Limits(max_connections=None)),
            base_url="http://engine",
            timeout=httpx.Timeout(REQUEST_SECONDS, connect=30.0),
        )

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def wait_ready(self, seconds: float, waiting: Callable[[float], None] | None = None) -> None:
        """Return when the server answers; raises EngineError if it dies or `seconds` pass.

        `waiting` is told every few seconds how long it has been.
        """
        start = time.monotonic()
        told = start
        while True:
            self._check()
            try:
                response = await self._http.get("/health", timeout=10.0)
                if response.status_code == 200:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            now = time.monotonic()
            if now - start > seconds:
                raise EngineError(
                    f"the engine for {self.endpoint.model} was not ready after {seconds:.0f} s; look at its log, "
                    "or raise --engine-timeout"
                )
            if waiting is not None and now - told >= 10:
                told = now
                waiting(now - start)
            await asyncio.sleep(_POLL_SECONDS)

    async def chat(
        self, ask: Ask, seed: int, chat_template_kwargs: dict[str, Any], cache_salt: str | None = None
    ) -> Completion:
        """Ask the model; the JSON schema of the reply goes with the request, and is enforced by the server.

        Requests share vLLM's prefix cache only with those of the same `cache_salt`.
        """
        schema = json_schema(ask.reply_model)
        body = {
            "model": self.endpoint.model,
            "messages": ask.messages,
            "temperature": ask.sampling.temperature,
            "max_tokens": ask.sampling.max_tokens,
            "seed": seed,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": ask.phase, "schema": schema, "strict": True},
            },
            "chat_template_kwargs": chat_template_kwargs,
        }
        if cache_salt is not None:
            body["cache_salt"] = cache_salt
        try:
            response = await self._http.post("/v1/chat/completions", json=body)
        except httpx.TimeoutException:
            raise EngineError(
                f"the engine for {self.endpoint.model} gave no answer within {REQUEST_SECONDS:.0f} s"
            ) from None
        except httpx.TransportError as error:
            raise await self._gone(error) from None
        if response.status_code == 400 and _CONTEXT.search(_message(response)):
            # The agent's own doing, or its peers': an unusable reply, which ends no simulation.
            return Completion(text="", finish_reason="length")
        if response.status_code != 200:
            if response.status_code >= 500:
                await self._last_words(3.0)
            raise EngineError(
                f"the engine for {self.endpoint.model} answered {response.status_code}: {_message(response)}"
            )
        return _completion(response, self.endpoint.model)

    def _check(self) -> None:
        """Raise EngineError if the server said that it died, or is gone without a word."""
        model = self.endpoint.model
        endpoint = read_endpoint(self._path) if self._path.exists() else None
        if endpoint is None or endpoint.socket != self.endpoint.socket:
            raise EngineError(f"the engine for {model} was stopped; run again to go on from the journal")
        if endpoint.state == FAILED:
            raise EngineError(f"the engine for {model} died: {endpoint.error}")
        if not endpoint.alive:
            raise EngineError(f"the engine for {model} is gone (process {endpoint.pid}); look at its log")

    async def _last_words(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._check()
            await asyncio.sleep(_POLL_SECONDS)

    async def _gone(self, error: httpx.TransportError) -> EngineError:
        try:
            await self._last_words(_LAST_WORDS_SECONDS)
        except EngineError as found:
            return found
        reason = one_line(str(error)) or type(error).__name__
        return EngineError(f"the engine for {self.endpoint.model} broke the connection: {reason}; look at its log")


class LLMPolicy:
    """Answers by a language model."""

    def __init__(self, engine: Engine, chat_template_kwargs: dict[str, Any]) -> None:
        self._engine = engine
        self._chat_template_kwargs = chat_template_kwargs

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the model's reply; raises EngineError if the engine is gone or refuses the request."""
        return await self._engine.chat(ask, seed, self._chat_template_kwargs)


@cache
def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply, with its bounds and lengths."""
    return model.model_json_schema()


def _message(response: httpx.Response) -> str:
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    return one_line(str(message), 300)


def _completion(response: httpx.Response, model: str) -> Completion:
    try:
        body = response.json()
        choice = body["choices"][0]
        message = choice["message"]
        usage = body.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        refused = bool(message.get("refusal"))
        return Completion(
            text=str(message.get("refusal") if refused else message.get("content") or ""),
            finish_reason="content_filter" if refused else str(choice["finish_reason"]),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            cached_tokens=details.get("cached_tokens"),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise EngineError(
            f"the engine for {model} answered something that is no chat completion: {one_line(response.text, 200)}"
        ) from None
