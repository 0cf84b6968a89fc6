"""The tables `contrasts` and `noise`: differences of conditions in one axis, and of a condition from itself.

Simulations are paired by their seeds: conditions share what a seed deals. Also compared are pairs of indicators within
a condition, where the game names them. A study with `repeats` plays each seed several times, with other sampling seeds
and all else alike: what differs then is the models' sampling alone, and no effect can be seen below it.
docs/explanation/statistics.md says what is computed, and why.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.pairs import Compared, compared_conditions, pair_numbers, shared
from parley.analysis.rates import by_condition, values_of
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.statistics.differences import MEANS, NUMBER, RATE, SHARE, TESTED, SamplePair, compare, selected
from parley.statistics.stats import CONFIDENCE, Floats, benjamini_hochberg

# By the values of a condition's axes, the names of the outcomes that it cannot have; none where it is not in it.
Impossible = Mapping[tuple[Any, ...], frozenset[str]]
NONE_IMPOSSIBLE: Impossible = MappingProxyType({})

REPEAT = "repeat"
_PAIR = "_pair"
_Group = tuple[tuple[Any, ...], pd.DataFrame]  # a condition: the values of its axes, and its simulations


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
    rows = rows.assign(**{_PAIR: pair_numbers(rows, game)})
    groups = list(by_condition(rows, by))
    conditions = [key for key, _ in groups]
    compared = compared_conditions(conditions, by, game)
    samples = _samples(groups, compared, by, game, impossible)
    samples += _within(groups, by, game)
    table = compare(samples)
    # An outcome that a condition cannot have, or what none of its simulations has, differs from nothing.
    table = table[(table["simulations_from"] > 0) & (table["simulations_to"] > 0)].reset_index(drop=True)
    names = names_of("contrasts", by, game)
    if table.empty:
        return selected(table, names)
    table[_COUNTS] = table[_COUNTS].astype("Int64")
    table["p_bh"] = benjamini_hochberg(table["p"].to_numpy(dtype=float))
    table["noise"] = _bands(table, conditions, compared, by, game, noise)
    return table[names]


_COUNTS = ["pairs", "simulations_from", "simulations_to", "only_first", "only_second", "both"]


def _samples(
    groups: Sequence[_Group],
    compared: Sequence[Compared],
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible,
) -> list[SamplePair]:
    """Return what each two conditions are compared in: all outcomes and indicators first, then each quantity."""
    values = []
    for key, group in groups:
        by_what = {(kind, name): of for kind, name, of in measured(group, game)}
        for name in impossible.get(key, ()):
            by_what["outcome", name] = np.full(len(group), np.nan)
        values.append(by_what)
    whats = list(values[0]) if values else []
    numbers = [what for what in whats if what[0] == "quantity"]
    pairs = [group[_PAIR].to_numpy() for _, group in groups]
    places = [shared(pairs[i], pairs[j]) for i, j, _ in compared]
    samples = []
    for several in ([what for what in whats if what not in numbers], *([what] for what in numbers)):
        for (i, j, cells), at in zip(compared, places, strict=True):
            where = dict(zip(("axis", "from", "to", *by), cells, strict=True))
            for kind, what in several:
                of, otherwise = (RATE, TESTED) if kind != "quantity" else (_kind(what, game), MEANS)
                x, y = values[i][kind, what], values[j][kind, what]
                keys, family = {"kind": kind, "what": what, **where}, (kind, cells[0], what)
                samples.append(SamplePair(keys, x, y, of, *at, family=family, without_pairs=otherwise))
    return samples


def _within(groups: Sequence[_Group], by: Sequence[str], game: type[Game]) -> Iterator[SamplePair]:
    """Yield the indicators that the game compares with one another, in each condition."""
    for first, second in game.evidence.comparisons:
        what = f"{second} - {first}"
        keys = {"kind": "comparison", "what": what, "axis": "", "from": first, "to": second}
        for key, group in groups:
            x, y = (values_of(group, "indicator", name) for name in (first, second))
            axes = dict(zip(by, map(str, key), strict=True))
            yield SamplePair(keys | axes, x, y, RATE, family=("comparison", what), without_pairs=TESTED)


def _bands(
    table: pd.DataFrame,
    keys: Sequence[tuple[Any, ...]],
    compared: Sequence[Compared],
    by: Sequence[str],
    game: type[Game],
    noise: pd.DataFrame | None,
) -> list[float]:
    """Return for each contrast the band in which it lies if its conditions differ in nothing but sampling.

    None where one of the two was not played again: how much a condition differs from itself, no other one tells.
    """
    if noise is None or noise.empty:
        return [np.nan] * len(table)
    of = noise[[*by, "kind", "what", "spread", "freedom"]].itertuples(index=False, name=None)
    spreads = {(*map(str, key), kind, what): (spread, freedom) for *key, kind, what, spread, freedom in of}
    ends = {tuple(cells): (i, j) for i, j, cells in compared}
    bands = []
    for row in table[["axis", "from", "to", *by, "kind", "what", "pairs"]].itertuples(index=False, name=None):
        *where, kind, what, pairs = row
        both = [spreads.get((*map(str, keys[place]), kind, what)) for place in ends.get(tuple(where), ())]
        known = [each for each in both if each]
        bands.append(band(known, pairs, is_share(what, game)) if pairs and len(known) == 2 else np.nan)
    return bands


# What differs when seeds are played again


def noise_table(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    again: Mapping[tuple[str, ...], tuple[int, int]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return a row per condition and outcome, indicator and quantity: the simulations of a seed, compared.

    `rows` are simulations with their `repeat`. `difference` is the second time minus the first, over the `pairs` that
    have both. `spread` is the standard deviation of such a difference in one pair if only sampling differs, from the
    variance within seeds of all repeats, of which `freedom` are beyond the first. `band` is how far from 0 the
    difference of so many other pairs then lies in 95%. `again` has two more columns by
    condition: `asked_again`, `answered_otherwise`.
    """
    samples, spreads = [], []
    for key, group in by_condition(rows, by):
        axes = dict(zip(by, key, strict=True))
        counts = dict(zip(("asked_again", "answered_otherwise"), again.get(tuple(map(str, key)), (0, 0)), strict=True))
        for kind, what, values in measured(group, game):
            times = _times(group, values)
            of = _kind(what, game) if kind == "quantity" else RATE
            samples.append(SamplePair({**axes, "kind": kind, "what": what, **counts}, times[:, 0], times[:, 1], of))
            spreads.append(spread_of(times))
    table = compare(samples)
    table[["spread", "freedom"]] = np.array(spreads).reshape(-1, 2)
    table = table[(table["pairs"] > 0) & (table["freedom"] > 0)].astype({"freedom": int})
    bands = [
        band([(row["spread"], row["freedom"])], row["pairs"], is_share(row["what"], game))
        for row in table.to_dict("records")
    ]
    return selected(table.assign(band=bands), names_of("noise", by, game))


def spread_of(times: Floats) -> tuple[float, int]:
    """Return the standard deviation of the difference of two repeats, and its degrees of freedom.

    `times` has a row per seed, a column per repeat. NaN and 0 where no seed was played again.
    """
    known = (~np.isnan(times)).sum(axis=1)
    several = times[known > 1]
    freedom = int((known[known > 1] - 1).sum())
    if not freedom:
        return float("nan"), 0
    squares = (several - np.nanmean(several, axis=1, keepdims=True)) ** 2
    return float(np.sqrt(2 * np.nansum(squares) / freedom)), freedom


def band(spreads: Sequence[tuple[float, int]], pairs: int, share: bool) -> float:
    """Return the half width of the band about 0 in which mean differences of `pairs` lie if only sampling differs.

    `spreads` are those of the conditions compared, with their degrees of freedom: the band is t's. A `share` has one
    more difference in each, of 1, the largest: few repeats without any difference do not show that there is none.
    """
    parts = [((freedom * spread**2 + share) / (freedom + share), freedom + share) for spread, freedom in spreads]
    whole = sum(variance for variance, _ in parts)
    if not whole:
        return 0.0
    freedom = whole**2 / sum(variance**2 / freedom for variance, freedom in parts)  # Satterthwaite's
    return float(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2) * np.sqrt(whole / len(parts) / pairs))


def _kind(quantity: str, game: type[Game]) -> str:
    return SHARE if is_share(quantity, game) else NUMBER


def is_share(what: str, game: type[Game]) -> bool:
    """Whether something that is compared is in [0, 1]: all but quantities that are no shares."""
    return not any(quantity.name == what and not quantity.share for quantity in game.evidence.quantities)


def measured(group: pd.DataFrame, game: type[Game]) -> Iterator[tuple[str, str, Floats]]:
    """Yield what is compared of simulations: its kind, its name, and a number or NaN for each."""
    names = [("outcome", outcome.name) for outcome in game.outcomes]
    names += [("indicator", each.name) for each in game.evidence.indicators if each.contrasted]
    names += [("quantity", each.name) for each in game.evidence.quantities if each.contrasted]
    for kind, name in names:
        yield kind, name, values_of(group, kind, name)


def _times(group: pd.DataFrame, values: Floats) -> Floats:
    """Return a row per seed and a column per repeat, NaN where there is no answer."""
    times: Any = pd.Series(values, index=[group["seed"], group[REPEAT]]).unstack(REPEAT)
    return np.asarray(times.reindex(columns=range(int(group[REPEAT].max()) + 1)).to_numpy(dtype=float))
