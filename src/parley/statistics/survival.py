"""Times to the end of games. A game that met its deadline is censored: it would have ended later, if at all."""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from parley.statistics.stats import wilson_of_mean


def median_interval(times: ArrayLike, ended: ArrayLike) -> tuple[float, float]:
    """Return the limits of the median time to the end (after Brookmeyer and Crowley, Biometrics 38, 1982, p. 29).

    They are the first times at which the upper, and the lower, limit of the share of ended games is one half; NaN
    where it never is: that limit is not known. `ended[i]` is False where `times[i]` is only a lower bound.

    The limits of the share are Wilson's, with the size that a sample without censoring would need for the same
    standard error (Rothman, J. Chronic Diseases 31, 1978, p. 557): all games as long as none is censored, at most.
    Where there is no standard error, it is the number at risk.
    """
    from statsmodels.duration.survfunc import CumIncidenceRight

    time, status = np.asarray(times, dtype=float), np.asarray(ended, dtype=bool)
    if not time.size:
        return (math.nan, math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # no standard error where all end, or none
        incidence = CumIncidenceRight(time, status.astype(int))
    at_risk = np.array([(time >= t).sum() for t in incidence.times])
    whole = np.array([not np.any(~status & (time < t)) for t in incidence.times])
    share, error = np.zeros(len(at_risk)), np.zeros(len(at_risk))
    if status.any():
        share, error = np.clip(incidence.cinc[0], 0.0, 1.0), incidence.cinc_se[0]
    known = (error > 0) & (share > 0) & (share < 1)
    size = np.where(known, share * (1 - share) / np.where(known, error, 1.0) ** 2, at_risk)
    limits = wilson_of_mean(share, np.where(whole, time.size, np.minimum(size, time.size)))
    reached = [incidence.times[limit >= 0.5] for limit in reversed(limits)]
    low, high = (float(of[0]) if of.size else math.nan for of in reached)
    return (low, high)


def paired_log_rank(times: ArrayLike, ended: ArrayLike, clusters: NDArray[np.int64] | None = None) -> float:
    """Return the two-sided p of the log-rank test for pairs: a row for each, a column for its first and second game.

    It asks whether the signs of the pairs' differences of log-rank scores are by chance alone (O'Brien and Fleming,
    Biometrics 43, 1987, p. 169, who have another score); normal. A cluster has one sign. NaN if all scores are alike.
    """
    time, status = np.asarray(times, dtype=float).reshape(-1, 2), np.asarray(ended, dtype=bool).reshape(-1, 2)
    moments, counts = np.unique(time[status], return_counts=True)
    hazards = counts / (time.reshape(-1, 1) >= moments).sum(axis=0)
    # Whether it ended, less how often games that played as long would have by chance.
    scores = status - (time[..., None] >= moments) @ hazards
    differences = scores[:, 1] - scores[:, 0]
    if clusters is not None:
        differences = np.bincount(np.unique(clusters, return_inverse=True)[1], differences)
    squares = float((differences**2).sum())
    return float(2 * scipy.special.ndtr(-abs(differences.sum()) / math.sqrt(squares))) if squares > 1e-20 else math.nan
