"""Limits and p that hold whenever one stops."""

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from parley.statistics.anytime import anytime_difference, log_capital
from parley.statistics.stats import Floats

pytestmark = pytest.mark.promise(
    "Who looks at the pairs after each seed and stops when they like keeps the size: at most 5%, with power left."
)


def pairs_of(random: np.random.Generator, studies: int, pairs: int, first: float, second: float) -> Floats:
    """Return differences of yes or no with these rates, a study a row."""
    sides = [(random.random((studies, pairs)) < rate).astype(float) for rate in (first, second)]
    return sides[1] - sides[0]


def excluded(pairs: Floats, difference: float = 0.0) -> NDArray[np.bool_]:
    """Return for each study (a row) whether a difference was refused after any number of its pairs, from 10 on."""
    values = np.unique(pairs)
    counts = np.stack([(pairs == value).cumsum(axis=1) for value in values], axis=-1)[:, 9:]
    x, mean = (values + 1) / 2, (difference + 1) / 2
    sides = (log_capital(x, counts, mean), log_capital(1 - x, counts, 1 - mean))
    return np.asarray((np.maximum(*sides) > np.log(40)).any(axis=1), dtype=np.bool_)


def test_the_anytime_p_of_pairs_is_that_of_the_mixture_over_those_that_differ_and_its_interval_agrees() -> None:
    for fewer, more, alike in ((0, 8, 3), (5, 20, 30), (2, 11, 0), (40, 60, 100), (3, 3, 0)):

        def won(g: float, lost: int = fewer, won: int = more) -> float:
            return float(1.5 * (1 - g**2) * (1 + g) ** won * (1 - g) ** lost)

        differences = np.repeat([1.0, -1.0, 0.0], [more, fewer, alike])
        low, high, p = anytime_difference(differences)
        assert p == pytest.approx(min(1.0, 2 / scipy.integrate.quad(won, 0, 1)[0]), rel=1e-6)
        # Both sides together are Robbins's mixture, with the prior Beta(2, 2).
        capitals = [np.exp(log_capital(x, [fewer, alike, more], 0.5)) for x in np.array([[0, 0.5, 1], [1, 0.5, 0]])]
        mixture = scipy.special.betaln(more + 2, fewer + 2) - scipy.special.betaln(2, 2)
        assert np.log(np.mean(capitals)) == pytest.approx(mixture + (more + fewer) * np.log(2))
        assert (low > 0) == (p < 0.05)
        assert anytime_difference(-differences[::-1]) == pytest.approx((-high, -low, p))
    low, high, p = anytime_difference(np.full(40, 0.25))  # shares
    assert 0 < low < 0.25 < high < 1
    assert p < 0.05
    assert np.isnan(anytime_difference(np.empty(0))).all()


def test_who_looks_after_each_pair_finds_a_true_difference_and_rarely_a_false_one() -> None:
    random = np.random.default_rng(5)
    assert excluded(pairs_of(random, 200, 60, 0.5, 0.5)).mean() < 0.07
    assert excluded(pairs_of(random, 200, 100, 0.3, 0.6)).mean() > 0.85
