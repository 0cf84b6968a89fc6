"""Rates over conditions that share seeds: those of a seed are a cluster, as what a seed deals makes them alike.

docs/explanation/statistics.md says what is computed, and why, and has the coverage of the intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from parley.statistics.stats import CONFIDENCE, Floats, wilson_of_mean

MIN_SEEDS = 5  # with fewer nobody can say how much seeds differ
_NOTHING = 1e-18  # a variance that is none but for rounding
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Standardized:
    """A rate over conditions: the estimate, what each seed adds to its error, and how many simulations it is of.

    `influence` has a number per seed that has a simulation here; `seeds` counts them, and `effective` says how many
    the variance between them comes from: fewer where conditions have other numbers of seeds (Satterthwaite, Biometrics
    Bulletin 2, 1946, pp. 110-114, for a variance that goes with a seed's weight).
    """

    rate: float
    influence: Floats
    simulations: int
    seeds: int
    effective: float

    @property
    def by_seed(self) -> Floats:
        """A number per seed, whose mean is the rate, and whose standard error is that of seeds."""
        return np.asarray(self.rate + self.influence * self.seeds)


def standardized(answers: Floats, cells: Indices, seeds: Indices, weights: Floats) -> Standardized:
    """Return the mean of the rates of conditions, by their `weights` (a number per condition, adding up to 1).

    `answers` are 1, 0, or NaN for none, one for each simulation; `cells` and `seeds` are the numbers of its condition
    and seed, from 0. Each condition with a weight must have an answer. The influence of a seed is the sum of its
    simulations' deviations from the rate of their condition, as in the linearized variance of a stratified sample of
    clusters (Binder, International Statistical Review 51, 1983, pp. 279-292).
    """
    used = ~np.isnan(answers) & (weights[cells] > 0)
    y, cell, seed = answers[used], cells[used], np.unique(seeds[used], return_inverse=True)[1]
    size = np.bincount(cell, minlength=len(weights))
    rates = np.bincount(cell, y, len(weights)) / np.maximum(size, 1)
    influence = np.bincount(seed, (y - rates[cell]) * weights[cell] / size[cell]).astype(float)
    shares = np.bincount(seed, weights[cell] / size[cell])
    effective = float((shares**2).sum() ** 2 / (shares**4).sum()) if len(y) else 0.0
    return Standardized(float(weights @ rates), influence, len(y), len(shares), effective)


def over_strata(values: Floats, seeds: Indices, strata: Indices | None = None) -> Standardized:
    """Return the mean of what pairs of these seeds have, of which none lacks a value.

    Each of their `strata`, numbered from 0, counts as much; without, each pair does.
    """
    cells = np.zeros(len(seeds), dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    number = int(cells.max(initial=0)) + 1
    return standardized(values, cells, seeds, np.full(number, 1 / number))


def paired_rates(
    first: Floats, second: Floats, seeds: Indices, strata: Indices | None = None
) -> tuple[Standardized, Standardized]:
    """Return the rates of both samples of pairs, see `over_strata`."""
    return over_strata(first, seeds, strata), over_strata(second, seeds, strata)


def rate_limits(of: Standardized) -> tuple[float, float]:
    """Return the interval of a rate: Wilson's, of the effective number of simulations, with the quantile of t.

    That number is the one of which a plain rate would have the variance found between seeds, at most all simulations
    (Franco, Little, Louis and Slud, J. Survey Statistics and Methodology 7, 2019, pp. 334-364). A rate of 0 or 1
    counts as one simulation per seed: nothing says how alike those of a seed are. NaN with fewer than MIN_SEEDS seeds.
    """
    if of.seeds < MIN_SEEDS:
        return math.nan, math.nan
    rate = min(max(of.rate, 0.0), 1.0)
    spread = rate * (1 - rate)
    variance = of.seeds / (of.seeds - 1) * float(of.influence @ of.influence)
    if spread < 1e-12:  # but for rounding
        rate, size = float(round(rate)), float(of.seeds)
    else:
        size = min(spread / variance if variance > 0 else math.inf, float(of.simulations))
    return wilson_by_seeds(rate, size, of.seeds)


def wilson_by_seeds(rate: float, size: float, seeds: int) -> tuple[float, float]:
    """Return Wilson's interval of a rate of `size` simulations, with the quantile of t for so many seeds."""
    # Wilson's limits with another quantile are those at another level.
    quantile = scipy.special.stdtrit(seeds - 1, 0.5 + CONFIDENCE / 2)
    level = 2 * float(scipy.special.ndtr(quantile)) - 1
    low, high = wilson_of_mean(rate, size, level)
    return float(low), float(high)


def mean_limits(of: Standardized) -> tuple[float, float]:
    """Return the t interval of a mean of numbers, over seeds; NaN with fewer than two, or if nothing varies."""
    variance = float(of.influence @ of.influence) * of.seeds / max(1, of.seeds - 1)
    if of.seeds < 2 or variance < _NOTHING:
        return math.nan, math.nan
    half = float(scipy.special.stdtrit(of.seeds - 1, 0.5 + CONFIDENCE / 2)) * math.sqrt(variance)
    return of.rate - half, of.rate + half


def clustered_difference(first: Standardized, second: Standardized) -> tuple[float, float, float]:
    """Return limits and two-sided p of the second rate minus the first; both are of the same pairs.

    The test is McNemar's for clustered pairs (Durkalski, Palesch, Lipsitz and Rust, Statistics in Medicine 22, 2003,
    pp. 2417-2428) with weights: the squared difference by the sum of squares of what each seed adds to it, which has
    one degree of freedom. With one condition on each side it is McNemar's score test. The interval holds what the
    test does not refuse, so the two never contradict each other; with an effective number of seeds below 3.84 it
    refuses nothing. Where all seeds say the same there is no variance: then it is `square_and_add`. NaN with fewer
    than MIN_SEEDS seeds.
    """
    if min(first.seeds, second.seeds) < MIN_SEEDS:
        return math.nan, math.nan, math.nan
    change, seeds = second.rate - first.rate, min(first.effective, second.effective)
    parts = second.influence - first.influence
    variance = float(parts @ parts)
    under_null = variance + change * change / seeds
    p = float(scipy.special.chdtrc(1, change * change / under_null)) if under_null > _NOTHING else 1.0
    if variance < _NOTHING:
        return *square_and_add(first, second), p
    z = float(scipy.special.ndtri(0.5 + CONFIDENCE / 2))
    room = 1 - z * z / seeds
    half = z * math.sqrt(variance / room) if room > 0 else math.inf
    return max(-1.0, change - half), min(1.0, change + half), p


def square_and_add(first: Standardized, second: Standardized) -> tuple[float, float]:
    """Return the interval of the second rate minus the first, where no seed says anything of their correlation.

    Square-and-add from the limits of both (Newcombe, Statistics in Medicine 17, 1998, pp. 873-890). NaN if either has
    fewer than MIN_SEEDS seeds.
    """
    low, high = added_squares((first.rate, *rate_limits(first)), (second.rate, *rate_limits(second)))
    return max(float(low), -1.0), min(float(high), 1.0)  # in this order NaN stays


def added_squares(first: Sequence[ArrayLike], second: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    """Return the limits of the second less the first: both are estimates with their limits, and independent."""
    (x, low_x, high_x), (y, low_y, high_y) = (np.asarray(each, dtype=float) for each in (first, second))
    return y - x - np.hypot(y - low_y, high_x - x), y - x + np.hypot(high_y - y, x - low_x)
