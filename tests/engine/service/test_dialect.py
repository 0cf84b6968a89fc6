"""Services that do not take all that others take: real HTTP servers on 127.0.0.1 that refuse it in their own words."""

import asyncio
import re
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from parley.engine.client import Engine, LLMPolicy
from parley.engine.models import ModelEntry, recorded_entry
from parley.engine.service.dialect import PRESETS, Dialect
from parley.engine.service.service import service_of
from parley.errors import EngineError
from parley.policies import Ask, Completion
from support.answering import SERVED, VARIABLE, StandInService, completion, recorded_reply, said
from support.hearing import heard
from support.playing import new_consensus
from support.refusing import REFUSALS, openai, refusing


def entry(url: str = "http://127.0.0.1:1/v1", **keys: Any) -> ModelEntry:
    source = {"url": url, "served": SERVED, "key_variable": VARIABLE}
    return ModelEntry.model_validate({"source": source, "limits": {"patience_seconds": 600}, **keys})


def first_ask() -> Ask:
    return next(new_consensus("h").play())[0]


def ask(url: str, dialect: Any, **keys: Any) -> Completion:
    """Ask the first question of a game by an entry with this dialect."""

    async def run() -> Completion:
        async with Engine(service_of("tiny", entry(url, dialect=dialect, **keys))) as engine:
            await engine.wait_ready(60)
            return await LLMPolicy(engine, {}).answer(first_ask(), 11, 0)

    return asyncio.run(run())


def seedless(body: dict[str, Any]) -> Any:
    """A reply to whatever is asked."""
    return completion(*said("propose", 11))


def refused(server: StandInService, dialect: Any, **keys: Any) -> str:
    with pytest.raises(EngineError) as caught:
        ask(server.url, dialect, **keys)
    text = str(caught.value)
    assert "\n" not in text
    return text


def advised(text: str) -> Any:
    """Return the dialect that a message says would do."""
    found = re.search(r"; it takes no [^:]+: write (dialect: .*\}) in its entry$", text)
    assert found, text
    return yaml.safe_load(found[1])["dialect"]


# What is sent so that a key can be refused.
SENT = {
    "openai json_object": {"structured": "json_object"},
    "deepinfra json_object": "deepinfra",
    "lm studio json_object": {"structured": "json_object"},
    "max_completion_tokens": {"preset": "openai"},
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_key_is_named_in_one_line_with_the_dialect_that_would_do(
    server: StandInService, pauses: list[float], name: str
) -> None:
    server.answer = refusing([name], seedless)
    text = refused(server, SENT.get(name, {}))
    assert len(server.bodies) == 1
    assert pauses == []  # it was not tried again, whatever the status
    new = advised(text)
    assert REFUSALS[name][2] in text or name == "lm studio json_object"  # json_schema is what is usual
    assert ask(server.url, new).finish_reason == "stop"


def test_one_that_refuses_each_key_in_turn_is_asked_at_last(server: StandInService) -> None:
    names = ["openai max_tokens", "openai temperature", "openai maxLength", "openai json_schema", "fastapi seed"]
    server.answer = refusing([*names, "openai json_object"], seedless)
    dialect: Any = {}
    for _ in range(6):
        dialect = advised(refused(server, dialect))
    ask(server.url, dialect)
    assert dialect == {
        "structured": "none",
        "schema_lengths": False,
        "seed": False,
        "temperature": False,
        "max_tokens_key": "max_completion_tokens",
    }
    assert set(server.bodies[-1]) == {"model", "messages", "max_completion_tokens"}


def test_a_preset_stays_in_the_advice(server: StandInService) -> None:
    server.answer = refusing(["openai temperature"], seedless)
    assert advised(refused(server, "openai")) == {"preset": "openai", "temperature": False}


@pytest.mark.parametrize(
    "message",
    [
        "Unrecognized request argument supplied: reasoning_effort",
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'low'.",
    ],
)
def test_an_effort_that_is_refused_is_named(server: StandInService, message: str) -> None:
    server.answer = lambda body: openai(message, None, None)
    assert "; it does not take this reasoning_effort" in refused(server, {"reasoning_effort": "none"})


def test_template_arguments_that_are_refused_are_named(server: StandInService) -> None:
    server.answer = lambda body: openai("Unrecognized request argument supplied: chat_template_kwargs", None, None)
    assert "; it takes no chat_template_kwargs: remove them" in refused(server, {})


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 32768. This model supports at most 16384 completion tokens",
        "seed: ensure this value is greater than or equal to 0",
        "The model `x` does not exist or you do not have access to it.",
        "Unsupported parameter: 'messages[0].role'",
        "Unsupported parameter: 'max_completion_tokens'",  # which was not sent
    ],
)
def test_other_errors_get_no_advice(server: StandInService, message: str) -> None:
    server.answer = lambda body: openai(message, None, None)
    assert refused(server, {}).endswith(message)


# What each preset sends, by the pages that its comment names.
FIELDS = {
    "openai": {"temperature", "max_completion_tokens", "seed", "response_format"},
    "openai-reasoning": {"max_completion_tokens", "seed", "response_format"},
    "anthropic": {"temperature", "max_tokens"},
    "deepinfra": {"temperature", "max_tokens", "seed", "response_format"},
    "vllm": {"temperature", "max_tokens", "seed", "response_format"},
    "llama.cpp": {"temperature", "max_tokens", "seed", "response_format"},
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_sends_what_its_service_takes(server: StandInService, preset: str) -> None:
    server.answer = seedless
    ask(server.url, preset)
    [body] = server.bodies
    assert set(body) == {"model", "messages", *FIELDS[preset]}
    assert ("maxLength" in str(body)) == (preset in ("vllm", "llama.cpp"))
    if preset == "openai-reasoning":
        assert body["max_completion_tokens"] == first_ask().sampling.max_tokens + 25_000
    if preset == "deepinfra":
        assert body["response_format"] == {"type": "json_object"}


def test_deepinfra_is_below_openai_and_anthropic_is_not_asked_for_its_models(server: StandInService) -> None:
    server.answer = seedless
    server.pages["/v1/openai/models"] = server.pages["/v1/models"]
    ask(f"{server.url}/openai", "deepinfra")
    ask(server.url, "anthropic")
    assert [path for path, _ in server.heads] == [
        "/v1/openai/models",
        "/v1/openai/chat/completions",
        "/v1/chat/completions",
    ]


def test_a_temperature_that_would_be_lowered_unseen_is_refused(server: StandInService) -> None:
    assert (
        "has a temperature of at most 0.1 by its dialect, and propose asks for 0.5; lower it in the study"
        in refused(server, {"preset": "anthropic", "highest_temperature": 0.1})
    )
    assert server.bodies == []


def test_openais_schema_has_all_properties_and_no_lengths_at_any_depth() -> None:
    from pydantic import BaseModel, Field

    from parley.engine.grammar import constraint

    class Inner(BaseModel):
        default: str = Field(default="x", max_length=3)

    class Outer(BaseModel):
        many: list[Inner] = Field(default_factory=list, max_length=4)
        word: str = Field(pattern="^a", min_length=1)

    from dataclasses import replace

    asked = replace(first_ask(), reply_model=Outer)
    schema = constraint(asked, True, Dialect.model_validate({"preset": "openai"}))["response_format"]["json_schema"][
        "schema"
    ]
    assert schema["required"] == ["many", "word"]
    assert schema["$defs"]["Inner"]["required"] == ["default"]
    assert schema["$defs"]["Inner"]["properties"]["default"] == {"title": "Default", "type": "string"}
    assert schema["properties"]["word"] == {"title": "Word", "type": "string", "pattern": "^a"}
    assert schema["properties"]["many"]["maxItems"] == 4


# Identity


def test_only_what_changes_the_question_is_identity_and_only_if_set() -> None:
    plain = entry().identity()
    assert "dialect" not in plain
    for same in ({}, "vllm", {"max_tokens_key": "max_completion_tokens"}, {"lists_models": False, "seed": True}):
        assert entry(dialect=same).identity() == plain
    assert entry(dialect="openai").identity() == {**plain, "dialect": {"schema_lengths": False}}
    assert entry(dialect={"preset": "openai", "structured": "none"}).identity()["dialect"] == {"structured": "none"}
    assert entry(dialect="anthropic").identity()["dialect"] == {"structured": "none", "seed": False}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_record_says_enough_to_ask_again(preset: str) -> None:
    identity = entry(dialect=preset).identity()
    again = recorded_entry(identity)
    assert again.identity() == identity
    assert again.dialect.structured == entry(dialect=preset).dialect.structured


# Bad input


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("opnai", "unknown preset; did you mean 'openai'?"),
        ({"preset": "azure"}, "Input should be 'openai'"),
        ({"structured": "xml"}, "Input should be 'json_schema'"),
        ({"seed": "no"}, "should be a valid boolean"),
        ({"temprature": False}, "Extra inputs"),
        ({"reasoning_tokens": -1}, "greater than or equal to 0"),
        ({"highest_temperature": 3}, "less than or equal to 2"),
        (7, "must be the name of a preset, or a mapping of keys"),
        (["openai"], "must be the name of a preset"),
    ],
)
def test_a_dialect_that_is_none_is_refused(dialect: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        entry(dialect=dialect)
    assert words in str(caught.value)


def test_a_server_of_our_own_has_no_dialect() -> None:
    with pytest.raises(ValidationError, match="dialect is for a service"):
        ModelEntry.model_validate({"source": {"repo": "a/b", "revision": "a" * 40}, "dialect": "openai"})


# Reasoning


def thinking(body: dict[str, Any], usage: dict[str, Any] | None = None, **message: Any) -> tuple[int, dict[str, Any]]:
    text, reason = recorded_reply(body) if "seed" in body else said("propose", 11)
    status, found = completion(text, reason)
    found["choices"][0]["message"] |= message
    found["usage"] |= usage or {}
    return status, found


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])  # vLLM since 0.11, and llama.cpp or DeepInfra
def test_reasoning_beside_a_reply_is_kept_apart(server: StandInService, key: str) -> None:
    server.answer = lambda body: thinking(body, {"completion_tokens_details": {"reasoning_tokens": 5}}, **{key: "Hm."})
    found = ask(server.url, {})
    assert (found.reasoning, found.reasoning_tokens, found.completion_tokens) == ("Hm.", 5, 7)
    assert found.text == said("propose", 11)[0]


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        ("<think>a\nb</think>\n\n{}", "a\nb", "{}"),
        ("  <think>a</think>{}", "a", "{}"),
        ("a</think>{}", "a", "{}"),  # the template wrote the first tag
        ("<think>a", "a", ""),
        ("<think></think>{}", None, "{}"),
        ("{}", None, "{}"),
        ("{} about <think>", None, "{} about <think>"),
        ('{"a": "</think>"}', None, '{"a": "</think>"}'),
    ],
)
def test_tags_at_the_beginning_are_reasoning(server: StandInService, text: str, reasoning: Any, rest: str) -> None:
    server.answer = lambda body: completion(text)
    found = ask(server.url, "deepinfra")
    assert (found.reasoning, found.text) == (reasoning, rest)
    assert ask(server.url, "vllm").text == text  # nothing is taken off unasked


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}, (9, 4)),
        ({"completion_tokens": 9, "total_tokens": 109, "completion_tokens_details": {"reasoning_tokens": 4}}, (9, 4)),
        ({"completion_tokens": 9, "total_tokens": 113, "completion_tokens_details": {"reasoning_tokens": 4}}, (13, 4)),
        ({"completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 4}}, (7, 4)),
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": "many"}}, (9, None)),
        ({"completion_tokens": 9, "completion_tokens_details": [4]}, (9, None)),
    ],
)
def test_tokens_of_reasoning_are_among_those_of_the_completion(
    server: StandInService, usage: dict[str, Any], counted: tuple[int, int | None]
) -> None:
    server.answer = lambda body: thinking(body, usage)
    found = ask(server.url, {})
    assert (found.completion_tokens, found.reasoning_tokens) == counted


def test_a_key_in_the_reasoning_is_not_recorded(server: StandInService) -> None:
    server.answer = lambda body: thinking(body, reasoning="my key is sk-7f3a9c51d2e8")
    assert "put the API key into a reply" in refused(server, {})


def test_reasoning_that_is_too_long_makes_a_reply_unusable(server: StandInService) -> None:
    longest = first_ask().sampling.max_tokens * 256
    server.answer = lambda body: thinking(body, reasoning="x" * longest)
    with heard() as lines:
        assert ask(server.url, {}).finish_reason == "too_large"
    assert "more than 76,800 characters for 300 tokens" in lines[-1]
    assert ask(server.url, {"reasoning_tokens": 300}).finish_reason == "stop"
