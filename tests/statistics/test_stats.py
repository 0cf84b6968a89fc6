"""Statistics: by closed form, by hand, by publication, and by scipy or statsmodels where they have them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from parley.statistics.stats import (
    censored_median,
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

pytestmark = pytest.mark.promise("Intervals and tests agree with closed forms, publications, scipy and statsmodels.")

COUNTS = st.integers(0, 60)
Z = 1.959963984540054  # the 97.5% point of the normal distribution
Z2 = Z**2
T3 = 3.182446305284263  # that of t with 3 degrees of freedom
NAN = math.nan


# Proportions and means of shares: Wilson


def test_wilson_by_publication() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert np.isnan(wilson_interval(0, 0)).all()


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.95, 0.99]))
def test_wilson_equals_its_closed_form_also_of_a_mean(case: tuple[int, int], confidence: float) -> None:
    k, n = case
    p, z = k / n, {0.95: Z, 0.99: 2.5758293035489004}[confidence]
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = scipy_stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
    assert (low, high) == pytest.approx((center - half, center + half), abs=1e-9)
    assert 0 <= low <= p <= high <= 1
    assert [float(limit) for limit in wilson_of_mean(p, n, confidence)] == pytest.approx([low, high], abs=1e-12)
    assert wilson_interval(k, n) == pytest.approx([float(limit) for limit in wilson_of_mean(p, n)], abs=1e-12)


def test_wilson_of_a_mean_holds_the_mean_however_far_out_it_is() -> None:
    means, n = np.array([0.0, 1e-300, 1.0 - 1e-16, 1.0 + 1e-13, 1.0]), np.array([1, 10**9, 3, 7, 10**15])
    low, high = wilson_of_mean(means, n)
    assert ((low >= 0) & (low <= means)).all()
    assert ((high >= np.minimum(means, 1)) & (high <= 1)).all()
    assert np.isnan([wilson_of_mean(mean, n) for mean, n in ((NAN, 5), (0.5, 0), (NAN, 0))]).all()


# Numbers


def test_a_mean_has_the_interval_of_t_by_hand() -> None:
    found = mean_interval([1, 2, 3, NAN, 4])
    half = T3 * math.sqrt(5 / 3) / 2
    assert (found.n, found.mean, found.median, found.sd) == (4, 2.5, 2.5, pytest.approx(math.sqrt(5 / 3)))
    assert (found.low, found.high) == pytest.approx((2.5 - half, 2.5 + half))
    equal, one, none = mean_interval([3.0] * 5), mean_interval([5.0, NAN]), mean_interval([NAN])
    assert (equal.sd, equal.low, equal.high) == (0.0, 3.0, 3.0)
    assert (one.n, one.mean, one.median) == (1, 5.0, 5.0)
    assert none.n == 0
    undefined = [one.sd, one.low, one.high, none.mean, none.median, none.sd, none.low, none.high]
    assert np.isnan(undefined).all()


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=9), st.lists(st.floats(-9, 9), min_size=2, max_size=9))
def test_welch_is_scipys(first: list[float], second: list[float]) -> None:
    if np.ptp(first) < 0.01 or np.ptp(second) < 0.01:
        return
    theirs = scipy_stats.ttest_ind(second, first, equal_var=False)
    limits = theirs.confidence_interval(0.95)
    assert welch(first, second) == pytest.approx((limits.low, limits.high, theirs.pvalue), rel=1e-6, abs=1e-9)


def test_welch_where_nothing_or_one_side_alone_varies() -> None:
    assert np.isnan([*welch([1, 1], [2, 2]), *welch([1], [2, 3]), *welch([], [])]).all()
    low, high, p = welch([1, 1, 1], [2, 3, 4])
    assert (low, high) == pytest.approx((2 - 4.302652729911275 / 3**0.5, 2 + 4.302652729911275 / 3**0.5))
    assert p < 0.1


# Medians of what may not have ended


def test_medians_by_hand() -> None:
    """Times, 1 where it ended and 0 where that was not seen, the median."""
    for times, ended, median in (
        ([7], "1", 7),
        ([4, 1, 3, 2], "1111", 2.5),  # half have ended from 2 on, more than half from 3 on
        ([5, 5, 5, 9], "1111", 5),
        ([2, 2, 50], "110", 2),  # a deadline is no end
        ([3, 4, 50, 50], "1100", 4),  # exactly half, and no other end is known
        ([3, 4, 8, 50], "1110", 6),  # exactly half, then more
        # One drops out at 2: S(1) = 4/5, S(3) = 4/5 * 2/3 = 8/15, S(4) = 8/15 * 1/2 = 4/15.
        ([1, 2, 3, 4, 50], "10110", 4),
        ([2, 2], "10", 2),  # a tie of an end and a drop-out: the end comes first, S(2) = 1 - 1/2
        ([], "", NAN),
        ([50] * 6, "000000", NAN),
        ([1, 2, 50, 50, 50], "11000", NAN),  # fewer than half
    ):
        found = censored_median(times, [letter == "1" for letter in ended])
        assert found == pytest.approx(median, nan_ok=True), (times, ended)


# Pairs: McNemar's score test and Tango's interval


def tables_of(n: int) -> tuple[NDArray[np.int64], ...]:
    """Return all tables of n pairs: both, only the first, only the second, neither."""
    found = [(a, b, c, n - a - b - c) for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)]
    return tuple(np.array(found).T)


def test_mcnemar_by_hand_without_discordant_pairs_and_with_very_many() -> None:
    # (7 - 1) / sqrt(8) and 6 / sqrt(6).
    expected = [2 * scipy_stats.norm.sf(6 / 8**0.5), 1.0, 1.0, 2 * scipy_stats.norm.sf(6**0.5)]
    assert mcnemar([1, 0, 4, 0], [7, 0, 4, 6]) == pytest.approx(expected)
    assert 0 <= float(mcnemar(0, 100_000)) < 1e-300


@pytest.mark.promise("Tests and intervals never contradict each other, in any table of 25 pairs.")
def test_the_paired_test_and_interval_never_contradict() -> None:
    for n in (1, 4, 5, 25):
        tables = tables_of(n)
        low, high = paired_difference(*tables)
        assert len(low) == math.comb(n + 3, 3)
        assert (((low > 0) | (high < 0)) == (mcnemar(tables[1], tables[2]) < 0.05)).all(), n
        difference = (tables[2] - tables[1]) / n
        assert ((low < high) & (low <= difference) & (difference <= high) & (low >= -1) & (high <= 1)).all(), n


def test_paired_difference_by_hand_and_by_publication() -> None:
    # Fagerland, Lydersen, Laake (Statistics in Medicine 33, 2014): Bentur's data.
    assert [float(x) for x in paired_difference(1, 1, 7, 12)] == pytest.approx([0.026, 0.517], abs=5e-4)
    # With no discordant pair, n * difference / (1 - difference) is the square of z.
    low, high = paired_difference([25, 0, 0], [0, 25, 0], [0, 0, 0], [0, 0, 0])
    u = Z2 / (25 + Z2)
    assert low == pytest.approx([-u, -1, NAN], nan_ok=True)
    assert high == pytest.approx([u, 2 * u - 1, NAN], abs=0.02, nan_ok=True)
    # Agreement makes it narrower than without pairs.
    paired, unpaired = paired_difference(45, 5, 2, 48), unpaired_difference(50, 100, 47, 100)
    assert paired[1] - paired[0] < 0.6 * (unpaired[1] - unpaired[0])


# Without pairs: the N - 1 chi-squared test and Miettinen and Nurminen's interval


def test_the_unpaired_test_and_interval_by_hand_and_by_publication() -> None:
    # Newcombe (1998, pp. 873-890), table II, method 6: 56/70 - 48/80, 9/10 - 3/10, 10/10 - 0/20, 10/10 - 0/10.
    low, high = unpaired_difference([48, 3, 0, 0, 0], [80, 10, 20, 10, 0], [56, 9, 10, 10, 3], [70, 10, 10, 10, 5])
    assert low == pytest.approx([0.0528, 0.1700, 0.7156, 0.6636, NAN], abs=5e-5, nan_ok=True)
    assert high == pytest.approx([0.3382, 0.8406, 1.0, 1.0, NAN], abs=5e-5, nan_ok=True)
    # Campbell: chi-squared (N - 1) / N; of 1 of 5 and 4 of 5 it is 9 / 10 * 3.6.
    pooled = scipy_stats.chi2_contingency([[48, 32], [56, 14]], correction=False).statistic
    expected = [scipy_stats.chi2.sf(3.24, 1), scipy_stats.chi2.sf(pooled * 149 / 150, 1), 1, 1, NAN]
    found = unpaired_p([1, 48, 0, 3, 0], [5, 80, 4, 3, 0], [4, 56, 0, 5, 3], [5, 70, 7, 5, 3])
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.slow
def test_the_unpaired_test_and_interval_never_contradict() -> None:
    sizes = [(n, m) for n in range(1, 14) for m in range(1, 14)]
    x, n, y, m = np.array([(x, n, y, m) for n, m in sizes for x in range(n + 1) for y in range(m + 1)]).T
    low, high = unpaired_difference(x, n, y, m)
    assert (((low > 0) | (high < 0)) == (unpaired_p(x, n, y, m) < 0.05)).all()
    assert ((low <= y / m - x / n) & (y / m - x / n <= high) & (low < high)).all()


# Pairs of numbers and of shares


def test_paired_mean_by_hand() -> None:
    # Differences 2, 3, 2, 5: mean 3, deviation sqrt(2), t = 3 / (sqrt(2) / 2).
    half, p = T3 * math.sqrt(2) / 2, 2 * scipy_stats.t.sf(3 * math.sqrt(2), 3)
    assert paired_mean([1, 2, 3, 4], [3, 5, 5, 9]) == pytest.approx((3 - half, 3 + half, p))
    rows: tuple[tuple[list[float], list[float], float], ...] = (
        ([], [], NAN),
        ([1], [2], NAN),
        ([5, 6], [5, 6], 1.0),
        ([0.3] * 6, [0.1 + 0.2] * 6, 1.0),  # a rounding error is no difference
        ([1, 2, 3], [2, 3, 4], NAN),
        ([0, 0.1, 0.2], [0.1, 0.2, 0.1 + 0.2], NAN),  # all differ by the same, but for rounding
    )
    for x, y, p in rows:
        assert paired_mean(x, y) == pytest.approx((NAN, NAN, p), nan_ok=True), (x, y)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
@pytest.mark.slow
def test_tests_and_intervals_of_pairs_of_numbers_never_contradict(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T / 4
    of_mean, of_share = paired_mean(x, y), paired_share(x, y)
    for low, high, p in (of_mean, of_share):
        assert (low > 0 or high < 0) == (p < 0.05)
    if not math.isnan(of_mean[0]):
        assert of_mean == of_share
        assert of_mean[2] == pytest.approx(scipy_stats.ttest_rel(y, x).pvalue)


def test_shares_that_all_differ_by_the_same_by_hand() -> None:
    # Of 20 pairs all differ by a quarter: u = 1.96^2 / (20 + 1.96^2) = 0.16113 of all pairs may differ otherwise.
    p = 2 * scipy_stats.norm.sf(math.sqrt(5))
    assert paired_share([0.5] * 20, [0.75] * 20) == pytest.approx((0.04859, 0.37085, p), abs=1e-5)
    assert paired_share([0.5] * 20, [0.5] * 20) == pytest.approx((-0.16113, 0.16113, 1), abs=1e-5)
    assert np.isnan([*paired_share([0.5], [0.75]), *paired_share([], [])]).all()


# Families


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.03, 0.04, times 3, 2, 1: 0.03, 0.06, then no less than before.
    assert holm([0.01, 0.04, NAN, 0.03]) == pytest.approx([0.03, 0.06, NAN, 0.06], nan_ok=True)
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]).size == 0
