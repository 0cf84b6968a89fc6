"""Services that do not take all that others take: real HTTP servers on 127.0.0.1."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from parley.engine.grammar import constraint
from parley.engine.models import recorded_entry
from parley.engine.service.dialect import PRESETS, Dialect
from parley.policies import Completion
from support.answering import (
    StandInService,
    completion,
    error,
    first_ask,
    openai,
    said,
    service_entry,
)
from support.answering import ask as ask_service

pytestmark = pytest.mark.promise(
    "Each preset sends what its service takes; a key of a request that is refused is quoted with one remedy."
)

TEXT, REASON = said("propose", 11)


def ask(url: str, dialect: Any) -> Completion:
    return ask_service(url, dialect=dialect, limits={})[0]


def refused(server: StandInService, dialect: Any) -> str:
    return error(server.url, dialect=dialect, limits={})


def seedless(body: dict[str, Any]) -> Any:
    """A reply to whatever is asked."""
    return completion(TEXT, REASON)


def test_a_refused_key_is_quoted_with_one_remedy_and_not_asked_again(
    server: StandInService, pauses: list[float]
) -> None:
    message = "Unsupported value: 'temperature' does not support 0.5 with this model."
    server.answer = lambda body: seedless(body) if "temperature" not in body else openai(message)
    remedy = "if it does not take a key of the request, change the dialect in its entry"
    assert refused(server, {}) == f"the service for tiny answered 400: {message}; {remedy}"
    assert ask(server.url, {"temperature": False}).text == TEXT
    assert len(server.bodies) == 2
    assert pauses == []


NO_LENGTHS = {"openai", "openai-reasoning", "openai-responses", "azure", "groq", "anthropic", "deepinfra", "deepseek"}


@pytest.mark.slow
def test_a_preset_sends_what_its_service_takes_and_a_record_says_enough_to_ask_again(server: StandInService) -> None:
    server.answer = seedless
    bodies = {}
    for preset in PRESETS:
        ask(server.url, preset)
        body = bodies[preset] = server.bodies[-1]
        assert ("maxLength" in str(body)) == (preset not in NO_LENGTHS), preset
        identity = service_entry(dialect=preset).identity()
        assert recorded_entry(identity, None).identity() == identity, preset
    assert bodies["openai-reasoning"]["max_completion_tokens"] == first_ask().sampling.max_tokens + 25_000
    assert bodies["deepinfra"]["response_format"] == {"type": "json_object"}


def test_a_temperature_that_would_be_lowered_unseen_is_refused(server: StandInService) -> None:
    text = refused(server, {"preset": "anthropic", "highest_temperature": 0.1})
    assert all(word in text for word in ("at most 0.1", "propose asks for 0.5", "lower it in the study")), text
    assert server.bodies == []


class Inner(BaseModel):
    default: str = Field(default="x", max_length=3)


class Outer(BaseModel):
    many: list[Inner] = Field(default_factory=list, max_length=4)
    word: str = Field(pattern="^a", min_length=1)


def test_openais_schema_has_all_properties_and_no_lengths_at_any_depth() -> None:
    sent = constraint(replace(first_ask(), reply_model=Outer), True, Dialect.model_validate({"preset": "openai"}))
    schema = sent["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["many", "word"]
    assert schema["$defs"]["Inner"]["required"] == ["default"]
    assert schema["$defs"]["Inner"]["properties"]["default"] == {"title": "Default", "type": "string"}
    assert schema["properties"]["word"] == {"title": "Word", "type": "string", "pattern": "^a"}
    assert schema["properties"]["many"]["maxItems"] == 4


# Entries


def test_only_what_changes_the_question_is_identity_and_only_if_set() -> None:
    plain = service_entry().identity()
    assert "dialect" not in plain
    for same in ({}, "vllm", {"max_tokens_key": "max_completion_tokens"}, {"lists_models": False, "seed": True}):
        assert service_entry(dialect=same).identity() == plain
    rows: list[tuple[Any, dict[str, Any]]] = [
        ("openai", {"schema_lengths": False}),
        ("anthropic", {"structured": "none", "seed": False}),
        ("anthropic-messages", {"api": "messages", "structured": "tool", "seed": False}),
        ("openai-reasoning", {"schema_lengths": False, "temperature": False, "reasoning_tokens": 25_000}),
        ("deepinfra", {"structured": "json_object", "think_tags": True}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    ]
    for dialect, expected in rows:
        assert service_entry(dialect=dialect).identity() == {**plain, "dialect": expected}, dialect


def test_a_dialect_that_is_none_is_refused() -> None:
    rows: list[tuple[Any, str]] = [
        ("opnai", "did you mean 'openai'?"),
        ({"structured": "xml"}, "'json_schema'"),
        ({"structured": "tool"}, "tool is for api: messages alone"),
        ({"api": "messages"}, "one of tool and none"),
        ({"temprature": False}, "temprature"),
        ({"reasoning_tokens": -1}, "reasoning_tokens"),
        (["openai"], "the name of a preset, or a mapping"),
    ]
    for dialect, words in rows:
        with pytest.raises(ValidationError) as caught:
            service_entry(dialect=dialect)
        assert words in str(caught.value), dialect


# Reasoning


def thinking(body: dict[str, Any], usage: dict[str, Any] | None = None, **message: Any) -> tuple[int, dict[str, Any]]:
    status, found = completion(TEXT, REASON)
    found["choices"][0]["message"] |= message
    found["usage"] |= usage or {}
    return status, found


def test_reasoning_beside_a_reply_is_kept_apart(server: StandInService) -> None:
    usage = {"completion_tokens_details": {"reasoning_tokens": 5}}
    for key in "reasoning", "reasoning_content":  # vLLM since 0.11, and llama.cpp or DeepInfra
        server.answer = lambda body, key=key: thinking(body, usage, **{key: "Hm."})
        found = ask(server.url, {})
        assert (found.reasoning, found.reasoning_tokens, found.completion_tokens) == ("Hm.", 5, 7)
        assert found.text == TEXT


def test_tags_at_the_beginning_are_reasoning(server: StandInService) -> None:
    rows = [
        ("<think>a\nb</think>\n\n{}", "a\nb", "{}"),
        ("a</think>{}", "a", "{}"),  # the template wrote the first tag
        ("<think>a", "a", ""),
        ("<think></think>{}", None, "{}"),
        ("{}", None, "{}"),
        ('{"a": "</think>"}', None, '{"a": "</think>"}'),
    ]
    for text, reasoning, rest in rows:
        assert Dialect(think_tags=True).split(text) == (reasoning, rest), text
        assert Dialect().split(text) == (reasoning, rest), text
        assert Dialect(think_tags=False).split(text) == (None, text)
    server.answer = lambda body: completion(rows[0][0])
    found = ask(server.url, "deepinfra")
    assert (found.reasoning, found.text) == rows[0][1:]


@pytest.mark.slow
def test_tokens_of_reasoning_are_among_those_of_the_completion(server: StandInService) -> None:
    rows: list[tuple[dict[str, Any], Any, tuple[int, int | None]]] = [
        ({"completion_tokens": 9, "total_tokens": 109}, {"reasoning_tokens": 4}, (9, 4)),
        ({"completion_tokens": 9, "total_tokens": 113}, {"reasoning_tokens": 4}, (13, 4)),
        ({"completion_tokens": 3}, {"reasoning_tokens": 4}, (7, 4)),
        ({"completion_tokens": 9}, {"reasoning_tokens": "many"}, (9, None)),
    ]
    for usage, details, counted in rows:
        told = {**usage, "completion_tokens_details": details}
        server.answer = lambda body, told=told: thinking(body, told)
        found = ask(server.url, {})
        assert (found.completion_tokens, found.reasoning_tokens) == counted, told
