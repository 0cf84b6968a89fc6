"""What a person without a GPU waits for: data types and sizes of a prefill step, on this CPU and on a lesser one.

A lesser CPU is played by oneDNN's own limit (ONEDNN_MAX_CPU_ISA), which leaves out the instructions of newer ones: its
matrix products then take the paths of an older machine. That is the larger part of the work, but not all of it.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from benchmarks.engine import ENDPOINT, MODEL, SERVE
from benchmarks.measure import Row, temporary_folder
from benchmarks.serving import serving
from parley.engine.client import Engine, LLMPolicy
from parley.play.runner import play_async
from parley.policies import Ask, Completion
from parley.study import load_study
from parley.study.condition import Simulation

SIMULATIONS = 12
# Most laptops and cloud machines of the last years: AVX-512 with VNNI, but no instructions for bfloat16.
ORDINARY = MappingProxyType({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"})
WAYS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("bfloat16, steps of 16,384 tokens", {"dtype": "bfloat16", "server_args": {"max-num-batched-tokens": 16384}}),
    ("float32, steps of 16,384 tokens", {"dtype": "float32", "server_args": {"max-num-batched-tokens": 16384}}),
    ("float32, steps of 8,192 tokens", {"dtype": "float32", "server_args": {"max-num-batched-tokens": 8192}}),
    ("float32, steps of 4,096 tokens", {"dtype": "float32", "max_model_len": 4096}),
    ("float32, steps of 2,048 tokens", {"dtype": "float32", "max_model_len": 2048}),
)


def rows() -> Iterator[Row]:
    """Yield the measurements."""
    for machine, variables in (("this CPU", {}), ("without its bfloat16 instructions", ORDINARY)):
        for title, changes in WAYS:
            with temporary_folder():
                yield Row(f"{machine}: {title}", _measured(changes, variables), "")


def _measured(changes: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    content = yaml.safe_load(Path("models.yaml").read_text(encoding="utf-8"))
    entry = content["models"][MODEL] | changes
    if "max_model_len" in changes:
        entry["server_args"] = {"max-num-batched-tokens": changes["max_model_len"]}
    content["models"][MODEL] = entry
    Path("models.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    parameters = {"max_rounds": 2, "stop_threshold": 1}
    grid = {"model": MODEL, "n": 4, "prompt": "may_exist"}
    study = {"game": "consensus", "seeds": SIMULATIONS, "parameters": parameters, "grids": [grid]}
    Path("bench.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    simulations = list(load_study(Path("bench.yaml")).simulations())
    limits = [f"{name}={value}" for name, value in variables.items()]
    with serving(("env", *limits, *SERVE), ENDPOINT):
        return asyncio.run(_play(simulations))


async def _play(simulations: list[Simulation]) -> str:
    async with Engine(ENDPOINT) as engine:
        noting = _Times(engine)
        start = time.perf_counter()
        await asyncio.gather(
            *(
                play_async(simulation.id, game, {seat.name: noting for seat in game.seats})
                for simulation in simulations
                for game in [simulation.game()]
            )
        )
        seconds = time.perf_counter() - start
    times = sorted([start, *noting.times])
    silence = max(after - before for before, after in itertools.pairwise(times))
    return f"{seconds:.1f} s for {len(noting.times)} replies, the longest wait for one {silence:.1f} s"


class _Times:
    """A policy that notes when replies came."""

    def __init__(self, engine: Engine) -> None:
        self._policy = LLMPolicy(engine)
        self.times: list[float] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        completion = await self._policy.answer(ask, seed, attempt)
        self.times.append(time.perf_counter())
        return completion
