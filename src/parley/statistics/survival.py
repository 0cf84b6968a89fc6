"""Times to the end of games. A game that met its deadline is censored: it would have ended later, if at all."""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray


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
