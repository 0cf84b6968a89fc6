"""What one GPU brings: the paper's shape of requests on a model of Qwen3-8B's shape with random weights.

`make gpu-check`, or `python -m benchmarks.gpu [--minutes 10] [--shape qwen3-8b]`. Needs no network and no weights, and
writes its table into benchmarks/README.md.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.counters import Usage, difference, read, reset_cache, wait_idle
from benchmarks.hours import AgentTokens, agent_tokens, hours, study_tokens
from benchmarks.machine import Machine, chosen_shape, machine
from benchmarks.measure import REPOSITORY, Row, consensus_study, temporary_folder
from benchmarks.random_model import NAME, SHAPES, make_model
from benchmarks.real_lengths import LENGTHS, install, posted, waiting
from benchmarks.run import rewrite, table
from benchmarks.serving import played, serving
from parley.engine import hardware
from parley.engine.server import is_cpu_build
from parley.engine.service.fetch import RequestError
from parley.engine.supervisor import read_endpoint
from parley.errors import EngineError, ParleyError, UsageError
from parley.play.runner import Exchange
from parley.study import load_study
from parley.study.condition import Simulation
from parley.text import one_line

ENDPOINT = Path("engine.json")
ENTRY = {"source": {"folder": "model"}, "dtype": "bfloat16", "max_model_len": 8192}
AGENTS = 8
FIRST_SECONDS = 60.0  # for the first requests of an engine
CUT_TOKENS = 64  # of each reply where ways to guide replies are compared: fewer than any reply has
PAPER = "qwen3-8b"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    shard: int  # simulations at once in the main measurement: as many as share an engine in config/paper.yaml
    at_once: tuple[int, ...]
    seconds: float  # that the main measurement is to take
    guided: int  # requests with which ways to guide replies are compared
    start_seconds: float  # of the first engine, at most


GPU = Size(32, (1, 4, 16, 64, 128), 20.0, 256, 240.0)
CPU = Size(2, (1, 4), 25.0, 16, 240.0)


@dataclass
class Check:
    """One run: what is measured with, and what was measured so far."""

    machine: Machine
    shape: str
    size: Size
    minutes: float  # that all may take
    began: float = field(default_factory=time.monotonic)
    seconds_started: float = 0.0
    rounds: int = 1
    agents: dict[int, AgentTokens] = field(default_factory=dict)
    main: Usage | None = None
    requests: list[bytes] = field(default_factory=list)  # of the main measurement, as they were sent

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.began + 60 * self.minutes - time.monotonic())

    @property
    def dropped(self) -> str:
        """What the table says of something that no longer fits."""
        return f"not measured: dropped to keep within --minutes {self.minutes:g}"

    def round_seconds(self, number: int) -> float:
        """Return the seconds that a round of `number` simulations may take at most, by the main measurement."""
        if self.main is None:
            return 2 * self.size.seconds
        # Half of its rate, or a quarter of its time where a few requests wait for each other.
        return max(2 * number / self.size.shard, 0.25) * max(self.main.seconds / self.rounds, 5.0)

    def measured(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Usage, Any]:
        """Run `work` with an empty prefix cache; return what the engine counted, and what `work` returns."""
        reset_cache(ENDPOINT)
        return self.continued(work)

    def continued(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Usage, Any]:
        """Like `measured`, with the prefix cache as it is."""
        before, start = read(ENDPOINT), time.perf_counter()
        found = asyncio.run(work())
        seconds = time.perf_counter() - start
        wait_idle(ENDPOINT)
        return difference(before, read(ENDPOINT), seconds), found


@dataclass(frozen=True)
class Step:
    """One measurement: what its rows are about, the seconds it plays at most, and what measures it."""

    what: str
    most: Callable[[Check], float]
    rows: Callable[[Check, float], Iterator[Row]]  # is told after how many seconds to cut off what it plays


@dataclass(frozen=True)
class Stage:
    """An engine, by what its entry has beyond `ENTRY`, and what is measured on it."""

    what: str
    entry: dict[str, Any]
    steps: Sequence[Step]
    why_not: str = ""  # why this machine cannot have it; "" if it can


def simulations(n: int, number: int, rounds: int) -> list[Simulation]:
    """Return games of `n` agents of the random model that last `rounds` rounds, each of another seed.

    Only a stop vote of all agents ends one before, which is rare among random votes. All else is the paper's.
    """
    parameters = {"max_rounds": rounds, "stop_threshold": 1}
    return list(consensus_study(Path("gpu.yaml"), {"model": NAME, "n": n, "b": 0}, number, parameters).simulations())


def stages(size: Size) -> list[Stage]:
    """Return all that is measured, the most important first."""
    main = [
        *(Step(f"prompts and replies of {n} agents", _short, _tokens_of(n)) for n in (8, 4, 16)),
        Step("a shard against vLLM alone", lambda check: 8 * size.seconds, _ratio),
        Step("replies with and without a grammar", lambda check: 3 * size.seconds, _guided),
        *(Step(f"{number} simulations at once", _round_of(number), _at_once(number)) for number in size.at_once),
    ]
    determinism = hardware.determinism(True, is_cpu_build(), hardware.gpus())
    deterministic = f"`deterministic: true` ({determinism.by})"
    return [
        Stage("as studies run it", {}, main),
        Stage(
            "without prefix caching",
            {"server_args": {"no-enable-prefix-caching": True}},
            [Step("prefix caching off", _as_main(1), _against("prefix caching off", cached=False))],
        ),
        Stage(
            f"with {deterministic}",
            {"deterministic": True},
            [Step("`deterministic: true`", _as_main(2), _against(deterministic))],
            "" if determinism.by else determinism.warning or "not supported here",
        ),
    ]


def _short(check: Check) -> float:
    return check.size.seconds


def _round_of(number: int) -> Callable[[Check], float]:
    return lambda check: check.round_seconds(number)


def _as_main(times: float) -> Callable[[Check], float]:
    return lambda check: times * check.rounds * check.round_seconds(check.size.shard)


def rows(check: Check) -> Iterator[Row]:
    """Measure all that fits into the budget, and yield what was found; what was not says why."""
    make_model(Path("model"), SHAPES[check.shape])
    for stage in stages(check.size):
        if stage.why_not:
            yield Row(stage.steps[0].what, f"not measured: {one_line(stage.why_not)}", "")
        elif _start_seconds(check) + stage.steps[0].most(check) > check.seconds_left:
            yield from (Row(step.what, check.dropped, "") for step in stage.steps)
        else:
            yield from _on_an_engine(stage, check)
    yield from _paper(check)


def _start_seconds(check: Check) -> float:
    """Return how long an engine may take to start: the later ones about as long as the first."""
    return 1.3 * check.seconds_started or check.size.start_seconds


def _on_an_engine(stage: Stage, check: Check) -> Iterator[Row]:
    left = list(stage.steps)
    entry = Path("entry.json")
    entry.write_text(json.dumps({**ENTRY, **stage.entry}), encoding="utf-8")
    # It may take longer than the first one did, as long as its first step still fits.
    most = max(_start_seconds(check), check.seconds_left - left[0].most(check))
    _say(f"starts an engine {stage.what}: at most {most:.0f} s, {check.seconds_left:.0f} s are left")
    # In its own module, which ends with this process.
    command = [sys.executable, "-m", "benchmarks.random_model", str(entry), str(ENDPOINT)]
    try:
        with serving(command, ENDPOINT, most) as started:
            # What is compiled when it is first used belongs to the start, and to no measurement.
            games = simulations(AGENTS, 1, 1)
            first, _ = check.continued(lambda: played(games, ENDPOINT, seconds=FIRST_SECONDS))
            check.seconds_started = check.seconds_started or started + first.seconds
            text = f"{started:.0f} s, and {first.seconds:.0f} s for the first round of one simulation"
            yield Row(f"start of the engine {stage.what}", text, "")
            while left:
                step = left.pop(0)
                most = step.most(check)
                if most > check.seconds_left:
                    yield Row(step.what, check.dropped, "")
                    continue
                _say(f"{step.what}: at most {most:.0f} s, {check.seconds_left:.0f} s are left")
                yield from _guarded(step, check, most)
    except EngineError as error:
        yield from (Row(step.what, f"not measured: {one_line(str(error), 300)}", "") for step in left)


def _guarded(step: Step, check: Check, most: float) -> Iterator[Row]:
    try:
        yield from step.rows(check, most)
    except (ParleyError, RequestError, httpx.HTTPError, RuntimeError, ValueError) as error:
        yield Row(step.what, f"not measured: {one_line(str(error), 300) or type(error).__name__}", "")


def _tokens_of(n: int) -> Callable[[Check, float], Iterator[Row]]:
    def measure(check: Check, most: float) -> Iterator[Row]:
        games = simulations(n, max(1, check.size.shard * AGENTS // n // 4), 3)
        _, exchanges = check.measured(lambda: played(games, ENDPOINT, seconds=most))
        check.agents[n] = agent_tokens(exchanges)
        yield Row(f"prompts and replies of {n} agents", described(exchanges), "")

    return measure


def described(exchanges: Sequence[Exchange]) -> str:
    """Return how long prompts and the replies of each phase are, in tokens, and how many of them are unusable."""
    prompts = [x.entry.prompt_tokens or 0 for x in exchanges]
    characters = sum(len(message["content"]) for x in exchanges for message in x.ask.messages)
    text = [f"prompts of {min(prompts)} to {max(prompts)} tokens, {characters / sum(prompts):.1f} characters a token"]
    for phase in dict.fromkeys(x.entry.phase for x in exchanges):
        tokens = sorted(x.entry.completion_tokens or 0 for x in exchanges if x.entry.phase == phase)
        text.append(f"{phase} replies of {tokens[0]} to {tokens[-1]}, mean {sum(tokens) / len(tokens):.0f}")
    failed = sum(x.reply.failure is not None for x in exchanges)
    return "; ".join([*text, f"{failed / len(exchanges):.0%} unusable"])


def _ratio(check: Check, most: float) -> Iterator[Row]:
    size, limit = check.size, most / 4
    # One round says how many of them fill the time, and warms what is compiled when it is first used.
    usage, _ = check.measured(lambda: played(simulations(AGENTS, size.shard, 1), ENDPOINT, seconds=limit))
    check.rounds = max(1, min(50, int(size.seconds / usage.seconds / 2)))  # later prompts are longer
    games = simulations(AGENTS, size.shard, check.rounds)
    files = [f"requests-{game.seed}.jsonl" for game in games]
    commands = [
        (file, "simulate", "gpu.yaml", str(game.record("gpu")), str(ENDPOINT))
        for file, game in zip(files, games, strict=True)
    ]
    with waiting(commands) as run:
        check.main, _ = check.measured(lambda: run(limit))
    check.requests = [line for file in files for line in Path(file).read_bytes().splitlines()]
    what = f"{size.shard} simulations of {AGENTS} agents, {check.rounds} round{'s' * (check.rounds > 1)}"
    yield Row(f"a shard of a cluster: {what}, a process each", _told(check.main, limit), "")
    with waiting([("alone", read_endpoint(ENDPOINT).socket, *files)]) as run:
        alone, _ = check.measured(lambda: run(limit))
    yield Row("vLLM alone: all its requests at once, by a bare client", _told(alone, limit), "")
    cut = " (cut off: no fair comparison)" if max(check.main.seconds, alone.seconds) >= limit else ""
    aim = "0.95" if check.machine.gpu else ""
    yield Row("tokens per second of the shard / of vLLM alone", f"{check.main.rate / alone.rate:.2f}{cut}", aim)
    one, _ = check.measured(lambda: played(games, ENDPOINT, seconds=limit))
    yield Row("the same simulations in one process", _told(one, limit), "")


def _told(usage: Usage, limit: float) -> str:
    """Return what an engine did; what was cut off finished fewer requests than it began, so its rate is too high."""
    return f"{usage}{' (cut off: the rate is too high)' if usage.seconds >= limit else ''}"


def _at_once(number: int) -> Callable[[Check, float], Iterator[Row]]:
    def measure(check: Check, most: float) -> Iterator[Row]:
        games = simulations(AGENTS, number, 1)
        usage, _ = check.measured(lambda: played(games, ENDPOINT, seconds=most))
        yield Row(f"{number} simulation{'s' * (number > 1)} at once, 1 round", _told(usage, most), "")

    return measure


def _against(what: str, cached: bool = True) -> Callable[[Check, float], Iterator[Row]]:
    """Play what the main measurement played on another engine."""

    def measure(check: Check, most: float) -> Iterator[Row]:
        if check.main is None:
            raise ValueError("nothing to compare it with")
        games = simulations(AGENTS, check.size.shard, check.rounds)
        work = lambda: played(games, ENDPOINT, seconds=most)  # noqa: E731
        usage, _ = check.measured(work) if cached else check.continued(work)
        yield Row(f"{what}: the shard's simulations, in one process", _told(usage, most), "")
        if usage.seconds < most:
            yield Row(f"{what}: tokens per second / without", f"{usage.rate / check.main.rate:.2f}", "")

    return measure


def chat_bodies(requests: Sequence[bytes], number: int, guided: bool) -> list[bytes]:
    """Return requests of `number` proposals, cut at `CUT_TOKENS`, with or without the grammar of their reply."""
    bodies = [body for body in map(json.loads, requests) if body["max_tokens"] in LENGTHS["propose"]][:number]
    for body in bodies:
        body["max_tokens"] = CUT_TOKENS
        if not guided:
            body.pop("structured_outputs", None)
    return [json.dumps(body).encode() for body in bodies]


def _replies(check: Check, guided: bool, most: float) -> Usage:
    """Return what it takes to write replies whose prompts are in the cache: the faster of two times after a first."""
    bodies = chat_bodies(check.requests, check.size.guided, guided)
    if not bodies:
        raise ValueError("no requests to compare with")
    work = lambda: posted(read_endpoint(ENDPOINT).socket, bodies, most)  # noqa: E731
    check.measured(work)
    return max((check.continued(work)[0] for _ in range(2)), key=lambda usage: usage.generated_rate)


def _guided(check: Check, most: float) -> Iterator[Row]:
    free, guided = _replies(check, False, most / 6), _replies(check, True, most / 6)
    number = len(chat_bodies(check.requests, check.size.guided, guided=False))
    requests = f"{number} replies of {CUT_TOKENS} tokens at once, prompts cached"
    yield Row(f"{requests}: no grammar", f"{free.generated_rate:,.0f} generated tokens/s", "")
    ratio = guided.generated_rate / free.generated_rate
    what = f"{guided.generated_rate:,.0f} generated tokens/s: {ratio:.2f} of it"
    yield Row("the same, grammars by xgrammar", what, "0.9 of it")


def _paper(check: Check) -> Iterator[Row]:
    """Yield the hours of config/paper.yaml, in the worst case and in a good one."""
    if check.main is None or not check.agents:
        yield Row("`config/paper.yaml`", "not worked out: nothing was measured", "")
        return
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    shards = len({shard for shard in study.shards().values() if shard[0] != "scripted"})
    for rounds in (50, 10):
        tokens = study_tokens(study, check.agents, rounds)
        found = hours(tokens, check.main.rate, PAPER)
        each = "; ".join(
            f"{model} {found[model]:,.1f} h ({amount / 1e6:,.0f} million tokens)" for model, amount in tokens.items()
        )
        starts = shards * check.seconds_started / 3600
        text = f"{each}; {shards} starts of an engine {starts:.1f} h; in all {sum(found.values()) + starts:,.1f} h"
        what = f"`config/paper.yaml` on this machine, if every game lasts {rounds} rounds"
        yield Row(what, text if check.shape == PAPER else f"shows the arithmetic only: {text}", "")


def _say(text: str) -> None:
    print(f"gpu-check: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="drop what does not fit (default: %(default)s)")
    parser.add_argument("--shape", choices=SHAPES, help="default: qwen3-8b, and tiny on a CPU")
    options = parser.parse_args()
    try:
        _run(options.minutes, options.shape)
    except ParleyError as error:
        sys.exit(f"gpu-check: {error}")


def _run(minutes: float, asked: str | None) -> None:
    if not 0 < minutes <= 600:
        raise UsageError("--minutes: give a number above 0, at most 600")
    began, found = time.monotonic(), machine()
    _say(str(found))
    shape = chosen_shape(asked, found)
    weights = SHAPES[shape].gigabytes
    _say(f"{shape}: {weights:.1f} GB of random weights, at most {minutes:g} minutes")
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(most_files, 65_536)), most_files))  # a socket a request
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # for `reset_cache`; the engine listens on a private socket only
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    lines = [str(found), "", f"Shape `{shape}`, {weights:.1f} GB of weights.", ""]
    if shape != PAPER:
        where = "CPU" if found.gpu is None else "GPU"
        lines[1:1] = ["", f"**{where}, {shape} shape: shows that the command works, says nothing of a GPU.**"]
    check = Check(found, shape, GPU if found.gpu else CPU, minutes, began)
    install()
    try:
        with temporary_folder():
            Path("models.yaml").write_text(yaml.safe_dump({"models": {NAME: ENTRY}}), encoding="utf-8")
            lines.extend(table(rows(check)))
    finally:
        if check.main is not None:  # also what was measured before Ctrl-C
            rewrite("gpu", "\n".join(lines))
    if check.main is None:
        sys.exit("gpu-check: nothing was measured, and benchmarks/README.md is as it was; the rows above say why")
    _say(f"done in {time.monotonic() - began:.0f} s; the table is in benchmarks/README.md")


if __name__ == "__main__":
    main()
