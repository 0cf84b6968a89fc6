"""`gpu-check`: what fits into a machine, vLLM's counters, the arithmetic of hours, its steps, one run on an engine."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from benchmarks import gpu
from benchmarks.counters import difference, parse
from benchmarks.gpu import CPU, Check, Stage, Step, require_memory
from benchmarks.hours import AgentTokens, agent_tokens, hours, study_tokens
from benchmarks.measure import REPOSITORY
from benchmarks.real_lengths import LENGTHS, install
from parley.engine.client import Engine
from parley.errors import UsageError
from parley.games.consensus.parameters import HonestVote
from parley.play.journal import Entry
from parley.play.record import read_summary
from parley.play.runner import Exchange
from parley.policies import Ask, Reply, Sampling
from parley.study import load_study

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="random-weights"} 3.0
vllm:prefix_cache_queries_total{engine="0",model_name="random-weights"} 23070.0
vllm:prefix_cache_queries_created{engine="0",model_name="random-weights"} 1.7953813020212398e+09
vllm:prefix_cache_hits_total{engine="0",model_name="random-weights"} 3200.0
vllm:prompt_tokens_total{engine="0",model_name="random-weights"} 23070.0
vllm:generation_tokens_total{engine="0",model_name="random-weights"} 3086.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="random-weights"} 19.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="random-weights"} 2.0
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="random-weights"} 21.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="random-weights"} 21.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="random-weights"} 126.0
"""


def test_counters_are_added_up_over_their_labels_and_compared() -> None:
    before = parse(PAGE)
    names = ("prompt", "requests", "running", "preempted")
    assert [before[name] for name in names] == [23_070, 21, 3, 0]  # a page may lack one
    later = PAGE.replace("23070.0", "33070.0").replace("3086.0", "5086.0").replace("3200.0", "8200.0")
    later = later.replace("21.0", "31.0").replace("126.0", "146.0").replace("19.0", "29.0")
    usage = difference(before, parse(later), 4.0)
    assert (usage.prompt, usage.generated, usage.requests) == (10_000, 2_000, 10)
    assert (usage.rate, usage.generated_rate, usage.waited / usage.timed) == (3_000, 500, 2.0)
    assert str(usage) == "3,000 tokens/s (500 generated), 10 requests in 4.0 s, 2.00 s each, 50% of prompts cached"


# The arithmetic of hours


def exchange(round_: int, phase: str, prompt: int, reply: int, attempt: int = 0) -> Exchange:
    ask = Ask("agent_1", "honest", round_, phase, "", "", HonestVote, Sampling(temperature=0, max_tokens=1), None)
    entry = Entry(round_, phase, "agent_1", attempt, 1, "", "", "stop", prompt, reply, None, 0.0, 0.0)
    return Exchange(ask, entry, Reply(None))


def test_an_agent_costs_a_mean_ask_of_each_phase() -> None:
    played = [
        exchange(1, "propose", 500, 100),
        exchange(1, "propose", 500, 200),
        exchange(1, "propose", 500, 300, attempt=1),  # a retry costs, and is no ask of its own
        exchange(1, "vote", 400, 10),
        exchange(2, "propose", 700, 100),
        exchange(3, "propose", 900, 100),
        exchange(2, "vote", 600, 10),
    ]
    assert agent_tokens(played) == AgentTokens(first=1050 + 410, later=900 + 610)
    assert agent_tokens(played[:1]) == AgentTokens(600, 600)  # a phase of one round stands for the others
    with pytest.raises(ValueError, match="nothing was played"):
        agent_tokens([])


def test_the_papers_study_takes_its_tokens_by_the_rate() -> None:
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    # 50 seeds, two prompts, 4 + 8 + 16 agents; and 25 seeds of 9 + 10 + 11 + 12.
    of_round = 1000 + 49 * 2000
    found = study_tokens(study, {8: AgentTokens(1000.0, 2000.0)}, rounds=50)
    assert found == {"qwen3-8b": 50 * 2 * 28 * of_round, "qwen3-14b": (50 * 2 * 28 + 25 * 42) * of_round}
    between = study_tokens(study, {4: AgentTokens(0.0, 0.0), 8: AgentTokens(0.0, 0.0), 16: AgentTokens(800.0, 0.0)}, 1)
    assert between["qwen3-8b"] == pytest.approx(50 * 2 * 16 * 800)
    more = 25 * (9 * 100 + 10 * 200 + 11 * 300 + 12 * 400)
    assert between["qwen3-14b"] == pytest.approx(50 * 2 * 16 * 800 + more)
    taken = hours({"qwen3-8b": 36e6, "qwen3-14b": 36e6}, rate=1000.0, measured_model="qwen3-8b")
    assert taken == pytest.approx({"qwen3-8b": 10, "qwen3-14b": 10 * 14.77 / 8.19})  # a larger model is slower


# What the machine has


def test_what_does_not_fit_into_the_memory_is_refused() -> None:
    for text in ("81920 MiB, 80896 MiB\n", "", "[N/A], [N/A]"):  # the driver need not tell its memory
        require_memory("H100", text)
    for total, free in ((20, 20), (80, 70)):
        with pytest.raises(UsageError, match=f"H100: {free} of {total} GiB are free.* needs 19 GiB"):
            require_memory("H100", f"{1024 * total} MiB, {1024 * free} MiB")


@pytest.mark.promise("`make gpu-check` measures an engine of random weights by vLLM's own counters.")
@pytest.mark.rare
def test_an_engine_of_random_weights_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    monkeypatch.setattr(Engine, "chat", Engine.chat)  # which is restored
    install()
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=":")
    Path("models.yaml").write_text(yaml.safe_dump({"models": {gpu.NAME: gpu.ENTRY}}), encoding="utf-8")
    gpu.make_model(Path("model"), gpu.SHAPES["tiny"])
    small = replace(CPU, shard=1, seconds=20.0)
    done = Check("tiny", small, 60)
    steps = [
        Step("replies", 3, partial(gpu._tokens, n=4)),
        Step("ratio", 18, gpu._ratio),
    ]
    found = list(gpu._on_an_engine(Stage("for a test", {}, steps), done))
    assert not [row for row in found if "not measured" in row.measured]
    shares = [row.measured for row in found if row.what.startswith("tokens per second")]
    assert 0.2 < float(shares[0]) < 3
    assert done.main is not None
    assert done.main.prompt > done.main.generated > 0
    assert done.main.queries > 0
    # A process for each game, real ones; their replies are as long as those of a model that plays, and all are usable.
    asked = [json.loads(body)["max_tokens"] for body in done.requests]
    assert {*asked} <= {*LENGTHS["propose"], *LENGTHS["vote"]}
    told = read_summary(next(Path("results").rglob("seed=0.parquet"))).telemetry
    assert (told["calls"], told["failed_replies"], told["completion_tokens"]) == (len(asked), 0, sum(asked))
