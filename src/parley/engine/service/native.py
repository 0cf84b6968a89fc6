"""APIs of services other than OpenAI's chat completions: requests are rewritten into theirs, replies into chat's.

So whatever reads a reply, its errors and what it used knows one form. Read in 2026: docs.claude.com/en/api/messages,
with build-with-claude/extended-thinking and agents-and-tools/tool-use, and platform.openai.com/docs, api-reference
/responses.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parley.engine.service.dialect import ApiName
from parley.engine.service.fetch import NOT_AS_ASKED, Response

_Body = dict[str, Any]


@dataclass(frozen=True)
class Api:
    """One API: where it is, the header that a key goes in, and how its bodies differ from those of chat completions.

    `request` gets a body and the tokens for reasoning; `reply` the body of a reply.
    """

    path: str
    key_header: str = "Authorization"
    headers: Mapping[str, str] = field(default_factory=dict)
    request: Callable[[_Body, int], _Body] = lambda body, reasoning: body
    reply: Callable[[Any], _Body] | None = None

    def as_chat(self, response: Response) -> Response:
        """Return an answer as chat completions would have it; what is no reply stays as it came."""
        if self.reply is None or response.status_code != 200 or response.is_cut:
            return response
        try:
            content = json.dumps(self.reply(response.json())).encode()
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
    ended = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "stop",
        "model_context_window_exceeded": "length",
    }
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
    of_kind = {kind: [item for item in body["output"] if item["type"] == kind] for kind in ("message", "reasoning")}
    thoughts = [part["text"] for item in of_kind["reasoning"] for part in item.get("summary") or ()]
    usage, cut = body.get("usage") or {}, (body.get("incomplete_details") or {}).get("reason")
    return {
        "model": body.get("model"),
        "choices": [
            {
                "message": {
                    "content": [part for item in of_kind["message"] for part in item["content"]],
                    "reasoning": "\n\n".join(thoughts),
                    "tool_calls": [item for item in body["output"] if item["type"] == "function_call"],
                },
                "finish_reason": {None: "stop", "max_output_tokens": "length"}.get(cut, cut),
            }
        ],
        "usage": {
            "prompt_tokens": usage.get("input_tokens"),
            "completion_tokens": usage.get("output_tokens"),
            "prompt_tokens_details": usage.get("input_tokens_details"),
            "completion_tokens_details": usage.get("output_tokens_details"),
        },
    }


APIS: Mapping[ApiName, Api] = {
    "chat": Api("/chat/completions"),
    "messages": Api("/messages", "x-api-key", {"anthropic-version": "2023-06-01"}, _messages_request, _messages_reply),
    "responses": Api("/responses", request=_responses_request, reply=_responses_reply),
}
