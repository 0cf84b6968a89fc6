"""vLLM's own counters, from its page of Prometheus metrics, and what they say of a stretch of time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.serving import direct

# What is read, by the name that vLLM 0.32 gives it. A counter that it does not have counts as 0.
_COUNTERS = {
    "vllm:prompt_tokens_total": "prompt",
    "vllm:generation_tokens_total": "generated",
    "vllm:request_success_total": "requests",
    "vllm:prefix_cache_queries_total": "queries",
    "vllm:prefix_cache_hits_total": "hits",
    "vllm:num_preemptions_total": "preempted",
    "vllm:e2e_request_latency_seconds_sum": "waited",
    "vllm:e2e_request_latency_seconds_count": "timed",
}
_GAUGES = {"vllm:num_requests_running": "running", "vllm:num_requests_waiting": "waiting"}
_NAMES = {**_COUNTERS, **_GAUGES}


def parse(page: str) -> dict[str, float]:
    """Return the counters in the text of a metrics page, added up over their labels (engines, reasons)."""
    found = dict.fromkeys(_NAMES.values(), 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in _NAMES:
                found[_NAMES[sample.name]] += sample.value
    return found


@dataclass(frozen=True)
class Usage:
    """What an engine did in `seconds`, by the differences of its counters."""

    seconds: float
    prompt: float  # tokens, those from the prefix cache included
    generated: float  # tokens
    requests: float  # that finished; those that were cut off are not among them
    queries: float  # tokens that were looked for in the prefix cache, 0 without one
    hits: float  # and found there
    preempted: float  # requests
    waited: float  # seconds of all finished requests, from arrival to the last token
    timed: float  # requests that this counts

    @property
    def rate(self) -> float:
        """Prompt and generated tokens per second."""
        return (self.prompt + self.generated) / self.seconds

    @property
    def generated_rate(self) -> float:
        """Generated tokens per second."""
        return self.generated / self.seconds

    def __str__(self) -> str:
        parts = [
            f"{self.rate:,.0f} tokens/s ({self.generated_rate:,.0f} generated)",
            f"{self.requests:,.0f} requests in {self.seconds:.1f} s",
            f"{self.waited / self.timed:.2f} s each" if self.timed else "",
            f"{self.hits / self.queries:.0%} of prompts cached" if self.queries else "no prefix cache",
            f"{self.preempted:.0f} preempted" if self.preempted else "",
        ]
        return ", ".join(filter(None, parts))


def difference(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Usage:
    """Return what happened between two readings that are `seconds` apart."""
    return Usage(seconds, **{name: after[name] - before[name] for name in _COUNTERS.values()})


def read(endpoint: Path) -> dict[str, float]:
    """Return an engine's counters."""
    with direct(endpoint) as client:
        return parse(client.get("/metrics").raise_for_status().text)


def wait_idle(endpoint: Path, seconds: float = 30.0) -> None:
    """Return when the engine has no requests left, those that were cut off included, or after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(read(endpoint)[name] for name in _GAUGES.values()):
        time.sleep(0.2)


def reset_cache(endpoint: Path) -> None:
    """Empty the prefix cache; the engine has to run with VLLM_SERVER_DEV_MODE=1. Raises RuntimeError if it stays."""
    wait_idle(endpoint)
    with direct(endpoint) as client:
        for _ in range(20):  # finished requests give their blocks back with the engine's next step
            if client.post("/reset_prefix_cache").raise_for_status().json()["success"]:
                return
            time.sleep(0.5)
    raise RuntimeError("the prefix cache could not be emptied")
