"""The one comparison: differences with their intervals, tests, and p corrected within families.

A table of differences is a list of `SamplePair`s, of which `compare` makes the rows. The difference is always the
second sample minus the first, within the pairs. docs/explanation/statistics.md says why.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from parley.statistics import stats
from parley.statistics.anytime import anytime_difference
from parley.statistics.clustered import (
    MIN_SEEDS,
    Indices,
    clustered_difference,
    over_strata,
    paired_rates,
)
from parley.statistics.stats import Floats

RATE, SHARE, NUMBER = "rate", "share", "number"  # kinds: of yes and no (1 and 0), of numbers in [0, 1], of others
EVERY, NO_PAIRS = slice(None), slice(0)  # places
NOTHING, MEANS, TESTED = "nothing", "means", "tested"  # what all simulations tell where there are no pairs
FEW_SEEDS = "few seeds"  # of some strata, so that nothing says how much they differ
_ROUNDING = 1e-9
CLUSTERED = "clustered McNemar"
_UNKNOWN = {**dict.fromkeys(("value_from", "value_to", "difference", "low", "high", "p"), np.nan), "test": ""}
_ANYTIME = ("anytime_low", "anytime_high", "anytime_p")
_COLUMNS = (
    *("pairs", "simulations_from", "simulations_to", "only_first", "only_second", "both", "value_from", "value_to"),
    *("all_from", "all_to", "difference", "low", "high", "test", "p"),
)


@dataclass(frozen=True)
class Clusters:
    """What makes pairs alike: their seeds. Each of their strata, if they have some, counts as much as any other."""

    seeds: Indices
    strata: Indices | None = None


class SamplePair(NamedTuple):
    """Two samples: what all simulations of either have, NaN for nothing, and the places of the pairs in both.

    `keys` are the cells that say what is compared; `family` names those whose p are corrected together, None is no
    correction. Pairs that have `clusters` lack no value. `most` is the largest difference that there can be, where
    limits of t end. With `flips_signs` p is that of flipped signs, and shares have bounded limits: few games of which
    a change turns a few are not normal.
    """

    keys: Mapping[str, Any]
    first: Floats
    second: Floats
    kind: str
    mine: Any = EVERY
    yours: Any = EVERY
    clusters: Clusters | None = None
    family: Hashable = None
    without_pairs: str = NOTHING
    most: float = math.inf
    flips_signs: bool = False


def compare(compared: Sequence[SamplePair], anytime: bool = False) -> pd.DataFrame:
    """Return a row for each two samples: their keys, and the difference with its interval, its test and p.

    Rates have McNemar's test, that for clustered pairs where seeds are shared, and without pairs chi-squared; numbers
    Student's paired t, over the means of seeds where pairs are clustered, and without pairs Welch's (shares:
    chi-squared, as if they were rates). `p_holm` is corrected within a family, NaN without one. With `anytime` there
    are also limits and p that hold however often one looks.
    """
    plain = iter(_rates([each for each in compared if each.kind == RATE and each.clusters is None]))
    rows = []
    for each in compared:
        if each.kind == RATE:
            rows.append({**each.keys, **(_of_clusters(each, each.clusters) if each.clusters else next(plain))})
        else:
            rows.append({**each.keys, **_of_numbers(each)})
    if anytime:
        for each, row in zip(compared, rows, strict=True):
            row |= dict(zip(_ANYTIME, anytime_difference(_by_seed(each), each.most), strict=True))
    keys = list(compared[0].keys) if compared else []
    table = pd.DataFrame(rows, columns=[*keys, *_COLUMNS, *(_ANYTIME if anytime else ())])
    families = pd.Series([each.family for each in compared], index=table.index, dtype=object)
    ps = {name: table[name].astype(float) for name in ("p", "anytime_p") if name in table}
    corrected = {f"{name}_holm": p.groupby(families, sort=False).transform(stats.holm) for name, p in ps.items()}
    return table.assign(**corrected)


def selected(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return these columns of a table; of one without rows also those that no row says anything of."""
    return table[list(names)] if len(table) else pd.DataFrame(columns=list(names))


def beside(rows: Sequence[Mapping[str, Any]], samples: Sequence[SamplePair | None]) -> pd.DataFrame:
    """Return a table of rows, each with the difference of its samples beside it; without samples it is missing."""
    places = [place for place, each in enumerate(samples) if each is not None]
    compared = compare([each for each in samples if each is not None]).set_index(pd.Index(places, dtype=int))
    found = compared[["difference", "low", "high", "p", "p_holm"]]
    return pd.DataFrame(rows).join(found.rename(columns={"low": "difference_low", "high": "difference_high"}))


# Rates


def _rates(compared: Sequence[SamplePair]) -> list[dict[str, Any]]:
    """Return the differences of rates; each interval is a search, made for all at once."""
    counts = np.array([_counts(each) for each in compared], dtype=np.int64).reshape(-1, 8)
    tested = np.array([each.without_pairs == TESTED for each in compared], dtype=bool)
    both, first, second, neither, true_from, n_from, true_to, n_to = counts.T
    pairs = both + first + second + neither
    paired = pairs > 0
    value_from = np.where(paired, _ratio(both + first, pairs), _ratio(true_from, n_from))
    value_to = np.where(paired, _ratio(both + second, pairs), _ratio(true_to, n_to))
    inside, outside = np.flatnonzero(paired), np.flatnonzero(~paired & tested)
    low, high = np.full(pairs.shape, np.nan), np.full(pairs.shape, np.nan)
    low[inside], high[inside] = stats.paired_difference(*counts[inside, :4].T)
    low[outside], high[outside] = stats.unpaired_difference(*counts[outside, 4:].T)
    columns = {
        **{"pairs": pairs, "simulations_from": n_from, "simulations_to": n_to},
        **{"only_first": first, "only_second": second, "both": both},
        **{"value_from": value_from, "value_to": value_to},
        **{"all_from": _ratio(true_from, n_from), "all_to": _ratio(true_to, n_to)},
        "difference": value_to - value_from,
        "low": low,
        "high": high,
        "test": np.where(paired, "McNemar", "chi-squared"),
        "p": np.where(paired, stats.mcnemar(first, second), stats.unpaired_p(true_from, n_from, true_to, n_to)),
    }
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return [row if known else row | _UNKNOWN for row, known in zip(rows, paired | tested, strict=True)]


def _counts(pair: SamplePair) -> list[int]:
    """Return the pairs in which both have it, only the first, only the second, and neither.

    Then how often the first has it among how many answers, and the second; of all simulations.
    """
    x, y = (np.nan_to_num(side, nan=-1).astype(np.int8) + 1 for side in (pair.first, pair.second))  # 0 for no answer
    counts = np.bincount(3 * x[pair.mine] + y[pair.yours], minlength=9)
    own, other = (np.bincount(side, minlength=3) for side in (x, y))
    return [counts[8], counts[7], counts[5], counts[4], own[2], own[1] + own[2], other[2], other[1] + other[2]]


def _of_clusters(pair: SamplePair, clusters: Clusters) -> dict[str, Any]:
    """Return the difference of rates over conditions whose simulations share seeds."""
    x, y = pair.first[pair.mine], pair.second[pair.yours]
    first, second = paired_rates(x, y, clusters.seeds, clusters.strata)
    low, high, p = clustered_difference(first, second)
    row = {
        **{"pairs": len(x), "simulations_from": first.simulations, "simulations_to": second.simulations},
        **{"only_first": int((x > y).sum()), "only_second": int((x < y).sum()), "both": int((x * y).sum())},
        **{"value_from": first.rate, "value_to": second.rate, "all_from": first.rate, "all_to": second.rate},
        **{"difference": second.rate - first.rate, "low": low, "high": high, "test": CLUSTERED, "p": p},
    }
    return row if first.simulations else row | _UNKNOWN


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


# Numbers


def _of_numbers(pair: SamplePair) -> dict[str, Any]:
    x, y = pair.first[pair.mine], pair.second[pair.yours]
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    own, other = (side[~np.isnan(side)] for side in (pair.first, pair.second))
    whole = _mean(own), _mean(other)
    value_from, value_to = (_mean(x), _mean(y)) if x.size else whole
    row = {
        **{"pairs": x.size, "simulations_from": own.size, "simulations_to": other.size},
        **{"only_first": pd.NA, "only_second": pd.NA, "both": pd.NA},
        **{"value_from": value_from, "value_to": value_to, "all_from": whole[0], "all_to": whole[1]},
        **{"difference": value_to - value_from, "low": np.nan, "high": np.nan, "test": "", "p": np.nan},
    }
    if not x.size and pair.without_pairs == TESTED:
        return row | _without_pairs(pair.kind, own, other)
    if not x.size:
        return row if pair.without_pairs == MEANS else row | _UNKNOWN
    if pair.clusters is not None:
        return row | _by_seeds(pair, pair.clusters)
    test, most = "t", pair.most if math.isfinite(pair.most) else 1.0
    low, high, p = stats.paired_share(x, y, most) if pair.kind == SHARE else stats.paired_mean(x, y)
    if pair.flips_signs:
        p, test = stats.sign_flip(y - x), "sign flip"
        if pair.kind == SHARE:
            low, high = map(float, stats.bounded_interval(y - x))
    return row | {"low": max(low, -pair.most), "high": min(high, pair.most), "test": test, "p": p}


def _by_seeds(pair: SamplePair, clusters: Clusters) -> dict[str, Any]:
    """Return the difference of numbers whose pairs share seeds: t, of so many seeds as its variance comes from."""
    x, y = pair.first[pair.mine], pair.second[pair.yours]
    first, second, change = (over_strata(each, clusters.seeds, clusters.strata) for each in (x, y, y - x))
    sums, seeds, effective = change.by_seed, change.seeds, change.effective
    low, high, p = (stats.paired_share if pair.kind == SHARE else stats.paired_mean)(np.zeros(seeds), sums)
    test = "t by seed"
    if effective < min(MIN_SEEDS, seeds) - _ROUNDING:
        low, high, p, test = np.nan, np.nan, np.nan, FEW_SEEDS
    elif effective < seeds - _ROUNDING and sums.std() > _ROUNDING:
        mean, error = change.rate, float(sums.std()) / math.sqrt(seeds) * math.sqrt(effective / (effective - 1))
        half = error * float(scipy.special.stdtrit(effective - 1, 0.5 + stats.CONFIDENCE / 2))
        low, high, p = mean - half, mean + half, float(2 * scipy.special.stdtr(effective - 1, -abs(mean) / error))
    return {
        **{"value_from": first.rate, "value_to": second.rate, "difference": change.rate},
        **{"low": max(low, -pair.most), "high": min(high, pair.most), "test": test, "p": p},
    }


def _without_pairs(kind: str, own: Floats, other: Floats) -> dict[str, Any]:
    """Return limits, test and p of numbers without pairs."""
    if kind == SHARE:
        counts = own.sum(), own.size, other.sum(), other.size
        low, high = map(float, stats.unpaired_difference(*counts))
        return {"low": low, "high": high, "test": "chi-squared", "p": float(stats.unpaired_p(*counts))}
    low, high, p = stats.welch(own, other)
    return {"low": low, "high": high, "test": "Welch", "p": p}


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else np.nan


# Pairs that share seeds: what they differ by


def by_seed(differences: Floats, seeds: Indices, strata: Indices | None) -> tuple[Floats, Floats]:
    """Return what the pairs of each seed differ by in the mean, and the weight of each seed, together 1.

    Strata count alike, however many pairs they have; without any, pairs do.
    """
    cells = np.zeros(len(seeds), dtype=np.int64) if strata is None else strata
    size, places = np.bincount(cells), np.unique(seeds, return_inverse=True)[1]
    weights = 1 / (size[cells] * np.count_nonzero(size))
    whole: Floats = np.bincount(places, weights).astype(float)
    return np.bincount(places, weights * differences) / whole, whole


def _by_seed(pair: SamplePair) -> Floats:
    differences: Floats = pair.second[pair.yours] - pair.first[pair.mine]
    if pair.clusters is None or not differences.size:
        return differences
    means, weights = by_seed(differences, pair.clusters.seeds, pair.clusters.strata)
    # Where seeds count differently nothing is known of their mean at any time.
    return means if np.allclose(weights, weights[0]) else np.empty(0)
