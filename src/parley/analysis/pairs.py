"""Pairs: which conditions are compared, over strata that are alike but for one axis, and which of their simulations.

Along b, conditions are alike with as many agents or as many that are not among the b, and games without Byzantine
agents belong to any adversary: nothing plays theirs.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
        table, others = beside_undisturbed(table, others, game.roles[0], [])
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


def beside_undisturbed(
    table: pd.DataFrame, others: list[str], role: str, notes: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table for a comparison along b, and the axes that tell its groups apart, n or what replaces it.

    `table` may have several rows per condition; `others` are its axes but b, n among them, and `role` is that of the
    agents that are not among the b. While b grows all agents (n) are held fixed, or those that are not among the b:
    both are fair, and the one with fewer groups is that for which the study was laid out. Adds to `notes` which.
    """
    size = f"{role} agents"
    sized = table.assign(**{size: table["n"] - table["b"]})
    swapped = [size if axis == "n" else axis for axis in others]
    groups, of_n = (len(with_undisturbed(t, o)[o].drop_duplicates()) for t, o in ((sized, swapped), (table, others)))
    if groups < of_n:
        notes.append(f"n = {size} + b, so n grows with b.")
        return with_undisturbed(sized, swapped), swapped
    notes.append(f"n counts all agents: {size} = n - b.")
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
    repeated = table.iloc[[place for place, _ in rows]].reset_index(drop=True)
    return repeated.assign(**{BYZANTINE_AXIS: [name for _, name in rows]})
