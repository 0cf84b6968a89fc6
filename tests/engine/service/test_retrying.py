"""A service that cannot answer for now: a real HTTP server that says 429, 500, hangs up, or is slow."""

import asyncio
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from parley.engine.service.fetch import Response
from parley.engine.service.retrying import pause, retry_after
from parley.errors import NotReadyError
from support.answering import (
    Engine,
    LLMPolicy,
    StandInService,
    as_recorded,
    completion,
    first_ask,
    service_entry,
    service_of,
)
from support.answering import ask as ask_service
from support.answering import error as error_of_service
from support.commands import heard

pytestmark = pytest.mark.promise(
    "What may pass (429, 500, hang-ups) is asked again, byte for byte, as long as patience lasts."
)

BUSY = {"error": {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}}


def failing(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """Give these answers first, then proper ones."""
    left = list(answers)
    return lambda body: left.pop(0) if left else as_recorded(body)


def ask(url: str, **keys: Any) -> Any:
    return ask_service(url, **{"limits": {}, "request_seconds": 60.0, **keys})


def error(url: str, **limits: Any) -> str:
    return error_of_service(url, limits=limits, request_seconds=60.0)


def test_pauses_double_have_an_end_and_belong_to_the_request_and_its_try() -> None:
    for tries in range(1, 200):
        longest = min(2.0 ** (tries - 1), 60.0)
        assert longest / 2 <= pause(7, tries) <= longest
    assert pause(7, 3) == pause(7, 3)
    assert len({pause(seed, 1) for seed in range(50)}) == 50
    asked = {pause(seed, 5, 20.0) for seed in range(50)}  # what the service asks for, and a little more
    assert len(asked) == 50
    assert all(20.5 <= seconds <= 21.0 for seconds in asked)


def test_retry_after_is_a_number_of_seconds_or_a_date() -> None:
    now = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
    rows = [("7", 7.0), ("9999999999", 9999999999.0), ("1.5", 1.5), ("Fri, 01 May 2026 12:00:30 -0000", 30.0)]
    rows += [(format_datetime(now + timedelta(seconds=s), usegmt=True), max(s, 0)) for s in (90, -90)]
    rows += [(bad, None) for bad in ("", "\xff", "-1", "nan", "1e9", "1" * 13, "1" * 300, "٣", "Fri, 99 May 2026")]
    for value, seconds in rows:
        assert retry_after(Response(429, {"retry-after": value}, b""), now) == seconds, value
    assert retry_after(Response(429, {}, b""), now) is None


@pytest.mark.slow
def test_what_may_pass_is_tried_again_byte_for_byte(server: StandInService, pauses: list[float]) -> None:
    lost = {"broke the connection": None, "sent no complete answer within": lambda file: time.sleep(1.0)}
    for words, answer in lost.items():
        server.contents.clear()
        server.answer = failing(answer)
        with heard() as said:
            ask(server.url, request_seconds=0.5)
        assert len(server.contents) == 2
        assert words in said[0]
    server.contents.clear()
    pauses.clear()
    server.answer = failing((429, BUSY), (503, b"<html>"))
    with heard() as said:
        reply, _ = ask(server.url)
    text = as_recorded(server.bodies[-1])[1]["choices"][0]["message"]["content"]
    assert (reply.text, server.bodies[-1]["seed"]) == (text, 11)
    assert len(server.contents) == 3
    assert len(set(server.contents)) == 1
    assert 0.5 <= pauses[0] <= 1.0 <= pauses[1] <= 2.0
    assert said[0] == "the service for tiny answered 429: slow down; trying again in 1 s"


@pytest.mark.slow
def test_retry_after_is_waited_for_as_far_as_there_is_patience(server: StandInService, pauses: list[float]) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    for value in "20", date:
        server.answer = failing((429, BUSY, {"Retry-After": value}))
        ask(server.url)
    number, by_date = pauses
    assert 20 < number < 21 < by_date < 502
    server.answer = failing((429, BUSY, {"Retry-After": "3600"}))
    told = error(server.url)
    assert all(word in told for word in ("3600 s", "limits.patience_seconds: 600", "run again")), told
    assert len(pauses) == 2
    assert len(server.bodies) == 5


def test_patience_ends(server: StandInService, pauses: list[float]) -> None:
    server.answer = lambda body: (503, {"error": "down"})
    told = error(server.url, patience_seconds=30)
    assert f"answered 503: down; given up after {len(pauses) + 1} tries and " in told
    assert "limits.patience_seconds: 30" in told
    assert 15 < sum(pauses) <= 30
    assert len(server.bodies) == len(pauses) + 1


@pytest.mark.promise("A wrong URL ends in one line: at once if its host does not exist, else when patience ends.")
def test_a_wrong_url_ends_in_one_line(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "http://127.0.0.1:9/v1"
    for dialect in {}, {"lists_models": False}:
        with pytest.raises(NotReadyError, match=rf"cannot be reached at {nobody}.*limits\.patience_seconds: 600"):
            ask(nobody, dialect=dialect)
        assert 500 < sum(pauses) <= 600
        pauses.clear()

    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(NotReadyError, match=r"cannot be reached at http://lab\.example/v1.*not known"):
        ask("http://lab.example/v1", of_source={"key_variable": None})
    assert pauses == []


@pytest.mark.promise("All games of a process together have no more requests in flight than a service allows.")
def test_two_games_and_two_entries_of_a_service_have_no_more_in_flight_than_it_allows(server: StandInService) -> None:
    server.answer = lambda body: completion("{}")
    server.seconds = 0.03
    entries = [service_entry(server.url, limits={"concurrent": 2}) for _ in range(2)]

    async def game(entry: int) -> None:
        async with Engine(service_of(f"entry_{entry}", entries[entry])) as engine, asyncio.TaskGroup() as group:
            for seed in range(6):
                group.create_task(LLMPolicy(engine, entries[entry]).answer(first_ask(), seed, 0))

    async def games() -> None:
        async with asyncio.TaskGroup() as group:
            for entry in (0, 0, 1):
                group.create_task(game(entry))

    asyncio.run(games())
    assert len(server.bodies) == 18
    assert max(server.most) == 2
