"""Bounded limits: against a closed form, against drawn numbers, and as rules whose truth is known."""

import numpy as np
import pytest
import scipy

from benchmarks import coverage
from parley.statistics.stats import bounded_interval, chance_above, holm, p_below

pytestmark = pytest.mark.promise(
    "That a difference is smaller than what matters is falsely said in at most 2.5%, and of any question in 5%."
)


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (0, 5), (2, 5), (1, 10), (50, 100)])
def test_of_rates_they_are_those_of_clopper_and_pearson(successes: int, n: int) -> None:
    values = np.repeat([1.0, 0.0], [successes, n - successes])
    low, high = bounded_interval(values)
    assert high == pytest.approx(scipy.stats.beta.ppf(0.975, successes + 1, n - successes), abs=1e-6)
    mirrored = bounded_interval(-values)
    assert (-mirrored[1], -mirrored[0]) == pytest.approx((low, high))
    assert p_below(values, float(high), 1.0) == pytest.approx(0.025, abs=1e-6)


def test_the_chance_of_a_sum_is_that_of_drawn_numbers_and_weights_count_values_several_times() -> None:
    random = np.random.default_rng(1)
    factors = random.normal(size=8)
    drawn = random.exponential(size=(200_000, 8)) @ factors > 0
    assert chance_above(factors) == pytest.approx(drawn.mean(), abs=0.005)
    values = np.array([0.1, -0.2, 0.4])
    assert p_below(values, 0.3, 1.0, np.full(3, 4.0)) == pytest.approx(p_below(values, 0.3, 1.0))
    assert np.isnan(bounded_interval(np.empty(0))).all()


@pytest.mark.parametrize("n", [5, 10, 25])
def test_shares_that_are_alike_but_for_a_few_are_seldom_said_to_differ_by_less(n: int) -> None:
    random = np.random.default_rng(n)
    for case, at, values in coverage.rare(n, 2000, random):
        assert np.mean(coverage.claimed(values, np.ones(n), at)) <= 0.03, case


def test_of_fourteen_questions_at_the_edge_few_studies_claim_any_and_six_intervals_hold_at_once() -> None:
    random = np.random.default_rng(3)
    values = (random.random((500, 14, 40)) < 0.2).astype(float)  # all differ by what matters
    found = p_below(values, 0.2, 1.0)
    alone = (found < 0.025).any(axis=1)
    corrected = [bool(((ps < 0.025) & (holm(ps) < 0.05)).any()) for ps in found]
    assert np.mean(corrected) <= 0.05 < 0.08 < np.mean(alone)
    held = dict(coverage.tangos(8, 0, random, questions=coverage.QUESTIONS))
    assert min(held.values()) >= 0.95
