import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.analysis.stats import censored_median, mean_interval, wilson_interval

Z = 1.959963984540054  # the 97.5% point of the normal distribution


def wilson_by_formula(k: int, n: int, z: float = Z) -> tuple[float, float]:
    p = k / n
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return center - half, center + half


def test_wilson_of_no_data_is_undefined() -> None:
    assert all(math.isnan(limit) for limit in wilson_interval(0, 0))


def test_wilson_of_none_starts_at_zero_and_has_width() -> None:
    low, high = wilson_interval(0, 25)
    assert low == pytest.approx(0.0, abs=1e-12)
    assert low >= 0.0
    assert high == pytest.approx(Z**2 / (25 + Z**2))  # 0.1332


def test_wilson_of_all_ends_at_one_and_has_width() -> None:
    low, high = wilson_interval(25, 25)
    assert high == pytest.approx(1.0, abs=1e-12)
    assert high <= 1.0
    assert low == pytest.approx(25 / (25 + Z**2))  # 0.8668


def test_wilson_of_one_trial_is_wide() -> None:
    assert wilson_interval(1, 1) == pytest.approx((1 / (1 + Z**2), 1.0))
    assert wilson_interval(0, 1) == pytest.approx((0.0, Z**2 / (1 + Z**2)), abs=1e-12)


def test_wilson_of_a_published_example() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263, score method without correction.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_its_closed_form(case: tuple[int, int]) -> None:
    assert wilson_interval(*case) == pytest.approx(wilson_by_formula(*case), abs=1e-9)


def test_wilson_at_another_confidence() -> None:
    assert wilson_interval(3, 10, 0.99) == pytest.approx(wilson_by_formula(3, 10, 2.5758293035489004))


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (1, 0), (0, -1)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes must be in"):
        wilson_interval(successes, n)


@pytest.mark.parametrize(
    ("times", "ended", "median"),
    [
        ([7], [True], 7),
        ([1, 2, 3], [True] * 3, 2),
        ([1, 2, 3, 4], [True] * 4, 2.5),  # half have ended from 2 on, more than half from 3 on
        ([4, 1, 3, 2], [True] * 4, 2.5),  # in any order
        ([5, 5, 5, 9], [True] * 4, 5),
        ([3, 4, 50, 50], [True, True, False, False], 4),  # exactly half, and no other end is known
        ([3, 4, 8, 50], [True, True, True, False], 6),  # exactly half, then more
        ([3, 4, 5, 50, 50], [True, True, True, False, False], 5),
        # One drops out at 2: S(1) = 4/5, S(3) = 4/5 * 2/3 = 8/15, S(4) = 8/15 * 1/2 = 4/15.
        ([1, 2, 3, 4, 50], [True, False, True, True, False], 4),
        # A tie of an end and a drop-out: the end comes first. S(2) = 1 - 1/2.
        ([2, 2], [True, False], 2),
    ],
)
def test_median_by_hand(times: list[float], ended: list[bool], median: float) -> None:
    assert censored_median(times, ended) == median


@pytest.mark.parametrize(
    ("times", "ended"),
    [
        ([], []),
        ([50], [False]),
        ([50] * 6, [False] * 6),
        ([3, 50, 50], [True, False, False]),
        ([1, 2, 50, 50, 50], [True, True, False, False, False]),
    ],
)
def test_median_is_undefined_when_fewer_than_half_ended(times: list[float], ended: list[bool]) -> None:
    assert math.isnan(censored_median(times, ended))


@pytest.mark.parametrize("n", [2, 6, 50, 24, 38, 44, 46, 54])
def test_median_is_found_when_exactly_half_ended_whatever_the_rounding(n: int) -> None:
    times = [*range(1, n // 2 + 1), *[500] * (n // 2)]
    assert censored_median(times, [True] * (n // 2) + [False] * (n // 2)) == n // 2
    assert censored_median([*times, n], [*[True] * (n // 2), *[False] * (n // 2), True]) == n


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_without_deadlines_it_is_the_plain_median(times: list[int]) -> None:
    assert censored_median(times, [True] * len(times)) == mean_interval(times).median


def test_timeouts_never_count_as_ends() -> None:
    # The plain median would be the deadline.
    assert censored_median([2, 2, 50], [True, True, False]) == 2


def test_median_refuses_lists_of_unequal_length() -> None:
    with pytest.raises(ValueError, match="same length"):
        censored_median([1, 2], [True])
