"""A service that cannot answer for now: a real HTTP server that says 429, 500, hangs up, or is slow."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from parley.engine.client import Engine, LLMPolicy
from parley.engine.models import ModelEntry
from parley.engine.service import hosted
from parley.engine.service.service import Service, service_of
from parley.errors import EngineError
from parley.policies import Completion
from support.answering import KEY, SERVED, VARIABLE, StandInService, as_recorded, completion, service
from support.hearing import heard
from support.playing import new_consensus

pytestmark = pytest.mark.usefixtures("pauses")


@pytest.fixture
def server() -> Iterator[StandInService]:
    with service() as found:
        yield found


def failing(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """Give these answers first, then proper ones."""
    left = list(answers)
    return lambda body: left.pop(0) if left else as_recorded(body)


def place(url: str, request_seconds: float = 60.0, **limits: Any) -> Service:
    source = {"url": url, "served": SERVED, "key_variable": VARIABLE}
    entry = {"source": source, "limits": limits, "request_seconds": request_seconds}
    found = service_of("tiny", ModelEntry.model_validate(entry))
    assert isinstance(found, Service)
    return found


def ask(url: str, **limits: Any) -> tuple[Completion, dict[str, Any]]:
    """Ask once; return the reply and what it took."""

    async def run() -> tuple[Completion, dict[str, Any]]:
        async with Engine(place(url, **limits)) as engine:
            await engine.wait_ready(60)
            reply = await LLMPolicy(engine, {}).answer(next(new_consensus("h").play())[0], 11, 0)
            return reply, dict(engine.effort())

    return asyncio.run(run())


def error(url: str, **limits: Any) -> str:
    with pytest.raises(EngineError) as caught:
        ask(url, **limits)
    text = str(caught.value)
    assert "\n" not in text
    assert KEY not in text
    return text


BUSY = {"error": {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again_byte_for_byte(server: StandInService, status: int, pauses: list[float]) -> None:
    server.answer = failing((status, BUSY), (status, b"<html>"))
    with heard() as said:
        reply, effort = ask(server.url)
    assert (reply.text, reply.finish_reason) == as_recorded_reply(server)
    assert len(server.contents) == 3
    assert len(set(server.contents)) == 1
    assert [body["seed"] for body in server.bodies] == [11] * 3
    assert len(pauses) == 2
    assert 0.5 <= pauses[0] <= 1.0 <= pauses[1] <= 2.0
    assert said == [f"the service for tiny answered {status}: slow down; trying again in 1 s"]
    assert effort["effort"]["requests"] == 1
    assert effort["effort"]["retried"] == 2
    assert effort["effort"]["retry_seconds"] == round(sum(pauses), 1)


def as_recorded_reply(server: StandInService) -> tuple[str, str]:
    _, body = as_recorded(server.bodies[-1])
    choice = json.loads(json.dumps(body))["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_a_request_that_is_answered_at_once_leaves_no_trace(server: StandInService) -> None:
    assert ask(server.url)[1] == {}


@pytest.mark.parametrize("value", ["20", "date"])
def test_retry_after_is_waited_for(server: StandInService, pauses: list[float], value: str) -> None:
    if value == "date":
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    server.answer = failing((429, BUSY, {"Retry-After": value}))
    ask(server.url)
    [pause] = pauses
    assert 20 < pause < 21 if value == "20" else 21 < pause < 502


def test_who_asks_for_more_than_there_is_patience_is_not_waited_for(
    server: StandInService, pauses: list[float]
) -> None:
    server.answer = failing((429, BUSY, {"Retry-After": "3600"}))
    assert "asks to wait 3600 s, longer than limits.patience_seconds (600)" in error(server.url)
    assert pauses == []
    assert len(server.bodies) == 1


def test_patience_ends(server: StandInService, pauses: list[float]) -> None:
    server.answer = lambda body: (503, {"error": "down"})
    told = error(server.url, patience_seconds=30)
    assert f"answered 503: down; given up after {len(pauses) + 1} tries and " in told
    assert 15 < sum(pauses) <= 30
    assert len(server.bodies) == len(pauses) + 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_will_not_pass_is_asked_once(server: StandInService, status: int, pauses: list[float]) -> None:
    server.answer = lambda body: (status, {"error": {"message": "no"}})
    assert f"answered {status}: no" in error(server.url)
    assert len(server.bodies) == 1
    assert pauses == []


@pytest.mark.parametrize("key", ["code", "type"])
def test_an_account_without_money_is_asked_once(server: StandInService, key: str, pauses: list[float]) -> None:
    server.answer = lambda body: (429, {"error": {"message": "You exceeded your quota", key: "insufficient_quota"}})
    assert "answered 429: You exceeded your quota" in error(server.url)
    assert len(server.bodies) == 1
    assert pauses == []


def test_a_broken_connection_is_made_again(server: StandInService, pauses: list[float]) -> None:
    server.answer = failing(None, None)
    with heard() as said:
        ask(server.url)
    assert len(set(server.contents)) == 1
    assert len(pauses) == 2
    assert "broke the connection" in said[0]


def test_a_request_that_hangs_is_sent_again(server: StandInService, pauses: list[float]) -> None:
    server.seconds = 1.5

    def answer(body: dict[str, Any]) -> Any:
        server.seconds = 0.0
        return as_recorded(body)

    server.answer = answer
    with heard() as said:
        ask(server.url, request_seconds=0.5)
    assert len(set(server.contents)) == 1
    assert len(server.contents) == len(pauses) + 1 > 1
    assert "sent no complete answer within" in said[0]


@pytest.mark.parametrize("page", [(503, {"error": "loading"}), (429, BUSY), None])
def test_whether_a_service_is_there_is_asked_as_patiently(
    server: StandInService, pauses: list[float], page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proper = server.pages["/v1/models"]
    server.pages["/v1/models"] = page

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.pages["/v1/models"] = proper

    monkeypatch.setattr(hosted, "_sleep", sleep)
    ask(server.url)
    assert len(pauses) == 1
    assert [path for path, _ in server.heads].count("/v1/models") == 2


def test_a_request_gives_its_place_away_while_it_pauses(
    server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place for all, another request is answered while the first one waits for its second try."""
    order: list[int] = []

    def answer(body: dict[str, Any]) -> Any:
        order.append(body["seed"])
        return (429, BUSY) if order == [1] else completion("{}")

    server.answer = answer

    async def run() -> None:
        other = asyncio.Event()

        async def sleep(seconds: float) -> None:
            await other.wait()

        monkeypatch.setattr(hosted, "_sleep", sleep)
        async with Engine(place(server.url, concurrent=1)) as engine:
            policy, question = LLMPolicy(engine, {}), next(new_consensus("h").play())[0]
            first = asyncio.create_task(policy.answer(question, 1, 0))
            while order != [1]:
                await asyncio.sleep(0.01)
            await asyncio.wait_for(policy.answer(question, 2, 0), 60)
            other.set()
            await asyncio.wait_for(first, 60)

    asyncio.run(run())
    assert order == [1, 2, 1]
