"""The limits of a service hold for all processes of a folder; the clock of these tests is a file, or a variable."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine.service import limits
from parley.engine.service.dialect import ServiceLimits
from parley.engine.service.limits import Limiter, estimated_tokens
from parley.errors import JournalError
from support.answering import SERVED, VARIABLE, StandInService, completion

pytestmark = pytest.mark.promise("All processes together keep a service's limits, also when one is killed.")

URL = "http://node17.example:8000/v1"


@pytest.fixture(autouse=True)
def quick_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "_POLL_SECONDS", (0.005, 0.02))


# Other processes

HOLD = """
from parley.engine.service.limits import Limiter
from parley.engine.service.dialect import ServiceLimits

async def run(url):
    with Limiter((url,), ServiceLimits(concurrent=1), "it") as limiter:
        async with limiter.turn(10):
            print("holding", flush=True)
            async with limiter.turn(10):  # waits, and so is in the queue too
                pass
"""
SEND = """
from support.answering import Engine, LLMPolicy, first_ask, service_entry, service_of

async def run(url):
    async with Engine(service_of("tiny", service_entry(url, limits={"concurrent": 2}))) as engine:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(LLMPolicy(engine, service_entry(url)).answer(first_ask(), number, 0))
"""
FORKS = """
children = []
for _ in range(int(sys.argv[1])):
    children.append(os.fork())
    if not children[-1]:
        asyncio.run(run(*sys.argv[2:]))
        os._exit(0)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def processes(number: int, script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a process that runs a script in so many forks of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import asyncio, os, sys\n{script}{FORKS}", *map(str, (number, *arguments))]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)


@pytest.mark.slow
def test_all_processes_together_have_no_more_in_flight(server: StandInService) -> None:
    server.answer = lambda body: completion("{}")
    server.seconds = 0.03
    with processes(3, SEND, server.url) as all_of_them:
        assert all_of_them.wait(timeout=120) == 0
    assert len(server.bodies) == 24
    assert max(server.most) == 2


@pytest.mark.slow
def test_a_killed_process_leaves_the_queue_and_its_place_in_flight() -> None:
    async def run(holding: subprocess.Popen[bytes]) -> None:
        with Limiter((URL,), ServiceLimits(concurrent=1), "it") as limiter:
            waiting = asyncio.create_task(take(limiter, 10))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            os.killpg(holding.pid, signal.SIGKILL)
            holding.wait()
            await asyncio.wait_for(waiting, 60)

    with processes(1, HOLD, URL) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"holding\n"
        asyncio.run(run(holding))


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
    await asyncio.sleep(0.1)
    return [task.done() for task in tasks]


def run_with(count: int, scenario: Any, **bounds: int) -> None:
    async def run() -> None:
        clock = Clock()
        async with AsyncExitStack() as stack:
            known_by = (URL, VARIABLE, SERVED)
            each = [Limiter(known_by, ServiceLimits(**bounds), "the service for tiny", clock) for _ in range(count)]
            await scenario(clock, *[stack.enter_context(limiter) for limiter in each])

    asyncio.run(run())


def test_the_tokens_of_a_minute_are_corrected_by_the_reply() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        async with one.turn(600) as turn:
            other = asyncio.create_task(take(two, 600))
            assert await settled(other) == [False]
            turn.tokens = 100
        await asyncio.wait_for(other, 60)

    run_with(2, scenario, tokens_per_minute=1000)
    assert estimated_tokens(4000, 300) == 1300


def test_no_more_requests_are_sent_in_a_minute_than_may_be() -> None:
    async def scenario(clock: Clock, one: Limiter, two: Limiter) -> None:
        await take(one, 1)
        await take(two, 1)
        third = asyncio.create_task(take(one, 1))
        clock.now += limits.WINDOW_SECONDS
        assert await settled(third) == [False]
        clock.now += 1
        await asyncio.wait_for(third, 60)

    run_with(2, scenario, requests_per_minute=2)


@pytest.mark.slow
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


def test_what_is_shared_is_private_and_says_nothing_of_the_service() -> None:
    def files() -> list[Path]:
        return [path for path in Path("results").rglob("*") if path.is_file()]

    async def scenario(clock: Clock, one: Limiter) -> None:
        await take(one, 1)
        for path in files():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            for word in ("node17", VARIABLE, SERVED):
                assert word not in f"{path} {path.read_text(errors='replace')}"

    run_with(1, scenario, concurrent=1)
    [state] = [path for path in files() if path.suffix == ".sqlite"]
    assert state.is_relative_to(paths.service_use("x").parent)
    state.write_bytes(b"\1" * 100)
    with pytest.raises(JournalError, match=r"sqlite: .* not a database; .* delete it"):
        run_with(1, scenario, concurrent=1)
