"""Tests of times to the end of games that may meet their deadline first."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from parley.statistics.survival import paired_log_rank

pytestmark = pytest.mark.promise("The paired log-rank test agrees with all exchanges and with cases by hand.")


def made(random: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return times, and whether these are to the end, of games with deadlines of their own."""
    time, deadline = random.geometric(0.15, n), random.integers(2, 15, n)
    return np.minimum(time, deadline), time <= deadline


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
