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

from parley.analysis.pairs import (
    EVERY,
    NUMBER,
    SHARE,
    Compared,
    Sides,
    compared_conditions,
    count_pairs,
    differences,
    pair_numbers,
    rate_differences,
    shared,
)
from parley.analysis.rates import by_condition, flags, numbers, values_of
from parley.analysis.stats import CONFIDENCE, Floats, benjamini_hochberg, holm_within
from parley.analysis.tables import names_of
from parley.games.base import Game

# By the values of a condition's axes, the names of the outcomes that it cannot have; none where it is not in it.
Impossible = Mapping[tuple[Any, ...], frozenset[str]]
NONE_IMPOSSIBLE: Impossible = MappingProxyType({})

REPEAT = "repeat"
_PAIR = "_pair"


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
    pairs = [group[_PAIR].to_numpy() for _, group in groups]
    compared = compared_conditions([key for key, _ in groups], by, game)
    places = [(i, j, *shared(pairs[i], pairs[j])) for i, j, _ in compared]
    binary = [("outcome", o.name) for o in game.outcomes] + [("indicator", i.name) for i in game.evidence.indicators]
    answers = [_answers(group, game, impossible.get(key, frozenset())) for key, group in groups]
    counts = [count_pairs(answers[i], answers[j], mine, yours) for i, j, mine, yours in places]
    where = [(cells, kind, what) for _, _, cells in compared for kind, what in binary]
    tables = [_named(where, by, rate_differences(counts))]
    for quantity in (each for each in game.evidence.quantities if each.contrasted):
        values = [numbers(group, quantity.name) for _, group in groups]
        share = SHARE if quantity.share else NUMBER
        found = pd.DataFrame(differences([Sides(values[i], values[j], share, *at) for i, j, *at in places]))
        tables.append(_named([(cells, "quantity", quantity.name) for _, _, cells in compared], by, found))
    for names in game.evidence.comparisons:
        first, second = (binary.index(("indicator", name)) for name in names)
        counts = [count_pairs(flags_of[first], flags_of[second], EVERY, EVERY) for flags_of in answers]
        axes = [["", *names, *map(str, key)] for key, _ in groups]
        what = f"{names[1]} - {names[0]}"
        tables.append(_named([(cells, "comparison", what) for cells in axes], by, rate_differences(counts)))
    table = pd.concat([each for each in tables if len(each)] or tables[:1], ignore_index=True)
    # An outcome that a condition cannot have, or what none of its simulations has, differs from nothing.
    kept = (table["simulations_from"] > 0) & (table["simulations_to"] > 0)
    said_twice = {indicator.name for indicator in game.evidence.indicators if not indicator.contrasted}
    kept &= ~((table["kind"] == "indicator") & table["what"].isin(said_twice))
    table = table[kept].reset_index(drop=True)
    table[_COUNTS] = table[_COUNTS].astype("Int64")
    table["p_holm"] = holm_within(table, ["kind", "axis", "what"])
    table["p_bh"] = benjamini_hochberg(table["p"].to_numpy(dtype=float))
    table["noise"] = _bands(table, [key for key, _ in groups], compared, by, game, noise)
    return table[names_of("contrasts", by, game)]


_COUNTS = ["pairs", "simulations_from", "simulations_to", "only_first", "only_second", "both"]


def _answers(group: pd.DataFrame, game: type[Game], never: frozenset[str]) -> Any:
    """Return a row per outcome and indicator, a column per simulation: 1, 0, or -1 if unknown or impossible."""
    ended = group["outcome"].to_numpy()
    cannot_be = np.full(len(group), -1, dtype=np.int8)
    answers = [cannot_be if o.name in never else (ended == o.name).astype(np.int8) for o in game.outcomes]
    return np.array(answers + [flags(group, indicator.name) for indicator in game.evidence.indicators])


def _named(
    where: Sequence[tuple[list[str], str, str]], by: Sequence[str], found: Mapping[str, Any] | pd.DataFrame
) -> pd.DataFrame:
    """Return a table of differences; `where` has the axis, its values and the axes, the kind, and what is compared."""
    names = ["kind", "axis", "from", "to", "what", *by]
    cells = [[kind, *axes[:3], what, *axes[3:]] for axes, kind, what in where]
    return pd.DataFrame(cells, columns=names, dtype=object).assign(**found)


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
        found = [each for each in both if each]
        bands.append(band(found, pairs, is_share(what, game)) if pairs and len(found) == 2 else np.nan)
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
    table = []
    for key, group in by_condition(rows, by):
        answers = again.get(tuple(map(str, key)), (0, 0))
        for kind, what, values in measured(group, game):
            times = _times(group, values)
            change = times[:, 1] - times[:, 0]
            spread, freedom = spread_of(times)
            pairs = int((~np.isnan(change)).sum())
            if pairs and freedom:
                limit = band([(spread, freedom)], pairs, is_share(what, game))
                table.append([*key, kind, what, pairs, float(np.nanmean(change)), spread, freedom, limit, *answers])
    return pd.DataFrame(table, columns=names_of("noise", by, game))


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
