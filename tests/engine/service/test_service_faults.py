"""A service that answers too slowly, too much, in another form, or by another model: a real server on 127.0.0.1."""

import gzip
import json
import ssl
import time
import tracemalloc
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.engine.service import retrying
from parley.policies import Completion
from support import answering
from support.answering import SERVED, StandInService
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
MODELS = "/v1/models"

pytestmark = [
    pytest.mark.promise(
        "A service that drips, floods, nests, or answers nonsense costs one reply at most, in bounded memory."
    ),
    pytest.mark.usefixtures("pauses"),
]


def ask(server: StandInService, *answers: Any, **keys: Any) -> Completion:
    """Ask a service that gives these answers, the last one for ever."""
    left = list(answers)
    server.answer = lambda body: left.pop(0) if len(left) > 1 else left[0]
    return answering.ask(server.url, **{"request_seconds": 30.0, **keys})[0]


def error(server: StandInService, *answers: Any, **keys: Any) -> str:
    return answering.one_line_refusal(lambda: ask(server, *answers, **keys))


def proper(**changes: Any) -> tuple[int, Any]:
    return 200, PROPER | changes


# In time and in size


def dripping(body: dict[str, Any], at_once: int = 0) -> Callable[[BinaryIO], None]:
    """Write a byte now and then, which no time-out of a single read would see; after some seconds the rest."""
    content = json.dumps(body | {"padding": " " * 1000}).encode()
    data = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content

    def write(file: BinaryIO) -> None:
        file.write(data[:at_once])
        for place in range(at_once, at_once + 160):
            file.write(data[place : place + 1])
            time.sleep(0.05)
        file.write(data[at_once + 160 :])

    return write


@pytest.mark.slow
def test_what_drips_is_given_up(server: StandInService, monkeypatch: pytest.MonkeyPatch) -> None:
    for at_once in 0, 45:  # its head as well, or its body alone
        assert "sent no complete answer within 0.4 s" in error(server, dripping(PROPER, at_once), request_seconds=0.4)
    monkeypatch.setattr(retrying, "PROBE_SECONDS", 0.3)
    server.pages[MODELS] = dripping({"data": [{"id": SERVED}]})
    assert "sent no complete answer within 0.3 s" in error(server, proper())


def endless(file: BinaryIO) -> None:
    file.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(BOMB_BYTES // 65_536):
        file.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")


@pytest.mark.slow
def test_what_a_service_sends_is_bounded_after_decoding(server: StandInService) -> None:
    bomb = zlib.compress(b'{"choices":' + b"0" * BOMB_BYTES, 1)
    tracemalloc.start()
    try:
        for flood in endless, (200, bomb, {"Content-Encoding": "deflate"}):
            with heard() as said:
                assert ask(server, flood) == Completion("", "too_large")
            assert "unusable: more than 4,000,000 bytes" in said[0]
        server.pages[MODELS] = endless
        assert "did not answer with a list of models" in error(server, proper())
        assert tracemalloc.get_traced_memory()[1] < MAX_MEMORY
    finally:
        tracemalloc.stop()


def test_a_text_that_is_longer_than_its_tokens_can_be_is_unusable(server: StandInService) -> None:
    for longer, reason in ((0, "stop"), (1, "too_large")):
        choice = {"message": {"content": "x" * (300 * 256 + longer)}, "finish_reason": "stop"}
        assert ask(server, proper(choices=[choice])).finish_reason == reason


# In form


def test_what_is_compressed_unasked_is_read(server: StandInService, pauses: list[float]) -> None:
    body = json.dumps(PROPER).encode()
    for name, packed in ("GZIP", gzip.compress(body)), ("deflate", zlib.compress(body)):
        assert ask(server, (200, packed, {"Content-Encoding": name})).text == TEXT, name
        assert server.headers[-1]["Accept-Encoding"] == "identity"
    assert pauses == []
    assert "not a chat completion" in error(server, (200, gzip.compress(body)[:-20], {"Content-Encoding": "gzip"}))


def test_json_that_is_nested_too_deep_is_a_failed_reply_or_a_plain_error(server: StandInService) -> None:
    nested = '{"a":' * 100_000 + "1" + "}" * 100_000
    choices = '"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]'
    for body in "[" * 100_000, nested, "{" + choices + ', "usage": ' + nested + "}":
        with heard() as said:
            assert ask(server, (200, body.encode())) == Completion("", "too_deep")
        assert "unusable: nested too deep" in said[0]
    body = b'{"error": {"message": ' + nested.encode() + b"}}"
    assert "answered 400" in error(server, (400, body))
    assert ask(server, (503, body), proper(), **PATIENT).text == TEXT
    server.pages[MODELS] = (200, b'{"data": ' + body + b"}")
    assert "did not answer with a list of models" in error(server, proper())


def test_cookies_are_not_kept(server: StandInService) -> None:
    ask(server, (*proper(), {"Set-Cookie": "who=me; Path=/"}), times=2)
    assert not any(name.lower() == "cookie" for headers in server.headers for name in headers)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return what serves a certificate that nobody else vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(private + built.sign(key, hashes.SHA256()).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem")
    return context


def test_a_certificate_that_nobody_vouches_for_is_an_error_at_once(
    server: StandInService, tmp_path: Path, pauses: list[float]
) -> None:
    context = self_signed(tmp_path)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    url = server.url.replace("http:", "https:")
    assert "CERTIFICATE_VERIFY_FAILED" in answering.error(url, **PATIENT)
    assert pauses == []


def test_another_model_is_recorded(server: StandInService) -> None:
    reply = ask(server, proper(model="vendor/else", system_fingerprint="fp_1"))
    assert (reply.served_model, reply.system_fingerprint) == ("vendor/else", "fp_1")
