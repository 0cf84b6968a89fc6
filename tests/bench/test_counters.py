"""vLLM's counters: read from a page as vLLM 0.32 writes it, and what they say of a stretch of time."""

import pytest

from benchmarks.counters import difference, parse

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="random-weights"} 3.0
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="random-weights"} 23070.0
vllm:prefix_cache_queries_created{engine="0",model_name="random-weights"} 1.7953813020212398e+09
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="random-weights"} 3200.0
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="random-weights"} 23070.0
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="random-weights"} 3086.0
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="random-weights"} 19.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="random-weights"} 2.0
# HELP vllm:e2e_request_latency_seconds Histogram of e2e request latency in seconds.
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="random-weights"} 21.0
vllm:e2e_request_latency_seconds_count{engine="0",model_name="random-weights"} 21.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="random-weights"} 126.0
"""


def test_counters_are_added_up_over_their_labels() -> None:
    found = parse(PAGE)
    assert found["vllm:prompt_tokens_total"] == 23_070
    assert found["vllm:request_success_total"] == 21
    assert found["vllm:num_requests_running"] == 3
    assert found["vllm:num_preemptions_total"] == 0  # a page may lack one


def test_what_happened_is_the_difference_of_two_readings() -> None:
    later = PAGE.replace("23070.0", "33070.0").replace("3086.0", "5086.0").replace("3200.0", "8200.0")
    later = later.replace("21.0", "31.0").replace("126.0", "146.0").replace("19.0", "29.0")
    usage = difference(parse(PAGE), parse(later), 4.0)
    assert (usage.prompt, usage.generated, usage.requests) == (10_000, 2_000, 10)
    assert (usage.rate, usage.generated_rate, usage.request_seconds) == (3_000, 500, 2.0)
    assert usage.cached == pytest.approx(0.5)
    assert str(usage) == ("3,000 tokens/s (500 generated), 10 requests in 4.0 s, 2.00 s each, 50% of prompts cached")


def test_without_a_cache_and_without_requests_nothing_is_divided_by_zero() -> None:
    usage = difference(parse(PAGE), parse(PAGE), 1.0)
    assert usage.cached is None
    assert usage.request_seconds is None
    assert str(usage) == "0 tokens/s (0 generated), 0 requests in 1.0 s, no prefix cache"


def test_preemptions_are_named() -> None:
    before = parse(PAGE)
    usage = difference(before, {**before, "vllm:num_preemptions_total": 7.0}, 1.0)
    assert str(usage).endswith(", 7 preempted")
