"""Means, and differences between two samples: by hand, by publication, and by scipy where it has them."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats
from scipy.optimize import minimize_scalar
from scipy.special import xlogy
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from parley.analysis.stats import (
    holm,
    mcnemar,
    mean_interval,
    paired_difference,
    paired_mean,
    paired_share,
    unpaired_difference,
    unpaired_p,
    welch,
    wilson_interval,
    wilson_of_mean,
)

COUNTS = st.integers(0, 60)
Z = 1.959963984540054  # the 97.5% point of the normal distribution

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


# Pairs: McNemar's score test and Tango's interval


def tables_of(n: int) -> tuple[NDArray[np.int64], ...]:
    """Return all tables of n pairs: both, only the first, only the second, neither."""
    found = [(a, b, c, n - a - b - c) for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)]
    return tuple(np.array(found).T)


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_chi_squared_test_without_correction(first: int, second: int) -> None:
    expected = (
        statsmodels_mcnemar([[0, first], [second, 0]], exact=False, correction=False).pvalue if first + second else 1
    )
    assert float(mcnemar(first, second)) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_by_hand_and_without_discordant_pairs() -> None:
    # (7 - 1) / sqrt(8) and 6 / sqrt(6).
    expected = [2 * scipy_stats.norm.sf(6 / 8**0.5), 1.0, 1.0, 2 * scipy_stats.norm.sf(6**0.5)]
    assert mcnemar([1, 0, 4, 0], [7, 0, 4, 6]) == pytest.approx(expected)


def test_mcnemar_of_very_many_pairs_is_a_number() -> None:
    assert 0 <= float(mcnemar(0, 100_000)) < 1e-300
    with pytest.raises(ValueError, match="not be negative"):
        mcnemar(-1, 3)


@pytest.mark.parametrize("n", [1, 4, 5, 25])
def test_the_paired_test_and_interval_never_contradict(n: int) -> None:
    tables = tables_of(n)
    low, high = paired_difference(*tables)
    assert len(low) == math.comb(n + 3, 3)  # 3,276 of 25 pairs
    assert (((low > 0) | (high < 0)) == (mcnemar(tables[1], tables[2]) < 0.05)).all()
    difference = (tables[2] - tables[1]) / n
    assert (low < high).all()
    assert ((low <= difference) & (difference <= high) & (low >= -1) & (high <= 1)).all()


def test_paired_difference_of_published_examples() -> None:
    # Fagerland, Lydersen, Laake (Statistics in Medicine 33, 2014): Bentur's data, 1, 1, 7, 12 of 21 pairs.
    low, high = paired_difference(1, 1, 7, 12)
    assert (float(low), float(high)) == (pytest.approx(0.026, abs=5e-4), pytest.approx(0.517, abs=5e-4))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_paired_limits_are_where_the_likelihood_says(a: int, b: int, c: int, d: int) -> None:
    n = a + b + c + d
    low, high = (float(limit) for limit in paired_difference(a, b, c, d))
    if n == 0:
        assert math.isnan(low)
        assert math.isnan(high)
        return

    def z(difference: float) -> float:
        rate = likeliest(
            lambda r: xlogy(b, r) + xlogy(c, r + difference) + xlogy(a + d, 1 - 2 * r - difference),
            max(0, -difference),
            (1 - difference) / 2,
        )
        return float((c - b - n * difference) / math.sqrt(n * (2 * rate + difference * (1 - difference))))

    for limit, expected in ((low, Z), (high, -Z)):
        if abs(limit) < 0.999:
            assert z(limit) == pytest.approx(expected, abs=1e-4)
    swapped = [float(limit) for limit in paired_difference(a, c, b, d)]
    assert swapped == pytest.approx([-high, -low], abs=1e-9)


def likeliest(log_likelihood: Callable[[float], float], low: float, high: float) -> float:
    options = {"xatol": 1e-13, "maxiter": 500}
    found = minimize_scalar(lambda r: -log_likelihood(r), bounds=(low, high), method="bounded", options=options)
    return float(found.x)


def test_paired_difference_where_all_pairs_agree_or_differ() -> None:
    # With no discordant pair, n * difference / (1 - difference) is the square of z.
    low, high = paired_difference([25, 0], [0, 25], [0, 0], [0, 0])
    assert (low[0], high[0]) == (pytest.approx(-(Z**2) / (25 + Z**2)), pytest.approx(Z**2 / (25 + Z**2)))
    assert (low[1], high[1]) == (pytest.approx(-1), pytest.approx(Z**2 / (25 + Z**2) * 2 - 1, abs=0.02))


@pytest.mark.parametrize(("n", "largest"), [(5, 0.078), (10, 0.053), (25, 0.0543)])
def test_size_of_the_paired_test_is_what_the_docs_say(n: int, largest: float) -> None:
    _, b, c, rest = (part[: math.comb(n + 2, 2)] for part in tables_of(n))  # those in which no pair has both
    rejected = mcnemar(b, c) < 0.05
    discordant = np.linspace(0.02, 0.98, 49)
    law = [scipy_stats.multinomial.pmf(np.stack([b, c, rest], axis=1), n, [d / 2, d / 2, 1 - d]) for d in discordant]
    assert max(p[rejected].sum() for p in law) == pytest.approx(largest, abs=5e-4)


def test_agreement_makes_a_paired_interval_narrower_than_an_unpaired_one() -> None:
    paired = paired_difference(45, 5, 2, 48)
    unpaired = unpaired_difference(50, 100, 47, 100)
    assert paired[1] - paired[0] < 0.6 * (unpaired[1] - unpaired[0])


# Without pairs: the N - 1 chi-squared test and Miettinen and Nurminen's interval


def test_unpaired_difference_of_published_examples() -> None:
    # Newcombe (1998, pp. 873-890), table II, method 6: 56/70 - 48/80, 9/10 - 3/10, 10/10 - 0/20, 10/10 - 0/10.
    low, high = unpaired_difference([48, 3, 0, 0], [80, 10, 20, 10], [56, 9, 10, 10], [70, 10, 10, 10])
    assert low == pytest.approx([0.0528, 0.1700, 0.7156, 0.6636], abs=5e-5)
    assert high == pytest.approx([0.3382, 0.8406, 1.0, 1.0], abs=5e-5)


def test_unpaired_p_by_hand() -> None:
    # Campbell: chi-squared (N - 1) / N; of 1 of 5 and 4 of 5 it is 9 / 10 * 3.6.
    assert float(unpaired_p(1, 5, 4, 5)) == pytest.approx(scipy_stats.chi2.sf(3.24, 1))
    pooled = scipy_stats.chi2_contingency([[48, 32], [56, 14]], correction=False).statistic
    assert float(unpaired_p(48, 80, 56, 70)) == pytest.approx(scipy_stats.chi2.sf(pooled * 149 / 150, 1))
    assert unpaired_p([0, 3], [4, 3], [0, 5], [7, 5]) == pytest.approx([1.0, 1.0])


def test_the_unpaired_test_and_interval_never_contradict() -> None:
    sizes = [(n, m) for n in range(1, 14) for m in range(1, 14)]
    x, n, y, m = np.array([(x, n, y, m) for n, m in sizes for x in range(n + 1) for y in range(m + 1)]).T
    low, high = unpaired_difference(x, n, y, m)
    assert (((low > 0) | (high < 0)) == (unpaired_p(x, n, y, m) < 0.05)).all()
    assert ((low <= y / m - x / n) & (y / m - x / n <= high) & (low < high)).all()


@given(COUNTS, st.integers(1, 60), COUNTS, st.integers(1, 60))
def test_the_unpaired_limits_are_where_the_likelihood_says(x: int, n: int, y: int, m: int) -> None:
    x, y = min(x, n), min(y, m)
    low, high = (float(limit) for limit in unpaired_difference(x, n, y, m))

    def z(difference: float) -> float:
        rate = likeliest(
            lambda r: xlogy(x, r) + xlogy(n - x, 1 - r) + xlogy(y, r + difference) + xlogy(m - y, 1 - r - difference),
            max(0, -difference),
            min(1, 1 - difference),
        )
        other = rate + difference
        variance = (rate * (1 - rate) / n + other * (1 - other) / m) * (n + m) / (n + m - 1)
        return float((y / m - x / n - difference) / math.sqrt(variance))

    for limit, expected in ((low, Z), (high, -Z)):
        if abs(limit) < 0.999:
            assert z(limit) == pytest.approx(expected, abs=1e-4)
    mirrored = [float(limit) for limit in unpaired_difference(y, m, x, n)]
    assert mirrored == pytest.approx([-high, -low], abs=1e-9)


def test_a_difference_from_no_data_is_undefined() -> None:
    assert all(math.isnan(limit) for limit in unpaired_difference(0, 0, 3, 5))
    assert all(math.isnan(limit) for limit in paired_difference(0, 0, 0, 0))
    assert math.isnan(unpaired_p(0, 0, 3, 3))


# Differences of numbers


def test_paired_mean_by_hand() -> None:
    # Differences 2, 3, 2, 5: mean 3, deviation sqrt(2), t = 3 / (sqrt(2) / 2).
    low, high, p = paired_mean([1, 2, 3, 4], [3, 5, 5, 9])
    half = 3.182446305284263 * math.sqrt(2) / 2
    assert (low, high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert p == pytest.approx(2 * scipy_stats.t.sf(3 * math.sqrt(2), 3))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=12))
def test_the_paired_mean_and_its_interval_never_contradict(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    low, high, p = paired_mean(x, y)
    assert (low > 0 or high < 0) == (p < 0.05)
    if not math.isnan(low):
        assert p == pytest.approx(scipy_stats.ttest_rel(y, x).pvalue)


@pytest.mark.parametrize(
    ("x", "y", "p"),
    [
        ([], [], math.nan),
        ([1], [2], math.nan),
        ([5, 6], [5, 6], 1.0),
        ([0.3] * 6, [0.1 + 0.2] * 6, 1.0),  # a rounding error is no difference
        ([1, 2, 3], [2, 3, 4], math.nan),
        ([0, 0.1, 0.2], [0.1, 0.2, 0.1 + 0.2], math.nan),  # all differ by the same, but for rounding
    ],
)
def test_differences_that_do_not_vary_have_no_interval(x: list[float], y: list[float], p: float) -> None:
    low, high, found = paired_mean(x, y)
    assert math.isnan(low)
    assert math.isnan(high)
    assert found == pytest.approx(p, nan_ok=True)


@given(st.integers(2, 300), st.sampled_from([-1.0, 0.0, 1.0]))
def test_shares_that_all_differ_by_nothing_or_by_all_have_the_interval_and_test_of_rates(n: int, c: float) -> None:
    x, y = ([1.0] * n, [1.0 + c] * n) if c < 1 else ([0.0] * n, [1.0] * n)
    counts = (n, 0, 0, 0) if c == 0 else (0, n, 0, 0) if c < 0 else (0, 0, n, 0)
    low, high, p = paired_share(x, y)
    assert (low, high) == pytest.approx([float(limit) for limit in paired_difference(*counts)], abs=1e-9)
    assert p == pytest.approx(float(mcnemar(*counts[1:3])))


def test_shares_that_all_differ_by_the_same_by_hand() -> None:
    # Of 20 pairs all differ by a quarter: u = 1.96^2 / (20 + 1.96^2) = 0.16113 of all pairs may differ otherwise.
    low, high, p = paired_share([0.5] * 20, [0.75] * 20)
    assert (low, high) == (pytest.approx(0.04859, abs=1e-5), pytest.approx(0.37085, abs=1e-5))
    assert p == pytest.approx(2 * scipy_stats.norm.sf(math.sqrt(5)))
    assert paired_share([0.5] * 20, [0.5] * 20) == (
        pytest.approx(-0.16113, abs=1e-5),
        pytest.approx(0.16113, abs=1e-5),
        1,
    )
    assert np.isnan(paired_share([0.5], [0.75])).all()
    assert np.isnan(paired_share([], [])).all()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_the_paired_share_and_its_interval_never_contradict(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T / 4
    low, high, p = paired_share(x, y)
    assert (low > 0 or high < 0) == (p < 0.05)
    if not math.isnan(paired_mean(x, y)[0]):
        assert (low, high, p) == paired_mean(x, y)


@given(st.integers(2, 60), st.integers(-20, 20))
def test_the_share_test_and_interval_agree_whatever_the_difference(n: int, twentieths: int) -> None:
    x, y = ([0.0] * n, [twentieths / 20] * n) if twentieths >= 0 else ([1.0] * n, [1 + twentieths / 20] * n)
    low, high, p = paired_share(x, y)
    assert (low > 0 or high < 0) == (p < 0.05)


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


# Welch's test


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=9), st.lists(st.floats(-9, 9), min_size=2, max_size=9))
def test_welch_is_scipys(first: list[float], second: list[float]) -> None:
    if np.ptp(first) < 0.01 or np.ptp(second) < 0.01:
        return
    theirs = scipy_stats.ttest_ind(second, first, equal_var=False)
    limits = theirs.confidence_interval(0.95)
    assert welch(first, second) == pytest.approx((limits.low, limits.high, theirs.pvalue), rel=1e-6, abs=1e-9)


def test_welch_where_nothing_or_one_side_alone_varies() -> None:
    assert all(math.isnan(each) for each in (*welch([1, 1], [2, 2]), *welch([1], [2, 3]), *welch([], [])))
    low, high, p = welch([1, 1, 1], [2, 3, 4])
    assert (low, high) == pytest.approx((2 - 4.302652729911275 / 3**0.5, 2 + 4.302652729911275 / 3**0.5))
    assert p < 0.1
