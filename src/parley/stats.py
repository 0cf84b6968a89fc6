"""Statistics: small pure functions. The unit of n is the simulation; what is undefined is NaN."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


def wilson_interval(successes: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion (Wilson, JASA 22, 1927, p. 209), without continuity correction.

    (nan, nan) for n = 0. Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be in [0, n], not {successes} of {n}")
    if n == 0:
        return (math.nan, math.nan)
    interval = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return (float(interval.low), float(interval.high))


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
    data = stats.CensoredData(uncensored=ended, right=open_ended)
    survival = stats.ecdf(data).sf
    # The product of the estimator may miss one half by a rounding error.
    reached = survival.probabilities <= 0.5 + 1e-12
    return float(survival.quantiles[reached][0]) if reached.any() else math.nan
