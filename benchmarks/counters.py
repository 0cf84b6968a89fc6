"""vLLM's own counters, from its page of Prometheus metrics, and what they say of a stretch of time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.serving import direct

# What is read, by the name that vLLM 0.32 gives it. A counter that it does not have counts as 0.
PROMPT = "vllm:prompt_tokens_total"
GENERATED = "vllm:generation_tokens_total"
FINISHED = "vllm:request_success_total"
QUERIES = "vllm:prefix_cache_queries_total"
HITS = "vllm:prefix_cache_hits_total"
PREEMPTIONS = "vllm:num_preemptions_total"
REQUEST_SECONDS = "vllm:e2e_request_latency_seconds_sum"
REQUESTS_TIMED = "vllm:e2e_request_latency_seconds_count"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
_NAMES = (PROMPT, GENERATED, FINISHED, QUERIES, HITS, PREEMPTIONS, REQUEST_SECONDS, REQUESTS_TIMED, RUNNING, WAITING)


def parse(page: str) -> dict[str, float]:
    """Return the counters in the text of a metrics page, added up over their labels (engines, reasons)."""
    found = dict.fromkeys(_NAMES, 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in found:
                found[sample.name] += sample.value
    return found


@dataclass(frozen=True)
class Usage:
    """What an engine did in `seconds`, by the differences of its counters."""

    seconds: float
    counted: Mapping[str, float]

    @property
    def prompt(self) -> int:
        """Prompt tokens, those from the prefix cache included."""
        return round(self.counted[PROMPT])

    @property
    def generated(self) -> int:
        """Generated tokens."""
        return round(self.counted[GENERATED])

    @property
    def requests(self) -> int:
        """Finished requests; those that were cut off are not among them."""
        return round(self.counted[FINISHED])

    @property
    def rate(self) -> float:
        """Prompt and generated tokens per second."""
        return (self.prompt + self.generated) / self.seconds

    @property
    def generated_rate(self) -> float:
        """Generated tokens per second."""
        return self.generated / self.seconds

    @property
    def cached(self) -> float | None:
        """Share of the prompt tokens that were in the prefix cache; None without a cache."""
        return self.counted[HITS] / self.counted[QUERIES] if self.counted[QUERIES] else None

    @property
    def request_seconds(self) -> float | None:
        """Mean time of a finished request, from its arrival to its last token; None if none finished."""
        timed = self.counted[REQUESTS_TIMED]
        return self.counted[REQUEST_SECONDS] / timed if timed else None

    def __str__(self) -> str:
        parts = [
            f"{self.rate:,.0f} tokens/s ({self.generated_rate:,.0f} generated)",
            f"{self.requests:,} requests in {self.seconds:.1f} s",
        ]
        if self.request_seconds is not None:
            parts.append(f"{self.request_seconds:.2f} s each")
        parts.append("no prefix cache" if self.cached is None else f"{self.cached:.0%} of prompts cached")
        if self.counted[PREEMPTIONS]:
            parts.append(f"{self.counted[PREEMPTIONS]:.0f} preempted")
        return ", ".join(parts)


def difference(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Usage:
    """Return what happened between two readings that are `seconds` apart."""
    return Usage(seconds, {name: after[name] - before[name] for name in _NAMES})


def read(endpoint: Path) -> dict[str, float]:
    """Return an engine's counters."""
    with direct(endpoint) as client:
        return parse(client.get("/metrics").raise_for_status().text)


def wait_idle(endpoint: Path, seconds: float = 30.0) -> None:
    """Return when the engine has no requests left, those that were cut off included."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = read(endpoint)
        if not now[RUNNING] and not now[WAITING]:
            return
        time.sleep(0.2)


def reset_cache(endpoint: Path) -> None:
    """Empty the prefix cache; the engine has to run with VLLM_SERVER_DEV_MODE=1. Raises RuntimeError if it stays."""
    wait_idle(endpoint)
    with direct(endpoint) as client:
        answer = client.post("/reset_prefix_cache").raise_for_status()
        # Finished requests give their blocks back with the engine's next step.
        for _ in range(20):
            if answer.json()["success"]:
                return
            time.sleep(0.5)
            answer = client.post("/reset_prefix_cache").raise_for_status()
    raise RuntimeError("the prefix cache could not be emptied")
