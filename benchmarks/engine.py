"""What the grid costs and brings: one engine for many simulations, against other ways to spend it.

All on one machine, in one run, with SmolLM2-135M; every way plays the same simulations.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import yaml

from benchmarks.measure import PARLEY, Row, temporary_folder
from parley.condition import Simulation
from parley.engine.client import Engine, LLMPolicy
from parley.games.base import Ask
from parley.policies import Completion
from parley.runner import play_async
from parley.study import Study, load_study

MODEL = "smollm2-135m"
SIMULATIONS = 16
ALONE = 2  # simulations that are played on an engine each; the time of 16 is worked out from them


def rows() -> Iterator[Row]:
    """Yield the measurements."""
    with temporary_folder():
        study = _study()
        simulations = list(study.simulations())
        alone = [_engine_each(simulation) for simulation in simulations[:ALONE]]
        start = time.perf_counter()
        with serving():
            started = time.perf_counter() - start
            one_by_one, asked = asyncio.run(_one_after_the_other(simulations))
        with serving():
            at_once = _at_once(simulations)
        with serving():
            batch = asyncio.run(_all_requests(asked))
    tokens = sum(_tokens(completion) for _, _, completion in asked)
    each = SIMULATIONS * sum(alone) / ALONE
    yield Row("calls and tokens of the 16 simulations", f"{len(asked)} calls, {tokens:,} tokens", "")
    yield Row("start of the engine", f"{started:.1f} s", "")
    yield Row(
        "16 simulations at once on one engine, as 16 processes (as the workflow runs them)",
        f"{at_once:.1f} s, {tokens / at_once:,.0f} tokens/s",
        "",
    )
    yield Row("the same one after the other", f"{one_by_one:.1f} s: {one_by_one / at_once:.1f} times as long", "")
    yield Row(
        "the same with an engine each (from 2 of them), starts included",
        f"{each:.0f} s: {each / (at_once + started):.1f} times as long as one engine with its start",
        "",
    )
    yield Row("vLLM given all the same requests at once", f"{batch:.1f} s, {tokens / batch:,.0f} tokens/s", "")
    yield Row("pipeline's tokens per second / vLLM's", f"{batch / at_once:.2f}", "0.9")


def _tokens(completion: Completion) -> int:
    return (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)


def _study() -> Study:
    # A threshold that every agent has to meet keeps most games going for all rounds.
    grid = {"model": MODEL, "n": 4, "b": 1, "prompt": "may_exist"}
    parameters = {"max_rounds": 2, "stop_threshold": 1}
    content = {"game": "consensus", "seeds": SIMULATIONS, "parameters": parameters, "grids": [grid]}
    Path("bench.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(Path("bench.yaml"))


@contextmanager
def serving(variables: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Run an engine of its own, so that no prefix cache is warm from another measurement."""
    command = [*PARLEY, "serve", MODEL, "--models", "models.yaml", "--endpoint", "engine.json", "--exit-with-parent"]
    with Path("engine.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | dict(variables))
    try:
        while not Path("engine.json").exists():
            time.sleep(0.1)
        asyncio.run(_ready())
        yield
    finally:
        server.terminate()
        server.wait()


async def _ready() -> None:
    async with Engine(Path("engine.json")) as engine:
        await engine.wait_ready(600)


class _Noting:
    """A policy that notes what was asked and what came back."""

    def __init__(self, engine: Engine) -> None:
        self._policy = LLMPolicy(engine, {})
        self.asked: list[tuple[Ask, int, Completion]] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        completion = await self._policy.answer(ask, seed, attempt)
        self.asked.append((ask, seed, completion))
        return completion


async def _one_after_the_other(simulations: list[Simulation]) -> tuple[float, list[tuple[Ask, int, Completion]]]:
    async with Engine(Path("engine.json")) as engine:
        noting = _Noting(engine)
        start = time.perf_counter()
        for simulation in simulations:
            game = simulation.game()
            await play_async(simulation.id, game, {seat.name: noting for seat in game.seats})
        return time.perf_counter() - start, noting.asked


async def _all_requests(asked: list[tuple[Ask, int, Completion]]) -> float:
    async with Engine(Path("engine.json")) as engine:
        policy = LLMPolicy(engine, {})
        start = time.perf_counter()
        await asyncio.gather(*(policy.answer(ask, seed, 0) for ask, seed, _ in asked))
        return time.perf_counter() - start


def _engine_each(simulation: Simulation) -> float:
    start = time.perf_counter()
    with serving():
        asyncio.run(_one_after_the_other([simulation]))
    return time.perf_counter() - start


def _at_once(simulations: list[Simulation]) -> float:
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            [*PARLEY, "simulate", "bench.yaml", str(simulation.record("bench")), "engine.json"],
            stdout=subprocess.DEVNULL,
        )
        for simulation in simulations
    ]
    if any(process.wait() for process in running):
        raise RuntimeError("a simulation failed")
    return time.perf_counter() - start
