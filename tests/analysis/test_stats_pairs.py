"""Means, and differences between two samples: by hand, by publication, and by scipy where it has them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from parley.analysis.stats import (
    fisher,
    holm,
    mcnemar,
    mean_interval,
    paired_difference,
    signed_rank,
    unpaired_difference,
    wilson_interval,
    wilson_of_mean,
)

COUNTS = st.integers(0, 60)

# The mean of shares


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_of_the_mean_of_zeros_and_ones_is_that_of_the_proportion(case: tuple[int, int]) -> None:
    k, n = case
    assert [float(limit) for limit in wilson_of_mean(k / n, n)] == pytest.approx(wilson_interval(k, n), abs=1e-12)


@pytest.mark.parametrize(("mean", "n"), [(math.nan, 5), (0.5, 0), (math.nan, 0)])
def test_wilson_of_no_mean_is_undefined(mean: float, n: int) -> None:
    assert all(math.isnan(limit) for limit in wilson_of_mean(mean, n))


def test_wilson_of_a_mean_holds_the_mean_however_far_out_it_is() -> None:
    means, n = np.array([0.0, 1e-300, 1.0 - 1e-16, 1.0 + 1e-13, 1.0]), np.array([1, 10**9, 3, 7, 10**15])
    low, high = wilson_of_mean(means, n)
    assert (low >= 0).all()
    assert (low <= means).all()
    assert (high >= np.minimum(means, 1)).all()
    assert (high <= 1).all()


def test_wilson_of_a_mean_covers_a_smaller_variance_more_often_than_it_says() -> None:
    rng = np.random.default_rng(0)
    means = rng.beta(3, 2, (2000, 12)).mean(axis=1)  # the mean of each is 0.6
    low, high = wilson_of_mean(means, 12)
    assert np.mean((low <= 0.6) & (high >= 0.6)) > 0.99


@pytest.mark.parametrize(("mean", "n"), [(1.01, 3), (-0.01, 3), (0.5, -1)])
def test_wilson_of_a_mean_refuses_what_is_no_share(mean: float, n: int) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        wilson_of_mean(mean, n)


# The mean of numbers


def test_mean_of_four_numbers_by_hand() -> None:
    found = mean_interval([1, 2, 3, 4])
    half = 3.182446305284263 * math.sqrt(5 / 3) / 2  # t at 97.5% with 3 degrees of freedom
    assert (found.n, found.mean, found.median, found.sd) == (4, 2.5, 2.5, pytest.approx(math.sqrt(5 / 3)))
    assert (found.low, found.high) == (pytest.approx(2.5 - half), pytest.approx(2.5 + half))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_mean_interval_is_that_of_scipy(values: list[float]) -> None:
    found = mean_interval(values)
    if found.sd > 1e-3:  # scipy has no interval of equal numbers
        expected = scipy_stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_one_number_has_a_mean_and_no_interval_and_none_has_nothing() -> None:
    one = mean_interval([5.0, math.nan])
    assert (one.n, one.mean, one.median) == (1, 5.0, 5.0)
    assert all(math.isnan(number) for number in (one.sd, one.low, one.high))
    none = mean_interval([math.nan])
    assert none.n == 0
    assert all(math.isnan(number) for number in (none.mean, none.median, none.sd, none.low, none.high))


def test_equal_numbers_have_an_interval_of_no_width() -> None:
    found = mean_interval([3.0] * 5)
    assert (found.sd, found.low, found.high) == (0.0, 3.0, 3.0)


# McNemar


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_exact_binomial_test(first: int, second: int) -> None:
    expected = scipy_stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert float(mcnemar(first, second)) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_by_hand_and_without_discordant_pairs() -> None:
    # One of eight: twice (1 + 8) / 256.
    assert mcnemar([1, 0, 4, 0], [7, 0, 4, 6]) == pytest.approx([18 / 256, 1.0, 1.0, 2 / 64])


def test_mcnemar_of_very_many_pairs_is_a_number() -> None:
    assert 0 <= float(mcnemar(0, 100_000)) < 1e-300
    with pytest.raises(ValueError, match="not be negative"):
        mcnemar(-1, 3)


# Differences of proportions


def test_paired_difference_of_published_examples() -> None:
    # Fagerland, Lydersen, Laake (Statistics in Medicine 33, 2014): Bentur's data, 1, 1, 7, 12 of 21 pairs.
    low, high = paired_difference(1, 1, 7, 12)
    assert (float(low), float(high)) == (pytest.approx(0.026, abs=5e-4), pytest.approx(0.507, abs=5e-4))


def test_unpaired_difference_of_published_examples() -> None:
    # Newcombe (1998, pp. 873-890), table II, method 10: 56/70 - 48/80, 9/10 - 3/10, 10/10 - 0/10.
    low, high = unpaired_difference([48, 3, 0], [80, 10, 10], [56, 9, 10], [70, 10, 10])
    assert low == pytest.approx([0.0524, 0.1705, 0.6075], abs=5e-5)
    assert high == pytest.approx([0.3339, 0.8090, 1.0], abs=5e-5)


def newcombe_by_hand(a: int, b: int, c: int, d: int) -> tuple[float, float]:
    n = a + b + c + d
    (l1, u1), (l2, u2) = wilson_interval(a + b, n), wilson_interval(a + c, n)
    p1, p2 = (a + b) / n, (a + c) / n
    top = a * d - b * c
    top = max(top - n / 2, 0) if top > 0 else top
    bottom = math.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    phi = top / bottom if bottom else 0
    low = (p2 - l2) ** 2 - 2 * phi * (p2 - l2) * (u1 - p1) + (u1 - p1) ** 2
    high = (u2 - p2) ** 2 - 2 * phi * (u2 - p2) * (p1 - l1) + (p1 - l1) ** 2
    return p2 - p1 - math.sqrt(max(low, 0)), p2 - p1 + math.sqrt(max(high, 0))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_paired_difference_follows_its_formula_and_mirrors(a: int, b: int, c: int, d: int) -> None:
    low, high = (float(limit) for limit in paired_difference(a, b, c, d))
    if a + b + c + d == 0:
        assert math.isnan(low)
        assert math.isnan(high)
        return
    assert (low, high) == pytest.approx(newcombe_by_hand(a, b, c, d), abs=1e-9)
    assert -1 <= low <= (c - b) / (a + b + c + d) + 1e-12
    assert high <= 1
    swapped = [float(limit) for limit in paired_difference(a, c, b, d)]
    assert swapped == pytest.approx([-high, -low], abs=1e-9)


def test_agreement_makes_a_paired_interval_narrower_than_an_unpaired_one() -> None:
    paired = paired_difference(45, 5, 2, 48)
    unpaired = unpaired_difference(50, 100, 47, 100)
    assert paired[1] - paired[0] < 0.6 * (unpaired[1] - unpaired[0])


def test_a_difference_from_no_data_is_undefined() -> None:
    assert all(math.isnan(limit) for limit in unpaired_difference(0, 0, 3, 5))
    assert all(math.isnan(limit) for limit in paired_difference(0, 0, 0, 0))


def test_fisher_by_hand() -> None:
    assert fisher(0, 3, 3, 3) == pytest.approx(2 / 20)  # 2 of the 6-choose-3 tables are as far out
    assert math.isnan(fisher(0, 0, 3, 3))


# Differences of numbers


def test_signed_rank_by_hand() -> None:
    # Ranks 2, 3, 4 against 1: the sum 1 or less has 2 of 16 signs, on two sides.
    assert signed_rank([0, 0, 0, 0], [2, 3, 4, -1]) == pytest.approx(4 / 16)
    assert signed_rank([0, 0, 0, 1, 7], [2, 3, 4, 0, 7]) == pytest.approx(4 / 16)


def test_signed_rank_of_no_difference_is_one_and_of_no_pairs_undefined() -> None:
    assert signed_rank([5, 6], [5, 6]) == 1.0
    assert signed_rank([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], [0.1 + 0.2] * 6) == 1.0  # a rounding error is no difference
    assert signed_rank([0], [1]) == 1.0
    assert math.isnan(signed_rank([], []))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=14, unique=True), st.integers(0, 2**14))
def test_signed_rank_is_that_of_scipy(sizes: list[int], signs: int) -> None:
    differences = [size if signs >> place & 1 else -size for place, size in enumerate(sizes)]
    expected = scipy_stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank([0] * len(sizes), differences) == pytest.approx(expected)


def test_signed_rank_counts_ties_exactly() -> None:
    # Ranks 1.5, 1.5, 3 and 4, the first negative: sums of 1.5 or less have 3 of 16 signs, on two sides.
    assert signed_rank([0] * 4, [-1, 1, 2, 3]) == pytest.approx(6 / 16)


def test_signed_rank_of_many_pairs_is_approximated() -> None:
    differences = [(-1) ** (place % 3) * (place + 1.0) for place in range(51)]
    exact = scipy_stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank([0] * 51, differences) == pytest.approx(exact, rel=0.05)


def test_differences_that_only_rounding_tells_apart_are_ties() -> None:
    steps = [0.1, 0.2, 0.3, -0.55, 0.55, 0.7, 0.8]
    noisy = [step + sign * 3e-16 for step, sign in zip(steps, [1, -1, 1, 1, -1, 1, -1], strict=True)]
    assert signed_rank([0] * 7, noisy) == signed_rank([0] * 7, steps)
    assert signed_rank([0] * 7, noisy) == signed_rank(noisy, [0] * 7)


def test_signed_rank_is_the_same_each_time_and_survives_ties_and_size() -> None:
    values = [1, 1, 1, 2, -3, 0] * 30 + [1e300, -1e300]
    assert signed_rank([0] * 182, values) == signed_rank([0] * 182, values)
    assert 0 < signed_rank([0] * 182, values) < 1


# Families


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.03, 0.04, times 3, 2, 1: 0.03, 0.06, then no less than before.
    assert holm([0.01, 0.04, math.nan, 0.03]) == pytest.approx([0.03, 0.06, math.nan, 0.06], nan_ok=True)
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_is_between_the_p_value_and_bonferroni(values: list[float]) -> None:
    adjusted = holm(values)
    assert (adjusted >= np.array(values)).all()
    assert (adjusted <= np.minimum(1, np.array(values) * len(values)) + 1e-15).all()
    assert min(adjusted) == pytest.approx(min(1, min(values) * len(values)))
