"""Statistics: small pure functions. The unit of n is the simulation; what is undefined is NaN.

Those that give limits or p values of many cells at once take numbers or arrays of one shape, and return arrays of it
(of no dimension for numbers). docs/explanation/statistics.md says which is used for what, and why.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # and scipy.stats at its first use: it takes a second, and figures and reports need it rarely
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
_ROUNDING = 1e-12
_COUNTED = 50  # pairs, of which all signs are counted

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]


# One sample


def wilson_interval(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion (Wilson, JASA 22, 1927, p. 209), without continuity correction.

    (nan, nan) for n = 0. Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in [0, n], not {successes} of {n}")
    if n == 0:
        return (math.nan, math.nan)
    interval = scipy.stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return (float(interval.low), float(interval.high))


def wilson_of_mean(mean: ArrayLike, n: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Return the Wilson interval with the mean of n values in [0, 1] in the place of a proportion.

    It equals `wilson_interval` where the values are 0 and 1. Others have a variance of at most mean * (1 - mean),
    which is what the interval assumes: it is conservative. NaN where n is 0 or the mean is NaN. Raises ValueError for
    a mean outside [0, 1] or a negative n.
    """
    p, size = np.asarray(mean, dtype=float), np.asarray(n, dtype=float)
    if np.any((p < -1e-12) | (p > 1 + 1e-12)) or np.any(size < 0):
        raise ValueError("a mean must be in [0, 1], and n not negative")
    p = np.clip(p, 0.0, 1.0)
    z = scipy.stats.norm.ppf(0.5 + confidence / 2)
    size = np.where(size > 0, size, np.nan)
    center = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * np.sqrt(p * (1 - p) / size + z * z / (4 * size * size))
    # A limit may miss the mean by a rounding error at 0 and 1.
    return np.clip(center - half, 0.0, p), np.clip(center + half, p, 1.0)


@dataclass(frozen=True)
class Mean:
    """The mean of n numbers, their standard deviation (n - 1), the t interval of the mean, and the median."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    median: float


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Mean:
    """Return the mean of `values` with Student's t interval (Biometrika 6, 1908); NaN among them are left out.

    Deviation and interval are NaN for fewer than two values; all numbers are NaN for none.
    """
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    n = int(numbers.size)
    if n == 0:
        return Mean(0, *[math.nan] * 5)
    mean, median = float(numbers.mean()), float(np.median(numbers))
    if n == 1:
        return Mean(1, mean, math.nan, math.nan, math.nan, median)
    sd = float(numbers.std(ddof=1))
    half = float(scipy.stats.t.ppf(0.5 + confidence / 2, n - 1)) * sd / math.sqrt(n)
    return Mean(n, mean, sd, mean - half, mean + half, median)


def censored_median(times: Sequence[float], observed: Sequence[bool]) -> float:
    """Return the Kaplan-Meier median: the first time by which half have ended.

    `observed[i]` is False where `times[i]` is only a lower bound (a game that met its deadline). NaN if fewer than
    half are known to have ended, and for no data (Kaplan and Meier, JASA 53, 1958).
    """
    if len(times) != len(observed):
        raise ValueError("times and observed must have the same length")
    ended = np.asarray(times, dtype=float)[np.asarray(observed, dtype=bool)]
    open_ended = np.asarray(times, dtype=float)[~np.asarray(observed, dtype=bool)]
    if ended.size == 0:
        return math.nan
    data = scipy.stats.CensoredData(uncensored=ended, right=open_ended)
    survival = scipy.stats.ecdf(data).sf
    # The product of the estimator may miss one half by a rounding error.
    reached = survival.probabilities <= 0.5 + 1e-12
    return float(survival.quantiles[reached][0]) if reached.any() else math.nan


# Two samples: the difference is always the second minus the first


def mcnemar(only_first: ArrayLike, only_second: ArrayLike) -> Floats:
    """Return the two-sided p of McNemar's exact test (McNemar, Psychometrika 12, 1947): binomial with 1/2.

    The arguments count the pairs in which only the first, or only the second, is a success; 1 where there are none.
    Raises ValueError for negative counts.
    """
    first, second = np.asarray(only_first), np.asarray(only_second)
    if np.any(first < 0) or np.any(second < 0):
        raise ValueError("counts must not be negative")
    # With 1/2 the distribution is symmetric, so twice the smaller tail is the two-sided p.
    tail = scipy.stats.binom.cdf(np.minimum(first, second), first + second, 0.5)
    return np.asarray(np.minimum(1.0, 2 * tail), dtype=float)


def paired_difference(both: ArrayLike, only_first: ArrayLike, only_second: ArrayLike, neither: ArrayLike) -> Interval:
    """Return the interval of a difference of two paired proportions, by square-and-add with Wilson limits.

    Method 10 of Newcombe (Statistics in Medicine 17, 1998, pp. 2635-2650): the correlation phi is corrected for
    continuity where it is positive, and 0 where it is undefined. The arguments count pairs; NaN for no pairs.
    """
    a, b, c, d = (np.asarray(count, dtype=float) for count in (both, only_first, only_second, neither))
    n = a + b + c + d
    product = a * d - b * c
    product = np.where(product > 0, np.maximum(product - n / 2, 0), product)
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    phi = np.where(margins > 0, product / np.sqrt(np.where(margins > 0, margins, 1)), 0.0)
    return _square_and_add(_share(a + b, n), n, _share(a + c, n), n, phi)


def unpaired_difference(first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike) -> Interval:
    """Return the interval of a difference of two independent proportions, `first` of `n_first` and so on.

    Method 10 of Newcombe (Statistics in Medicine 17, 1998, pp. 873-890), the hybrid score interval; NaN where either
    has no data.
    """
    n, m = np.asarray(n_first, dtype=float), np.asarray(n_second, dtype=float)
    return _square_and_add(
        _share(np.asarray(first, dtype=float), n), n, _share(np.asarray(second, dtype=float), m), m, np.zeros_like(n)
    )


def _share(count: Floats, n: Floats) -> Floats:
    return np.where(n > 0, count / np.where(n > 0, n, 1), np.nan)


def _square_and_add(p: Floats, n: Floats, q: Floats, m: Floats, phi: Floats) -> Interval:
    """Return the limits of q - p from the Wilson limits of each, with their correlation."""
    (p_low, p_high), (q_low, q_high) = wilson_of_mean(p, n), wilson_of_mean(q, m)
    down, up, difference = (q - q_low, p_high - p), (q_high - q, p - p_low), q - p
    # Rounding may leave a square just below zero where phi is 1.
    low, high = (np.sqrt(np.maximum(x * x - 2 * phi * x * y + y * y, 0.0)) for x, y in (down, up))
    return np.clip(difference - low, -1.0, 1.0), np.clip(difference + high, -1.0, 1.0)


def fisher(first: int, n_first: int, second: int, n_second: int) -> float:
    """Return the two-sided p of Fisher's exact test for `first` of `n_first` against `second` of `n_second`.

    NaN where either has no data (Fisher, Journal of the Royal Statistical Society 85, 1922).
    """
    if not n_first or not n_second:
        return math.nan
    table = np.array([[first, n_first - first], [second, n_second - second]])
    return float(scipy.stats.fisher_exact(table).pvalue)


def signed_rank(first: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test that paired numbers differ by 0 on the whole.

    Pairs that are equal but for rounding are left out (Wilcoxon, Biometrics Bulletin 1, 1945); 1 if all are, NaN for
    no pairs. With up to 50 pairs all signs are counted, ties or not; with more, the normal approximation is taken.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not x.size:
        return math.nan
    differences = (y - x)[~np.isclose(x, y, rtol=1e-12, atol=0.0)]
    if not differences.size:
        return 1.0
    # Those that differ by rounding alone are ties: twelve digits count.
    sizes = 10.0 ** np.floor(np.log10(np.abs(differences)))
    differences = np.round(differences / sizes, 11) * sizes
    if differences.size > _COUNTED:
        return float(scipy.stats.wilcoxon(differences, method="approx").pvalue)
    # scipy counts tied ranks by going through all signs, which takes it seconds.
    doubled = np.rint(2 * scipy.stats.rankdata(np.abs(differences))).astype(int)
    ways = np.ones(1)  # by sum of the doubled ranks that are positive
    for rank in doubled:
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    positive = int(doubled[differences > 0].sum())
    smaller = min(positive, int(doubled.sum()) - positive)
    return min(1.0, 2 * float(ways[: smaller + 1].sum() / ways.sum()))


def paired_mean(first: ArrayLike, second: ArrayLike) -> tuple[float, float, float]:
    """Return the limits of the mean of `second` - `first` and the two-sided p that it is 0, by Student's paired t.

    Limits and p agree, as one inverts the other. NaN for fewer than two pairs, and where all pairs differ by the same
    but for rounding: nothing says how much that difference varies. If that difference is 0, p is 1.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    differences = np.where(np.isclose(x, y, rtol=_ROUNDING, atol=0.0), 0.0, y - x)
    if differences.size < 2:
        return (math.nan, math.nan, math.nan)
    if np.ptp(differences) <= _ROUNDING * np.abs(differences).max():
        return (math.nan, math.nan, math.nan if differences.any() else 1.0)
    found = scipy.stats.ttest_1samp(differences, 0.0)
    interval = found.confidence_interval(CONFIDENCE)
    return (float(interval.low), float(interval.high), float(found.pvalue))


def holm(p_values: ArrayLike) -> Floats:
    """Return p values adjusted for being a family, by Holm's step-down method (Scand. J. Statistics 6, 1979).

    NaN stay NaN and do not count.
    """
    p = np.asarray(p_values, dtype=float)
    known = np.flatnonzero(~np.isnan(p))
    adjusted = np.full(p.shape, np.nan)
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Return p values adjusted by Benjamini and Hochberg's step-up method (J. Royal Statistical Society B 57, 1995).

    Of those below 0.05 at most 5% are false on average. NaN stay NaN and do not count.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted, known = np.full(p.shape, np.nan), ~np.isnan(p)
    if known.any():
        adjusted[known] = scipy.stats.false_discovery_control(p[known])
    return adjusted
