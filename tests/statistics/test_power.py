"""Power: by brute force over all tables, by other libraries' words, and of the paper's own prompt effect."""

from collections.abc import Iterator
from math import comb

import numpy as np
import pytest
import scipy

from parley.statistics.clustered import clustered_difference, paired_rates
from parley.statistics.power import (
    Rates,
    correlation,
    pairs_needed,
    power_of_differences,
    power_of_pooled,
    power_of_rates,
    smallest_found,
)
from parley.statistics.stats import mcnemar, paired_share

pytestmark = pytest.mark.promise(
    "Power is that of the test that is used: equal to brute force over all tables, for the paper's prompt effect too."
)

PROMPT = Rates(0.591, 0.754)  # section 4.1 of the paper, with pairs that are independent


def by_hand(pairs: int, p: float, q: float, alpha: float, test: dict[tuple[int, int], float]) -> float:
    """The power for independent pairs with rates p and q: all tables, one by one."""
    only_first, only_second = p * (1 - q), (1 - p) * q
    rest = 1 - only_first - only_second
    return sum(
        comb(pairs, b) * comb(pairs - b, c) * only_first**b * only_second**c * rest ** (pairs - b - c)
        for (b, c), found in test.items()
        if b + c <= pairs and found < alpha
    )


def tables(pairs: int) -> Iterator[tuple[int, int]]:
    return ((b, c) for b in range(pairs + 1) for c in range(pairs + 1 - b))


def test_power_is_the_sum_over_all_tables_of_the_test_that_is_used() -> None:
    test = {(b, c): float(mcnemar(b, c)) for b, c in tables(40)}
    for pairs, alpha in ((1, 0.05), (5, 0.05), (25, 0.0125), (40, 0.05)):
        for p, q in ((0.5, 0.7), (0.591, 0.754), (0.95, 0.4), (0.3, 0.3), (1.0, 0.5)):
            expected = by_hand(pairs, p, q, alpha, test)
            assert power_of_rates(pairs, Rates(p, q), alpha) == pytest.approx(expected, abs=1e-9), (pairs, p, q)
    for pairs in (10, 50, 300):  # without a difference it is the size of the test
        assert power_of_rates(pairs, Rates(0.6, 0.6), 0.05) < 0.06


def test_the_papers_prompt_effect_is_found_in_less_than_half_of_cases() -> None:
    assert power_of_rates(50, PROMPT, 0.05) == pytest.approx(0.419, abs=0.001)  # one condition of paper.yaml
    assert pairs_needed(lambda pairs: power_of_rates(pairs, PROMPT, 0.05)) == 130


def test_what_is_correlated_is_found_sooner() -> None:
    assert power_of_rates(50, Rates(0.591, 0.754, 0.5), 0.05) > power_of_rates(50, PROMPT, 0.05) + 0.2
    # As correlated as these rates allow: whoever is a success first is one again, or never is.
    assert Rates(0.2, 0.9, 1.0).discordant == pytest.approx((0.0, 0.7))
    assert Rates(0.2, 0.5, -1.0).discordant == pytest.approx((0.2, 0.5))
    assert Rates(0.8, 0.7, -1.0).discordant == pytest.approx((0.3, 0.2))  # some have to be a success both times
    x, y = np.repeat([1, 1, 0, 0], [5, 2, 3, 7]), np.repeat([1, 0, 1, 0], [5, 2, 3, 7])
    assert correlation(5, 2, 3, 7) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert correlation(4, 0, 3, 0) == 0  # the first always has it


def test_numbers_are_drawn_for_the_test_that_is_used() -> None:
    differences = np.random.default_rng(0).normal(3.0, 1.0, 4000)
    found = power_of_differences(20, differences, 0.7, 0.05)
    t, df = 0.7 * np.sqrt(20), 19
    point = scipy.stats.t.isf(0.025, df)
    assert found == pytest.approx(scipy.stats.nct.sf(point, df, t) + scipy.stats.nct.cdf(-point, df, t), abs=0.03)
    assert power_of_differences(20, np.full(30, 0.5), 0.7, 0.05) == 0  # nobody knows how they vary


def test_shares_are_drawn_for_the_test_that_has_a_p_where_all_pairs_are_alike() -> None:
    differences = np.array([0.0] * 19 + [0.25])  # of 20 drawn, all are alike in a third of the samples
    drawn = np.random.default_rng(20).choice(differences - differences.mean(), size=(2000, 20)) + 0.3
    assert all(paired_share(np.zeros(20), sample)[2] < 0.05 for sample in drawn[:60])
    assert power_of_differences(20, differences, 0.3, 0.05, share=True) == 1
    assert 0.6 < power_of_differences(20, differences, 0.3, 0.05) < 0.7
    # Alike, but for too small a difference: 20 pairs of 0.1 have p = 0.16.
    few = power_of_differences(20, differences, 0.1, 0.05, share=True)
    assert few == power_of_differences(20, differences, 0.1, 0.05) > 0.5


def test_seeds_are_those_from_which_on_the_power_stays() -> None:
    assert pairs_needed(lambda pairs: pairs / 100) == 80
    assert pairs_needed(lambda pairs: pairs / 100, step=6) == 84
    assert pairs_needed(lambda pairs: 0.79 if pairs == 83 else pairs / 100) == 84
    assert pairs_needed(lambda pairs: 0.5, most=1000) is None


def test_the_smallest_difference_has_the_power() -> None:
    found = smallest_found(lambda d: power_of_rates(50, Rates(0.5, 0.5 + d), 0.05), 0.5)
    assert found is not None
    assert power_of_rates(50, Rates(0.5, 0.5 + found), 0.05) == pytest.approx(0.8, abs=0.005)
    assert smallest_found(lambda d: power_of_rates(3, Rates(0.5, 0.5 + d), 0.05), 0.5) is None
    assert smallest_found(lambda d: 1.0, 0.0) is None


def test_power_over_strata_is_that_of_the_test_whose_unit_is_the_seed() -> None:
    random, rates, times = np.random.default_rng(3), Rates(0.3, 0.7), 1500
    for seeds, strata in ((6, 3), (10, 2)):
        numbers, found = np.tile(np.arange(seeds), strata), 0
        for _ in range(times):
            first, second = (random.random(seeds * strata) < rate for rate in (rates.first, rates.second))
            sides = paired_rates(first.astype(float), second.astype(float), numbers)
            found += clustered_difference(*sides)[2] < 0.05
        assert power_of_pooled(seeds, strata, rates, 0.05) == pytest.approx(found / times, abs=0.05)
    # Five seeds cannot have a p below 0.0253, however many strata: at the level of two questions they find nothing.
    assert power_of_pooled(5, 20, Rates(0.0, 1.0), 0.026) == 1
    assert power_of_pooled(5, 20, Rates(0.0, 1.0), 0.025) == 0
    assert power_of_pooled(4, 20, Rates(0.0, 1.0), 0.05) == 0
