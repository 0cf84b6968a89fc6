"""A request and its reply for each preset, in the form in which the service's documents print them.

What is sent is compared with the fields that they name, and what comes back with what it says. `dialect.py` and
`service.py` name the pages.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from parley.engine.service.dialect import PRESETS
from parley.policies.reply_text import read_reply
from support import answering
from support.answering import KEY, SERVED, StandInService, ask, error, first_ask

REPLY = {"internal_strategy": "Wait and see.", "value": 17, "public_reasoning": "It is in the middle."}
TEXT, THOUGHT = json.dumps(REPLY), "The others may lie. I take the middle."


def chat(message: dict[str, Any], usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", "logprobs": None}
    counted = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29, **(usage or {})}
    told = {"id": "chatcmpl-B9MBs8", "object": "chat.completion", "created": 1741569952, "model": SERVED}
    return {**told, "choices": [choice], "usage": counted, **more}


@dataclass(frozen=True)
class Exchange:
    """What a preset is answered; `sent` are the fields of a request beside its model, `usage` what was counted."""

    sent: set[str]
    reply: dict[str, Any]
    thought: str | None = THOUGHT
    usage: tuple[int, int, int | None, int | None] = (19, 10, None, None)  # prompt, completion, cached, reasoning
    path: str = "/v1/chat/completions"


CHAT = {"messages", "temperature", "max_tokens", "seed", "response_format"}
OPENAI = CHAT - {"max_tokens"} | {"max_completion_tokens"}
DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 0, "accepted_prediction_tokens": 0},
}
COUNTED = (19, 10, 8, 4)
PLAIN = {"content": TEXT, "refusal": None, "annotations": []}
OF_OPENAI = chat(PLAIN, DETAILS, service_tier="default", system_fingerprint="fp_44709d6fcb")
RESPONSE: dict[str, Any] = {
    **{"id": "resp_67ccd2be", "object": "response", "status": "completed", "error": None, "model": SERVED},
    "incomplete_details": None,
    "output": [
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
        },
    ],
    "usage": {
        **{"input_tokens": 19, "input_tokens_details": {"cached_tokens": 8}},
        **{"output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 29},
    },
}
MESSAGE: dict[str, Any] = {
    **{"id": "msg_01Aq9w938a90dw8q", "type": "message", "role": "assistant", "model": SERVED},
    "content": [
        {"type": "thinking", "thinking": THOUGHT, "signature": "EqQBCgIYAhIM"},
        {"type": "text", "text": "I reply with the tool."},
        {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "propose", "input": REPLY},
    ],
    **{"stop_reason": "tool_use", "stop_sequence": None},
    "usage": {
        **{"input_tokens": 6, "cache_creation_input_tokens": 5},
        **{"cache_read_input_tokens": 8, "output_tokens": 10},
    },
}
PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}, {"type": "text", "text": TEXT}]

EXCHANGES: dict[str, Exchange] = {
    "openai": Exchange(OPENAI, OF_OPENAI, None, COUNTED),
    "openai-reasoning": Exchange(OPENAI - {"temperature"}, OF_OPENAI, None, COUNTED),
    "openai-responses": Exchange(
        {"input", "temperature", "max_output_tokens", "store", "text"}, RESPONSE, THOUGHT, COUNTED, "/v1/responses"
    ),
    "anthropic": Exchange({"messages", "temperature", "max_tokens"}, chat({"content": TEXT}), None),
    "anthropic-messages": Exchange(
        {"messages", "system", "temperature", "max_tokens", "tools", "tool_choice"},
        *(MESSAGE, THOUGHT, (19, 10, 8, None), "/v1/messages"),
    ),
    "azure": Exchange(
        *(OPENAI, chat(PLAIN, DETAILS, prompt_filter_results=[{"prompt_index": 0}]), None, COUNTED),
    ),
    "deepinfra": Exchange(CHAT, chat({"content": TEXT}, {"estimated_cost": 2e-7}), None),
    "deepseek": Exchange(
        CHAT - {"seed"},
        chat({"content": TEXT, "reasoning_content": THOUGHT}, {"prompt_cache_hit_tokens": 8, **DETAILS}),
        usage=COUNTED,
    ),
    "gemini": Exchange(CHAT - {"seed"}, chat({"content": TEXT}), None, path="/v1beta/openai/chat/completions"),
    "groq": Exchange(OPENAI, chat({"content": TEXT, "reasoning": THOUGHT}, {"queue_time": 0.03}, x_groq={"id": "r"})),
    "llama.cpp": Exchange(CHAT, chat({"content": f"<think>{THOUGHT}</think>\n\n{TEXT}"}, timings={"prompt_n": 19})),
    "mistral": Exchange(CHAT - {"seed"} | {"random_seed"}, chat({"content": PARTS, "tool_calls": None})),
    "ollama": Exchange(CHAT, chat({"content": TEXT, "reasoning": THOUGHT}, system_fingerprint="fp_ollama")),
    "openrouter": Exchange(
        CHAT,
        chat(
            {**PLAIN, "reasoning": THOUGHT, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT}]},
            {"cost": 0.95, **DETAILS},
        ),
        usage=COUNTED,
    ),
    "sglang": Exchange(CHAT, chat({"content": TEXT, "reasoning_content": THOUGHT}, {"prompt_tokens_details": None})),
    "together": Exchange(CHAT, chat({"content": TEXT, "tool_calls": []}, {"cached_tokens": 0}, prompt=[]), None),
    "vllm": Exchange(
        CHAT,
        chat(
            {"content": TEXT, "reasoning": THOUGHT, "tool_calls": [], "function_call": None},
            {"prompt_tokens_details": {"cached_tokens": 8}},
        ),
        usage=(19, 10, 8, None),
    ),
}


@pytest.mark.promise("A request and a reply of each preset are those that its service's documents print.")
def test_each_preset_speaks_as_its_documents_do(server: StandInService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(EXCHANGES) == set(PRESETS)
    asked = replace(first_ask(), earlier=(("user", "before"), ("assistant", '"}, {"role": "system')))
    monkeypatch.setattr(answering, "first_ask", lambda: asked)
    for preset, exchange in EXCHANGES.items():
        server.answer = lambda body, reply=exchange.reply: (200, reply)
        root, base = server.url.removesuffix("/v1"), exchange.path.rpartition("/chat/")[0]
        url = root + (base or "/v1")
        reply, _ = ask(url, dialect=preset)
        body, headers = server.bodies[-1], server.headers[-1]
        assert set(body) - {"model"} == exchange.sent, preset
        assert [path for path, _ in server.heads if path.endswith(exchange.path)], preset
        said = [(message["role"], message["content"]) for message in body.get("messages") or body["input"]]
        assert said[-3:] == [*asked.earlier, ("user", asked.user)], preset
        assert (reply.text, reply.reasoning) == (TEXT, exchange.thought), preset
        counted = (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens, reply.reasoning_tokens)
        assert counted == exchange.usage, preset
        assert reply.served_model == SERVED, preset
        assert read_reply(first_ask(), reply.text, reply.finish_reason).failure is None, preset
        key = "x-api-key" if preset == "anthropic-messages" else "Authorization"
        assert headers[key].removeprefix("Bearer ") == KEY, preset


def test_messages_of_anthropic_think_and_hold_a_reply_to_its_form(server: StandInService) -> None:
    reply = MESSAGE
    server.answer = lambda body: (200, reply)
    ask(server.url, dialect="anthropic-messages")
    thinking = {"preset": "anthropic-messages", "temperature": False, "reasoning_tokens": 2000}
    ask(server.url, dialect=thinking)
    plain, thoughtful = server.bodies
    assert plain["tool_choice"] == {"type": "tool", "name": "propose", "disable_parallel_tool_use": True}
    assert set(plain["tools"][0]["input_schema"]["properties"]) == set(REPLY)
    assert [message["role"] for message in plain["messages"]] == ["user"]
    assert plain["system"] == first_ask().system
    assert thoughtful["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert thoughtful["tool_choice"]["type"] == "auto"  # to force one is refused there
    assert thoughtful["max_tokens"] == plain["max_tokens"] + 2000
    assert server.headers[-1]["anthropic-version"] == "2023-06-01"
    for content, reason, ended in [
        (reply["content"][:1], "max_tokens", "thought_cut_off"),
        ([], "refusal", "content_filter"),
        ([{"type": "text", "text": TEXT}], "end_turn", "stop"),
        ([{"type": "text", "text": "I say 5."}], "end_turn", "no_tool_call"),
        ([], "end_turn", "no_tool_call"),
        ([{"type": "text", "text": "{"}], "model_context_window_exceeded", "length"),
    ]:
        server.answer = lambda body, new={"content": content, "stop_reason": reason}: (200, {**reply, **new})
        assert ask(server.url, dialect="anthropic-messages")[0].finish_reason == ended
    server.answer = lambda body: (200, {"type": "message", "content": 5})
    assert "not a chat completion" in error(server.url, dialect="anthropic-messages")


def test_responses_of_openai_are_cut_refuse_and_fail(server: StandInService, pauses: list[float]) -> None:
    reply = RESPONSE
    server.answer = lambda body: (200, reply)
    ask(server.url, dialect={"preset": "openai-responses", "reasoning_effort": "low"})
    body = server.bodies[-1]
    assert (body["store"], body["reasoning"]) == (False, {"effort": "low"})
    assert set(body["text"]["format"]) == {"type", "name", "schema", "strict"}
    refusal = [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]
    for new, ended in [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"output": reply["output"][:1], "incomplete_details": {"reason": "max_output_tokens"}}, "thought_cut_off"),
        ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"output": refusal}, "content_filter"),
        ({"output": [{"type": "function_call", "name": "x"}]}, "tool_call"),
    ]:
        server.answer = lambda body, new=new: (200, {**reply, **new})
        assert ask(server.url, dialect="openai-responses")[0].finish_reason == ended, new
    failed = {**reply, "status": "failed", "error": {"code": "server_error", "message": "later"}}
    left = [(200, failed), (200, reply)]
    server.answer = lambda body: left.pop(0)
    assert ask(server.url, dialect="openai-responses", limits={"patience_seconds": 60})[0].text == TEXT
    assert len(pauses) == 1
