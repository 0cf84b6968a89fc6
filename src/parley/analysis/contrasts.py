"""The tables `contrasts` and `noise`: differences of conditions in one axis, and of a condition from itself.

Simulations are paired by their seeds: conditions share what a seed deals. A study with `repeats` plays each seed
several times, with other sampling seeds and all else alike: what differs then is the models' sampling alone, and no
effect can be seen below it.
docs/explanation/statistics.md says what is computed, and why.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.pairs import compared_conditions, pair_numbers, shared
from parley.analysis.rates import by_condition, values_of
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.statistics.differences import MEANS, NUMBER, RATE, SHARE, TESTED, SamplePair, compare, selected
from parley.statistics.stats import CONFIDENCE, Floats

# By the values of a condition's axes, the names of the outcomes that it cannot have; none where it is not in it.
Impossible = Mapping[tuple[Any, ...], frozenset[str]]
NONE_IMPOSSIBLE: Impossible = MappingProxyType({})

REPEAT = "repeat"
_PAIR = "_pair"
_COUNTS = ["pairs", "simulations_from", "simulations_to", "only_first", "only_second", "both"]
_What = tuple[str, str]  # "outcome", "indicator" or "quantity", and its name
_Spread = tuple[float, int]  # how much a condition differs from itself, and of how many degrees of freedom that is


def contrast_table(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible = NONE_IMPOSSIBLE,
    noise: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return a row per pair of conditions, and per outcome, indicator and contrasted quantity.

    `rows` is the table of simulations, `by` its axes. `difference` is `to` minus `from`, within the pairs, as are
    `value_from` and `value_to`; `all_from` and `all_to` are of all simulations. Where two conditions share no seed,
    pairs is 0 and all their simulations are compared, unpaired. `p_holm` is `p` corrected over the rows that compare
    the same thing along the same axis. There is no row of what no simulation of one of the two has, such as an outcome
    that the condition cannot have. `noise` is the table of that name, of studies with repeats: of each contrast its
    band is told, in which it lies if its conditions differ in nothing but sampling, if both were played again.
    """
    spreads = defaultdict[tuple[str, ...], dict[_What, _Spread]](dict)
    for row in [] if noise is None else noise.to_dict("records"):
        spreads[tuple(str(row[axis]) for axis in by)][row["kind"], row["what"]] = row["spread"], row["freedom"]
    table, names = compare(list(_contrasts(rows, by, game, impossible, spreads))), names_of("contrasts", by, game)
    # An outcome that a condition cannot have, or what none of its simulations has, differs from nothing.
    table = table[(table["simulations_from"] > 0) & (table["simulations_to"] > 0)]
    if table.empty:
        return selected(table, names)
    of_rows = zip(table["spreads"], table["pairs"], table["kind"], table["what"], strict=True)
    bands = [
        band(both, pairs, statistic(kind, what, game) != NUMBER) if pairs and len(both) == 2 else np.nan
        for both, pairs, kind, what in of_rows
    ]
    return table.astype(dict.fromkeys(_COUNTS, "Int64")).assign(noise=bands)[names].reset_index(drop=True)


def _contrasts(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible,
    spreads: Mapping[tuple[str, ...], Mapping[_What, _Spread]],
) -> Iterator[SamplePair]:
    """Yield what each two conditions are compared in, and how much they differ from themselves.

    All outcomes and indicators come first, then one quantity after the other.
    """
    groups = list(by_condition(rows.assign(**{_PAIR: pair_numbers(rows, game)}), by))
    pairs = [group[_PAIR].to_numpy() for _, group in groups]
    values, noise = list[dict[_What, Floats]](), [spreads[tuple(map(str, axes))] for axes, _ in groups]
    for axes, group in groups:
        never = {("outcome", name): np.full(len(group), np.nan) for name in impossible.get(axes, ())}
        values.append({(kind, what): of for kind, what, of in measured(group, game)} | never)
    compared = compared_conditions([axes for axes, _ in groups], by, game)
    places = [shared(pairs[i], pairs[j]) for i, j, _ in compared]
    whats = list(values[0]) if values else []
    numbers = [what for what in whats if what[0] == "quantity"]
    for several in ([what for what in whats if what not in numbers], *([what] for what in numbers)):
        for (i, j, cells), at in zip(compared, places, strict=True):
            for what in several:
                keys = dict(zip(("kind", "what", "axis", "from", "to", *by), (*what, *cells), strict=True))
                of_both = {"spreads": [noise[each][what] for each in (i, j) if what in noise[each]]}
                family, without = (what[0], cells[0], what[1]), MEANS if what in numbers else TESTED
                sides = values[i][what], values[j][what], statistic(*what, game)
                yield SamplePair(keys | of_both, *sides, *at, family=family, without_pairs=without)


# What differs when seeds are played again


def noise_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition and outcome, indicator and quantity: the simulations of a seed, compared.

    `rows` are simulations with their `repeat`. `difference` is the second time minus the first, over the `pairs` that
    have both. `spread` is the standard deviation of such a difference in one pair if only sampling differs, from the
    variance within seeds of all repeats, of which `freedom` are beyond the first. `band` is how far from 0 the
    difference of so many other pairs then lies in 95%.
    """
    samples = list[SamplePair]()
    for key, group in by_condition(rows, by):
        axes = dict(zip(by, key, strict=True))
        for kind, what, values in measured(group, game):
            times = _times(group, values)
            spread, freedom = spread_of(times)
            keys = {**axes, "kind": kind, "what": what, "spread": spread, "freedom": freedom}
            samples.append(SamplePair(keys, times[:, 0], times[:, 1], statistic(kind, what, game)))
    table = compare(samples)
    if len(table):
        table = table[(table["pairs"] > 0) & (table["freedom"] > 0)]
        table["band"] = [
            band([(row["spread"], row["freedom"])], row["pairs"], statistic(row["kind"], row["what"], game) != NUMBER)
            for row in table.to_dict("records")
        ]
    return selected(table, names_of("noise", by, game))


def spread_of(times: Floats) -> _Spread:
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


def band(spreads: Sequence[_Spread], pairs: int, share: bool) -> float:
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


def statistic(kind: str, what: str, game: type[Game]) -> str:
    """Return of what kind the statistic of something is that is compared: RATE, SHARE or NUMBER."""
    return RATE if kind != "quantity" else SHARE if is_share(what, game) else NUMBER


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
