"""Power: how often the tests of differences have a p below a level.

For McNemar's test all tables that can occur are enumerated; the tests of several strata, whose unit is the seed, and
the paired t test are simulated with a fixed seed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from parley.statistics.clustered import MIN_SEEDS
from parley.statistics.stats import Floats

_SAMPLES, _NUMBERS = 2_000, 10_000_000  # samples of differences for each power, and what they hold
_TAIL = 1e-12  # of a distribution, which is left out
_ROUNDING = 1e-12
_TARGET = 0.8
MAX_PAIRS = 100_000


@dataclass(frozen=True)
class Rates:
    """Rates of two paired conditions, and the correlation of 1 and 0 within the pairs."""

    first: float
    second: float
    correlation: float = 0.0

    @property
    def discordant(self) -> tuple[float, float]:
        """The share of pairs in which only the first has it, and only the second; as correlated as can be."""
        p, q = self.first, self.second
        both = p * q + self.correlation * float(np.sqrt(p * (1 - p) * q * (1 - q)))
        both = min(max(both, 0.0, p + q - 1), p, q)
        return p - both, q - both


def correlation(both: int, only_first: int, only_second: int, neither: int) -> float:
    """Return the correlation (phi) of counted pairs; 0 where a margin is empty."""
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    return (both * neither - only_first * only_second) / margins**0.5 if margins else 0.0


def power_of_rates(pairs: int, rates: Rates, alpha: float) -> float:
    """Return the probability that McNemar's test of so many pairs has a p below `alpha`, exact but for rounding."""
    only_first, only_second = rates.discordant
    discordant = only_first + only_second
    if pairs < 1 or discordant <= 0:
        return 0.0
    low, high = (int(scipy.stats.binom.ppf(tail, pairs, discordant)) for tail in (_TAIL, 1 - _TAIL))
    m, share = np.arange(max(low, 0), high + 1), only_second / discordant
    # Up to this smaller count of m the test rejects, as |z| is (m - 2 count) / sqrt(m); below 0: none.
    limit = np.ceil((m - np.sqrt(m) * scipy.stats.norm.isf(alpha / 2)) / 2) - 1
    # The second count is at most the limit, or the first is.
    tails = scipy.stats.binom.cdf(limit, m, share) + scipy.stats.binom.sf(m - limit - 1, m, share)
    chances = scipy.stats.binom.pmf(m, pairs, discordant) * np.where(limit >= 0, tails, 0.0)
    return float(min(1.0, chances.sum()))


def power_of_pooled(seeds: int, strata: int, rates: Rates, alpha: float) -> float:
    """Return how often the test of clustered pairs (`clustered_difference`) has a p below `alpha`, by simulation.

    Each seed has a pair in each of several strata, which are independent. The standard error is about one point.
    """
    if seeds < MIN_SEEDS:
        return 0.0
    only_first, only_second = rates.discordant
    size = (min(_SAMPLES, max(_NUMBERS // seeds, 100)), seeds)
    random = np.random.default_rng([seeds, strata, *(round(1e9 * share) for share in (only_first, only_second))])
    more = random.binomial(strata, only_second, size)
    sums = more - random.binomial(strata - more, only_first / max(1 - only_second, only_first, _ROUNDING))
    # All seeds have as many pairs, so the test's statistic is that of their sums.
    statistic = sums.sum(axis=1) ** 2 / np.maximum((sums**2).sum(axis=1), 1)
    return float((scipy.special.chdtrc(1, statistic) < alpha).mean())


def power_of_differences(pairs: int, differences: Floats, shift: float, alpha: float, share: bool = False) -> float:
    """Return how often the paired t test has a p below `alpha` if pairs differ by `shift` in the mean.

    That of a `share` has a p also where all pairs of a sample differ by the same (`paired_share`).

    Samples are drawn from measured `differences`, whose mean is taken from them, with a seed that `pairs` gives: the
    standard error is about one point.
    """
    if pairs < 2 or not differences.any():
        return 0.0
    size = (min(_SAMPLES, max(_NUMBERS // pairs, 100)), pairs)
    drawn = np.random.default_rng(pairs).choice(differences - differences.mean(), size=size)
    means, sd = drawn.mean(axis=1) + shift, drawn.std(axis=1, ddof=1)
    alike = sd <= _ROUNDING
    t = np.abs(means) * np.sqrt(pairs) / np.where(alike, np.inf, sd)  # without variation there is no p
    rejected = t > scipy.stats.t.isf(alpha / 2, pairs - 1)
    if share:
        rejected |= alike & (np.sqrt(pairs * np.minimum(np.abs(means), 1)) > scipy.stats.norm.isf(alpha / 2))
    return float(rejected.mean())


def pairs_needed(power: Callable[[int], float], step: int = 1, most: int = MAX_PAIRS) -> int | None:
    """Return the smallest multiple of `step` from which on `power` is at least 80%; None if above `most`.

    The power of a test of counts goes up and down a little as pairs are added: the next 20 steps are looked at, too.
    """
    high = 1
    while power(high * step) < _TARGET:
        high *= 2
        if high * step > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle * step) >= _TARGET else (middle, high)
    # Where a dip below 80% ends.
    for steps in range(high + 20, max(high - 20, 0), -1):
        if power(steps * step) < _TARGET:
            return (steps + 1) * step
    return max(high - 19, 1) * step


def smallest_found(power: Callable[[float], float], most: float) -> float | None:
    """Return the smallest difference in (0, most] that is found with a power of 80%; None if there is none."""
    if most <= 0 or power(most) < _TARGET:
        return None
    low, high = 0.0, most
    while high - low > 1e-4 * most:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= _TARGET else (middle, high)
    return high
