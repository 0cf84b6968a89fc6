"""The client against a real HTTP server on a Unix socket, which answers what no engine should."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from parley.engine import client
from parley.engine.client import Engine, LLMPolicy
from parley.engine.endpoint import Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.engine.service import fetch
from parley.errors import EngineError
from parley.policies.reply_text import parse_reply
from support.answering import completion, first_ask, openai, schema_of, standing_in, trust_few

pytestmark = pytest.mark.promise(
    "A client gives up on a dead engine with its last words, and takes an unusable reply as a result."
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LAST_WORDS_SECONDS", 0.3)
    monkeypatch.setattr(client, "_POLL_SECONDS", 0.02)
    trust_few(monkeypatch)


def announced(folder: Path, **keys: Any) -> Path:
    """Write an endpoint file, and return its path."""
    path = folder / "endpoint.json"
    Endpoint(**{"model": "tiny", "socket": str(folder / "s.sock"), "pid": os.getpid(), **keys}).write(path)
    return path


def own_entry(**keys: Any) -> ModelEntry:
    source = {"repo": "owner/tiny", "revision": "a" * 40}
    return ModelEntry.model_validate({"source": source, "chat_template_kwargs": {"enable_thinking": False}, **keys})


def ask_once(folder: Path, answer: Any, seconds: float = 60.0, **more: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Ask a server that gives every request the same answer; return the reply and the requests' bodies."""
    give = answer if callable(answer) else lambda body: answer

    async def run(path: Path) -> Any:
        async with Engine(path, seconds=seconds) as engine:
            return await LLMPolicy(engine, own_entry(**more)).answer(first_ask(), 11, 0)

    with standing_in(folder, give, seconds=0.5 if seconds < 1 else 0.0) as (path, server):
        return asyncio.run(run(path)), server.bodies


def test_a_request_carries_seed_schema_sampling_and_template_arguments(tmp_path: Path) -> None:
    reply, [sent] = ask_once(tmp_path, completion('{"decision":"stop"}', cached=2))
    assert (sent["seed"], sent["temperature"], sent["max_tokens"]) == (11, 0.5, 300)
    assert sent["messages"] == first_ask().messages
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "cache_salt" not in sent  # other servers than vLLM know none
    schema = schema_of(sent)
    assert schema["properties"]["public_reasoning"]["type"] == "string"
    assert (reply.text, reply.finish_reason) == ('{"decision":"stop"}', "stop")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (100, 7, 2)


def test_a_thought_has_tokens_of_its_own_beside_the_reply(tmp_path: Path) -> None:
    thought = completion("{}", reasoning="Hm.")
    reply, [sent] = ask_once(tmp_path, thought, reasoning_tokens=500, engine_args={"reasoning-parser": "qwen3"})
    assert (sent["thinking_token_budget"], sent["max_tokens"], reply.reasoning) == (500, 800, "Hm.")
    assert "thinking_token_budget" not in ask_once(tmp_path, completion("{}"))[1][0]


def test_an_unusable_reply_is_a_result_and_no_error(tmp_path: Path) -> None:
    for answer, failure in [
        (completion("{", "length"), "length"),
        (completion(None), "invalid_json"),
        (openai("the maximum context length is 8192 tokens"), "prompt_too_long"),
    ]:
        reply, _ = ask_once(tmp_path, answer)
        assert parse_reply(reply.text, reply.finish_reason, first_ask().reply_model).failure == failure, answer


@pytest.mark.parametrize(("kept", "connections"), [(60.0, 1), (1e-9, 3)])
def test_a_connection_to_an_engine_is_used_again_unless_it_was_idle_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: float, connections: int
) -> None:
    """The server keeps them open; vLLM closes one after five seconds, maybe while the next request is under way."""

    async def run(path: Path) -> None:
        async with Engine(path) as engine:
            for seed in range(3):
                await LLMPolicy(engine, own_entry()).answer(first_ask(), seed, 0)

    monkeypatch.setattr(fetch, "_OWN_IDLE_SECONDS", kept)
    with standing_in(tmp_path) as (path, server), patch.object(server, "get_request", wraps=server.get_request) as got:
        asyncio.run(run(path))
    assert got.call_count == connections


def wait(path: Path, seconds: float, then: Callable[[], object] = int) -> None:
    async def run() -> None:
        async with Engine(path) as engine:
            then()
            await engine.wait_ready(seconds)

    asyncio.run(run())


@pytest.mark.slow
def test_waiting_ends_when_nobody_can_answer_any_more(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"not ready after 0 s.*--engine-timeout"):
        wait(announced(tmp_path), 0.1)
    with pytest.raises(EngineError, match="is gone"):
        wait(announced(tmp_path, pid=2**22 + 1), 60)  # above the largest process id of Linux
    path = announced(tmp_path)
    for then in (path.unlink, lambda: announced(tmp_path, socket="/another")):
        with pytest.raises(EngineError, match="was stopped"):
            wait(announced(tmp_path), 60, then)
    with pytest.raises(EngineError, match="not ready"):  # processes of another host cannot be seen
        wait(announced(tmp_path, pid=2**22 + 1, host="elsewhere"), 0.1)


def test_an_endpoint_file_is_private_and_one_that_is_none_is_named(tmp_path: Path) -> None:
    path = announced(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_endpoint(path).model == "tiny"
    for content in None, b"", b"[]", b'{"model": "x"}', b"\xff":
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(EngineError, match=r"endpoint\.json.*parley serve"):
            Engine(path)
