"""Statistics: small pure functions. The unit of n is the simulation; what is undefined is NaN.

Those that give limits or p values of many cells at once take numbers or arrays of one shape, and return arrays of it
(of no dimension for numbers). docs/explanation/statistics.md says which is used for what, and why.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # its special functions are fast; scipy.stats takes a second to import, and is needed rarely
from numpy.typing import ArrayLike, NDArray

from parley.identity import stream

CONFIDENCE = 0.95
_HALVINGS = 54  # of an interval of width 2: to the last digit
_ROUNDING = 1e-12

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]


# One sample


@lru_cache(maxsize=100_000)
def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion (Wilson, JASA 22, 1927, p. 209), without continuity correction.

    (nan, nan) for n = 0.
    """
    if n == 0:
        return (math.nan, math.nan)
    interval = scipy.stats.binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
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
    z = scipy.special.ndtri(0.5 + confidence / 2)
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
    half = float(scipy.special.stdtrit(n - 1, 0.5 + confidence / 2)) * sd / math.sqrt(n)
    return Mean(n, mean, sd, mean - half, mean + half, median)


def censored_median(times: Sequence[float], observed: Sequence[bool]) -> float:
    """Return the Kaplan-Meier median: the time by which half have ended (Kaplan and Meier, JASA 53, 1958).

    `observed[i]` is False where `times[i]` is only a lower bound (a game that met its deadline). Where the curve
    runs at one half it is the middle of that stretch, as in R's `survfit`, or its start if no later end is known:
    without deadlines, the plain median. NaN if fewer than half are known to have ended, and for no data.
    """
    ended = np.asarray(times, dtype=float)[np.asarray(observed, dtype=bool)]
    open_ended = np.asarray(times, dtype=float)[~np.asarray(observed, dtype=bool)]
    if ended.size == 0:
        return math.nan
    data = scipy.stats.CensoredData(uncensored=ended, right=open_ended)
    survival = scipy.stats.ecdf(data).sf
    # The product of the estimator may miss one half by a rounding error.
    reached = survival.quantiles[survival.probabilities <= 0.5 + _ROUNDING]
    below = survival.quantiles[survival.probabilities < 0.5 - _ROUNDING]
    if not reached.size:
        return math.nan
    return float((reached[0] + below[0]) / 2) if below.size else float(reached[0])


# Two samples: the difference is always the second minus the first


def mcnemar(only_first: ArrayLike, only_second: ArrayLike) -> Floats:
    """Return the two-sided p of McNemar's score test (Psychometrika 12, 1947): normal, without continuity correction.

    The arguments count the pairs in which only the first, or only the second, is a success; 1 where there are none.
    `paired_difference` is its inversion: it leaves 0 out just where p < 0.05.
    """
    first, second = np.asarray(only_first, dtype=float), np.asarray(only_second, dtype=float)
    return _two_sided(_paired_z(first, second, first + second, np.zeros(())))


def paired_difference(both: ArrayLike, only_first: ArrayLike, only_second: ArrayLike, neither: ArrayLike) -> Interval:
    """Return the score interval of a difference of two paired proportions (Tango, Stat. in Medicine 17, 1998, p. 891).

    It inverts McNemar's score test. The arguments count pairs; NaN for no pairs.
    """
    a, b, c, d = (np.asarray(count, dtype=float) for count in (both, only_first, only_second, neither))
    n = a + b + c + d
    return _inverted(lambda difference: _paired_z(b, c, n, difference), n > 0)


def unpaired_p(first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike) -> Floats:
    """Return the two-sided p of the "N - 1" chi-squared test for `first` of `n_first` against `second` of `n_second`.

    Campbell (Stat. in Medicine 26, 2007, p. 3661) recommends it. `unpaired_difference` is its inversion. 1 where all
    or none are successes, NaN where either has no data.
    """
    x, n, y, m = (np.asarray(count, dtype=float) for count in (first, n_first, second, n_second))
    return np.where((n > 0) & (m > 0), _two_sided(_unpaired_z(x, n, y, m, np.zeros(()))), np.nan)


def unpaired_difference(first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike) -> Interval:
    """Return the score interval of a difference of two independent proportions, `first` of `n_first` and so on.

    Miettinen and Nurminen (Stat. in Medicine 4, 1985, p. 213); it inverts the test of `unpaired_p`. NaN where either
    has no data.
    """
    x, n, y, m = (np.asarray(count, dtype=float) for count in (first, n_first, second, n_second))
    return _inverted(lambda difference: _unpaired_z(x, n, y, m, difference), (n > 0) & (m > 0))


def _two_sided(z: Floats) -> Floats:
    return np.asarray(2 * scipy.special.ndtr(-np.abs(z)), dtype=float)


def _inverted(z: Callable[[Floats], Floats], known: NDArray[np.bool_]) -> Interval:
    """Return the limits between which |z(difference)| is below its 95% point; `z` falls with the difference.

    The first step of the bisection is 0, so that the limits and the test of 0 agree whatever the rounding.
    """
    point = scipy.special.ndtri(0.5 + CONFIDENCE / 2)
    limits = []
    for level in (point, -point):
        low, high = np.full(known.shape, -1.0), np.full(known.shape, 1.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = z(middle) > level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        limits.append(np.where(known, (low + high) / 2, np.nan))
    return limits[0], limits[1]


def _standardized(distance: Floats, variance: Floats) -> Floats:
    """Return distance / sqrt(variance); where nothing varies, 0 or infinite."""
    varies = variance > 0
    z = distance / np.sqrt(np.where(varies, variance, 1.0))
    return np.where(varies, z, np.where(np.abs(distance) > _ROUNDING, np.copysign(np.inf, distance), 0.0))


def _paired_z(first: Floats, second: Floats, n: Floats, difference: Floats) -> Floats:
    """Return Tango's score statistic, from the pairs of which only one is a success (his formulas 9 to 12)."""
    size = np.where(n > 0, n, 1.0)
    linear = (2 * size - second + first) * difference - first - second
    constant = -first * difference * (1 - difference)
    only_first = (np.sqrt(np.maximum(linear**2 - 8 * size * constant, 0.0)) - linear) / (4 * size)
    variance = size * (2 * only_first + difference * (1 - difference))
    return _standardized(second - first - size * difference, variance)


def _unpaired_z(first: Floats, n: Floats, second: Floats, m: Floats, difference: Floats) -> Floats:
    """Return Miettinen and Nurminen's score statistic, with the likeliest rates of this difference (a cubic)."""
    n, m = np.where(n > 0, n, 1.0), np.where(m > 0, m, 1.0)
    total, count = n + m, first + second
    square = ((m + 2 * n) * difference - total - count) / (3 * total)
    linear = ((n * difference - total - 2 * first) * difference + count) / (3 * total)
    constant = first * difference * (1 - difference) / (2 * total)
    q = square**3 - 1.5 * linear * square + constant
    p = np.copysign(np.sqrt(np.maximum(square**2 - linear, 0.0)), q)
    angle = np.arccos(np.clip(q / np.where(p == 0, 1.0, p) ** 3, -1.0, 1.0))
    root = 2 * p * np.cos((np.pi + angle) / 3) - square
    rate = np.where(
        difference == 0, count / total, np.clip(root, np.maximum(0, -difference), np.minimum(1, 1 - difference))
    )
    other = rate + difference
    variance = (rate * (1 - rate) / n + other * (1 - other) / m) * total / (total - 1)
    return _standardized(second / m - first / n - difference, variance)


def paired_mean(first: ArrayLike, second: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
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
    interval = mean_interval(differences, confidence)
    t = abs(interval.mean) / interval.sd * math.sqrt(interval.n)
    return interval.low, interval.high, float(2 * scipy.special.stdtr(interval.n - 1, -t))


def paired_share(first: ArrayLike, second: ArrayLike, most: float = 1.0) -> tuple[float, float, float]:
    """Return what `paired_mean` does of numbers in [0, 1], with limits and p also where all pairs differ by the same.

    A difference of shares is in [-`most`, `most`]. If all of n pairs differ by c, at most u = z^2 / (n + z^2) of all
    pairs differ otherwise (the score limit of none of n; Wilson, JASA 22, 1927), so the mean is within
    (1 - u) c +- u `most`. For c = 0 and 1 that is Tango's interval of rates; p = 2 (1 - Phi(sqrt(n |c| / most)))
    inverts it. NaN for fewer than two pairs.
    """
    low, high, p = paired_mean(first, second)
    differences = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    n = differences.size
    if n < 2 or not math.isnan(low):
        return (low, high, p)
    c, z = float(differences.mean()), float(scipy.special.ndtri(0.5 + CONFIDENCE / 2))
    u = z**2 / (n + z**2)
    p = float(2 * scipy.special.ndtr(-math.sqrt(n * abs(c) / most)))
    return (1 - u) * c - u * most, (1 - u) * c + u * most, p


_EXACT_FLIPS = 16  # differences whose signs are flipped in all ways; of more, in so many ways at random
_RANDOM_FLIPS = 100_000


def sign_flip(differences: ArrayLike) -> float:
    """Return the two-sided p that the signs of differences are by chance alone, by flipping them (Fisher, 1935).

    It is the share of flips whose mean is as far from 0 as theirs: of all flips of the differences that are not 0, or
    of 100,000 random ones where these are more than 16, always the same. 1 if all are 0; NaN for none.
    """
    values = np.asarray(differences, dtype=float)
    moved = values[np.abs(values) > _ROUNDING]
    if not moved.size:
        return 1.0 if values.size else math.nan
    least = abs(moved.sum()) - _ROUNDING * np.abs(moved).sum()  # a sum that should be 0 may be a rounding off it
    if moved.size <= _EXACT_FLIPS:
        signs = 1 - 2 * ((np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1)
        return float((np.abs(signs @ moved) >= least).mean())
    rng = stream("sign_flip", moved.size)
    sums = np.concatenate(
        [np.abs(rng.choice((-1, 1), (1000, moved.size)) @ moved) for _ in range(_RANDOM_FLIPS // 1000)]
    )
    return float((1 + (sums >= least).sum()) / (1 + sums.size))


def welch(first: ArrayLike, second: ArrayLike) -> tuple[float, float, float]:
    """Return the limits of the mean of `second` less that of `first`, and p of Welch's t test (Biometrika 34, 1947).

    NaN with fewer than two values in either, and where neither varies.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if min(x.size, y.size) < 2:
        return (math.nan, math.nan, math.nan)
    of_x, of_y = (float(each.var(ddof=1)) / each.size for each in (x, y))
    if of_x + of_y < _ROUNDING**2:
        return (math.nan, math.nan, math.nan)
    change, error = float(y.mean() - x.mean()), math.sqrt(of_x + of_y)
    freedom = (of_x + of_y) ** 2 / (of_x**2 / (x.size - 1) + of_y**2 / (y.size - 1))
    half = float(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    return change - half, change + half, float(2 * scipy.special.stdtr(freedom, -abs(change) / error))


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


# What a mean of bounded values can be, whatever their law: limits that few or skewed values do not make too narrow.
#
# For a claim that a mean is below c, the values are given random weights, exponential ones, and so is one value more,
# the greatest that there can be; p is how often their mean is c or more (Gaffke, Mathematical Methods of Statistics
# 14, 2005, pp. 451-467). Of 0 and 1 that is Clopper and Pearson's limit. That it holds for every law is proven for a
# bound close to it (Phan, Thomas and Learned-Miller, ICML 2021), and no counterexample is known to this one.


_NODES = 120  # of the integral: p is exact to 6 digits
_BOUNDED_HALVINGS = 40
_S, _STEP = (part / 2 for part in np.polynomial.legendre.leggauss(_NODES))
_U, _DU = (_S + 0.5) / (0.5 - _S), _STEP / (0.5 - _S) ** 2  # from 0 to infinity


def chance_above(factors: Floats) -> Floats:
    """Return how often the sum of exponential numbers, each times its factor (last axis), is above 0.

    By inversion of the characteristic function (Imhof, Biometrika 48, 1961, pp. 419-426).
    """
    size = np.sqrt((factors**2).sum(axis=-1, keepdims=True))
    u = (factors / np.where(size > 0, size, 1.0))[..., None] * _U
    damped = np.exp(-0.5 * np.log1p(u**2).sum(axis=-2))
    integral = (np.sin(np.arctan(u).sum(axis=-2)) * damped / _U * _DU).sum(axis=-1)
    return np.asarray(np.clip(0.5 + integral / np.pi, 0.0, 1.0))


def p_below(values: Floats, limit: Floats | float, most: float, weights: Floats | None = None) -> Floats:
    """Return p of the claim that the mean of what `values` are drawn from is below `limit`; none is above `most`.

    `values` has samples along its last axis. With `weights`, a mean is weighted: a value is that of so many.
    """
    weights = np.ones(values.shape[-1]) if weights is None else weights
    more = np.asarray(most - np.asarray(limit))[..., None] * weights.max()
    inside = (values - np.asarray(limit)[..., None]) * weights
    return chance_above(np.concatenate([inside, np.broadcast_to(more, (*inside.shape[:-1], 1))], axis=-1))


def bounded_interval(
    values: Floats, most: float = 1.0, confidence: float = CONFIDENCE, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return limits of the mean of values in [-most, most], whose tests are those of `p_below`; NaN for no values."""
    if not values.shape[-1]:
        return (np.full(values.shape[:-1], np.nan),) * 2
    sides = []
    for sign in (-1.0, 1.0):
        low, high = np.full(values.shape[:-1], -most), np.full(values.shape[:-1], most)
        for _ in range(_BOUNDED_HALVINGS):
            middle = (low + high) / 2
            inside = p_below(sign * values, middle, most, weights) > (1 - confidence) / 2
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        sides.append(sign * high)
    return sides[0], sides[1]
