"""A service that somebody else runs: an OpenAI-compatible API at a URL, as a vLLM cluster has it.

Whatever it says is untrusted, and may echo the API key: all of it is printed through `redacted`.

Requests to other APIs than OpenAI's chat completions are rewritten into theirs, replies into chat's. So whatever reads
a reply, its errors and what it used knows one form. Read in 2026: docs.claude.com/en/api/messages, with
build-with-claude/extended-thinking and agents-and-tools/tool-use, and platform.openai.com/docs, api-reference
/responses.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from parley import trust
from parley.engine.models import ModelEntry
from parley.engine.service.dialect import PLAIN, SERVICE_SECONDS, ApiName, Dialect, ServiceLimits
from parley.engine.service.fetch import NOT_AS_ASKED, Client, RequestError, Response, ServiceError
from parley.engine.sources import ServiceSource
from parley.errors import HIDDEN, EngineError, NotReadyError, UsageError
from parley.text import one_line

PROBE_SECONDS = 30.0
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+-]{0,63}")
# A shorter one could be part of an ordinary reply, which must not hold it; quotes and backslashes would be escaped
# where it is echoed, and so not be found.
_KEY = re.compile(r"[!#-&(-\[\]-~]{8,4096}")


@dataclass(frozen=True)
class Service:
    """The service of one model of a study, and the key to it."""

    model: str
    served: str
    url: str
    key: str | None = field(default=None, repr=False)
    key_variable: str | None = None
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    seconds: float = SERVICE_SECONDS  # for one request and its whole answer
    dialect: Dialect = PLAIN
    socket: str | None = None  # of a server that Parley started

    @property
    def api(self) -> str:
        """The end of the URL, which is the beginning of its paths: from /v1 on, else all of its path."""
        path = urlsplit(self.url).path
        return path[max(path.rfind("/v1"), 0) :]

    @property
    def who(self) -> str:
        """What messages call it."""
        return f"the {'service' if self.socket is None else 'engine'} for {self.model}"

    def redacted(self, text: str, limit: int = 300) -> str:
        """Return `text` as one printable line of at most `limit` characters, without the key."""
        line = one_line(text)  # first: characters that go could hide the key in between
        return one_line(self.without_key(line), limit)

    def without_key(self, value: Any) -> Any:
        """Return a text with `[key]` for the key, also where decoding would bring it; all else as it is."""
        return self._written_key.sub(HIDDEN, value) if self.key and isinstance(value, str) else value

    @cached_property
    def _written_key(self) -> re.Pattern[str]:
        """What finds the key: each character as it is, as in a URL or escaped as in JSON."""
        return re.compile("".join(map(_written, self.key or "")))

    def http(self) -> Client:
        """Return a client whose paths start before `api`; raises UsageError for a proxy that cannot be used."""
        api = APIS[self.dialect.api]
        headers = {**api.headers, **({api.key_header: f"{api.before_key}{self.key}"} if self.key else {})}
        return Client(self.url.removesuffix(self.api), headers, self.socket)

    def check_models(self, response: Response) -> None:
        """Raise EngineError, which says what is wrong, unless the service listed the model."""
        if (error := response.error) is not None:
            refusal = self.refused(error)
            if error.status in (404, 405):
                raise EngineError(f"{refusal}; if it lists no models, write lists_models: false in its dialect")
            raise refusal
        try:
            body = response.body  # a bare list: Together
            listed = [str(model["id"]) for model in (body if isinstance(body, list) else body["data"])]
        except NOT_AS_ASKED:
            raise EngineError(
                f"{self.who} did not answer with a list of models at {self.url}/models: "
                f"{self.redacted(response.text, 200)}"
            ) from None
        if self.served not in listed:
            names = self.redacted(", ".join(listed)) or "none"
            raise EngineError(
                f"{self.who} lists no model {self.served!r}: set source.served to one it has ({names}), "
                "or lists_models: false in its dialect"
            )

    async def provenance(self, http: Client) -> dict[str, Any]:
        """Return what the service tells of itself: the model's name and, if it is vLLM, its version; no URL."""
        facts: dict[str, Any] = {"engine": "service", "served": self.served}
        try:
            response = await http.fetch("GET", "/version", PROBE_SECONDS)
            version = str(response.body["version"]) if response.status_code == 200 else ""
        except (RequestError, *NOT_AS_ASKED):
            return facts
        known = _VERSION.fullmatch(version) and self.without_key(version) == version
        return {**facts, "versions": {"vllm": version}} if known else facts

    def lost(self, error: RequestError) -> EngineError:
        """Return the error for a request that got no answer."""
        at, reason = "" if self.socket else f" at {self.url}", self.redacted(str(error))
        if error.late is not None:
            return EngineError(f"{self.who}{at} sent no complete answer within {error.late:g} s")
        if self.socket:
            return EngineError(f"{self.who} broke the connection: {reason}; look at its log")
        kind = EngineError if error.sent else NotReadyError  # nobody is there for others, either
        return kind(f"{self.who} cannot be reached{at}, or broke the connection: {reason}")

    def refused(self, error: ServiceError) -> EngineError:
        """Return what to say of an error: its status, what the service said, and the remedy of its class."""
        status, variable = 402 if error.wants_money else error.status, self.key_variable
        answer = f"{self.who} answered {error.status}: {self.redacted(error.message) or 'nothing more'}"
        remedies = {
            **dict.fromkeys((400, 422), "if it does not take a key of the request, change the dialect in its entry"),
            **dict.fromkeys((401, 403), f"check the key in {variable}" if variable else "name source.key_variable"),
            402: "it wants money: look at the account there",
            404: f"is {self.url} its URL? Is {self.served!r} its name for the model?",
            **dict.fromkeys((301, 302, 303, 307, 308), "redirects are not followed, put the final URL there"),
        }
        remedy = None if self.socket is not None else remedies.get(status)
        kind = NotReadyError if status in (401, 402) else EngineError  # all others are refused, too
        return kind(f"{answer}; {remedy}" if remedy else answer)


def _written(character: str) -> str:
    slash = r"|\\/" if character == "/" else ""
    return rf"(?:{re.escape(character)}|(?i:%{ord(character):02x}|\\u{ord(character):04x}){slash})"


def service_of(name: str, entry: ModelEntry) -> Service:
    """Return the service of a model entry that names one; raises UsageError if its key is missing or not allowed."""
    assert isinstance(entry.source, ServiceSource)
    source, key = entry.source, None
    if (variable := source.key_variable) is not None:
        trust.check_key(name, variable, source.url)
        key = os.environ.get(variable)
        if not key:
            raise UsageError(f"{name}: no API key; set the environment variable {variable}")
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{name}: {variable} holds no usable API key; one has at least 8 ASCII characters, and no white "
                "space, quotes or backslashes"
            )
    return Service(name, source.served, source.url, key, variable, entry.limits, entry.deadline, entry.dialect)


_Body = dict[str, Any]


@dataclass(frozen=True)
class Api:
    """One API: where it is, the header that a key goes in, and how its bodies differ from those of chat completions.

    `request` gets a body and the tokens for reasoning; `reply` the body of a reply.
    """

    path: str
    key_header: str = "Authorization"
    before_key: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    request: Callable[[_Body, int], _Body] = lambda body, reasoning: body
    reply: Callable[[Any], _Body] | None = None

    def as_chat(self, response: Response) -> Response:
        """Return an answer as chat completions would have it; what is no reply stays as it came."""
        if self.reply is None or response.status_code != 200 or response.is_cut:
            return response
        try:
            content = json.dumps(self.reply(response.body)).encode()
        except NOT_AS_ASKED:
            return response
        return replace(response, content=content)


def _messages_request(body: _Body, reasoning: int) -> _Body:
    """Return Anthropic's: the system prompt stands apart, thoughts have a budget, and a tool's input has a form."""
    format_, messages = body.pop("response_format", None), body.pop("messages")
    body |= {"messages": [message for message in messages if message["role"] != "system"]}
    if system := "\n\n".join(message["content"] for message in messages if message["role"] == "system"):
        body |= {"system": system}
    if reasoning:
        body |= {"thinking": {"type": "enabled", "budget_tokens": reasoning}}
    if format_ is not None:
        asked = format_["json_schema"]
        # A model that thinks may not be forced to call one.
        choice = {"type": "auto"} if reasoning or "thinking" in body else {"type": "tool", "name": asked["name"]}
        tool = {"name": asked["name"], "description": "Reply with this.", "input_schema": asked["schema"]}
        body |= {"tools": [tool], "tool_choice": {**choice, "disable_parallel_tool_use": True}}
    return body


def _messages_reply(body: Any) -> _Body:
    parts, usage = body["content"], body.get("usage") or {}
    called = [part["input"] for part in parts if part["type"] == "tool_use"]
    if called:
        thoughts = [part for part in parts if part["type"] == "thinking"]
        parts = [*thoughts, {"type": "text", "text": json.dumps(called[0], ensure_ascii=False)}]
    cached, fresh = usage.get("cache_read_input_tokens") or 0, usage.get("input_tokens")
    written = usage.get("cache_creation_input_tokens") or 0
    ended = {"model_context_window_exceeded": "length"}
    ended |= dict.fromkeys(("end_turn", "stop_sequence", "tool_use"), "stop")
    reason = body.get("stop_reason")
    return {
        "model": body.get("model"),
        "choices": [{"message": {"content": parts}, "finish_reason": ended.get(reason, reason)}],
        "usage": {
            "prompt_tokens": None if fresh is None else fresh + written + cached,
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _responses_request(body: _Body, reasoning: int) -> _Body:
    """Return OpenAI's Responses: nothing is stored there, and the form of a text is in `text`."""
    format_, effort = body.pop("response_format", None), body.pop("reasoning_effort", None)
    longest = body.pop("max_completion_tokens", None) or body.pop("max_tokens")
    body |= {"input": body.pop("messages"), "max_output_tokens": longest, "store": False}
    if effort is not None:
        body |= {"reasoning": {"effort": effort, **body.get("reasoning", {})}}
    if format_ is not None:
        body |= {
            "text": {**body.get("text", {}), "format": {"type": format_["type"], **format_.get("json_schema", {})}}
        }
    return body


def _responses_reply(body: Any) -> _Body:
    if body.get("status") == "failed":
        return {"error": body.get("error") or "failed, and no reason"}
    kinds = ("message", "reasoning", "function_call")
    of_kind = {kind: [item for item in body["output"] if item["type"] == kind] for kind in kinds}
    thoughts = [part["text"] for item in of_kind["reasoning"] for part in item.get("summary") or ()]
    usage, cut = body.get("usage") or {}, (body.get("incomplete_details") or {}).get("reason")
    message = {
        "content": [part for item in of_kind["message"] for part in item["content"]],
        "reasoning": "\n\n".join(thoughts),
        "tool_calls": of_kind["function_call"],
    }
    reason = {None: "stop", "max_output_tokens": "length"}.get(cut, cut)
    return {
        "model": body.get("model"),
        "choices": [{"message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        },
    }


APIS: Mapping[ApiName, Api] = {
    "chat": Api("/chat/completions"),
    "messages": Api(
        "/messages", "x-api-key", "", {"anthropic-version": "2023-06-01"}, _messages_request, _messages_reply
    ),
    "responses": Api("/responses", request=_responses_request, reply=_responses_reply),
}
