import hashlib
import math

import pytest

from parley.identity import canonical_json, digest, request_seed, stream

pytestmark = pytest.mark.promise("Random numbers and sampling seeds follow from identity alone.")


def test_canonical_json_is_plain_and_tells_types_and_nesting_apart() -> None:
    value = {"b": [1, None], "a": {"y": 1, "x": "é"}}
    assert canonical_json(value) == '{"a":{"x":"\\u00e9","y":1},"b":[1,null]}'
    assert digest(value) == hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
    for value in math.nan, -math.inf, {"a": [math.nan]}:
        with pytest.raises(ValueError, match="JSON compliant"):
            canonical_json(value)
    with pytest.raises(TypeError):
        canonical_json({1, 2})
    values = [1, "1", 1.0, True, None, "null", [1], [[1]], ["1", ""], ["", "1"], {"1": 1}, {}, []]
    assert len({digest(value) for value in values}) == len(values)


def test_a_stream_is_pinned_and_differs_by_each_of_its_parts() -> None:
    # If this changes, every stored simulation loses its identity: raise the protocol versions of the games.
    assert [int(v) for v in stream("game", "consensus", 0).integers(0, 51, 8)] == [20, 42, 18, 16, 5, 32, 25, 47]
    parts = [("a",), ("a", 0), ("a", 1), ("a", "1"), ("b", 0), ("a0",), (0, "a")]
    assert len({float(stream(*p).random()) for p in parts}) == len(parts)


def test_a_request_seed_depends_on_each_of_its_parts_and_a_retry_is_a_new_one() -> None:
    base = ("id", 1, "propose", "agent_1", 0)
    others = [
        (*base[:place], other, *base[place + 1 :]) for place, other in enumerate(("di", 2, "vote", "agent_2", 1))
    ]
    retries = [(*base[:4], attempt) for attempt in range(2, 21)]
    assert len({request_seed(*parts) for parts in [base, *others, *retries]}) == 25
    assert request_seed(*base) == request_seed(*base)
