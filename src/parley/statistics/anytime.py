"""Limits and p that hold however often one looks, and whatever then decides whether more is played."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from parley.statistics.stats import CONFIDENCE, Floats

_NODES, _STEPS = (part / 2 for part in np.polynomial.legendre.leggauss(128))
_BETS = _NODES + 0.5  # shares of the capital, in (0, 1)
_LOG_PRIOR = np.log(1.5 * (1 - _BETS**2) * _STEPS)  # that of Beta(2, 2) on a share of discordant pairs; adds up to 1
_HALVINGS = 50


def log_capital(values: Floats, counts: ArrayLike, mean: float) -> Floats:
    """Return the logarithm of what bets have won that the mean of numbers in [0, 1] is above `mean`; at first it is 0.

    `counts` (any shape, the last axis as `values`) says how often each value came; `mean` is in (0, 1). If that is the
    true mean, the capital is above 1 / a at any time with a probability of at most a (Ville's inequality).
    """
    won = np.log1p(np.multiply.outer(values / mean - 1, _BETS))
    return np.asarray(scipy.special.logsumexp(np.asarray(counts) @ won + _LOG_PRIOR, axis=-1), dtype=float)


def anytime_difference(differences: Floats, most: float = 1.0) -> tuple[float, float, float]:
    """Return limits of the mean of differences in [-most, most], and p that it is 0, for all their numbers at once.

    By betting for and against each mean (Waudby-Smith and Ramdas, J. Royal Statistical Society B 86, 2024, pp. 1-27),
    with a mixture of bets as in a universal portfolio (Orabona and Jun, IEEE Trans. Inf. Theory 70, 2024, p. 436).
    Of pairs of rates, p is that of the beta-binomial mixture of the pairs that differ (Robbins, Ann. Math. Stat. 41,
    1970, p. 1397). The interval leaves 0 out where p < 0.05. The order of the pairs does not matter. NaN for
    none, and without bounds.
    """
    if not len(differences) or np.isinf(most):
        return (np.nan, np.nan, np.nan)
    values, counts = np.unique((np.asarray(differences, dtype=float) / most + 1) / 2, return_counts=True)
    enough = np.log(2 / (1 - CONFIDENCE))  # each side has half of the capital
    limits, capitals = [], []
    for side in (values, 1 - values):  # that the mean is above, and that it is below
        low, high = 0.0, float(side @ counts) / len(differences)
        capitals.append(float(log_capital(side, counts, 0.5)))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if middle and log_capital(side, counts, middle) >= enough else (low, middle)
        limits.append(most * (2 * low - 1))
    return limits[0], -limits[1], float(min(1.0, 2 * np.exp(-max(capitals))))
