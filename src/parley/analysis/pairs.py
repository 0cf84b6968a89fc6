"""Pairs: which conditions are compared, over strata that are alike but for one axis, which of their simulations, and
one difference with its interval and its test, of rates or of numbers.

Along b, conditions are alike with as many agents or as many that are not among the b, and games without Byzantine
agents belong to any adversary: nothing plays theirs.

The tables of effects are selections of what the differences here return: by name of the column, an array with a cell
for each comparison. The difference is always the second side minus the first, within the pairs; where there are no
pairs all simulations of both sides are compared. docs/explanation/statistics.md says why.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from parley.analysis import stats
from parley.analysis.stats import Floats
from parley.games.base import Game
from parley.study.condition import BYZANTINE_AXIS
from parley.study.expand import NOBODY

MAX_VALUES = 6  # of an axis in a group of conditions; with more, each value is compared with the first alone
_PLACE = "_place"
Stratum = tuple[Any, ...]  # the values of the other axes
Compared = tuple[int, int, list[str]]  # the places of two conditions; and in cells the axis, its values, the axes


def pair_numbers(rows: pd.DataFrame, game: type[Game]) -> NDArray[np.int64]:
    """Return a number for each simulation: those of a pair have the seed in common, and all else the game pairs by."""
    paired = [name for name in ("seed", *game.evidence.paired_by) if name in rows]
    return np.asarray(rows.groupby(paired, sort=False, dropna=False).ngroup(), dtype=np.int64)


def shared(first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the places of the pairs that both have, in each; their numbers occur once in each."""
    if np.array_equal(first, second):
        return slice(None), slice(None)
    _, mine, yours = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return mine, yours


def strata(
    keys: pd.DataFrame, axis: str, game: type[Game], places: Sequence[int], as_they_are: bool = False
) -> dict[Stratum, list[tuple[Any, int]]]:
    """Return the conditions that differ in `axis` alone: by what they have in common, value and place of each.

    `keys` has a row per condition, the values of its axes; `places` are those that count. Along b that follows what is
    held fixed, unless they are taken `as_they_are`.
    """
    table, others = keys.iloc[list(places)].assign(**{_PLACE: list(places)}), [str(n) for n in keys if n != axis]
    if axis == "b" and not as_they_are:
        if "n" in others:
            table, others, _ = with_group_size(table, others, game.roles[0])
        table = with_undisturbed(table, others)
    found: dict[Stratum, list[tuple[Any, int]]] = {}
    columns = [table[name].tolist() for name in others]
    in_common = zip(*columns, strict=True) if columns else itertools.repeat((), len(table))
    for stratum, value, place in zip(in_common, table[axis].tolist(), table[_PLACE].tolist(), strict=True):
        found.setdefault(stratum, []).append((value, place))
    return found


def compared_conditions(keys: Sequence[Stratum], by: Sequence[str], game: type[Game]) -> list[Compared]:
    """Return the conditions that are compared, by axis, and the cells that say which.

    `keys` are the values of the axes `by` of each condition. The cells are the axis, its two values, and the value of
    each axis: both where they differ, "" for the axis itself.
    """
    table, order = pd.DataFrame(list(keys), columns=list(by)), range(len(keys))
    found: dict[tuple[int, int, int], None] = {}
    for at, axis in enumerate(by):
        values = list(dict.fromkeys(key[at] for key in keys))
        # Along b those of one size are compared, too.
        for as_they_are in [True, False] if axis == "b" else [False]:
            groups = strata(table, axis, game, order, as_they_are).values() if len(values) > 1 else ()
            for members in groups:
                ordered = sorted(members, key=lambda member: values.index(member[0]))
                few = len({value for value, _ in members}) <= MAX_VALUES
                pairs = itertools.combinations(ordered, 2) if few else ((ordered[0], other) for other in ordered[1:])
                found.update(dict.fromkeys((at, i, j) for (x, i), (y, j) in pairs if x != y))
    return [(i, j, list(_cells(at, keys[i], keys[j], by))) for at, i, j in found]


def _cells(at: int, first: Stratum, second: Stratum, by: Sequence[str]) -> Iterator[str]:
    yield from (by[at], str(first[at]), str(second[at]))
    for place, (x, y) in enumerate(zip(first, second, strict=True)):
        yield "" if place == at else str(x) if x == y else f"{x} -> {y}"


# What is alike along b


def with_group_size(table: pd.DataFrame, by: list[str], role: str) -> tuple[pd.DataFrame, list[str], str]:
    """Choose what is held fixed while b grows: all agents (n), or those that are not among the b.

    Both are fair comparisons; the one with fewer groups is that for which the study was laid out. `table` has rows
    of conditions, `by` are the axes that tell groups apart, n among them. Returns both as chosen, and a note on it.
    """
    size = f"{role} agents"
    sized = table.assign(**{size: table["n"] - table["b"]})
    swapped = [size if axis == "n" else axis for axis in by]
    groups, of_n = (len(with_undisturbed(t, o)[o].drop_duplicates()) for t, o in ((sized, swapped), (table, by)))
    if groups < of_n:
        return sized, swapped, f"n = {size} + b, so n grows with b."
    return table, by, f"n counts all agents: {size} = n - b."


def beside_undisturbed(
    table: pd.DataFrame, others: list[str], role: str, notes: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table for a comparison along b, and the axes that tell its groups apart, n or what replaces it.

    `table` may have several rows per condition; `others` are its axes but b, n among them, and `role` is that of the
    agents that are not among the b. Adds to `notes` what n counts.
    """
    table, others, note = with_group_size(table, others, role)
    notes.append(note)
    return with_undisturbed(table, others), others


def with_undisturbed(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the table with the conditions without Byzantine agents once for each adversary of their group.

    So they are the first of every comparison along b, whatever plays the Byzantine agents of the others. Where there
    is none to compare with, they stay as they are.
    """
    if BYZANTINE_AXIS not in by:
        return table
    names = table[BYZANTINE_AXIS].tolist()
    columns = [table[axis].tolist() for axis in by if axis != BYZANTINE_AXIS]
    groups = list(zip(*columns, strict=True)) if columns else [()] * len(table)
    adversaries: dict[Stratum, dict[str, None]] = {}
    for group, name in zip(groups, names, strict=True):
        if name != NOBODY:
            adversaries.setdefault(group, {})[name] = None
    undisturbed = [place for place, name in enumerate(names) if name == NOBODY]
    alone = [(place, NOBODY) for place in undisturbed if groups[place] not in adversaries]
    copies = [(place, name) for place in undisturbed for name in adversaries.get(groups[place], ())]
    attacked = [(place, name) for place, name in enumerate(names) if name != NOBODY]
    rows = [*alone, *copies, *attacked]
    found = table.iloc[[place for place, _ in rows]].reset_index(drop=True)
    return found.assign(**{BYZANTINE_AXIS: [name for _, name in rows]})


# One difference, with its interval and its test


RATE, SHARE, NUMBER = "rate", "share", "number"  # kinds: of yes and no (1 and 0), of numbers in [0, 1], of others
EVERY = slice(None)


class Sides(NamedTuple):
    """What is compared: what all simulations of either side have, NaN for nothing, and the places of the pairs."""

    first: Floats
    second: Floats
    kind: str
    mine: Any = EVERY
    yours: Any = EVERY


def differences(compared: Sequence[Sides], unpaired: bool = False) -> list[dict[str, Any]]:
    """Return the difference of each two sides with its interval and test, by name of the column.

    Rates have McNemar's test, and chi-squared without pairs; numbers Student's paired t, and without pairs neither
    interval nor test: with `unpaired` that of Welch, and for shares chi-squared, as if they were rates.
    """
    rates = [sides for sides in compared if sides.kind == RATE]
    counts = [count_pairs(_flags(s.first), _flags(s.second), s.mine, s.yours) for s in rates]
    columns = rate_differences(counts)
    of_rates = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    return [next(of_rates) if sides.kind == RATE else _of_numbers(sides, unpaired) for sides in compared]


def difference_of(first: ArrayLike, second: ArrayLike, kind: str) -> dict[str, Any]:
    """Return what `differences` does, of the same games on both sides."""
    return differences([Sides(np.asarray(first, dtype=float), np.asarray(second, dtype=float), kind)])[0]


def count_pairs(first: NDArray[Any], second: NDArray[Any], mine: Any, yours: Any) -> NDArray[np.int64]:
    """Return counts of answers (1, 0, or -1 for none): a row per row of both, or one row.

    They are the pairs in which both have it, only the first, only the second, and neither; then how often the first
    has it among how many answers, and the second; of all simulations.
    """
    x, y = first[..., mine], second[..., yours]
    paired = [(x == a) & (y == b) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    alone = [first == 1, first >= 0, second == 1, second >= 0]
    return np.stack([mask.sum(axis=-1) for mask in (*paired, *alone)], axis=-1)


def rate_differences(found: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """Return the columns of the differences of rates, from the counts that `count_pairs` found."""
    counts = np.concatenate([np.empty((0, 8), dtype=np.int64), *(each.reshape(-1, 8) for each in found)])
    both, first, second, neither, true_from, n_from, true_to, n_to = counts.T
    pairs = both + first + second + neither
    paired = pairs > 0
    value_from = np.where(paired, _ratio(both + first, pairs), _ratio(true_from, n_from))
    value_to = np.where(paired, _ratio(both + second, pairs), _ratio(true_to, n_to))
    # Each interval is a search: only where it is needed.
    inside, apart = np.flatnonzero(paired), np.flatnonzero(~paired)
    low, high = np.full(pairs.shape, np.nan), np.full(pairs.shape, np.nan)
    low[inside], high[inside] = stats.paired_difference(*counts[inside, :4].T)
    low[apart], high[apart] = stats.unpaired_difference(*counts[apart, 4:].T)
    return {
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


def _flags(values: Floats) -> NDArray[np.int8]:
    return np.nan_to_num(values, nan=-1).astype(np.int8)


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _of_numbers(sides: Sides, unpaired: bool) -> dict[str, Any]:
    x, y = sides.first[sides.mine], sides.second[sides.yours]
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    own, other = (side[~np.isnan(side)] for side in (sides.first, sides.second))
    whole = _mean(own), _mean(other)
    value_from, value_to = (_mean(x), _mean(y)) if x.size else whole
    low, high, p, test = np.nan, np.nan, np.nan, ""
    if x.size:
        (low, high, p), test = (stats.paired_share if sides.kind == SHARE else stats.paired_mean)(x, y), "t"
    elif unpaired and sides.kind == SHARE:
        counts = own.sum(), own.size, other.sum(), other.size
        (low, high), p = map(float, stats.unpaired_difference(*counts)), float(stats.unpaired_p(*counts))
        test = "chi-squared"
    elif unpaired:
        (low, high, p), test = stats.welch(own, other), "Welch"
    return {
        **{"pairs": x.size, "simulations_from": own.size, "simulations_to": other.size},
        **{"only_first": pd.NA, "only_second": pd.NA, "both": pd.NA},
        **{"value_from": value_from, "value_to": value_to, "all_from": whole[0], "all_to": whole[1]},
        **{"difference": value_to - value_from, "low": low, "high": high, "test": test, "p": p},
    }


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else np.nan
