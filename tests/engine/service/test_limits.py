"""The limits of a service hold for all requests of a process; a minute is half a second in these tests."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from parley.engine.service import limits
from parley.engine.service.dialect import ServiceLimits
from parley.engine.service.limits import Limiter, estimated_tokens
from support.answering import Engine, LLMPolicy, StandInService, completion, first_ask, service_entry, service_of

pytestmark = pytest.mark.promise("All games of a process together keep a service's limits, in the order of asking.")

MINUTE = 0.5


@pytest.fixture(autouse=True)
def short_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WINDOW_SECONDS", MINUTE)


Take = Callable[[int], Awaitable[None]]


def run_with(scenario: Callable[[Limiter, Take], Awaitable[None]], **bounds: int) -> None:
    limiter = Limiter()

    async def take(tokens: int) -> None:
        async with limiter.turn(ServiceLimits(**bounds), tokens, "the service for tiny"):
            pass

    asyncio.run(asyncio.wait_for(scenario(limiter, take), 60))


async def settled(*tasks: "asyncio.Task[None]") -> list[bool]:
    await asyncio.sleep(0.05)
    return [task.done() for task in tasks]


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


def test_the_tokens_of_a_minute_are_corrected_by_the_reply() -> None:
    async def scenario(limiter: Limiter, take: Take) -> None:
        async with limiter.turn(ServiceLimits(tokens_per_minute=1000), 600, "it") as turn:
            other = asyncio.ensure_future(take(600))
            assert await settled(other) == [False]
            turn.tokens = 100
        assert await settled(other) == [True]

    run_with(scenario, tokens_per_minute=1000)
    assert estimated_tokens(4000, 300) == 1300


def test_no_more_requests_begin_in_a_minute_than_may() -> None:
    async def scenario(limiter: Limiter, take: Take) -> None:
        await take(1)
        await take(1)
        third = asyncio.ensure_future(take(1))
        assert await settled(third) == [False]
        await third

    run_with(scenario, requests_per_minute=2)


def test_a_large_request_is_not_overtaken_by_small_ones_that_would_fit() -> None:
    async def scenario(limiter: Limiter, take: Take) -> None:
        await take(500)
        large, small = asyncio.ensure_future(take(900)), asyncio.ensure_future(take(200))
        assert await settled(large, small) == [False, False]
        await large
        assert await settled(small) == [False]  # there is no room for both
        await small

    run_with(scenario, tokens_per_minute=1000)


def test_a_request_that_is_larger_than_the_limit_goes_alone() -> None:
    async def scenario(limiter: Limiter, take: Take) -> None:
        await take(5000)
        after = asyncio.ensure_future(take(1))
        assert await settled(after) == [False]
        await after

    run_with(scenario, tokens_per_minute=1000)


def test_who_gives_up_leaves_the_queue_and_its_place_in_flight() -> None:
    async def scenario(limiter: Limiter, take: Take) -> None:
        async def hold() -> None:
            async with limiter.turn(ServiceLimits(concurrent=1), 1, "it"):
                await asyncio.sleep(60)

        holds, waits = asyncio.ensure_future(hold()), asyncio.ensure_future(take(1))
        last = asyncio.ensure_future(take(1))
        await settled(holds)
        waits.cancel()
        assert await settled(last) == [False]
        holds.cancel()
        assert await settled(last) == [True]

    run_with(scenario, concurrent=1)
