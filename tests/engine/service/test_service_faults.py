"""A service that drips, floods, or answers nonsense: real sockets, and one request of a real client."""

import asyncio
import gzip
import json
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.engine.service import retrying
from parley.policies import Completion
from support.answering import SERVED, asking, one_line_refusal
from support.commands import heard

TEXT = '{"decision": "stop"}'
PROPER = {
    "model": SERVED,
    "choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 7},
}
PATIENT = {"limits": {"patience_seconds": 600}}
BOMB_BYTES = 40_000_000
MAX_MEMORY = 25_000_000

Stream = Callable[[asyncio.StreamWriter], Awaitable[None]]

pytestmark = [
    pytest.mark.promise(
        "A service that drips, floods, nests, or answers nonsense costs one reply at most, in bounded memory."
    ),
    pytest.mark.usefixtures("pauses"),
]


def http(body: bytes, status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def proper(**changes: Any) -> bytes:
    return http(json.dumps(PROPER | changes).encode())


LISTED = http(json.dumps({"data": [{"id": SERVED}]}).encode())


@asynccontextmanager
async def serving(
    answers: list[bytes | Stream], models: bytes | Stream, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[str, list[bytes]]]:
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
            answer = models if b"/models" in head else http(b"", 404)
            if b"/chat" in head:
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
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


def ask(
    *answers: bytes | Stream, models: bytes | Stream = LISTED, context: ssl.SSLContext | None = None, **keys: Any
) -> tuple[Completion, list[bytes]]:
    """Wait for a service and ask it; return the last reply and the heads of all requests."""

    async def run() -> tuple[Completion, list[bytes]]:
        async with serving(list(answers), models, context) as (url, heads):
            reply, _ = await asking(url, **{"request_seconds": 30.0, **keys})
            return reply, heads

    return asyncio.run(asyncio.wait_for(run(), 120))


def error(*answers: bytes | Stream, **keys: Any) -> str:
    return one_line_refusal(lambda: ask(*answers, **keys))


# In time and in size


def dripping(data: bytes, at_once: int = 0) -> Stream:
    """Write a byte now and then, which no time-out of a single read would see; after some seconds the rest."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(data[:at_once])
        for byte in data[at_once : at_once + 160]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(data[at_once + 160 :])

    return write


@pytest.mark.slow
def test_what_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    long = proper(padding=" " * 1000)
    for at_once in 0, long.index(b"\r\n\r\n") + 4:  # its head as well, or its body alone
        assert "sent no complete answer within 0.4 s" in error(dripping(long, at_once), request_seconds=0.4)
    monkeypatch.setattr(retrying, "PROBE_SECONDS", 0.3)
    assert "sent no complete answer within 0.3 s" in error(proper(), models=dripping(LISTED + b" " * 1000))


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(BOMB_BYTES // 65_536):
        writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
        await writer.drain()


@pytest.mark.slow
def test_what_a_service_sends_is_bounded_after_decoding() -> None:
    bomb = zlib.compress(b'{"choices":' + b"0" * BOMB_BYTES, 1)
    tracemalloc.start()
    try:
        for flood in endless, http(bomb, Content_Encoding="deflate"):
            with heard() as said:
                reply, _ = ask(flood)
            assert reply == Completion("", "too_large")
            assert "unusable: more than 4,000,000 bytes" in said[0]
        assert "did not answer with a list of models" in error(proper(), models=endless)
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()


def test_a_text_that_is_longer_than_its_tokens_can_be_is_unusable() -> None:
    for longer, reason in ((0, "stop"), (1, "too_large")):
        choice = {"message": {"content": "x" * (300 * 256 + longer)}, "finish_reason": "stop"}
        assert ask(proper(choices=[choice]))[0].finish_reason == reason


# In form


def test_what_is_compressed_unasked_is_read(pauses: list[float]) -> None:
    body = json.dumps(PROPER).encode()
    for name, packed in ("GZIP", gzip.compress(body)), ("deflate", zlib.compress(body)):
        reply, heads = ask(http(packed, Content_Encoding=name))
        assert reply.text == TEXT, name
        assert b"\r\naccept-encoding: identity\r\n" in heads[-1].lower()
    assert pauses == []
    assert "not a chat completion" in error(http(gzip.compress(body)[:-20], Content_Encoding="gzip"))


def test_json_that_is_nested_too_deep_is_a_failed_reply_or_a_plain_error() -> None:
    nested = '{"a":' * 100_000 + "1" + "}" * 100_000
    choices = '"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]'
    for body in "[" * 100_000, nested, "{" + choices + ', "usage": ' + nested + "}":
        with heard() as said:
            assert ask(http(body.encode()))[0] == Completion("", "too_deep")
        assert "unusable: nested too deep" in said[0]
    body = b'{"error": {"message": ' + nested.encode() + b"}}"
    assert "answered 400" in error(http(body, 400))
    assert ask(http(body, 503), proper(), **PATIENT)[0].text == TEXT
    assert "did not answer with a list of models" in error(proper(), models=http(b'{"data": ' + body + b"}"))


def test_a_usage_of_another_shape_costs_the_count_and_not_the_reply() -> None:
    for usage in [1], "x", 7, {"prompt_tokens": [1]}, {"prompt_tokens_details": [1]}:
        assert ask(proper(usage=usage))[0] == Completion(TEXT, "stop", served_model=SERVED), usage


def test_cookies_are_not_kept() -> None:
    _, heads = ask(http(json.dumps(PROPER).encode(), Set_Cookie="who=me; Path=/"), times=2)
    assert not any(b"cookie" in head.lower() for head in heads)


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
    assert "CERTIFICATE_VERIFY_FAILED" in error(proper(), context=self_signed(tmp_path), **PATIENT)
    assert pauses == []


# By another model

OTHER, DATED = "vendor/else", SERVED + "-2026-01-31"


def test_another_model_is_told_once_and_recorded() -> None:
    with heard() as said:
        reply, _ = ask(proper(model=OTHER, system_fingerprint="fp_1"), times=3)
    assert (reply.served_model, reply.system_fingerprint) == (OTHER, "fp_1")
    assert said == [f"warning: the service for tiny was asked for {SERVED} and answered as {OTHER}"]
    with heard() as said:
        for model in SERVED, "Tiny-1B", DATED, None, 7:
            ask(proper(model=model))
    assert said == []


def test_who_is_strict_takes_the_model_itself_alone(pauses: list[float]) -> None:
    for model in OTHER, DATED, None:
        told = error(proper(model=model), strict_model=True, **PATIENT)
        assert f"asked for {SERVED} and answered as {model or 'nobody'}, which strict_model forbids" in told
    assert pauses == []
    assert ask(proper(model="Tiny-1B"), strict_model=True)[0].served_model == "Tiny-1B"
