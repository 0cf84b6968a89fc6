"""The table `quality`: how what agents agreed on depends on what they began with.

The mean and the value of a random agent have the slope 1, and no bias; so does the median, with a slope somewhat above
1. Agents that ignore where they began have the slope 0. docs/explanation/statistics.md says what is computed.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.columns import names_of
from parley.analysis.rates import by_condition, numbers
from parley.analysis.stats import CONFIDENCE, Floats, paired_mean
from parley.games.base import Game

_FEWEST = 5  # points: a line through fewer says nothing
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

    The limits are t with the standard error HC3 (MacKinnon and White, J. Econometrics 29, 1985, p. 305): what agents
    agree on scatters more about some initial values than about others. All are NaN for fewer than five points, or if
    all have the same `x`; the limits also for points on a line.
    """
    from statsmodels.regression.linear_model import OLS

    if x.size < _FEWEST or np.ptp(x) == 0:
        return [math.nan] * 5
    with np.errstate(divide="ignore", invalid="ignore"):  # a point alone at its end of the line has no error there
        line = OLS(y, np.stack([np.ones(x.size), x], axis=1)).fit(cov_type="HC3", use_t=True)
        low, high = line.conf_int(1 - CONFIDENCE)[1]
    residual = math.sqrt(line.mse_resid)
    if residual <= _ROUNDING * max(1.0, float(np.abs(y).max())) or not math.isfinite(high - low):
        low = high = math.nan
    intercept, slope = line.params
    return [float(slope), float(low), float(high), float(intercept), residual]
