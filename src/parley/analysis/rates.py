"""The tables `rates` and `quantities`: what a game's indicators and quantities come to, by condition.

`rates` and `quantities` are tidy: a row per condition and indicator or quantity, so that readers need no knowledge of
the game. How long simulations took is a quantity of every game. docs/explanation/statistics.md says what is computed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.games.evidence import Quantity
from parley.statistics.stats import Floats, mean_interval, wilson_interval, wilson_of_mean

SECONDS = "seconds"  # in the table of simulations: of the whole, and with "_" and its name of each phase
BLOCK_QUANTITIES = (Quantity("block_bytes", "size of a block", "bytes"),)  # of the ledger
_ROUNDING = 1e-12  # by which a share may miss 0 and 1


def rate_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition and indicator: axes, n, count and rate of true, and its Wilson limits.

    `rows` is the table of simulations. n counts those that have an answer; without one the rate is NaN.
    """
    table = []
    for key, group in by_condition(rows, by):
        for indicator in game.evidence.indicators:
            answers = numbers(group, indicator.name)
            n, count = int((~np.isnan(answers)).sum()), int((answers == 1).sum())
            low, high = wilson_interval(count, n)
            table.append([*key, indicator.name, n, count, count / n if n else np.nan, low, high])
    return pd.DataFrame(table, columns=names_of("rates", by, game))


def quantity_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition and quantity: axes, unit, n, mean, standard deviation, limits, and median.

    `interval` says what the limits are: "Wilson" for shares and what has a greatest possible value, "t" for all else.
    `rows` is the table of simulations. n counts those that have the number. Raises ValueError for a share outside
    [0, 1], or another number outside [0, its greatest possible value], and if the simulations of a condition that have
    such a number do not share one greatest possible value above 0.
    """
    described = all_quantities(rows.columns, game)
    table = []
    for key, group in by_condition(rows, by):
        for quantity in described:
            values = numbers(group, quantity.name)
            m = mean_interval(values)
            # No mean of what is never negative is below 0: cut there, the interval holds it just as often.
            low = m.low if quantity.signed or np.any(values < 0) else np.maximum(m.low, 0.0)
            low, high = _bounded_limits(group, quantity, values) if quantity.bounded else (low, m.high)
            interval = "Wilson" if quantity.bounded else "t"
            table.append([*key, quantity.name, quantity.unit, m.n, m.mean, m.sd, low, high, interval, m.median])
    return pd.DataFrame(table, columns=names_of("quantities", by, game))


def _bounded_limits(rows: pd.DataFrame, quantity: Quantity, values: Floats) -> tuple[float, float]:
    """Return Wilson's limits of the mean, taken as a share of the greatest possible value."""
    known = ~np.isnan(values)
    if not known.any():
        return (np.nan, np.nan)
    largest = np.ones(1) if quantity.share else np.unique(numbers(rows, quantity.most)[known])
    if len(largest) > 1 or not 0 < largest[0] < np.inf:
        raise ValueError(f"{quantity.name} needs one {quantity.most}, above 0, in all simulations of a condition")
    most = float(largest[0])
    shares = values[known] / most
    if np.any((shares < -_ROUNDING) | (shares > 1 + _ROUNDING)):
        raise ValueError(f"{quantity.name} must be in [0, {most:g}] in every simulation")
    low, high = wilson_of_mean(shares.mean(), len(shares))
    return (most * float(low), most * float(high))


def all_quantities(names: Iterable[str], game: type[Game]) -> list[Quantity]:
    """Return the quantities of a game, then those of any game among `names`: times, and blocks of a ledger."""
    own = {quantity.name for quantity in game.evidence.quantities}
    blocks = [quantity for quantity in BLOCK_QUANTITIES if quantity.name in set(names) - own]
    times = [name for name in dict.fromkeys(names) if name not in own]
    apart = [each for each in game.evidence.about("measures") if not each.contrasted]  # `rounds` tells the others
    phases = [name.removeprefix(f"{SECONDS}_") for name in times if name.startswith(f"{SECONDS}_")]
    whole = [Quantity(SECONDS, "wall time", "s")] if SECONDS in times else []
    return [
        *game.evidence.quantities,
        *(quantity for quantity in apart if quantity.name in times),
        *whole,
        *(Quantity(f"{SECONDS}_{phase}", f"time of the phase {phase}", "s") for phase in phases),
        *blocks,
    ]


def by_condition(rows: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the simulations of each condition with the values of its axes, in the study's order."""
    if len(rows):
        yield from rows.groupby(list(by), sort=False)


def values_of(rows: pd.DataFrame, kind: str, name: str) -> Floats:
    """Return what simulations have: 1 or 0 of an outcome or indicator, a number of a quantity; NaN where nothing."""
    if kind == "outcome":
        return np.asarray(rows["outcome"] == name, dtype=np.float64)
    return numbers(rows, name)


def numbers(rows: pd.DataFrame, name: str) -> Floats:
    """Return a metric as floats: 1 for true, 0 for false, NaN for None and where no record has it."""
    if name not in rows:
        return np.full(len(rows), np.nan)
    return rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
