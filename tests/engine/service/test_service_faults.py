"""A service that drips, floods, or answers nonsense: real sockets, and one request of a real client."""

import asyncio
import gzip
import json
import ssl
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.engine.client import Engine, LLMPolicy
from parley.engine.models import ModelEntry
from parley.engine.service import hosted
from parley.engine.service.service import service_of
from parley.errors import EngineError, ParleyError
from parley.games.replies import read_reply
from parley.policies import Completion
from support.answering import KEY, SERVED, VARIABLE
from support.hearing import heard
from support.playing import new_consensus

PROPER = {
    "model": SERVED,
    "choices": [{"message": {"content": '{"decision": "stop"}'}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 7},
}
DEEP = 100_000
BOMB_BYTES = 300_000_000
MAX_MEMORY = 60_000_000

Stream = Callable[[asyncio.StreamWriter], Awaitable[None]]


pytestmark = pytest.mark.usefixtures("pauses")


def http(body: bytes, status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def proper(**changes: Any) -> bytes:
    return http(json.dumps(PROPER | changes).encode())


@asynccontextmanager
async def serving(answers: list[bytes | Stream], models: bytes | Stream, context: ssl.SSLContext | None):
    """Run a service that gives chats these answers, the last one for ever; yield its URL and the requests' heads."""
    heads: list[bytes] = []
    tasks: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
            answer = models if b"/models" in head else answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        scheme = "http" if context is None else "https"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", heads
    finally:
        server.close()
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
        await server.wait_closed()


LISTED = http(json.dumps({"data": [{"id": SERVED}]}).encode())


def ask(
    *answers: bytes | Stream,
    models: bytes | Stream = LISTED,
    times: int = 1,
    context: ssl.SSLContext | None = None,
    **keys: Any,
) -> tuple[Completion, list[bytes]]:
    """Wait for a service and ask it; return the last reply and the heads of all requests."""

    async def run() -> tuple[Completion, list[bytes]]:
        async with serving(list(answers), models, context) as (url, heads):
            source = {"url": url, "served": SERVED, "key_variable": VARIABLE}
            entry = {"source": source, "request_seconds": 30.0, "limits": {"patience_seconds": 0}} | keys
            place = service_of("tiny", ModelEntry.model_validate(entry))
            async with Engine(place) as engine:
                await engine.wait_ready(60)
                for seed in range(times):
                    reply = await LLMPolicy(engine, {}).answer(next(new_consensus("h").play())[0], seed, 0)
                return reply, heads

    return asyncio.run(asyncio.wait_for(run(), 120))


def error(*answers: bytes | Stream, **keys: Any) -> str:
    with pytest.raises(EngineError) as caught:
        ask(*answers, **keys)
    text = str(caught.value)
    assert text.startswith("the service for tiny ")
    assert text.isprintable()
    assert KEY not in text
    return text


PATIENT = {"limits": {"patience_seconds": 600}}


def dripping(data: bytes, seconds: float = 8.0) -> Stream:
    """Write a byte now and then; the rest after `seconds`, which no time-out of a single read would see."""

    async def write(writer: asyncio.StreamWriter) -> None:
        for byte in data[: int(seconds / 0.05)]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(data[int(seconds / 0.05) :])

    return write


async def dripping_body(writer: asyncio.StreamWriter) -> None:
    head, _, body = proper(padding=" " * 1000).partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    await dripping(body)(writer)


@pytest.mark.parametrize("answer", [dripping(proper(padding=" " * 1000)), dripping_body], ids=["head", "body"])
def test_a_reply_that_drips_is_given_up(answer: Stream) -> None:
    assert "sent no complete answer within 0.5 s" in error(answer, request_seconds=0.5)


def test_what_dripped_is_asked_again(pauses: list[float]) -> None:
    reply, heads = ask(dripping_body, proper(), request_seconds=1.0, **PATIENT)
    assert reply.text == '{"decision": "stop"}'
    assert len(heads) == 3
    assert len(pauses) == 1


def test_a_list_of_models_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted, "PROBE_SECONDS", 0.3)
    assert "sent no complete answer within 0.3 s" in error(proper(), models=dripping(LISTED + b" " * 1000))


def flooding(head: bytes, chunk: bytes) -> Stream:
    """Write `chunk` again and again, BOMB_BYTES in all."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        for _ in range(BOMB_BYTES // len(chunk)):
            writer.write(chunk)
            await writer.drain()

    return write


def bomb(wbits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    zeros = b'{"choices":' + b"0" * 999_989
    return b"".join(packer.compress(zeros) for _ in range(BOMB_BYTES // len(zeros))) + packer.flush()


FLOODS = {
    "endless": flooding(b"Connection: close", b" " * 65_536),
    "endless in chunks": flooding(b"Transfer-Encoding: chunked", b"10000\r\n" + b" " * 65_536 + b"\r\n"),
    "a reply of 200 MB": flooding(b"Content-Length: 200000000", b"x" * 65_536),
    "gzip": http(bomb(31), Content_Encoding="gzip"),
    "deflate": http(bomb(15), Content_Encoding="deflate"),
    "an error": http(bomb(31), 400, Content_Encoding="gzip"),
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", FLOODS.values(), ids=FLOODS)
def test_what_a_service_sends_is_bounded_after_decoding(answer: bytes | Stream) -> None:
    tracemalloc.start()
    try:
        if answer is FLOODS["an error"]:
            assert "answered 400" in error(answer)
        else:
            with heard() as said:
                reply, _ = ask(answer)
            assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("", "too_large", None)
            assert said == ["the service for tiny sent a reply that counts as unusable: more than 4,000,000 bytes"]
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()


def test_a_list_of_models_is_bounded() -> None:
    assert "did not answer with a list of models" in error(proper(), models=FLOODS["endless"])


def test_a_text_that_is_longer_than_its_tokens_can_be_is_unusable() -> None:
    content = {"message": {"content": "x" * 300 * 256}, "finish_reason": "stop"}
    assert ask(proper(choices=[content]))[0].finish_reason == "stop"
    content["message"] = {"content": "x" * (300 * 256 + 1)}
    assert ask(proper(choices=[content]))[0].finish_reason == "too_large"


@pytest.mark.parametrize("reply_format", ["json", "text", "free"])
@pytest.mark.parametrize("reason", ["too_large", "too_deep"])
def test_an_unusable_reply_is_a_failure_in_every_format(reply_format: Any, reason: str) -> None:
    first = next(new_consensus("h").play())[0]
    object.__setattr__(first, "reply_format", reply_format)
    assert read_reply(first, "", reason).failure == "invalid_json"


def test_what_is_compressed_unasked_is_read() -> None:
    body = json.dumps(PROPER).encode()
    for name in ("gzip", "x-gzip", "GZIP"):
        reply, heads = ask(http(gzip.compress(body), Content_Encoding=name))
        assert reply.text == '{"decision": "stop"}'
    assert ask(http(zlib.compress(body), Content_Encoding="deflate"))[0].completion_tokens == 7
    assert b"\r\naccept-encoding: identity\r\n" in heads[-1].lower()


@pytest.mark.parametrize("name", ["br", "zstd", "gzip, gzip", "x"])
def test_another_compression_is_an_error_at_once(name: str, pauses: list[float]) -> None:
    assert "compressed in a way that was not asked for" in error(http(b"x", Content_Encoding=name), **PATIENT)
    assert pauses == []


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(json.dumps(PROPER).encode())[:-20]])
def test_what_cannot_be_decompressed_is_asked_again(body: bytes, pauses: list[float]) -> None:
    assert ask(http(body, Content_Encoding="gzip"), proper(), **PATIENT)[0].finish_reason == "stop"
    assert len(pauses) == 1


NESTED = ("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP)


@pytest.mark.parametrize("nested", NESTED, ids=["lists", "mappings", "open"])
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        '{{"choices": {}}}',
        '{{"choices": [{{"message": {{"content": {}}}, "finish_reason": "stop"}}]}}',
        '{{"choices": [{{"message": {{"content": "x"}}, "finish_reason": "stop"}}], "usage": {}}}',
    ],
    ids=["body", "choices", "content", "usage"],
)
def test_json_that_is_nested_too_deep_is_a_failed_reply(form: str, nested: str) -> None:
    with heard() as said:
        reply, _ = ask(http(form.format(nested).encode()))
    assert (reply.text, reply.finish_reason) == ("", "too_deep")
    assert said == ["the service for tiny sent a reply that counts as unusable: nested too deep"]


@pytest.mark.parametrize("nested", NESTED, ids=["lists", "mappings", "open"])
@pytest.mark.parametrize("form", ["{}", '{{"error": {}}}', '{{"error": {{"message": {}}}}}'])
def test_errors_that_are_nested_too_deep_are_errors(form: str, nested: str, pauses: list[float]) -> None:
    body = form.format(nested).encode()
    assert "answered 400" in error(http(body, 400))
    assert ask(http(body, 503), proper(), **PATIENT)[0].finish_reason == "stop"
    assert "did not answer with a list of models" in error(proper(), models=http(b'{"data": ' + body + b"}"))


@pytest.mark.parametrize("charset", ["x-unknown", "hex", "zip", "undefined", "idna", "rot13", "utf-7", '"', "\xff"])
@pytest.mark.parametrize("status", [500, 200, 400])
def test_an_odd_charset_stops_neither_a_retry_nor_an_error(charset: str, status: int, pauses: list[float]) -> None:
    answer = http(b"boom \xff\x00", status, Content_Type=f"text/plain; charset={charset}")
    if status == 500:
        with heard() as said:
            assert ask(answer, proper(), **PATIENT)[0].finish_reason == "stop"
        assert "answered 500: boom" in said[0]
        assert len(pauses) == 1
    else:
        assert "boom" in error(answer)


@pytest.mark.parametrize("usage", [[1], "x", 7, [[]], {"prompt_tokens": [1]}, {"prompt_tokens_details": [1]}])
def test_a_usage_of_another_shape_costs_the_count_and_not_the_reply(usage: Any) -> None:
    reply, _ = ask(proper(usage=usage))
    assert reply.text == '{"decision": "stop"}'
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (None, None, None)


def test_cookies_are_not_kept() -> None:
    answer = http(json.dumps(PROPER).encode(), Set_Cookie="who=me; Path=/")
    listed = http(json.dumps({"data": [{"id": SERVED}]}).encode(), Set_Cookie="listed=1")
    _, heads = ask(answer, models=listed, times=3)
    assert len(heads) == 4
    assert not any(b"cookie" in head.lower() for head in heads)


@pytest.mark.parametrize(
    "body",
    [b"<html>\x1b[2J<h1>Welcome</h1>", b"\xff\xfe\x00{", b'{"choices": [{"message": {"content": "\xff"}}]}', b""],
)
def test_what_is_no_completion_is_named_in_one_line(body: bytes) -> None:
    assert "sent something that is not a chat completion" in error(http(body, Content_Type="text/html"))


@pytest.mark.parametrize("value", ["soon", "-5", "1e9", "9" * 400, "NaN", "Wed, 99 Foo 2026", "\xff", "", "5;5"])
def test_an_odd_retry_after_is_no_reason_to_stop(value: str, pauses: list[float]) -> None:
    assert ask(http(b"busy", 429, Retry_After=value), proper(), **PATIENT)[0].finish_reason == "stop"
    assert len(pauses) == 1
    assert pauses[0] <= 1


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return what serves a certificate that nobody else vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_a_certificate_that_nobody_vouches_for_is_an_error_at_once(tmp_path: Path, pauses: list[float]) -> None:
    told = error(proper(), context=self_signed(tmp_path), **PATIENT)
    assert "CERTIFICATE_VERIFY_FAILED" in told
    assert pauses == []


OTHER = "vendor/else"


def test_another_model_is_told_once_and_recorded() -> None:
    with heard() as said:
        reply, _ = ask(proper(model=OTHER, system_fingerprint="fp_1"), times=3)
    assert (reply.served_model, reply.system_fingerprint) == (OTHER, "fp_1")
    assert said == [f"warning: the service for tiny was asked for {SERVED} and answered as {OTHER}"]


@pytest.mark.parametrize("model", [SERVED, "Tiny-1B", SERVED + "-2026-01-31", None, 7])
def test_the_model_itself_a_dated_one_and_none_are_no_news(model: Any) -> None:
    with heard() as said:
        ask(proper(model=model))
    assert said == []


@pytest.mark.parametrize("model", [OTHER, SERVED + "-2026-01-31", None])
def test_who_is_strict_takes_no_other_model(model: Any, pauses: list[float]) -> None:
    told = error(proper(model=model), strict_model=True, **PATIENT)
    assert f"asked for {SERVED} and answered as {model or 'nobody'}, which strict_model forbids" in told
    assert pauses == []


@pytest.mark.parametrize("model", [SERVED, "Tiny-1B"])
def test_who_is_strict_takes_the_model_itself(model: str) -> None:
    assert ask(proper(model=model), strict_model=True)[0].served_model == model


@pytest.mark.parametrize("key", [KEY, KEY[:5] + "\u200b" + KEY[5:]])
@pytest.mark.parametrize("place", ["model", "system_fingerprint"])
def test_a_key_in_a_name_is_an_error(place: str, key: str) -> None:
    assert "put the API key into a reply" in error(proper(**{place: key}))


@pytest.mark.parametrize("choice", [{"message": {"content": "{}"}}, {"finish_reason": "stop"}])
def test_a_key_with_invisible_characters_in_a_reply_is_an_error(choice: dict[str, Any]) -> None:
    hidden = f"the key is {KEY[:5]}\u200b{KEY[5:]}"  # what is shown of it is cleaned
    filled = {"message": {"content": hidden}, "finish_reason": hidden} | choice
    assert "put the API key into a reply" in error(proper(choices=[filled]))


@pytest.mark.parametrize("proxy", ["http://[::1", "http://proxy:99999", "socks5://127.0.0.1:1", "http://a..b:1"])
def test_a_proxy_that_is_none_is_one_line_without_its_password(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("http_proxy", proxy.replace("//", "//me:pass-word@"))
    with pytest.raises(Exception, match="the service for tiny") as caught:
        ask(proper())
    assert isinstance(caught.value, ParleyError)
    assert "pass-word" not in str(caught.value)
