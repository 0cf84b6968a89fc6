"""Medians of times to the end, and tests of times, of games that may meet their deadline first."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from statsmodels.duration.survfunc import SurvfuncRight

from parley.statistics.stats import wilson_of_mean
from parley.statistics.survival import median_interval, paired_log_rank

pytestmark = pytest.mark.promise(
    "The interval of median rounds and the paired log-rank test agree with statsmodels, with all exchanges and with "
    "cases by hand."
)


def made(random: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return times, and whether these are to the end, of games with deadlines of their own."""
    time, deadline = random.geometric(0.15, n), random.integers(2, 15, n)
    return np.minimum(time, deadline), time <= deadline


def test_the_interval_of_the_median_by_hand() -> None:
    # Of 10 games k have ended by a round; Wilson: [0.24, 0.76] of 5 holds one half, as do 2 (up to 0.51) and 8 (0.49).
    assert median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [True] * 10) == (2, 9)
    # With the deadline at 8 the upper limit is not reached.
    low, high = median_interval([1, 2, 3, 4, 5, 6, 7, 8, 8, 8], [True] * 8 + [False] * 2)
    assert (low, math.isnan(high)) == (2, True)
    assert np.isnan([median_interval([8] * 9, [False] * 9), median_interval([], [])]).all()


def test_with_deadlines_the_interval_is_that_of_greenwoods_error() -> None:
    for seed in range(5):
        time, ended = made(np.random.default_rng(seed), 60)
        curve = SurvfuncRight(time, ended.astype(int))
        share = 1 - curve.surv_prob
        size = np.minimum(share * (1 - share) / curve.surv_prob_se**2, 60)
        low, high = (curve.surv_times[limit >= 0.5][0] for limit in reversed(wilson_of_mean(share, size)))
        assert median_interval(time, ended) == (low, high)
        assert low < high


def test_the_paired_log_rank_test_by_hand() -> None:
    # Round 1: two of four end, so a score of 1 - 1/2 for both of them; round 2: the other two, 1 - 1/2 - 1. The pairs
    # differ by -1 and -1: z = -2 / sqrt(2).
    p = paired_log_rank([[1, 2], [1, 2]], [[True, True], [True, True]])
    assert p == pytest.approx(2 * scipy.stats.norm.sf(math.sqrt(2)))
    nothing = [paired_log_rank([[3, 3]], [[True] * 2]), paired_log_rank([[8, 8]], [[False] * 2])]
    assert np.isnan([*nothing, paired_log_rank([], [])]).all()


def test_the_paired_log_rank_test_by_all_exchanges() -> None:
    pairs, ended = (each.reshape(10, 2) for each in made(np.random.default_rng(0), 20))

    def excess(exchanged: np.ndarray[Any, Any]) -> float:
        """Return how many more of the second games end than the log-rank test expects."""
        t, e = (np.where(exchanged[:, None], each[:, ::-1], each) for each in (pairs, ended))
        more = 0.0
        for moment in np.unique(t[e]):
            at_risk, ending = (t >= moment).sum(axis=0), ((t == moment) & e).sum(axis=0)
            more += ending[1] - ending.sum() * at_risk[1] / at_risk.sum()
        return more

    excesses = np.array([excess(np.array(row)) for row in itertools.product([False, True], repeat=10)])
    z = excesses[0] / excesses.std()
    assert abs(z) > 0.1
    assert paired_log_rank(pairs, ended) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)))
