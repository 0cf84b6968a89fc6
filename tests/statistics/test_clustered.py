"""Rates over conditions that share seeds: by hand, by other means, and by simulation with known rates."""

import math

import numpy as np
import pytest
import scipy

from parley.statistics.clustered import (
    Standardized,
    clustered_difference,
    paired_rates,
    rate_limits,
    square_and_add,
    standardized,
)
from parley.statistics.stats import Floats, unpaired_difference, wilson_interval

pytestmark = pytest.mark.promise(
    "Rates over conditions that share seeds agree with values by hand and with simulated truths."
)


def letters(text: str) -> Floats:
    return np.array([{"y": 1.0, "n": 0.0, " ": math.nan}[letter] for letter in text])


def over(*conditions: str) -> Standardized:
    """Return the rate over conditions: a text each, a letter per seed, y, n or a blank; each with equal weight."""
    cells = np.repeat(np.arange(len(conditions)), [len(text) for text in conditions])
    seeds = np.concatenate([np.arange(len(text)) for text in conditions])
    return standardized(letters("".join(conditions)), cells, seeds, np.full(len(conditions), 1 / len(conditions)))


def test_a_condition_counts_as_much_as_any_other_however_often_it_was_played() -> None:
    found = over("yyyyyyyyyy", "nnyn")
    assert (found.rate, found.simulations, found.seeds) == ((1 + 0.25) / 2, 14, 10)
    # Rates 1/2 and 1/4; a simulation adds half of its deviation by the number of its condition.
    by_hand = [(0.5 + 0.75) / 8, (0.5 - 0.25) / 8, (-0.5 - 0.25) / 8, (-0.5 - 0.25) / 8]
    assert over("yynn", "ynnn").influence == pytest.approx(by_hand)
    blank = over("yyn nn")  # a simulation without an answer
    assert (blank.rate, blank.simulations, blank.seeds) == (0.4, 5, 5)


def test_one_condition_has_wilsons_interval_with_the_quantile_of_t() -> None:
    found = over("y" * 12 + "n" * 28)
    t = scipy.stats.t.ppf(0.975, 39)
    # Variance p (1 - p) / (n - 1), so that the effective number is n - 1.
    n, p = 39, 0.3
    center, half = p + t * t / (2 * n), t * math.sqrt(p * (1 - p) / n + t * t / (4 * n * n))
    assert rate_limits(found) == pytest.approx([(center + s * half) / (1 + t * t / n) for s in (-1, 1)])
    assert rate_limits(found) == pytest.approx(wilson_interval(12, 40), abs=0.01)


def test_conditions_that_end_alike_by_seed_say_no_more_than_one_of_them() -> None:
    text = "yynnynynnnynyyynnynn"
    alike, once = rate_limits(over(*[text] * 4)), rate_limits(over(text))
    assert alike == pytest.approx(once)
    shuffled = rate_limits(over(text, text[5:] + text[:5], text[::-1], text[7:] + text[:7]))
    assert shuffled[1] - shuffled[0] < 0.8 * (once[1] - once[0])


def test_what_does_not_vary_is_not_certain_and_few_seeds_have_no_interval() -> None:
    low, high = rate_limits(over("yyyyyy", "nnnnnn"))
    assert low < 0.25 < 0.75 < high
    for letter, rate in (("y", 1), ("n", 0)):  # counts a simulation per seed
        limits = rate_limits(over(*[letter * 20] * 5))
        assert limits[rate] == rate
        assert limits[1] - limits[0] > wilson_interval(0, 20)[1]  # t is wider
    few = [
        *rate_limits(over(*["yynn"] * 9)),
        *clustered_difference(over("yynn"), over("yyyy")),
        *square_and_add(over("y"), over("n")),
    ]
    assert np.isnan(few).all()
    assert not np.isnan(rate_limits(over("yynny"))).any()


def test_one_pair_of_conditions_has_mcnemars_score_test_and_its_interval() -> None:
    # 20 pairs: 7 only first, 2 only second.
    first, second = over("y" * 12 + "n" * 8), over("y" * 5 + "n" * 7 + "y" * 2 + "n" * 6)
    low, high, p = clustered_difference(first, second)
    assert p == pytest.approx(scipy.stats.chi2.sf((7 - 2) ** 2 / (7 + 2), 1))
    # What the test does not refuse, found by trying: the sum of squares of what each pair adds to the difference.
    adds = np.array([0] * 5 + [-1] * 7 + [1] * 2 + [0] * 6) - np.linspace(-1, 1, 20001)[:, None]
    kept = adds.sum(axis=1) ** 2 / (adds**2).sum(axis=1) <= scipy.stats.chi2.ppf(0.95, 1)
    tried = np.linspace(-1, 1, 20001)[kept]
    assert (low, high) == pytest.approx((tried.min(), tried.max()), abs=2e-4)


def test_interval_and_test_never_contradict_each_other_in_any_table_of_9_pairs() -> None:
    refused = 0
    for both in range(10):
        for first in range(10 - both):
            for second in range(10 - both - first):
                neither = 9 - both - first - second
                one = over("y" * (both + first) + "n" * (second + neither))
                other = over("y" * both + "n" * first + "y" * second + "n" * neither)
                low, high, p = clustered_difference(one, other)
                assert (p < 0.05) == (not low <= 0 <= high), (both, first, second)
                assert low <= other.rate - one.rate <= high
                refused += p < 0.05
    assert refused > 40


def test_where_no_seed_differs_there_still_is_an_interval() -> None:
    low, high, p = clustered_difference(over("y" * 20), over("y" * 20))
    assert p == 1
    assert low < -0.1 < 0.1 < high
    low, high, p = clustered_difference(over("n" * 20), over("y" * 20))
    assert p < 0.001
    assert (0.6 < low < 0.9, high) == (True, 1.0)
    # Without a shared seed it is nearly Newcombe's.
    limits = square_and_add(over("y" * 12 + "n" * 38), over("y" * 30 + "n" * 20))
    assert limits == pytest.approx([float(x) for x in unpaired_difference(12, 50, 30, 50)], abs=0.01)


def pairs_of(*texts: tuple[str, str]) -> tuple[Standardized, Standardized]:
    """Return the rates of the pairs that both have, in strata of a text each."""
    common = [(first[: len(second)], second[: len(first)]) for first, second in texts]
    seeds = np.concatenate([np.arange(len(first)) for first, _ in common])
    strata = np.repeat(np.arange(len(common)), [len(first) for first, _ in common])
    first, second = ("".join(side) for side in zip(*common, strict=True))
    return paired_rates(letters(first), letters(second), seeds, strata)


def test_combinations_with_other_numbers_of_pairs_have_their_effective_number_of_seeds() -> None:
    texts = [("yyyyn", "ynnnn"), ("yynnyynnyy", "ynnnynnnyn")]
    found = pairs_of(*texts)
    share = [1 / 10 + 1 / 20] * 5 + [1 / 20] * 5  # of each seed in the difference
    effective = sum(x**2 for x in share) ** 2 / sum(x**4 for x in share)
    assert found[0].effective == pytest.approx(effective)
    by_seed = np.array(
        [[(b[s] == "y") - (a[s] == "y") if s < len(a) else math.nan for a, b in texts] for s in range(10)]
    )
    change = np.nanmean(by_seed, axis=0).mean()
    assert change == pytest.approx(found[1].rate - found[0].rate)
    centered = np.nansum((by_seed - np.nanmean(by_seed, axis=0)) / [10, 20], axis=1)
    expected = change**2 / ((centered**2).sum() + change**2 / effective)
    low, high, p = clustered_difference(*found)
    assert p == pytest.approx(scipy.stats.chi2.sf(expected, 1))
    assert (p < 0.05) == (not low <= 0 <= high)
