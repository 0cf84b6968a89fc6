"""Starting an engine, and playing simulations on it."""

import asyncio
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from parley.engine.client import Engine
from parley.engine.endpoint import read_endpoint
from parley.errors import EngineError
from parley.play.runner import Exchange
from parley.play.simulate import play_simulation
from parley.study.condition import Simulation
from parley.text import one_line

LOG = Path("engine.log")


@contextmanager
def serving(command: Sequence[str], endpoint: Path, seconds: float = 600.0) -> Iterator[float]:
    """Run the engine that `command` starts, and yield the seconds until it answered.

    Raises EngineError if it dies while it starts, or does not answer within `seconds`.
    """
    started = time.perf_counter()
    with LOG.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        while not endpoint.exists():
            if server.poll() is not None:
                said = LOG.read_text(errors="replace").strip().splitlines() or ["nothing"]
                raise EngineError(f"the engine did not start; it said: {one_line(said[-1], 300)}")
            time.sleep(0.1)
        asyncio.run(_ready(endpoint, seconds))
        yield time.perf_counter() - started
    finally:
        server.terminate()
        server.wait()
        endpoint.unlink(missing_ok=True)


async def _ready(endpoint: Path, seconds: float) -> None:
    async with Engine(endpoint) as engine:
        await engine.wait_ready(seconds)


async def played(simulations: Sequence[Simulation], endpoint: Path, seconds: float | None = None) -> list[Exchange]:
    """Play `simulations` by Parley's runner and client in this process; return every attempt.

    They are played all at once, each with a client of its own. What is left after `seconds` is cut off.
    """
    exchanges: list[Exchange] = []  # what is cut off keeps its whole phases

    async def play(simulation: Simulation) -> None:
        places = dict.fromkeys(simulation.condition.models, endpoint)
        await play_simulation(simulation, places, 600.0, None, exchanges.extend)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*map(play, simulations))
    return exchanges


@contextmanager
def direct(endpoint: Path) -> Iterator[httpx.Client]:
    """Yield an HTTP client of the engine, for what no game asks: its counters, and its cache."""
    transport = httpx.HTTPTransport(uds=read_endpoint(endpoint).socket)
    with httpx.Client(transport=transport, base_url="http://engine", timeout=60.0, trust_env=False) as client:
        yield client
