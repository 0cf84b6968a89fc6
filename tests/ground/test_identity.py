import hashlib
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.identity import canonical_json, digest, request_seed, stream


def test_canonical_json_is_sorted_and_has_no_spaces() -> None:
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,null]}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


def test_types_that_json_does_not_know_are_refused() -> None:
    with pytest.raises(TypeError):
        canonical_json({1, 2})


def test_digest_is_the_sha256_of_the_canonical_json() -> None:
    assert digest({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"x": 1, "y": {"a": 1, "b": 2}}) == digest({"y": {"b": 2, "a": 1}, "x": 1})


def test_digest_tells_types_and_nesting_apart() -> None:
    values = [1, "1", 1.0, True, None, "null", [1], [[1]], ["1", ""], ["", "1"], {"1": 1}, {}, []]
    assert len({digest(value) for value in values}) == len(values)


def test_stream_is_pinned() -> None:
    # If this changes, every stored simulation loses its identity: raise the protocol versions of the games.
    assert [int(v) for v in stream("game", "consensus", 0).integers(0, 51, 8)] == [20, 42, 18, 16, 5, 32, 25, 47]


def test_streams_of_other_parts_differ() -> None:
    parts = [("a",), ("a", 0), ("a", 1), ("a", "1"), ("b", 0), ("a0",), (0, "a")]
    assert len({float(stream(*p).random()) for p in parts}) == len(parts)


def test_streams_do_not_touch_or_read_global_generators() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = stream("a", 1).integers(0, 2**31, 4).tolist()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    random.seed(2)
    np.random.seed(2)
    assert stream("a", 1).integers(0, 2**31, 4).tolist() == first


def test_request_seed_depends_on_each_of_its_parts() -> None:
    base = ("id", 1, "propose", "agent_1", 0)
    others = [
        ("di", 1, "propose", "agent_1", 0),
        ("id", 2, "propose", "agent_1", 0),
        ("id", 1, "vote", "agent_1", 0),
        ("id", 1, "propose", "agent_2", 0),
        ("id", 1, "propose", "agent_1", 1),
    ]
    seeds = {request_seed(*parts) for parts in [base, *others]}
    assert len(seeds) == 6
    assert request_seed(*base) == request_seed(*base)


def test_retry_uses_a_new_seed() -> None:
    seeds = [request_seed("id", 1, "vote", "agent_1", attempt) for attempt in range(21)]
    assert len(set(seeds)) == 21


@given(st.text(max_size=20), st.integers(0, 10_000), st.integers(0, 20))
def test_request_seeds_fit_an_unsigned_31_bit_integer(simulation: str, round_number: int, attempt: int) -> None:
    assert 0 <= request_seed(simulation, round_number, "propose", "agent_1", attempt) < 2**31


def test_request_seeds_use_the_whole_range() -> None:
    seeds = [request_seed("id", number, "vote", "agent_1", 0) for number in range(400)]
    assert min(seeds) < 2**31 * 0.05
    assert max(seeds) > 2**31 * 0.95
