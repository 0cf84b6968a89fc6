"""The table `noise`: how much a condition differs from itself when its seeds are played again.

A study with `repeats` plays each seed several times, with other sampling seeds and all else alike. What differs then
is the models' sampling alone: no effect can be seen below it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.columns import names_of
from parley.analysis.rates import by_condition, flags, numbers
from parley.analysis.stats import CONFIDENCE, Floats
from parley.games.base import Game

REPEAT = "repeat"


def noise_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition and outcome, indicator and quantity: the simulations of a seed, compared.

    `rows` are simulations with their `repeat`. `difference` is the second time minus the first, over the `pairs` that
    have both. `spread` is the standard deviation of such a difference in one pair if only sampling differs, from the
    variance within seeds of all repeats. `band` is how far from 0 the difference of so many pairs then lies in 95%.
    """
    table = []
    for key, group in by_condition(rows, by):
        for kind, what, values in _measured(group, game):
            times = _times(group, values)
            change = times[:, 1] - times[:, 0]
            spread = spread_of(times)
            pairs = int((~np.isnan(change)).sum())
            if pairs and not np.isnan(spread):
                table.append([*key, kind, what, pairs, float(np.nanmean(change)), spread, band(spread, pairs)])
    return pd.DataFrame(table, columns=names_of("noise", by, game))


def spread_of(times: Floats) -> float:
    """Return the standard deviation of the difference of two repeats: a row per seed, a column per repeat."""
    known = (~np.isnan(times)).sum(axis=1)
    several = times[known > 1]
    freedom = int((known[known > 1] - 1).sum())
    if not freedom:
        return float("nan")
    squares = (several - np.nanmean(several, axis=1, keepdims=True)) ** 2
    return float(np.sqrt(2 * np.nansum(squares) / freedom))


def band(spread: float, pairs: int) -> float:
    """Return the half width of the band about 0 in which mean differences of `pairs` lie if only sampling differs.

    `spread` is the standard deviation of the difference in one pair; the mean of n pairs is nearly normal.
    """
    return float(scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2)) * spread / float(np.sqrt(pairs))


def _measured(group: pd.DataFrame, game: type[Game]) -> Iterator[tuple[str, str, Floats]]:
    """Yield what is compared of simulations: its kind, its name, and a number or NaN for each."""
    ended = group["outcome"].to_numpy()
    for outcome in game.outcomes:
        yield "outcome", outcome.name, (ended == outcome.name).astype(float)
    for indicator in game.evidence.indicators:
        if indicator.contrasted:
            answers = flags(group, indicator.name)
            yield "indicator", indicator.name, np.where(answers >= 0, answers, np.nan)
    for quantity in game.evidence.quantities:
        if quantity.contrasted:
            yield "quantity", quantity.name, numbers(group, quantity.name)


def _times(group: pd.DataFrame, values: Floats) -> Floats:
    """Return a row per seed and a column per repeat, NaN where there is no answer."""
    times: Any = pd.Series(values, index=[group["seed"], group[REPEAT]]).unstack(REPEAT)
    return np.asarray(times.reindex(columns=range(int(group[REPEAT].max()) + 1)).to_numpy(dtype=float))
