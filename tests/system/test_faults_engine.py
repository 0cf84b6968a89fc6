"""Engines that fail in mid-game, seen from a simulation: one line, and nothing that was answered is asked again."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from parley import paths
from parley.engine import client
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.errors import EngineError
from parley.play.journal import journaled
from parley.play.record import read_record
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.study import Study
from support.answering import Answer, schema_of, standing_in
from support.commands import heard
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("An engine that fails in mid-game costs nothing that was answered.")

CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"


def proper_answer(body: dict[str, Any], **changes: Any) -> tuple[int, dict[str, Any]]:
    """Answer a request as an engine does: of the asked shape, and by its seed."""
    schema = schema_of(body)["properties"]
    number = body["seed"] % 51
    reply = {"decision": "continue"} if "decision" in schema else dict.fromkeys(schema, "word") | {"value": number}
    choice = {"message": {"content": json.dumps(reply)}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}} | changes


def drip(file: BinaryIO) -> None:
    """Write an answer byte by byte, none of them late for a time-out of each read."""
    file.write(CUT)
    for _ in range(100):
        time.sleep(0.05)
        file.write(b" ")


class Failing:
    """Answers that fail from some request on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seeds: list[int] = []  # of the requests that it was sent
        self.good = 1_000_000
        self.failure: Answer = lambda body: None
        self._guard = threading.Lock()

    @property
    def endpoint(self) -> Path:
        return self.folder / "endpoint.json"

    def announce(self, **state: str) -> None:
        socket = read_endpoint(self.endpoint).socket
        Endpoint(model="tiny", socket=socket, pid=os.getpid(), **state).write(self.endpoint)

    def __call__(self, body: dict[str, Any]) -> Any:
        with self._guard:
            self.seeds.append(body["seed"])
            fails = len(self.seeds) > self.good
        return self.failure(body) if fails else proper_answer(body)


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failing]:
    made = Failing(tmp_path_factory.mktemp("e"))
    with standing_in(made.folder, made):
        yield made


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LAST_WORDS_SECONDS", 0.3)
    monkeypatch.setattr(client, "_POLL_SECONDS", 0.02)


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    entry = {"source": {"repo": "owner/tiny", "revision": "a" * 40}, "request_seconds": 1.0}
    return study_factory({"model": "tiny", "n": 4}, parameters={"max_rounds": 2}, models={"tiny": entry})


def run(study: Study, engine: Failing) -> list[str]:
    with heard() as said:
        simulate(study, next(study.simulations()).record("small"), [engine.endpoint], 5.0)
    return said


FAILURES: dict[str, tuple[Answer, str]] = {
    "answers 500": (lambda body: (500, b"<html>\x1b[31mboom\n</html>"), "answered 500"),
    "answers 404": (lambda body: (404, {"error": {"message": "no such model"}}), "answered 404: no such model"),
    "drips": (lambda body: drip, "sent no complete answer within 1 s"),
    "closes the connection": (lambda body: None, "broke the connection"),
    "breaks off in mid-answer": (lambda body: lambda file: file.write(CUT), "broke the connection"),
    "no JSON": (lambda body: (200, b"\xff\x00 not JSON"), "not a chat completion"),
    "no choice": (lambda body: (200, {"choices": []}), "answered 502: no choice, and no reason"),
}


@pytest.mark.parametrize(("failure", "words"), FAILURES.values(), ids=FAILURES)
@pytest.mark.slow
def test_an_engine_that_fails_in_mid_game_loses_nothing(
    study: Study, engine: Failing, failure: Answer, words: str
) -> None:
    record = next(study.simulations()).record("small")
    engine.good, engine.failure = 6, failure  # two of the votes of round 1
    with pytest.raises(EngineError, match=words) as caught:
        run(study, engine)
    line = str(caught.value)
    assert line.startswith("the engine for tiny")
    assert line.isprintable()
    assert not record.exists()
    kept = [entry.seed for entry in journaled(paths.journal(record))]
    # A phase is complete; of one in flight, what came before the failure.
    assert set(engine.seeds[:4]) <= set(kept) <= set(engine.seeds[:6])

    engine.good, before = 1_000_000, len(engine.seeds)
    said = run(study, engine)
    assert f"going on from the journal: {len(kept)} replies" in said
    again = set(engine.seeds[before:])  # a set: a request that the first run gave up may arrive this late
    assert len(again) == 16 - len(kept)
    assert not again & set(kept)
    assert replay(record).difference is None


def test_an_engine_that_dies_in_mid_game_is_quoted(study: Study, engine: Failing) -> None:
    announced = threading.Lock()  # once: a request that comes later would take back what is announced below

    def die(body: dict[str, Any]) -> None:
        if announced.acquire(blocking=False):
            engine.announce(state=FAILED, error="RuntimeError: no memory")

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


def test_oddities_of_an_engine_that_answers_do_not_spoil_the_record(study: Study, engine: Failing) -> None:
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
