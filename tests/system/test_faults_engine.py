"""Engines that fail in mid-game, seen from a simulation: one line, and nothing that was answered is asked again."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine import client
from parley.engine.endpoint import FAILED, Endpoint
from parley.errors import EngineError
from parley.play.record import read_record
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.study import Study
from support.answering import schema_of
from support.commands import heard
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("An engine that fails in mid-game costs nothing that was answered.")

DRIP = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b" " * 1000
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body


def proper_answer(body: bytes, **changes: Any) -> bytes:
    """Answer a request as an engine does: of the asked shape, and by its seed."""
    asked = json.loads(body)
    schema = schema_of(asked)["properties"]
    number = asked["seed"] % 51
    reply = {"decision": "continue"} if "decision" in schema else dict.fromkeys(schema, "word") | {"value": number}
    choice = {"message": {"content": json.dumps(reply)}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return http(200, json.dumps({"choices": [choice], "usage": usage, **changes}).encode())


class FakeEngine:
    """An HTTP server on a Unix socket, in a thread, that fails every request after the first `good` ones."""

    def __init__(self, folder: Path) -> None:
        self.endpoint = folder / "endpoint.json"
        self._socket = str(folder / "s.sock")
        self.seeds: list[int] = []  # of the requests that it was sent
        self.good = 1_000_000
        self.failure: bytes | Callable[[bytes], bytes] = b""
        self.announce()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    def announce(self, **state: str) -> None:
        Endpoint(model="tiny", socket=self._socket, pid=os.getpid(), **state).write(self.endpoint)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_unix_server(self._handle, self._socket)
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await server.wait_closed()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/health" in head:
                writer.write(http(200, b""))
            else:
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                body = await reader.readexactly(int(lengths[0].split(b":")[1]))
                self.seeds.append(json.loads(body)["seed"])
                if len(self.seeds) <= self.good:
                    answer = proper_answer(body)
                elif callable(self.failure):
                    answer = self.failure(body)
                else:
                    answer = self.failure
                for byte in answer if answer == DRIP else b"":  # none of them late for a time-out of each read
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.05)
                writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeEngine]:
    made = FakeEngine(tmp_path_factory.mktemp("e"))
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LAST_WORDS_SECONDS", 0.3)
    monkeypatch.setattr(client, "_POLL_SECONDS", 0.02)


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    entry = {"source": {"repo": "owner/tiny", "revision": "a" * 40}, "request_seconds": 1.0}
    return study_factory({"model": "tiny", "n": 4}, parameters={"max_rounds": 2}, models={"tiny": entry})


def run(study: Study, engine: FakeEngine) -> list[str]:
    with heard() as said:
        simulate(study, next(study.simulations()).record("small"), [engine.endpoint], 5.0)
    return said


def journaled_seeds(record: Path) -> list[int]:
    lines = paths.journal(record).read_bytes().split(b"\n")[1:-1]
    return [json.loads(line[9:])["seed"] for line in lines]


FAILURES: dict[str, tuple[bytes, str]] = {
    "answers 500": (http(500, b"<html>\x1b[31mboom\n</html>"), "answered 500"),
    "answers 404": (http(404, b'{"error": {"message": "no such model"}}'), "answered 404: no such model"),
    "drips": (DRIP, "sent no complete answer within 1 s"),
    "closes the connection": (b"", "broke the connection"),
    "breaks off in mid-answer": (CUT, "broke the connection"),
    "no JSON": (http(200, b"\xff\x00 not JSON"), "not a chat completion"),
    "no choice": (http(200, b'{"choices": []}'), "answered 502: no choice, and no reason"),
}


@pytest.mark.parametrize(("failure", "words"), FAILURES.values(), ids=FAILURES)
@pytest.mark.slow
def test_an_engine_that_fails_in_mid_game_loses_nothing(
    study: Study, engine: FakeEngine, failure: bytes, words: str
) -> None:
    record = next(study.simulations()).record("small")
    engine.good, engine.failure = 6, failure  # two of the votes of round 1
    with pytest.raises(EngineError, match=words) as caught:
        run(study, engine)
    line = str(caught.value)
    assert line.startswith("the engine for tiny")
    assert line.isprintable()
    assert not record.exists()
    kept = journaled_seeds(record)
    # A phase is complete; of one in flight, what came before the failure.
    assert set(engine.seeds[:4]) <= set(kept) <= set(engine.seeds[:6])

    engine.good, before = 1_000_000, len(engine.seeds)
    said = run(study, engine)
    assert f"going on from the journal: {len(kept)} replies" in said
    again = set(engine.seeds[before:])  # a set: a request that the first run gave up may arrive this late
    assert len(again) == 16 - len(kept)
    assert not again & set(kept)
    assert replay(record).difference is None


def test_an_engine_that_dies_in_mid_game_is_quoted(study: Study, engine: FakeEngine) -> None:
    announced = threading.Lock()  # once: a request that comes later would take back what is announced below

    def die(body: bytes) -> bytes:
        if announced.acquire(blocking=False):
            engine.announce(state=FAILED, error="RuntimeError: no memory")
        return b""

    engine.good, engine.failure = 5, die
    with pytest.raises(EngineError, match=r"^the engine for tiny died: RuntimeError: no memory$"):
        run(study, engine)
    engine.good = 1_000_000
    engine.announce()
    said = run(study, engine)
    assert any(line.startswith("going on from the journal: ") for line in said)


ODD = {
    "a count that is text": {"usage": {"prompt_tokens": "7", "completion_tokens": None}},
    "a count that is no integer": {"usage": {"prompt_tokens": 7.5, "completion_tokens": True}},
    "a count beyond all bounds": {"usage": {"prompt_tokens": 10**30, "completion_tokens": -1}},
    "a count of another shape": {"usage": {"prompt_tokens": [7], "completion_tokens": {"all": 3}}},
    "a list in place of counts": {"usage": [1]},
    "a list in place of details": {"usage": {"prompt_tokens": 7, "prompt_tokens_details": [1]}},
    "a model's name for a terminal": {"model": "\x1b]0;title\x07" + "x" * 100_000, "system_fingerprint": "\u202ea\nb"},
    "a model of another shape": {"model": {"name": "tiny"}, "system_fingerprint": [1]},
    "a model of no valid Unicode": {"model": "\ud800tiny", "system_fingerprint": ""},
}
REASONS = ["\ud800", "\x1b[31m", "x" * 100_000, "a\nb", ""]


def test_oddities_of_an_engine_that_answers_do_not_spoil_the_record(study: Study, engine: FakeEngine) -> None:
    odd = [*ODD.values(), *({"choices": [{"message": {"content": "{}"}, "finish_reason": r}]} for r in REASONS)]
    left = iter(odd)
    engine.good, engine.failure = 2, lambda body: proper_answer(body, **next(left, {}))
    run(study, engine)
    assert next(left, None) is None  # each oddity was met
    record = next(study.simulations()).record("small")
    assert replay(record).difference is None
    for entry in read_record(record)[1]:
        assert entry.prompt_tokens in (7, None)
        assert entry.finish_reason.isprintable()
        assert len(entry.finish_reason) <= 40
