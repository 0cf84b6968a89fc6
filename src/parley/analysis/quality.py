"""The table `quality`: how what agents agreed on depends on what they began with.

The mean and the value of a random agent have the slope 1, and no bias; so does the median, with a slope somewhat above
1. Agents that ignore where they began have the slope 0. docs/explanation/statistics.md says what is computed.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.columns import names_of
from parley.analysis.rates import by_condition, numbers
from parley.analysis.stats import CONFIDENCE, Floats, paired_mean
from parley.games.base import Game

_FEWEST = 3  # points that tell how far they are from a line
_ROUNDING = 1e-12


def quality_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per condition with simulations that have both metrics that the game's evidence names `regressed`.

    `rows` is the table of simulations. No rows for a game that names none.
    """
    table: list[list[Any]] = []
    for key, group in by_condition(rows, by) if game.evidence.regressed else ():
        first, last = (numbers(group, name) for name in game.evidence.regressed or ())
        known = ~np.isnan(first) & ~np.isnan(last)
        if known.any():
            x, y = first[known], last[known]
            table.append([*key, x.size, *line_of(x, y), float((y - x).mean()), *paired_mean(x, y)[:2]])
    return pd.DataFrame(table, columns=names_of("quality", by, game))


def line_of(x: Floats, y: Floats) -> list[float]:
    """Return slope, its limits, intercept and the standard deviation about the least-squares line of `y` on `x`.

    All are NaN for fewer than three points or where `x` is the same in all; the limits also for points on a line.
    """
    if x.size < _FEWEST or np.ptp(x) == 0:
        return [math.nan] * 5
    line = scipy.stats.linregress(x, y)
    residual = float(np.sqrt(((y - line.intercept - line.slope * x) ** 2).sum() / (x.size - 2)))
    exact = residual <= _ROUNDING * max(1.0, float(np.abs(y).max()))
    half = math.nan if exact else float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, x.size - 2) * line.stderr)
    return [float(line.slope), line.slope - half, line.slope + half, float(line.intercept), residual]
