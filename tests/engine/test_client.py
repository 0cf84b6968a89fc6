"""The client against a real HTTP server on a Unix socket, which answers what no engine should."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from parley.engine import client
from parley.engine.client import Engine, LLMPolicy
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.errors import EngineError
from parley.policies import Ask
from parley.policies.parsing import parse_reply
from support.answering import schema_of
from support.playing import new_consensus

Answer = Callable[[bytes], Awaitable[bytes]]


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


def completion(text: str | None, finish_reason: str = "stop", **message: str) -> bytes:
    choice = {"message": {"content": text, **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    return http(200, json.dumps({"choices": [choice], "usage": usage}).encode())


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LAST_WORDS_SECONDS", 1.0)
    monkeypatch.setattr(client, "_POLL_SECONDS", 0.02)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body of one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length")), 0)
    return head, await reader.readexactly(length)


@asynccontextmanager
async def listening(folder: Path, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]):
    """Run a server that calls `handle` for each connection; yield the endpoint file."""
    handlers: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        await handle(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(connected, folder / "s.sock")
    path = folder / "endpoint.json"
    Endpoint(model="tiny", socket=str(folder / "s.sock"), pid=os.getpid()).write(path)
    try:
        yield path
    finally:
        server.close()
        await asyncio.gather(*filter(None, handlers), return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def serving(folder: Path, answer: bytes | Answer):
    """Run a server that gives every request the same answer; yield the endpoint file and the requests' bodies."""
    bodies: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        bodies.append(body)
        writer.write(answer if isinstance(answer, bytes) else await answer(head))
        await writer.drain()

    async with listening(folder, handle) as path:
        yield path, bodies


@asynccontextmanager
async def serving_connections(folder: Path):
    """Run a server that keeps connections open, and says so; yield the endpoint file and the requests on each.

    A second request on a connection gets no answer, only its end: as when the server closes an idle connection just as
    it is used again.
    """
    requests: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(requests)
        requests.append(0)
        await read_request(reader)
        requests[number] += 1
        writer.write(completion("{}").replace(b"Connection: close", b"Connection: keep-alive"))
        await writer.drain()
        requests[number] += bool(await reader.read(1))

    async with listening(folder, handle) as path:
        yield path, requests


def first_ask() -> Ask:
    return next(new_consensus("h").play())[0]


def ask_once(folder: Path, answer: bytes | Answer, seconds: float = 60.0):
    async def run():
        async with serving(folder, answer) as (path, bodies), Engine(path, seconds=seconds) as engine:
            return await LLMPolicy(engine, {"enable_thinking": False}).answer(first_ask(), 11, 0), bodies

    return asyncio.run(run())


def test_a_request_carries_seed_schema_sampling_and_template_arguments(tmp_path: Path) -> None:
    reply, bodies = ask_once(tmp_path, completion('{"decision":"stop"}'))
    sent = json.loads(bodies[0])
    ask = first_ask()
    assert sent["seed"] == 11
    assert (sent["temperature"], sent["max_tokens"]) == (0.5, 300)
    assert sent["messages"] == ask.messages
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "cache_salt" not in sent  # other servers than vLLM know none
    schema = schema_of(sent)
    assert schema["properties"]["value"] | {"title": ""} == {
        "type": "integer",
        "minimum": 0,
        "maximum": 50,
        "title": "",
    }
    assert schema["properties"]["public_reasoning"]["maxLength"] == 600
    assert (reply.text, reply.finish_reason) == ('{"decision":"stop"}', "stop")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (7, 3, 2)


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (completion("{", "length"), "length"),
        (completion(None, "content_filter"), "refused"),
        (completion(None, "stop", refusal="I will not."), "refused"),
        (completion(None), "invalid_json"),
        (http(400, b'{"error": {"message": "the maximum context length is 8192 tokens"}}'), "length"),
    ],
)
def test_an_unusable_reply_is_a_result_and_no_error(tmp_path: Path, answer: bytes, failure: str) -> None:
    reply, _ = ask_once(tmp_path, answer)
    assert parse_reply(reply.text, reply.finish_reason, first_ask().reply_model).failure == failure


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            http(400, b'{"error": {"message": "no such model\\nsorry"}}'),
            "answered 400: no such model sorry",
        ),
        (http(500, b"<html>\x1b[31mboom"), "answered 500"),
        (http(200, b"not json"), "not a chat completion: not json"),
        (http(200, b"[]"), "not a chat completion"),
        (http(200, b'{"choices": []}'), "not a chat completion"),
        (http(200, b'{"choices": [{"message": "x", "finish_reason": "stop"}]}'), "not a chat completion"),
        (b"garbage\r\n\r\n", "broke the connection"),
        (b"", "broke the connection"),
    ],
)
def test_a_broken_server_ends_the_play_with_one_line(tmp_path: Path, answer: bytes, words: str) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        ask_once(tmp_path, answer)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("at_once", [1, 4])
def test_each_request_has_a_connection_of_its_own(tmp_path: Path, at_once: int) -> None:
    async def run() -> list[int]:
        async with serving_connections(tmp_path) as (path, requests), Engine(path) as engine:
            policy = LLMPolicy(engine, {})
            for attempt in range(3):
                replies = await asyncio.gather(*(policy.answer(first_ask(), seed, attempt) for seed in range(at_once)))
                assert [reply.text for reply in replies] == ["{}"] * at_once
        return requests

    assert asyncio.run(run()) == [1] * 3 * at_once


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    async def never(head: bytes) -> bytes:
        await asyncio.sleep(1)
        return b""

    with pytest.raises(EngineError, match="no complete answer within"):
        ask_once(tmp_path, never, 0.2)


def test_a_server_that_died_is_quoted(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, b"") as (path, _), Engine(path) as engine:
            words = Endpoint("tiny", read_endpoint(path).socket, os.getpid(), FAILED, "RuntimeError: no memory")
            words.write(path)
            await LLMPolicy(engine, {}).answer(first_ask(), 1, 0)

    with pytest.raises(EngineError, match="tiny died: RuntimeError: no memory"):
        asyncio.run(run())


def wait(path: Path, seconds: float) -> None:
    async def run() -> None:
        async with Engine(path) as engine:
            await engine.wait_ready(seconds)

    asyncio.run(run())


def test_readiness_has_a_time_out(tmp_path: Path) -> None:
    path = tmp_path / "endpoint.json"
    Endpoint("tiny", str(tmp_path / "nobody.sock"), os.getpid()).write(path)
    with pytest.raises(EngineError, match=r"not ready after 0 s.*--engine-timeout"):
        wait(path, 0.1)


def test_waiting_stops_when_the_server_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "endpoint.json"
    gone = 2**22 + 1  # above the largest process id of Linux
    Endpoint("tiny", str(tmp_path / "nobody.sock"), gone).write(path)
    with pytest.raises(EngineError, match="is gone"):
        wait(path, 60)


def test_waiting_stops_when_the_endpoint_was_withdrawn(tmp_path: Path) -> None:
    path = tmp_path / "endpoint.json"
    Endpoint("tiny", str(tmp_path / "nobody.sock"), os.getpid()).write(path)

    async def run() -> None:
        async with Engine(path) as engine:
            path.unlink()
            await engine.wait_ready(60)

    with pytest.raises(EngineError, match="was stopped"):
        asyncio.run(run())


@pytest.mark.parametrize("content", [None, "", "[]", '{"model": "x"}', "\udcff"])
def test_an_endpoint_file_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "endpoint.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(EngineError, match=r"endpoint\.json.*parley serve"):
        Engine(path)


def test_an_endpoint_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "endpoint.json"
    Endpoint("tiny", "s", 1).write(path)
    assert path.stat().st_mode & 0o777 == 0o600
