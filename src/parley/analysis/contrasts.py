"""The tables `contrasts` and `noise`: differences of conditions in one axis, and of a condition from itself.

Simulations are paired by their seeds: conditions share what a seed deals. A study with `repeats` plays each seed
several times, with other sampling seeds and all else alike: what differs then is the models' sampling alone, and no
effect can be seen below it.
docs/explanation/statistics.md says what is computed, and why.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

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


@dataclass(frozen=True)
class _Played:
    """The simulations of a condition, by its axes: which pairs they are of, and what they have, NaN for nothing."""

    axes: tuple[Any, ...]
    pairs: NDArray[np.int64]
    values: Mapping[_What, Floats]
    spreads: Mapping[_What, _Spread]  # where it was played again


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
    conditions = list(_conditions(rows, by, game, impossible, noise))
    contrasts = list(_contrasts(conditions, by, game))
    table = compare([samples for samples, _ in contrasts])
    # An outcome that a condition cannot have, or what none of its simulations has, differs from nothing.
    table = table[(table["simulations_from"] > 0) & (table["simulations_to"] > 0)]
    names = names_of("contrasts", by, game)
    if table.empty:
        return selected(table, names)
    there = [contrasts[place] for place in table.index]
    bands = [
        band(spreads, pairs, samples.kind != NUMBER) if pairs and len(spreads) == 2 else np.nan
        for (samples, spreads), pairs in zip(there, table["pairs"], strict=True)
    ]
    return table.astype(dict.fromkeys(_COUNTS, "Int64")).assign(noise=bands)[names].reset_index(drop=True)


def _conditions(
    rows: pd.DataFrame, by: Sequence[str], game: type[Game], impossible: Impossible, noise: pd.DataFrame | None
) -> Iterator[_Played]:
    spreads: dict[tuple[str, ...], dict[_What, _Spread]] = defaultdict(dict)
    for row in [] if noise is None else noise.to_dict("records"):
        spreads[tuple(str(row[axis]) for axis in by)][row["kind"], row["what"]] = row["spread"], row["freedom"]
    for axes, group in by_condition(rows.assign(**{_PAIR: pair_numbers(rows, game)}), by):
        values = {(kind, what): of for kind, what, of in measured(group, game)}
        values |= {("outcome", name): np.full(len(group), np.nan) for name in impossible.get(axes, ())}
        yield _Played(axes, group[_PAIR].to_numpy(), values, spreads[tuple(map(str, axes))])


def _contrasts(
    conditions: Sequence[_Played], by: Sequence[str], game: type[Game]
) -> Iterator[tuple[SamplePair, list[_Spread]]]:
    """Yield what each two conditions are compared in, and how much they differ from themselves.

    All outcomes and indicators come first, then one quantity after the other.
    """
    compared = compared_conditions([condition.axes for condition in conditions], by, game)
    whats = list(conditions[0].values) if conditions else []
    places = [shared(conditions[i].pairs, conditions[j].pairs) for i, j, _ in compared]
    numbers = [what for what in whats if what[0] == "quantity"]
    for several in ([what for what in whats if what not in numbers], *([what] for what in numbers)):
        for (i, j, cells), at in zip(compared, places, strict=True):
            first, second = conditions[i], conditions[j]
            for what in several:
                keys = dict(zip(("kind", "what", "axis", "from", "to", *by), (*what, *cells), strict=True))
                of = statistic(*what, game)
                samples = SamplePair(
                    *(keys, first.values[what], second.values[what], of, *at),
                    family=(what[0], cells[0], what[1]),
                    without_pairs=MEANS if what in numbers else TESTED,
                )
                yield samples, [each.spreads[what] for each in (first, second) if what in each.spreads]


# What differs when seeds are played again


def noise_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition and outcome, indicator and quantity: the simulations of a seed, compared.

    `rows` are simulations with their `repeat`. `difference` is the second time minus the first, over the `pairs` that
    have both. `spread` is the standard deviation of such a difference in one pair if only sampling differs, from the
    variance within seeds of all repeats, of which `freedom` are beyond the first. `band` is how far from 0 the
    difference of so many other pairs then lies in 95%.
    """
    samples, spreads = list[SamplePair](), list[_Spread]()
    for key, group in by_condition(rows, by):
        axes = dict(zip(by, key, strict=True))
        for kind, what, values in measured(group, game):
            times, of = _times(group, values), statistic(kind, what, game)
            samples.append(SamplePair({**axes, "kind": kind, "what": what}, times[:, 0], times[:, 1], of))
            spreads.append(spread_of(times))
    table = compare(samples)
    table[["spread", "freedom"]] = np.array(spreads).reshape(-1, 2)
    table = table[(table["pairs"] > 0) & (table["freedom"] > 0)].astype({"freedom": int})
    bands = [
        band([spreads[place]], pairs, samples[place].kind != NUMBER)
        for place, pairs in zip(table.index.tolist(), table["pairs"], strict=True)
    ]
    return selected(table.assign(band=bands), names_of("noise", by, game))


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
