"""`gpu-check`: vLLM's counters, and one run on an engine."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks import gpu
from benchmarks.gpu import CPU, LENGTHS, Check, difference, install, parse
from benchmarks.random_model import SHAPES, make_model
from parley.engine.client import Engine

PAGE = """\
vllm:prefix_cache_queries_total{engine="0",model_name="random-weights"} 23070.0
vllm:prefix_cache_queries_created{engine="0",model_name="random-weights"} 1.7953813020212398e+09
vllm:prefix_cache_hits_total{engine="0",model_name="random-weights"} 3200.0
vllm:prompt_tokens_total{engine="0",model_name="random-weights"} 23070.0
vllm:generation_tokens_total{engine="0",model_name="random-weights"} 3086.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="random-weights"} 19.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="random-weights"} 2.0
"""


def test_counters_are_added_up_over_their_labels_and_compared() -> None:
    before = parse(PAGE)
    assert [before[name] for name in ("prompt", "requests", "preempted")] == [23_070, 21, 0]  # a page may lack one
    later = PAGE.replace("23070.0", "33070.0").replace("3086.0", "5086.0").replace("3200.0", "8200.0")
    usage = difference(before, parse(later.replace("19.0", "29.0")), 4.0)
    assert (usage.prompt, usage.generated, usage.requests, usage.rate) == (10_000, 2_000, 10, 3_000)
    assert str(usage) == "3,000 tokens/s (500 generated), 10 requests in 4.0 s, 50% of prompts cached"


@pytest.mark.promise("`make gpu-check` measures an engine of random weights by vLLM's own counters.")
@pytest.mark.rare
def test_an_engine_of_random_weights_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Engine, "chat", Engine.chat)  # both of which are restored
    monkeypatch.setattr(Engine, "_post", Engine._post)
    check = Check(replace(CPU, shard=1, seconds=20.0, guided=8), time.monotonic() + 600)
    install(check)
    Path("models.yaml").write_text(yaml.safe_dump({"models": {gpu.NAME: gpu.ENTRY}}), encoding="utf-8")
    make_model(Path("model"), SHAPES["tiny"])
    steps = {"first": gpu._first, "ratio": gpu._ratio, "guided": gpu._guided}
    found = {row.what: str(row.measured) for row in gpu._on_an_engine(check, gpu.ENTRY, steps)}
    assert not [measured for measured in found.values() if "not measured" in measured]
    assert 0.2 < float(found["tokens per second of the shard / of vLLM alone"]) < 3
    assert check.main is not None
    assert check.main.prompt > check.main.generated > 0
    # Replies are as long as those of a model that plays, and all are usable.
    assert check.main.generated <= check.main.requests * max(LENGTHS["propose"])
    assert found["its prompts, its replies"].endswith(" 0% unusable")
