"""What the grid costs and brings: one engine for many simulations, against other ways to spend it.

All on one machine, in one run, with SmolLM2-135M; every way plays the same simulations.
"""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.measure import PARLEY, Row, temporary_folder
from benchmarks.serving import asked_again, played, serving
from parley.play.runner import Exchange
from parley.study import Study, load_study
from parley.study.condition import Simulation

MODEL = "smollm2-135m"
SIMULATIONS = 16
ALONE = 2  # simulations that are played on an engine each; the time of 16 is worked out from them
ENDPOINT = Path("engine.json")
SERVE = (*PARLEY, "serve", MODEL, "--models", "models.yaml", "--endpoint", str(ENDPOINT), "--exit-with-parent")


def rows() -> Iterator[Row]:
    """Yield the measurements."""
    with temporary_folder():
        study = _study()
        simulations = list(study.simulations())
        alone = [_engine_each(simulation) for simulation in simulations[:ALONE]]
        with serving(SERVE, ENDPOINT) as started:
            start = time.perf_counter()
            asked = asyncio.run(played(simulations, ENDPOINT, at_once=False))
            one_by_one = time.perf_counter() - start
        with serving(SERVE, ENDPOINT):
            at_once = _at_once(simulations)
        with serving(SERVE, ENDPOINT):
            start = time.perf_counter()
            asyncio.run(asked_again(asked, ENDPOINT))
            batch = time.perf_counter() - start
    tokens = sum(map(_tokens, asked))
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


def _tokens(exchange: Exchange) -> int:
    return (exchange.entry.prompt_tokens or 0) + (exchange.entry.completion_tokens or 0)


def _study() -> Study:
    # A threshold that every agent has to meet keeps most games going for all rounds.
    grid = {"model": MODEL, "n": 4, "b": 1, "prompt": "may_exist"}
    parameters = {"max_rounds": 2, "stop_threshold": 1}
    content = {"game": "consensus", "seeds": SIMULATIONS, "parameters": parameters, "grids": [grid]}
    Path("bench.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(Path("bench.yaml"))


def _engine_each(simulation: Simulation) -> float:
    start = time.perf_counter()
    with serving(SERVE, ENDPOINT):
        asyncio.run(played([simulation], ENDPOINT))
    return time.perf_counter() - start


def _at_once(simulations: list[Simulation]) -> float:
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            [*PARLEY, "simulate", "bench.yaml", str(simulation.record("bench")), str(ENDPOINT)],
            stdout=subprocess.DEVNULL,
        )
        for simulation in simulations
    ]
    if any(process.wait() for process in running):
        raise RuntimeError("a simulation failed")
    return time.perf_counter() - start
