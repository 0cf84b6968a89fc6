"""One difference, with its interval and its test: of rates from counts, of numbers from values.

The tables `contrasts`, `questions` and `reactions` are selections of what these return: by name of the column, an
array with a cell for each comparison. The difference is always the second side minus the first, within the pairs;
where there are no pairs all simulations of both sides are compared. docs/explanation/statistics.md says why.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.analysis.stats import (
    Floats,
    mcnemar,
    paired_difference,
    paired_mean,
    paired_share,
    unpaired_difference,
    unpaired_p,
    welch,
)

Compared = tuple[Floats, Floats, Any, Any]  # all values of either side, and the places of the pairs in each


def count_pairs(first: NDArray[Any], second: NDArray[Any], mine: Any, yours: Any) -> NDArray[np.int64]:
    """Return counts of answers (1, 0, or -1 for none): a row per row of both, or one row.

    They are the pairs in which both have it, only the first, only the second, and neither; then how often the first
    has it among how many answers, and the second; of all simulations.
    """
    x, y = first[..., mine], second[..., yours]
    paired = [(x == a) & (y == b) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    alone = [first == 1, first >= 0, second == 1, second >= 0]
    return np.stack([mask.sum(axis=-1) for mask in (*paired, *alone)], axis=-1)


def rate_differences(counts: NDArray[np.int64]) -> dict[str, Any]:
    """Return the differences of rates, from the counts of `count_pairs`: McNemar's test, else chi-squared."""
    both, first, second, neither, true_from, n_from, true_to, n_to = counts.T
    pairs = both + first + second + neither
    paired = pairs > 0
    value_from = np.where(paired, _ratio(both + first, pairs), _ratio(true_from, n_from))
    value_to = np.where(paired, _ratio(both + second, pairs), _ratio(true_to, n_to))
    # Each interval is a search: only where it is needed.
    inside, apart = np.flatnonzero(paired), np.flatnonzero(~paired)
    low, high = np.full(pairs.shape, np.nan), np.full(pairs.shape, np.nan)
    low[inside], high[inside] = paired_difference(*counts[inside, :4].T)
    low[apart], high[apart] = unpaired_difference(*counts[apart, 4:].T)
    return {
        **{"pairs": pairs, "simulations_from": n_from, "simulations_to": n_to},
        **{"only_first": first, "only_second": second, "both": both},
        **{"value_from": value_from, "value_to": value_to},
        **{"all_from": _ratio(true_from, n_from), "all_to": _ratio(true_to, n_to)},
        "difference": value_to - value_from,
        "low": low,
        "high": high,
        "test": np.where(paired, "McNemar", "chi-squared"),
        "p": np.where(paired, mcnemar(first, second), unpaired_p(true_from, n_from, true_to, n_to)),
    }


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def number_differences(compared: Iterable[Compared], share: bool, unpaired: bool = False) -> dict[str, Any]:
    """Return the differences of means, `share` if numbers are in [0, 1]; NaN are left out.

    Student's paired t. Without pairs there is neither interval nor test; with `unpaired` that of Welch, and for shares
    chi-squared, as if they were rates.
    """
    cells: dict[str, list[Any]] = {name: [] for name in _NUMBERS}
    for first, second, mine, yours in compared:
        x, y = first[mine], second[yours]
        known = ~(np.isnan(x) | np.isnan(y))
        x, y = x[known], y[known]
        own, other = first[~np.isnan(first)], second[~np.isnan(second)]
        whole = [_mean(own), _mean(other)]
        here, there = (float(x.mean()), float(y.mean())) if x.size else whole
        low, high, p, test = np.nan, np.nan, np.nan, ""
        if x.size:
            (low, high, p), test = (paired_share if share else paired_mean)(x, y), "t"
        elif unpaired and share:
            counts = own.sum(), own.size, other.sum(), other.size
            (low, high), p, test = map(float, unpaired_difference(*counts)), float(unpaired_p(*counts)), "chi-squared"
        elif unpaired:
            (low, high, p), test = welch(own, other), "Welch"
        row = (x.size, own.size, other.size, here, there, *whole, there - here, low, high, test, p)
        for name, value in zip(_NUMBERS, row, strict=True):
            cells[name].append(value)
    none = [pd.NA] * len(cells["p"])
    return {**cells, "only_first": none, "only_second": none, "both": none}


_NUMBERS = (
    *("pairs", "simulations_from", "simulations_to", "value_from", "value_to", "all_from", "all_to"),
    *("difference", "low", "high", "test", "p"),
)


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else np.nan
