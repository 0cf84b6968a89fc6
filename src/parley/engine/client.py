"""The client of an engine: waits until it is ready, asks it, and says clearly when it is gone."""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from parley.engine.endpoint import FAILED, read_endpoint
from parley.engine.grammar import constraint
from parley.engine.models import ModelEntry
from parley.engine.service import fetch
from parley.engine.service.budget import Bill, Budget
from parley.engine.service.dialect import OWN_SECONDS
from parley.engine.service.retrying import Retries, Send
from parley.engine.service.service import APIS, Service
from parley.errors import EngineError
from parley.policies import (
    NO_TOOL_CALL,
    THOUGHT_CUT_OFF,
    THOUGHT_ONLY,
    TOKEN_BYTES,
    TOO_LARGE,
    TOOL_CALL,
    WHITE_SPACE,
    Ask,
    Completion,
    Tokens,
    said_name,
    usage_of,
)
from parley.text import every, limited_logger

_log = limited_logger(__name__)
_POLL_SECONDS = 0.5
# Finish reasons of Parley's own, of replies that nobody can use.
TOO_DEEP = "too_deep"
_MUCH_WHITE_SPACE = 20  # characters at the end of a reply that was cut off
# What others call OpenAI's finish reasons: Anthropic, Gemini (also behind a colon), Mistral (full context), Zhipu.
_REFUSED = (
    *("content_filter", "content_filtered", "guardrail_intervened", "safety", "refusal", "recitation"),
    *("prohibited_content", "blocklist", "spii", "sensitive"),
)
_FINISH = {
    **dict.fromkeys(("max_tokens", "model_length"), "length"),
    **dict.fromkeys(_REFUSED, "content_filter"),
    **dict.fromkeys(("malformed_function_call", "unexpected_tool_call", "function_call_filter"), TOOL_CALL),
}
# How long a dying server is given to say why in its endpoint file.
_LAST_WORDS_SECONDS = 15.0


class Engine:
    """What answers for one model, a running server or a service, as an async context manager."""

    def __init__(self, place: Path | Service, budget: Budget | None = None, seconds: float = OWN_SECONDS) -> None:
        """Connect to a service, or to the server of an endpoint file; raises EngineError if there is no such file.

        What requests use is counted in `budget`, which may refuse them. A request to a server may take `seconds`; a
        service has its own.
        """
        self._of_service = isinstance(place, Service)
        self._sender = Retries(place) if isinstance(place, Service) else _OwnServer(place, seconds)
        self._server = self._sender.service
        self._api = APIS[self._server.dialect.api]
        self._chat = self._server.api + self._api.path
        self._budget = budget

    async def __aenter__(self) -> "Engine":
        self._http = await self._server.http().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.__aexit__(*error)

    async def wait_ready(self, seconds: float) -> None:
        """Return when the server answers; raises EngineError if it dies or `seconds` pass.

        A service is asked as patiently as by any request, however many `seconds` that takes: nobody here starts it.
        """
        start = time.monotonic()
        while True:
            if await self._sender.ready(self._http):
                return
            now = time.monotonic()
            if now - start > seconds:
                raise EngineError(
                    f"{self._server.who} was not ready after {seconds:.0f} s; look at its log, "
                    "or raise --engine-timeout"
                )
            _log.info("waiting for %s, %.0f s", self._server.who, now - start, extra=every(of=self, since=start))
            await asyncio.sleep(_POLL_SECONDS)

    async def chat(self, ask: Ask, seed: int, entry: ModelEntry, cache_salt: str | None = None) -> Completion:
        """Ask the model of an entry; what the reply must look like goes with the request, and the server enforces it.

        Requests share vLLM's prefix cache only with those of the same `cache_salt`. A model on a server of ours may
        think before its reply, which alone is held to its form.
        """
        dialect, sampling = self._server.dialect, ask.sampling
        if entry.reasoning_tokens:
            dialect = dialect.model_copy(update={"reasoning_tokens": entry.reasoning_tokens})
        highest = dialect.highest_temperature if dialect.temperature else None
        if highest is not None and sampling.temperature > highest:
            raise EngineError(
                f"{self._server.who} has a temperature of at most {highest:g} by its dialect, and "
                f"{ask.phase} asks for {sampling.temperature:g}; lower it in the study"
            )
        body = {
            **entry.extra,
            "model": self._server.served,
            "messages": ask.messages,
            **dialect.fields(sampling, seed),
            **constraint(ask, self._of_service, dialect, entry.grammar),
        }
        of_vllm = {  # other servers know none of the three
            "chat_template_kwargs": entry.chat_template_kwargs,
            "thinking_token_budget": entry.reasoning_tokens,
            "cache_salt": cache_salt,
        }
        body |= {key: value for key, value in of_vllm.items() if value}
        body = self._api.request(body, dialect.reasoning_tokens)
        # Encoded once: whatever is sent again is the same, byte for byte.
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        longest = dialect.longest(sampling)
        most = Tokens(prompt=len(content), completion=longest)  # no token is less than a byte
        if self._budget is not None:
            self._budget.require(self._server.model, most)  # before it waits for limits
        response = await self._sender.send(lambda: self._post(content, most), seed)
        if (error := response.error) is not None:
            if error.answers is None:
                raise self._server.refused(error)
            # The agent's own doing, or its peers': an unusable reply, which ends no simulation.
            return self._unusable(error.answers, self._server.redacted(error.message))
        return self._completion(response, longest, ask.reply_format == "json")

    def _completion(self, response: fetch.Response, max_tokens: int, is_json: bool) -> Completion:
        """Return the reply; one without text where it is larger, or nested deeper, than any that could be used."""
        if response.is_cut:
            return self._unusable(TOO_LARGE, f"more than {fetch.MAX_BODY_BYTES:,} bytes")
        try:
            completion = self._read(response, is_json)
        except RecursionError:
            return self._unusable(TOO_DEEP, "nested too deep")
        most = max_tokens * TOKEN_BYTES
        if len(completion.text) + len(completion.reasoning or "") > most:
            return self._unusable(TOO_LARGE, f"more than {most:,} characters for {max_tokens:,} tokens")
        return completion

    def _read(self, response: fetch.Response, is_json: bool) -> Completion:
        """Return a reply, JSON or not, as it came, but without the API key; raises EngineError for what is none."""
        server = self._server
        try:
            body = response.body
            choice = body["choices"][0]
            message = choice.get("message")
            if message is None and choice.get("finish_reason"):  # Gemini, where a filter or thoughts left nothing
                message = {}
            said = _texts(message.get("content")) + _texts(message.get("refusal"), "refusal")
            text, thought, refusal = ("".join(part for kind, part in said if kind == each) for each in _KINDS)
            usage = body.get("usage")
            tokens = usage_of(usage if isinstance(usage, Mapping) else {})
            ended = str(choice.get("finish_reason") or "not_said")
            tagged, text = (None, refusal) if refusal else server.dialect.split(text)
            reasoning = "\n\n".join(filter(None, (_reasoning(message), thought, tagged))) or None
            ended = "content_filter" if refusal else _FINISH.get(ended.partition(":")[0].lower(), ended)
            if not text.strip() and ended != "content_filter":
                if message.get("tool_calls") or message.get("function_call"):
                    ended = TOOL_CALL
                elif reasoning or tokens.reasoning:  # which OpenAI counts, and does not show
                    ended = THOUGHT_CUT_OFF if ended == "length" else THOUGHT_ONLY
            if is_json and ended == "length" and len(text) - len(text.rstrip()) > _MUCH_WHITE_SPACE:
                ended = WHITE_SPACE
            elif is_json and ended == "stop" and server.dialect.structured == "tool" and text.lstrip()[:1] != "{":
                ended = NO_TOOL_CALL
            completion = Completion(
                text=text,
                finish_reason=ended,
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cached_tokens=tokens.cached,
                served_model=said_name(body.get("model")),
                system_fingerprint=said_name(body.get("system_fingerprint")),
                reasoning=reasoning,
                reasoning_tokens=tokens.reasoning,
            )
        except RecursionError:
            raise
        except fetch.NOT_AS_ASKED:
            raise EngineError(
                f"{server.who} sent something that is not a chat completion: {server.redacted(response.text, 200)}"
            ) from None
        keyless = Completion(**{name: server.without_key(getattr(completion, name)) for name in completion.__slots__})
        if keyless != completion:
            _log.warning("%s put the API key into a reply; it was taken out", server.who, extra=every(60.0, of=self))
        return keyless

    def _unusable(self, reason: str, why: str) -> Completion:
        _log.info("%s sent a reply that counts as unusable: %s", self._server.who, why)
        return Completion(text="", finish_reason=reason)

    async def _post(self, content: bytes, most: Tokens) -> fetch.Response:
        """Send a request once, paid from the budget if there is one; `most` is what it can use."""
        paying = nullcontext(Bill()) if self._budget is None else self._budget.paying(self._server.model, most)
        async with paying as bill:
            try:
                came = await self._http.fetch("POST", self._chat, self._server.seconds, content)
            except fetch.RequestError as error:
                if not error.sent:
                    bill.used = Tokens()
                raise
            response = self._api.as_chat(came)
            bill.used = response.used
        return response

    async def provenance(self) -> Mapping[str, Any]:
        """Return what the engine tells of itself, for the record."""
        if isinstance(self._sender, _OwnServer):
            return self._sender.endpoint.engine
        return await self._server.provenance(self._http)


class _OwnServer:
    """A server that Parley started, whose endpoint file says where it listens and how it died."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self.endpoint = endpoint = read_endpoint(path)
        url = "http://engine/v1"  # of no host: it listens on a socket
        self.service = Service(endpoint.model, endpoint.model, url, seconds=seconds, socket=endpoint.socket)
        self._who = self.service.who

    async def send(self, post: Send, seed: int) -> fetch.Response:
        """Send once: a server that fails is a server that died, and the shard's next one goes on.

        Raises EngineError for a request that got no answer, in the server's last words if it has any.
        """
        try:
            response = await post()
        except fetch.RequestError as error:
            if error.late is None:
                await self._last_words(_LAST_WORDS_SECONDS)
            raise self.service.lost(error) from None
        if response.status_code >= 500:
            await self._last_words(min(3.0, _LAST_WORDS_SECONDS))
        return response

    async def ready(self, http: fetch.Client) -> bool:
        """Whether it answers; raises EngineError if it is dead."""
        self._check()
        try:
            return (await http.fetch("GET", "/health", 10.0)).status_code == 200
        except fetch.RequestError:
            return False  # not listening yet

    def _check(self) -> None:
        """Raise EngineError if the server said that it died, or is gone without a word."""
        endpoint = read_endpoint(self._path) if self._path.exists() else None
        if endpoint is None or endpoint.socket != self.endpoint.socket:
            raise EngineError(f"{self._who} was stopped; run again to go on from the journal")
        if endpoint.state == FAILED:
            raise EngineError(f"{self._who} died: {endpoint.error}")
        if not endpoint.alive:
            raise EngineError(f"{self._who} is gone (process {endpoint.pid}); look at its log")
        self.endpoint = endpoint  # what the engine is stands there only when its model is prepared

    async def _last_words(self, seconds: float) -> None:
        """Raise EngineError if the server says within so many seconds that it died."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._check()
            await asyncio.sleep(_POLL_SECONDS)


class LLMPolicy:
    """Answers by a language model."""

    def __init__(self, engine: Engine, entry: ModelEntry) -> None:
        self._engine = engine
        self._entry = entry

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the model's reply; raises EngineError if the engine is gone or refuses the request."""
        return await self._engine.chat(ask, seed, self._entry)


_KINDS = ("text", "thought", "refusal")


def _texts(content: object, kind: str = "text") -> list[tuple[str, str]]:
    """Return the texts of a content by kind: one, or those of parts (Mistral, Anthropic, the Responses of OpenAI)."""
    texts = [(kind, content)] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        named = str(part.get("type")) if isinstance(part, Mapping) else ""
        if named in ("thinking", "reasoning"):
            texts += _texts(part.get(named, part.get("text")), "thought")
        elif named == "refusal":
            texts += _texts(part.get(named), "refusal")
        elif named in ("text", "output_text", "None"):  # Bedrock's have no type
            texts += _texts(part.get("text"), kind)
    return texts


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that came beside a reply: vLLM calls it `reasoning`, llama.cpp and older ones otherwise."""
    for key in ("reasoning", "reasoning_content"):
        if isinstance(text := message.get(key), str) and text:
            return text
    return None
