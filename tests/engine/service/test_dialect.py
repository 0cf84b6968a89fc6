"""Services that do not take all that others take: real HTTP servers on 127.0.0.1."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from parley.engine.grammar import constraint
from parley.engine.models import recorded_entry
from parley.engine.service.dialect import PRESETS, Dialect
from parley.policies import usage_of
from support.answering import (
    StandInService,
    ask,
    completion,
    error,
    first_ask,
    openai,
    service_entry,
)

pytestmark = pytest.mark.promise(
    "Each preset sends what its service takes; a key of a request that is refused is quoted with one remedy."
)


def test_a_refused_key_is_quoted_with_one_remedy_and_not_asked_again(
    server: StandInService, pauses: list[float]
) -> None:
    message = "Unsupported value: 'temperature' does not support 0.5 with this model."
    server.answer = lambda body: completion("{}") if "temperature" not in body else openai(message)
    remedy = "if it does not take a key of the request, change the dialect in its entry"
    assert error(server.url, limits={}) == f"the service for tiny answered 400: {message}; {remedy}"
    assert ask(server.url, dialect={"temperature": False})[0].text == "{}"
    assert len(server.bodies) == 2
    assert pauses == []


NO_LENGTHS = {"openai", "openai-reasoning", "openai-responses", "azure", "groq", "anthropic", "deepinfra", "deepseek"}


def test_a_preset_sends_what_its_service_takes_and_a_record_says_enough_to_ask_again() -> None:
    sent = {}
    for preset in PRESETS:
        entry = service_entry(dialect=preset)
        fields = entry.dialect.fields(first_ask().sampling, 11)
        sent[preset] = {**constraint(first_ask(), True, entry.dialect), **fields}
        assert ("maxLength" in str(sent[preset])) == (preset not in NO_LENGTHS), preset
        assert recorded_entry(entry.identity(), None).identity() == entry.identity(), preset
    assert sent["openai-reasoning"]["max_completion_tokens"] == first_ask().sampling.max_tokens + 25_000
    assert sent["deepinfra"]["response_format"] == {"type": "json_object"}


def test_a_temperature_that_would_be_lowered_unseen_is_refused(server: StandInService) -> None:
    text = error(server.url, dialect={"preset": "anthropic", "highest_temperature": 0.1})
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
        ("opnai", "did you mean 'openai'"),
        ({"structured": "xml"}, "'json_schema'"),
        ({"structured": "tool"}, "tool is for api: messages alone"),
        ({"api": "messages"}, "one of tool and none"),
        ({"temprature": False}, "temprature"),
        ({"reasoning_tokens": -1}, "reasoning_tokens"),
        (["openai"], "the name of a preset, or a mapping"),
    ]
    for dialect, words in rows:
        with pytest.raises(ValidationError, match=words):
            service_entry(dialect=dialect)


# Reasoning


def test_tokens_of_reasoning_are_among_those_of_the_completion() -> None:
    rows: list[tuple[dict[str, Any], Any, tuple[int, int | None]]] = [
        ({"completion_tokens": 9, "total_tokens": 109}, 4, (9, 4)),
        ({"completion_tokens": 9, "total_tokens": 113}, 4, (13, 4)),
        ({"completion_tokens": 3}, 4, (7, 4)),
        ({"completion_tokens": 9}, "many", (9, None)),
    ]
    for usage, reasoning, counted in rows:
        details = {"completion_tokens_details": {"reasoning_tokens": reasoning}}
        found = usage_of({"prompt_tokens": 100, **usage, **details})
        assert (found.completion, found.reasoning) == counted, usage
