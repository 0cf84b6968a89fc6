"""The limits of a service hold for all processes of a folder; the clock of these tests is a file, or a variable."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine.service import limits
from parley.engine.service.limits import Limiter, estimated_tokens
from parley.engine.service.terms import ServiceLimits
from support.answering import SERVED, StandInService, completion, service
from support.hearing import heard

URL, VARIABLE, KEY = "http://node17.example:8000/v1", "TINY_API_KEY", "sk-7f3a9c51d2e8"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setattr(limits, "_POLL_SECONDS", (0.005, 0.02))
    return tmp_path


# Other processes

ASKING = """
import asyncio, sys, time
from pathlib import Path
from parley.engine import client
from parley.engine.service import hosted, limits
from parley.engine.client import Engine, LLMPolicy
from parley.engine.models import ModelEntry
from parley.engine.service.service import service_of
from support.playing import new_consensus

url, served, variable, bounds, count, clock = sys.argv[1:]
if clock:  # the time of day stands still until the test moves it
    limiter = hosted.Limiter
    hosted.Limiter = lambda *given: limiter(*given, clock=lambda: float(Path(clock).read_text()))
source = {"url": url, "served": served, "key_variable": variable}
entry = ModelEntry.model_validate({"source": source, "limits": eval(bounds)})

async def run():
    ask = next(new_consensus("h").play())[0]
    async with Engine(service_of("tiny", entry)) as engine:
        policy = LLMPolicy(engine, {})
        async with asyncio.TaskGroup() as group:
            for number in range(int(count)):
                group.create_task(policy.answer(ask, number, 0))

asyncio.run(run())
"""


def asking(url: str, bounds: dict[str, Any], count: int, clock: str = "") -> subprocess.Popen[bytes]:
    """Start a process that sends `count` requests at once."""
    command = [sys.executable, "-c", ASKING, url, SERVED, VARIABLE, repr(bounds), str(count), clock]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.fixture
def server() -> Iterator[StandInService]:
    with service(lambda _: completion("{}")) as found:
        yield found


@pytest.mark.slow
def test_no_more_requests_are_in_flight_than_all_processes_may_have_together(server: StandInService) -> None:
    server.seconds = 0.03
    processes = [asking(server.url, {"concurrent": 2}, 8) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert len(server.bodies) == 24
    assert max(server.most) <= 2


@pytest.mark.slow
def test_no_more_requests_begin_in_a_minute_than_all_processes_may_send_together(server: StandInService) -> None:
    clock = Path("clock")
    clock.write_text("1000")
    seen: list[str] = []

    def answer(body: dict[str, Any]) -> Any:
        with server.guard:
            seen.append(clock.read_text())
            number = len(seen)
        if number in (5, 10):
            time.sleep(1.0)  # for those that should not come now
            new = Path("new")
            new.write_text(str(1000 + number // 5 * (limits.WINDOW_SECONDS + 1)))
            new.rename(clock)
        return completion("{}")

    server.answer = answer
    processes = [asking(server.url, {"requests_per_minute": 5}, 4, "clock") for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert Counter(seen) == {"1000": 5, "1061": 5, "1122": 2}


HOLDING = """
import asyncio, sys
from parley.engine.service.limits import Limiter
from parley.engine.service.terms import ServiceLimits

async def run():
    async with Limiter((sys.argv[1],), ServiceLimits(concurrent=1), "it") as limiter:
        async with limiter.turn(10):
            print("holding", flush=True)
            async with limiter.turn(10):  # waits, and so is in the queue too
                pass

asyncio.run(run())
"""


@pytest.mark.slow
def test_a_killed_process_leaves_the_queue_and_its_place_in_flight() -> None:
    command = [sys.executable, "-c", HOLDING, URL]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holding = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert holding.stdout is not None
    assert holding.stdout.readline() == b"holding\n"

    async def run() -> None:
        async with Limiter((URL,), ServiceLimits(concurrent=1), "it") as limiter:
            waiting = asyncio.create_task(take(limiter, 10))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            holding.send_signal(signal.SIGKILL)
            holding.wait()
            await asyncio.wait_for(waiting, 60)

    asyncio.run(run())
    holding.stdout.close()


# Two limiters in one process are as good as two processes: what they share is in files.


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def take(limiter: Limiter, tokens: int) -> None:
    async with limiter.turn(tokens):
        pass


async def settled(*tasks: asyncio.Task[None]) -> list[bool]:
    """Return which tasks are done after each that waits has looked again and again."""
    await asyncio.sleep(0.2)
    return [task.done() for task in tasks]


def playing(clock: Clock, **bounds: int) -> Limiter:
    return Limiter((URL, VARIABLE, SERVED), ServiceLimits(**bounds), "the service for tiny", clock)


def run_with(count: int, scenario: Any, **bounds: int) -> None:
    async def run() -> None:
        clock = Clock()
        async with AsyncExitStack() as stack:
            limiters = [await stack.enter_async_context(playing(clock, **bounds)) for _ in range(count)]
            await scenario(clock, *limiters)

    asyncio.run(run())


def test_the_tokens_of_a_minute_are_corrected_by_the_reply() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        async with one.turn(600) as turn:
            other = asyncio.create_task(take(two, 600))
            assert await settled(other) == [False]
            turn.tokens = 100
        await asyncio.wait_for(other, 60)

    run_with(2, scenario, tokens_per_minute=1000)


def test_tokens_come_back_when_their_minute_is_over() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        await take(one, 600)
        other = asyncio.create_task(take(two, 600))
        clock.now += limits.WINDOW_SECONDS
        assert await settled(other) == [False]
        clock.now += 1
        await asyncio.wait_for(other, 60)

    run_with(2, scenario, tokens_per_minute=1000)


def test_a_large_request_is_not_overtaken_by_small_ones_that_would_fit() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        await take(one, 500)
        large = asyncio.create_task(take(one, 900))
        assert await settled(large) == [False]
        small = asyncio.create_task(take(two, 200))
        assert await settled(large, small) == [False, False]
        clock.now += limits.WINDOW_SECONDS + 1
        await asyncio.wait_for(large, 60)
        assert await settled(small) == [False]  # there is no room for both
        clock.now += limits.WINDOW_SECONDS + 1
        await asyncio.wait_for(small, 60)

    run_with(2, scenario, tokens_per_minute=1000)


def test_a_request_that_is_larger_than_the_limit_goes_alone() -> None:
    async def scenario(clock: Clock, one: Limiter) -> None:
        await asyncio.wait_for(take(one, 5000), 60)
        after = asyncio.create_task(take(one, 1))
        assert await settled(after) == [False]
        after.cancel()

    run_with(1, scenario, tokens_per_minute=1000)


def test_one_that_gives_up_waiting_is_in_nobodys_way() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        async with one.turn(1):
            waiting = asyncio.create_task(take(two, 1))
            assert await settled(waiting) == [False]
            waiting.cancel()
            await asyncio.wait([waiting])
        await asyncio.wait_for(take(one, 1), 60)

    run_with(2, scenario, concurrent=1)


def test_a_clock_that_jumps_back_does_not_stop_all() -> None:
    async def scenario(clock: Clock, one: Limiter) -> None:
        clock.now = 1e9
        await take(one, 1)
        clock.now = 1000.0
        again = asyncio.create_task(take(one, 1))
        await asyncio.wait([again], timeout=60)
        assert again.done()

    run_with(1, scenario, requests_per_minute=1)


def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_TELL_SECONDS", 0.05)

    async def scenario(clock: Clock, one: Limiter) -> None:
        await take(one, 1)
        waiting = asyncio.create_task(take(one, 1))
        assert await settled(waiting) == [False]
        waiting.cancel()

    with heard() as said:
        run_with(1, scenario, requests_per_minute=1)
    assert said[0] == "waiting for the limits of the service for tiny, 0 s: 1 requests per minute"


def test_what_is_shared_is_private_and_says_nothing_of_the_service() -> None:
    async def scenario(clock: Clock, one: Limiter) -> None:
        await take(one, 1)
        for path in Path("results").rglob("*"):
            if path.is_file():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
                for word in ("node17", VARIABLE, KEY, SERVED):
                    assert word not in f"{path} {path.read_text()}"

    run_with(1, scenario, concurrent=1)
    [left] = [path for path in Path("results").rglob("*") if path.is_file()]
    assert left.is_relative_to(paths.service_use("x").parent)


def test_another_model_or_key_has_limits_of_its_own() -> None:
    async def run() -> None:
        clock = Clock()
        for known_by in ((URL, VARIABLE, SERVED), (URL, "OTHER", SERVED), (URL, VARIABLE, "other")):
            async with Limiter(known_by, ServiceLimits(requests_per_minute=1), "it", clock) as limiter:
                await asyncio.wait_for(take(limiter, 1), 60)

    asyncio.run(run())


def test_a_state_that_a_dying_machine_left_is_none() -> None:
    async def scenario(clock: Clock, one: Limiter) -> None:
        await take(one, 1)

    run_with(1, scenario, concurrent=1)
    [state] = [path for path in Path("results").rglob("*") if path.is_file()]
    whole = state.read_bytes()
    for content in (b"", whole[:-9], b"\0" * 100):
        state.write_bytes(content)
        run_with(1, scenario, concurrent=1)
        assert state.read_bytes() not in (content, b"")


def test_an_estimate_holds_prompt_and_reply() -> None:
    assert estimated_tokens(4000, 300) == 1300
