"""What one GPU brings: the paper's shape of requests on a model of Qwen3-8B's shape with random weights.

`make gpu-check`, or `python -m benchmarks.gpu [--minutes 10]`. Needs no network and no weights, and writes its table
into benchmarks/README.md. On the CPU build of vLLM it plays with a tiny model, which shows that the command works.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.measure import REPOSITORY, Row, consensus_study, temporary_folder
from benchmarks.random_model import NAME, SHAPES, make_model
from benchmarks.run import rewrite, table
from parley.engine import hardware
from parley.engine.client import Engine
from parley.engine.endpoint import read_endpoint
from parley.engine.server import is_cpu_build
from parley.engine.service.fetch import Client, RequestError, Response
from parley.errors import EngineError, ParleyError
from parley.play.runner import Exchange
from parley.play.simulate import Answering, play_simulation
from parley.policies import Ask, Completion, Tokens
from parley.study import load_study
from parley.study.condition import Simulation
from parley.text import one_line

ENDPOINT = Path("engine.json")
ENTRY = {"source": {"folder": "model"}, "dtype": "bfloat16", "max_model_len": 8192}
AGENTS = 8
PAPER = "qwen3-8b"
# Weights in billions. Other models than the measured one are taken to be slower by the ratio: an estimate.
BILLIONS = {PAPER: 8.19, "qwen3-14b": 14.77}
# Tokens of Qwen2.5-Coder-1.5B's replies, white space included: quantiles of the 2,066 of each in findings/consensus.
LENGTHS = {"propose": (74, 81, 87, 91, 96, 100, 105, 111, 121, 141), "vote": (7,)}
CUT_TOKENS = 64  # of each reply where ways to guide replies are compared: fewer than any reply has
_WORDS = ["we", "value", "agree", "group", "round", "last", "should", "keep", "move", "toward", "others", "stop"]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    shard: int  # simulations at once in the main measurement: as many as share an engine in config/paper.yaml
    at_once: tuple[int, ...]
    seconds: float  # that the main measurement is to take
    guided: int  # requests with which ways to guide replies are compared


GPU = Size(32, (1, 4, 16, 64, 128), 20.0, 256)
CPU = Size(2, (1, 4), 25.0, 16)


# vLLM's own counters

# What is read of its page of Prometheus metrics, by the name that vLLM 0.32 gives it.
_COUNTERS = {
    "vllm:prompt_tokens_total": "prompt",
    "vllm:generation_tokens_total": "generated",
    "vllm:request_success_total": "requests",
    "vllm:prefix_cache_queries_total": "queries",
    "vllm:prefix_cache_hits_total": "hits",
    "vllm:num_preemptions_total": "preempted",
}


@dataclass(frozen=True)
class Usage:
    """What an engine did in `seconds`, by the differences of its counters."""

    seconds: float
    prompt: float  # tokens, those from the prefix cache included
    generated: float  # tokens
    requests: float
    queries: float  # tokens that were looked for in the prefix cache
    hits: float  # and found there
    preempted: float  # requests

    @property
    def rate(self) -> float:
        """Prompt and generated tokens per second."""
        return (self.prompt + self.generated) / self.seconds

    def __str__(self) -> str:
        cached = f", {self.hits / self.queries:.0%} of prompts cached" if self.queries else ""
        preempted = f", {self.preempted:.0f} preempted" if self.preempted else ""
        return (
            f"{self.rate:,.0f} tokens/s ({self.generated / self.seconds:,.0f} generated), {self.requests:,.0f} "
            f"requests in {self.seconds:.1f} s{cached}{preempted}"
        )


def parse(page: str) -> dict[str, float]:
    """Return the counters of a metrics page, added up over their labels; one that it does not have counts as 0."""
    found = dict.fromkeys(_COUNTERS.values(), 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in _COUNTERS:
                found[_COUNTERS[sample.name]] += sample.value
    return found


def difference(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Usage:
    """Return what happened between two readings that are `seconds` apart."""
    return Usage(seconds, **{name: after[name] - before[name] for name in before})


def _counters() -> dict[str, float]:
    transport = httpx.HTTPTransport(uds=read_endpoint(ENDPOINT).socket)
    with httpx.Client(transport=transport, base_url="http://engine", timeout=60.0, trust_env=False) as client:
        return parse(client.get("/metrics").raise_for_status().text)


# Playing


@dataclass
class Check:
    """One run: how much is measured, until when, and what was measured so far."""

    size: Size
    ends: float  # by the monotonic clock
    salt: str = ""  # requests share vLLM's prefix cache with those of the same measurement only
    sent: list[bytes] = field(default_factory=list)  # requests of this measurement
    tokens: dict[int, float] = field(default_factory=dict)  # of an agent in a round, by the number of agents
    start_seconds: float = 0.0
    rounds: int = 1  # of the main measurement
    main: Usage | None = None

    @property
    def seconds_left(self) -> float:
        return self.ends - time.monotonic()

    def measured(self, work: Coroutine[Any, Any, Any]) -> tuple[Usage, Any]:
        """Run `work`; return what the engine counted, and what it returns. Raises TimeoutError if time is up."""
        self.salt, self.sent = uuid.uuid4().hex, []
        before, start = _counters(), time.perf_counter()
        found = asyncio.run(asyncio.wait_for(work, self.seconds_left))
        return difference(before, _counters(), time.perf_counter() - start), found


def install(check: Check) -> None:
    """Cut each reply at a length drawn by its seed, and play on as if it had been a whole reply of that length.

    Requests are kept in `check.sent`.
    """
    asked, posted = Engine.chat, Engine._post

    async def chat(engine: Engine, ask: Ask, seed: int, *how: Any, **more: Any) -> Completion:
        lengths = LENGTHS[ask.phase]
        sampling = ask.sampling.model_copy(update={"max_tokens": lengths[seed % len(lengths)]})
        more["cache_salt"] = check.salt
        completion = await asked(engine, replace(ask, sampling=sampling), seed, *how, **more)
        return replace(completion, text=_text(ask.phase, seed, sampling.max_tokens), finish_reason="stop")

    async def post(engine: Engine, content: bytes, most: Tokens) -> Response:
        check.sent.append(content)
        return await posted(engine, content, most)

    Engine.chat, Engine._post = chat, post  # type: ignore[assignment,method-assign]


def _text(phase: str, seed: int, tokens: int) -> str:
    if phase == "vote":
        return json.dumps({"decision": "continue"})
    rng = random.Random(seed)
    strategy, reasoning = (" ".join(rng.choices(_WORDS, k=tokens * part // 10)) for part in (3, 4))
    return json.dumps({"internal_strategy": strategy[:400], "value": seed % 51, "public_reasoning": reasoning[:600]})


def simulations(n: int, number: int, rounds: int) -> list[Simulation]:
    """Return games of `n` agents of the random model that last `rounds` rounds, each of another seed."""
    parameters = {"max_rounds": rounds, "stop_threshold": 1}
    return list(consensus_study(Path("gpu.yaml"), {"model": NAME, "n": n, "b": 0}, number, parameters).simulations())


async def played(games: Sequence[Simulation]) -> list[Exchange]:
    """Play simulations at once in this process, each with a client of its own; return every attempt."""
    done = await asyncio.gather(*(play_simulation(game, Answering({NAME: ENDPOINT}, 600.0)) for game in games))
    return [exchange for game, _ in done for exchange in game.exchanges]


async def posted(requests: Sequence[Mapping[str, Any]], salt: str) -> None:
    """Send chat requests all at once, as little as a client can do; raises RequestError if one is refused."""
    bodies = [json.dumps({**request, "cache_salt": salt}).encode() for request in requests]
    async with Client("http://engine", {}, read_endpoint(ENDPOINT).socket) as client:

        async def post(body: bytes) -> None:
            response = await client.fetch("POST", "/v1/chat/completions", 600.0, body)
            if response.status_code != 200:
                raise RequestError(f"{response.status_code}: {response.text[:300]}")

        await asyncio.gather(*map(post, bodies))


# What is measured


def rows(check: Check, shape: str) -> Iterator[Row]:
    """Measure all that there is time for, the most important first; what was not measured says why."""
    make_model(Path("model"), SHAPES[shape])
    determinism = hardware.determinism(True, is_cpu_build(), hardware.gpus())
    main: dict[str, Callable[[Check], Iterator[Row]]] = {
        "the first round on a new engine": _first,
        "a shard beside vLLM alone": _ratio,
        "an agent's tokens": _tokens,
        "replies with and without a grammar": _guided,
        "simulations at once": _at_once,
    }
    yield from _on_an_engine(check, ENTRY, main)
    same = f"`deterministic: true` ({determinism.by})"
    if determinism.by:
        yield from _on_an_engine(check, {**ENTRY, "deterministic": True}, {same: partial(_against, what=same)})
    else:
        yield Row("`deterministic: true`", f"not measured: {one_line(determinism.warning or 'not supported here')}")
    if check.main is not None and check.tokens:
        shown = "" if shape == PAPER else "shows the arithmetic only: "
        for rounds in (50, 10):
            found = paper_hours(check.tokens, check.main.rate, check.start_seconds, rounds)
            each = ", ".join(f"{what} {hours:,.1f} h" for what, hours in found.items())
            what = f"`config/paper.yaml` on this machine, if every game lasts {rounds} rounds"
            yield Row(what, f"{shown}{each}; in all {sum(found.values()):,.1f} h")


def _on_an_engine(
    check: Check, entry: dict[str, Any], steps: Mapping[str, Callable[[Check], Iterator[Row]]]
) -> Iterator[Row]:
    if check.seconds_left <= check.start_seconds:
        yield Row(", ".join(steps), "not measured: no time was left")
        return
    try:
        with serving(entry, check.seconds_left) as seconds:
            yield Row("start of an engine", f"{seconds:.0f} s")
            check.start_seconds = check.start_seconds or seconds
            for what, step in steps.items():
                _say(f"{what}: {check.seconds_left:.0f} s are left")
                try:
                    yield from step(check)
                except (ParleyError, RequestError, httpx.HTTPError, TimeoutError) as error:
                    yield Row(what, f"not measured: {one_line(str(error), 300) or 'no time was left'}")
    except EngineError as error:
        yield Row(", ".join(steps), f"not measured: {one_line(str(error), 300)}")


@contextmanager
def serving(entry: Mapping[str, Any], seconds: float) -> Iterator[float]:
    """Run an engine of the random model, and yield the seconds until it answered.

    Raises EngineError if it does not within `seconds`.
    """
    started = time.perf_counter()
    file = Path("entry.json")
    file.write_text(json.dumps(entry), encoding="utf-8")
    # In its own module, which ends with this process.
    command = [sys.executable, "-m", "benchmarks.random_model", str(file), str(ENDPOINT)]
    found = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    with Path("engine.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": found}
        )

    async def answers() -> None:
        async with Engine(ENDPOINT) as engine:
            await engine.wait_ready(seconds)

    try:
        while not ENDPOINT.exists() and server.poll() is None:
            time.sleep(0.1)
        asyncio.run(answers())
        yield time.perf_counter() - started
    finally:
        server.terminate()
        server.wait()
        ENDPOINT.unlink(missing_ok=True)


def _first(check: Check) -> Iterator[Row]:
    """Play a first round: what is compiled when it is first used belongs to the start, and to no measurement."""
    usage, _ = check.measured(played(simulations(AGENTS, 1, 1)))
    check.start_seconds += usage.seconds
    yield Row("the first round of one simulation on it", f"{usage.seconds:.1f} s")


def _ratio(check: Check) -> Iterator[Row]:
    size = check.size
    # One round says how many of them fill the time.
    usage, _ = check.measured(played(simulations(AGENTS, size.shard, 1)))
    check.rounds = max(1, min(50, int(size.seconds / usage.seconds / 2)))  # later prompts are longer
    games = simulations(AGENTS, size.shard, check.rounds)
    check.main, exchanges = check.measured(played(games))
    requests = list(map(json.loads, check.sent))
    what = f"a shard: {size.shard} simulations of {AGENTS} agents, {check.rounds} round{'s' * (check.rounds > 1)}"
    yield Row(what, str(check.main))
    prompts = [exchange.entry.prompt_tokens or 0 for exchange in exchanges]
    failed = sum(exchange.failed for exchange in exchanges) / len(exchanges)
    yield Row("its prompts, its replies", f"{min(prompts)} to {max(prompts)} tokens, {failed:.0%} unusable")
    alone, _ = check.measured(posted(requests, uuid.uuid4().hex))
    yield Row("vLLM alone: all its requests at once, by a bare client", str(alone))
    yield Row("tokens per second of the shard / of vLLM alone", f"{check.main.rate / alone.rate:.2f}", "0.95")


def _tokens(check: Check) -> Iterator[Row]:
    for n in (4, 8, 16):
        games = simulations(n, max(1, check.size.shard * AGENTS // n // 4), 3)
        _, exchanges = check.measured(played(games))
        check.tokens[n] = tokens_of_a_round(exchanges)
        yield Row(f"tokens of an agent in a round after the first, {n} agents", f"{check.tokens[n]:,.0f}")


def tokens_of_a_round(exchanges: Sequence[Exchange]) -> float:
    """Return the tokens of an agent in a round: prompts and replies of all phases and attempts.

    The first round is left out, since it has no history and is shorter.
    """
    later = [exchange.entry for exchange in exchanges if exchange.entry.round > 1]
    proposals = sum(entry.phase == "propose" and entry.attempt == 0 for entry in later)
    return sum((entry.prompt_tokens or 0) + (entry.completion_tokens or 0) for entry in later) / proposals


def _guided(check: Check) -> Iterator[Row]:
    """Compare proposals cut at `CUT_TOKENS` with and without their grammar; their prompts are in the cache."""
    games = simulations(AGENTS, max(1, check.size.guided // AGENTS), 1)
    check.measured(played(games))
    proposals = [body for body in map(json.loads, check.sent) if body["max_tokens"] in LENGTHS["propose"]]
    guided = [body | {"max_tokens": CUT_TOKENS} for body in proposals]
    free = [{key: value for key, value in body.items() if key != "structured_outputs"} for body in guided]
    salt = uuid.uuid4().hex
    usages = [check.measured(posted(bodies, salt))[0] for bodies in (free, free, guided)]
    without, with_ = (usage.generated / usage.seconds for usage in usages[1:])
    what = f"{len(guided)} replies of {CUT_TOKENS} tokens at once, prompts cached"
    yield Row(f"{what}: no grammar", f"{without:,.0f} generated tokens/s")
    yield Row("the same, grammars by xgrammar", f"{with_:,.0f} generated tokens/s: {with_ / without:.2f} of it", "0.9")


def _at_once(check: Check) -> Iterator[Row]:
    for number in check.size.at_once:
        games = simulations(AGENTS, number, 1)
        usage, _ = check.measured(played(games))
        yield Row(f"{number} simulation{'s' * (number > 1)} at once, 1 round", str(usage))


def _against(check: Check, what: str) -> Iterator[Row]:
    """Play what the main measurement played on another engine."""
    if check.main is not None:
        check.measured(played(simulations(AGENTS, 1, 1)))
        usage, _ = check.measured(played(simulations(AGENTS, check.size.shard, check.rounds)))
        yield Row(f"{what}: tokens per second / without", f"{usage.rate / check.main.rate:.2f}")


def paper_hours(tokens: Mapping[int, float], rate: float, start_seconds: float, rounds: int) -> dict[str, float]:
    """Return the hours of config/paper.yaml on one GPU if all games last `rounds` rounds: by model, and starts.

    `tokens` has those of an agent in a round by the number of agents; between two numbers they are taken to grow
    evenly. `rate` is in tokens per second of the paper's smaller model.
    """
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    sizes = sorted(tokens)
    found: dict[str, float] = {}
    for condition in study.conditions:
        if condition.models:
            agents = sum(group.count for group in condition.groups if group.player.model is not None)
            n = sum(group.count for group in condition.groups)
            [model] = condition.models
            each = float(np.interp(n, sizes, [tokens[size] for size in sizes]))
            hours = len(condition.seeds) * agents * rounds * each / rate / 3600
            found[model] = found.get(model, 0.0) + hours * BILLIONS[model] / BILLIONS[PAPER]
    shards = len({shard for shard in study.shards().values() if shard[0] != "scripted"})
    return found | {f"{shards} starts of an engine": shards * start_seconds / 3600}


def _say(text: str) -> None:
    print(f"gpu-check: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="drop what does not fit (default: %(default)s)")
    ends = time.monotonic() + 60 * parser.parse_args().minutes
    if is_cpu_build():
        shape, found = "tiny", f"CPU: {hardware.cpu()}. **Shows that the command works, says nothing of a GPU.**"
    elif gpus := hardware.gpus():
        memory = hardware.nvidia_smi("memory.total,memory.free").partition("\n")[0]
        shape = PAPER
        found = f"{gpus[0].name}, {memory} free, driver {gpus[0].driver}; CUDA {hardware.cuda_version()}"
    else:
        sys.exit("gpu-check: nvidia-smi finds no GPU, and this vLLM is the CUDA build; run it on a node that has one")
    lines = [found, "", f"Shape `{shape}`, {SHAPES[shape].gigabytes:.1f} GB of random weights.", ""]
    _say(" ".join(lines))
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(most_files, 65_536)), most_files))  # a socket a request
    check = Check(GPU if shape == PAPER else CPU, ends)
    install(check)
    try:
        with temporary_folder():
            Path("models.yaml").write_text(yaml.safe_dump({"models": {NAME: ENTRY}}), encoding="utf-8")
            lines.extend(table(rows(check, shape)))
    finally:
        if check.main is not None:  # also what was measured before Ctrl-C
            rewrite("gpu", "\n".join(lines))
    if check.main is None:
        sys.exit("gpu-check: nothing was measured, and benchmarks/README.md is as it was; the rows above say why")
    _say("done; the table is in benchmarks/README.md")


if __name__ == "__main__":
    main()
