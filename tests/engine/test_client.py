"""The client against a real HTTP server on a Unix socket, which answers what no engine should."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.engine import client
from parley.engine.client import Engine, LLMPolicy
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.errors import EngineError
from parley.policies.parsing import parse_reply
from support.answering import first_ask, schema_of, trust_few

Answer = Callable[[], Awaitable[bytes]]


def http(status: int, body: bytes, connection: str = "close") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: {connection}\r\n\r\n"
    return head.encode() + body


def completion(text: str | None, finish_reason: str = "stop", connection: str = "close", **message: str) -> bytes:
    choice = {"message": {"content": text, **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    return http(200, json.dumps({"choices": [choice], "usage": usage}).encode(), connection)


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


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Return the body of one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length")), 0)
    return await reader.readexactly(length)


@asynccontextmanager
async def listening(
    folder: Path, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[Path]:
    """Run a server that calls `handle` for each connection; yield the endpoint file."""
    handlers: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        await handle(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(connected, folder / "s.sock")
    try:
        yield announced(folder)
    finally:
        server.close()
        await asyncio.gather(*filter(None, handlers), return_exceptions=True)
        await server.wait_closed()
        (folder / "s.sock").unlink()


def ask_once(folder: Path, answer: bytes | Answer, seconds: float = 60.0) -> tuple[Any, list[bytes]]:
    """Ask a server that gives every request the same answer; return the reply and the requests' bodies."""
    bodies: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append(await read_request(reader))
        writer.write(answer if isinstance(answer, bytes) else await answer())
        await writer.drain()

    async def run() -> Any:
        async with listening(folder, handle) as path, Engine(path, seconds=seconds) as engine:
            return await LLMPolicy(engine, {"enable_thinking": False}).answer(first_ask(), 11, 0)

    return asyncio.run(run()), bodies


def test_a_request_carries_seed_schema_sampling_and_template_arguments(tmp_path: Path) -> None:
    reply, bodies = ask_once(tmp_path, completion('{"decision":"stop"}'))
    sent = json.loads(bodies[0])
    assert (sent["seed"], sent["temperature"], sent["max_tokens"]) == (11, 0.5, 300)
    assert sent["messages"] == first_ask().messages
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert "cache_salt" not in sent  # other servers than vLLM know none
    schema = schema_of(sent)
    value = schema["properties"]["value"]
    assert (value["type"], value["minimum"], value["maximum"]) == ("integer", 0, 50)
    assert schema["properties"]["public_reasoning"]["maxLength"] == 600
    assert (reply.text, reply.finish_reason) == ('{"decision":"stop"}', "stop")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (7, 3, 2)


def test_an_unusable_reply_is_a_result_and_no_error(tmp_path: Path) -> None:
    for answer, failure in [
        (completion("{", "length"), "length"),
        (completion(None, "content_filter"), "refused"),
        (completion(None, "stop", refusal="I will not."), "refused"),
        (completion(None), "invalid_json"),
        (http(400, b'{"error": {"message": "the maximum context length is 8192 tokens"}}'), "length"),
    ]:
        reply, _ = ask_once(tmp_path, answer)
        assert parse_reply(reply.text, reply.finish_reason, first_ask().reply_model).failure == failure, answer


def test_a_broken_server_ends_the_play_with_one_line(tmp_path: Path) -> None:
    for answer, words in [
        (http(400, b'{"error": {"message": "no such model\\nsorry"}}'), "answered 400: no such model sorry"),
        (http(500, b"<html>\x1b[31mboom"), "answered 500"),
        (http(200, b"not json"), "not a chat completion: not json"),
        (http(200, b"[]"), "not a chat completion"),
        (http(200, b'{"choices": []}'), "not a chat completion"),
        (http(200, b'{"choices": [{"message": "x", "finish_reason": "stop"}]}'), "not a chat completion"),
        (b"garbage\r\n\r\n", "broke the connection"),
        (b"", "broke the connection"),
    ]:
        with pytest.raises(EngineError, match=words) as caught:
            ask_once(tmp_path, answer)
        assert str(caught.value).isprintable(), answer


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    async def never() -> bytes:
        await asyncio.sleep(0.5)
        return b""

    with pytest.raises(EngineError, match=r"no complete answer within 0\.2 s"):
        ask_once(tmp_path, never, 0.2)


def test_each_request_has_a_connection_of_its_own(tmp_path: Path) -> None:
    """The server says that it keeps them open; a second request on one would get no answer, only its end."""
    requests: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(requests)
        requests.append(0)
        await read_request(reader)
        requests[number] += 1
        writer.write(completion("{}", connection="keep-alive"))
        await writer.drain()
        requests[number] += bool(await reader.read(1))

    async def run() -> None:
        async with listening(tmp_path, handle) as path, Engine(path) as engine:
            policy = LLMPolicy(engine, {})
            for seeds in (range(4), [0], [1]):
                replies = await asyncio.gather(*(policy.answer(first_ask(), seed, 0) for seed in seeds))
                assert {reply.text for reply in replies} == {"{}"}

    asyncio.run(run())
    assert requests == [1] * 6


def test_a_server_that_died_is_quoted(tmp_path: Path) -> None:
    async def dies() -> bytes:
        announced(tmp_path, state=FAILED, error="RuntimeError: no memory")
        return b""

    with pytest.raises(EngineError, match="tiny died: RuntimeError: no memory"):
        ask_once(tmp_path, dies)


def wait(path: Path, seconds: float, then: Callable[[], object] = int) -> None:
    async def run() -> None:
        async with Engine(path) as engine:
            then()
            await engine.wait_ready(seconds)

    asyncio.run(run())


def test_waiting_ends_when_nobody_can_answer_any_more(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"not ready after 0 s.*--engine-timeout"):
        wait(announced(tmp_path), 0.1)
    with pytest.raises(EngineError, match="is gone"):
        wait(announced(tmp_path, pid=2**22 + 1), 60)  # above the largest process id of Linux
    path = announced(tmp_path)
    with pytest.raises(EngineError, match="was stopped"):
        wait(path, 60, path.unlink)
    with pytest.raises(EngineError, match="was stopped"):
        wait(announced(tmp_path), 60, lambda: announced(tmp_path, socket="/another"))
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
