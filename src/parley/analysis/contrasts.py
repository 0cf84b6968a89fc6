"""The table `contrasts`: what differs between conditions that are alike but for one axis, with paired tests.

Simulations are paired by their seeds: conditions share what a seed deals. Also compared are pairs of indicators within
a condition, where the game names them. docs/explanation/statistics.md says what is computed, and why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.analysis.attacked import with_group_size, with_undisturbed
from parley.analysis.columns import declared
from parley.analysis.noise import band
from parley.analysis.rates import by_condition, flags, numbers
from parley.analysis.stats import (
    Floats,
    benjamini_hochberg,
    holm,
    mcnemar,
    mean_interval,
    paired_difference,
    paired_mean,
    paired_share,
    unpaired_difference,
    unpaired_p,
)
from parley.games.base import Game
from parley.games.evidence import Quantity

# By the values of a condition's axes, the names of the outcomes that it cannot have; none where it is not in it.
Impossible = Mapping[tuple[Any, ...], frozenset[str]]
NONE_IMPOSSIBLE: Impossible = MappingProxyType({})

MAX_VALUES = 6  # of an axis in a group of conditions; with more, each value is compared with the first alone
_NAMES = [column.name for column in declared("contrasts").columns]
_BEFORE, _AFTER = _NAMES[:5], _NAMES[6:-3]  # the axes stand between them; p_holm, p_bh and noise come last
_COUNTS = _AFTER[:6]
_INDEX = "_index"
_PAIR = "_pair"


@dataclass(frozen=True)
class _Cell:
    """One condition: its values, and what its simulations have, in the order of `seeds`."""

    key: tuple[Any, ...]
    seeds: NDArray[np.int64]  # numbers of pairs
    # A row per outcome and indicator, a column per simulation: 1, 0, or -1 for no answer, and what cannot be.
    flags: NDArray[np.int8]
    numbers: Floats  # a row per quantity; NaN for none


def contrast_table(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible = NONE_IMPOSSIBLE,
    noise: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return a row per pair of conditions, and per outcome, indicator and contrasted quantity; then own comparisons.

    `rows` is the table of simulations, `by` its axes. `difference` is `to` minus `from`, within the pairs, as are
    `value_from` and `value_to`; `all_from` and `all_to` are of all simulations. Where two conditions share no seed,
    pairs is 0 and all their simulations are compared, unpaired. `p_holm` is `p` corrected over the rows that compare
    the same thing along the same axis. There is no row of what no simulation of one of the two has, such as an outcome
    that the condition cannot have. `noise` is the table of that name, of studies with repeats.
    """
    # Simulations of a pair have the seed in common, and all else that the game pairs by.
    paired = [name for name in ("seed", *game.evidence.paired_by) if name in rows]
    rows = rows.assign(**{_PAIR: rows.groupby(paired, sort=False, dropna=False).ngroup()})
    cells = [_cell(key, group, game, impossible.get(key, frozenset())) for key, group in by_condition(rows, by)]
    places = _places(cells, by, game)
    binary = [("outcome", o.name) for o in game.outcomes] + [("indicator", i.name) for i in game.evidence.indicators]
    tables = [
        _differences_of_rates(cells, places, by, binary),
        *(_differences_of_means(cells, places, by, q, quantity) for q, quantity in enumerate(_contrasted(game))),
        *(_within(cells, by, binary, names) for names in game.evidence.comparisons),
    ]
    table = pd.concat([t for t in tables if len(t)] or tables[:1], ignore_index=True)
    # An outcome that a condition cannot have, or what none of its simulations has, differs from nothing.
    compared = (table["simulations_from"] > 0) & (table["simulations_to"] > 0)
    told_twice = {indicator.name for indicator in game.evidence.indicators if not indicator.contrasted}
    compared &= ~((table["kind"] == "indicator") & table["what"].isin(told_twice))
    table = table[compared].reset_index(drop=True)
    table[_COUNTS] = table[_COUNTS].astype("Int64")
    families = table.groupby(["kind", "axis", "what"], sort=False, dropna=False)["p"]
    table["p_holm"] = families.transform(lambda p: holm(p.to_numpy(dtype=float)))
    table["p_bh"] = benjamini_hochberg(table["p"].to_numpy(dtype=float))
    table["noise"] = _noise(table, cells, places, by, noise)
    return table


def _noise(
    table: pd.DataFrame,
    cells: Sequence[_Cell],
    places: Sequence[tuple[str, int, int]],
    by: Sequence[str],
    noise: pd.DataFrame | None,
) -> list[float]:
    """Return for each contrast the band in which it lies if its conditions differ in nothing but sampling."""
    if noise is None or noise.empty:
        return [np.nan] * len(table)
    of = noise[[*by, "kind", "what", "spread"]].itertuples(index=False, name=None)
    spreads = {(*map(str, key), kind, what): spread for *key, kind, what, spread in of}
    ends = {tuple(_where(cells, place, by)): place[1:] for place in places}
    bands = []
    for row in table[["axis", "from", "to", *by, "kind", "what", "pairs"]].itertuples(index=False, name=None):
        *where, kind, what, pairs = row
        both = [spreads.get((*map(str, cells[place].key), kind, what), np.nan) for place in ends.get(tuple(where), ())]
        bands.append(band(float(np.sqrt(np.mean(np.square(both)))), pairs) if both and pairs else np.nan)
    return bands


def _contrasted(game: type[Game]) -> list[Quantity]:
    return [quantity for quantity in game.evidence.quantities if quantity.contrasted]


def _cell(key: tuple[Any, ...], group: pd.DataFrame, game: type[Game], never: frozenset[str]) -> _Cell:
    ended = group["outcome"].to_numpy()
    cannot_be = np.full(len(group), -1, dtype=np.int8)
    answers = [cannot_be if o.name in never else (ended == o.name).astype(np.int8) for o in game.outcomes]
    answers += [flags(group, indicator.name) for indicator in game.evidence.indicators]
    found = [numbers(group, quantity.name) for quantity in _contrasted(game)]
    seeds = group[_PAIR].to_numpy(dtype=np.int64)
    return _Cell(key, seeds, np.array(answers), np.array(found).reshape(len(found), len(seeds)))


# Which conditions are compared


def _places(cells: Sequence[_Cell], by: Sequence[str], game: type[Game]) -> list[tuple[str, int, int]]:
    """Return axis, place of the first and place of the second of all conditions that are compared."""
    table = pd.DataFrame([cell.key for cell in cells], columns=list(by))
    table[_INDEX] = range(len(cells))
    places: dict[tuple[str, int, int], None] = {}
    for axis in by:
        values = list(dict.fromkeys(cell.key[list(by).index(axis)] for cell in cells))
        if len(values) < 2:
            continue
        for members in _groups(table, axis, [other for other in by if other != axis], game):
            ordered = sorted(members, key=lambda member: values.index(member[0]))
            few = len({value for value, _ in members}) <= MAX_VALUES
            pairs = combinations(ordered, 2) if few else ((ordered[0], other) for other in ordered[1:])
            places.update(dict.fromkeys((axis, i, j) for (x, i), (y, j) in pairs if x != y))
    return list(places)


def _groups(table: pd.DataFrame, axis: str, others: list[str], game: type[Game]) -> Iterator[list[tuple[Any, int]]]:
    """Yield the conditions that differ in `axis` alone, each as its value and its place.

    Along b, conditions also are alike where they have the same other agents, or where one has nobody that attacks:
    the comparisons that figures show.
    """
    kinds = [(table, others)]
    if axis == "b":
        sized, by = table, others
        if "n" in others:
            sized, by, _ = with_group_size(table, others, game.roles[0])
        kinds.append((with_undisturbed(sized, by), by))
    for conditions, by in kinds:
        groups: dict[tuple[Any, ...], list[tuple[Any, int]]] = {}
        columns = [conditions[name].tolist() for name in by]
        keys = zip(*columns, strict=True) if by else ((),) * len(conditions)
        for key, value, place in zip(keys, conditions[axis].tolist(), conditions[_INDEX].tolist(), strict=True):
            groups.setdefault(key, []).append((value, place))
        yield from groups.values()


def _where(cells: Sequence[_Cell], place: tuple[str, int, int], by: Sequence[str]) -> list[str]:
    """Return the axis, its two values, and the value of each axis: both where they differ, "" for the axis itself."""
    axis, i, j = place
    first, second = cells[i].key, cells[j].key
    told = [
        "" if a == axis else str(x) if x == y else f"{x} -> {y}" for a, x, y in zip(by, first, second, strict=True)
    ]
    at = list(by).index(axis)
    return [axis, str(first[at]), str(second[at]), *told]


# What is compared


def _shared(first: _Cell, second: _Cell) -> tuple[Any, Any]:
    """Return the places of the seeds that both have, in each."""
    if np.array_equal(first.seeds, second.seeds):
        return slice(None), slice(None)
    _, mine, yours = np.intersect1d(first.seeds, second.seeds, assume_unique=True, return_indices=True)
    return mine, yours


def _differences_of_rates(
    cells: Sequence[_Cell],
    places: Sequence[tuple[str, int, int]],
    by: Sequence[str],
    binary: Sequence[tuple[str, str]],
) -> pd.DataFrame:
    counts = np.zeros((len(places), len(binary), 8), dtype=np.int64)
    for index, (_, i, j) in enumerate(places):
        mine, yours = _shared(cells[i], cells[j])
        counts[index] = _count(cells[i].flags, cells[j].flags, mine, yours)
    where = [_where(cells, place, by) for place in places]
    names = [[kind, *told[:3], what, *told[3:]] for told in where for kind, what in binary]
    return _rated(names, by, counts.reshape(-1, 8))


def _count(first: NDArray[np.int8], second: NDArray[np.int8], mine: Any, yours: Any) -> NDArray[np.int64]:
    """Return, per row of flags: both, only first, only second, neither; then true and all of each."""
    x, y = first[:, mine], second[:, yours]
    paired = [(x == a) & (y == b) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    alone = [first == 1, first >= 0, second == 1, second >= 0]
    return np.stack([mask.sum(axis=1) for mask in (*paired, *alone)], axis=1)


def _rated(names: list[list[str]], by: Sequence[str], counts: NDArray[np.int64]) -> pd.DataFrame:
    """Return the table of differences of rates from names and counts, row by row."""
    both, first, second, neither, true_from, n_from, true_to, n_to = counts.T
    pairs = both + first + second + neither
    paired = pairs > 0
    value_from = np.where(paired, _ratio(both + first, pairs), _ratio(true_from, n_from))
    value_to = np.where(paired, _ratio(both + second, pairs), _ratio(true_to, n_to))
    inside, apart = (
        paired_difference(both, first, second, neither),
        unpaired_difference(true_from, n_from, true_to, n_to),
    )
    values = {
        **dict(zip(_COUNTS, (pairs, n_from, n_to, first, second, both), strict=True)),
        "value_from": value_from,
        "value_to": value_to,
        "all_from": _ratio(true_from, n_from),
        "all_to": _ratio(true_to, n_to),
        "difference": value_to - value_from,
        "low": np.where(paired, inside[0], apart[0]),
        "high": np.where(paired, inside[1], apart[1]),
        "test": np.where(paired, "McNemar", "chi-squared"),
        "p": np.where(paired, mcnemar(first, second), unpaired_p(true_from, n_from, true_to, n_to)),
    }
    table = pd.DataFrame(names, columns=[*_BEFORE, *by], dtype=object)
    return table.assign(**values)[[*_BEFORE, *by, *_AFTER]]


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _differences_of_means(
    cells: Sequence[_Cell], places: Sequence[tuple[str, int, int]], by: Sequence[str], row: int, quantity: Quantity
) -> pd.DataFrame:
    """Return the table of mean differences of one quantity; without shared seeds it has no interval and no p."""
    table = []
    for place in places:
        _, i, j = place
        first, second = cells[i].numbers[row], cells[j].numbers[row]
        mine, yours = _shared(cells[i], cells[j])
        x, y = first[mine], second[yours]
        known = ~np.isnan(x) & ~np.isnan(y)
        x, y = x[known], y[known]
        whole = [mean_interval(v).mean for v in (first, second)]
        here, there = (float(x.mean()), float(y.mean())) if x.size else whole
        low_limit, high_limit, p = paired_share(x, y) if quantity.share else paired_mean(x, y)
        sizes = [(~np.isnan(v)).sum() for v in (first, second)]
        axis, low, high, *others = _where(cells, place, by)
        counted = [x.size, *sizes, pd.NA, pd.NA, pd.NA]
        values = [here, there, *whole, there - here, low_limit, high_limit, "t" if x.size else "", p]
        table.append(["quantity", axis, low, high, quantity.name, *others, *counted, *values])
    return pd.DataFrame(table, columns=[*_BEFORE, *by, *_AFTER])


def _within(
    cells: Sequence[_Cell], by: Sequence[str], binary: Sequence[tuple[str, str]], names: tuple[str, str]
) -> pd.DataFrame:
    """Return the comparison of two indicators in the same simulations, for each condition."""
    first, second = (binary.index(("indicator", name)) for name in names)
    every = slice(None)
    counts = [_count(cell.flags[[first]], cell.flags[[second]], every, every)[0] for cell in cells]
    told = [["comparison", "", *names, f"{names[1]} - {names[0]}", *map(str, cell.key)] for cell in cells]
    return _rated(told, by, np.array(counts, dtype=np.int64).reshape(-1, 8))


def compared_conditions(
    keys: Sequence[tuple[Any, ...]], by: Sequence[str], game: type[Game]
) -> list[tuple[int, int, list[str]]]:
    """Return the places of the conditions that are compared, and the cells that say which: `axis` to the axes.

    `keys` are the values of the axes of each condition.
    """
    nothing = np.empty((0, 0))
    cells = [_Cell(key, nothing.astype(np.int64), nothing.astype(np.int8), nothing) for key in keys]
    return [(place[1], place[2], _where(cells, place, by)) for place in _places(cells, by, game)]
