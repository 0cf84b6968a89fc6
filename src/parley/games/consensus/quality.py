"""The table `quality`: how what agents agreed on depends on what they began with.

The mean and the value of a random agent have the slope 1, and no bias; so does the median, with a slope somewhat above
1. Agents that ignore where they began have the slope 0.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from parley.games.evidence import TableMaker
from parley.statistics.differences import NUMBER, SamplePair, compare
from parley.statistics.stats import CONFIDENCE, Floats

MIN_POINTS = 5  # a line through fewer says nothing
_ROUNDING = 1e-12  # by which a point may miss its line
_LINE = ("slope", "slope_low", "slope_high", "intercept", "residual")


class Quality(TableMaker):
    """Makes a row per condition with games that ended in agreement on a value."""

    def rows(self, game: Any, trace: Any) -> list[tuple[str, float, float]]:
        """Return the condition of a game, the mean of its initial values, and the value agreed on; nothing without."""
        metrics = game.summary.outcome["metrics"]
        initial, value = metrics["initial_values"].values(), metrics["consensus_value"]
        return [] if value is None or not initial else [(game.simulation.condition.name, fmean(initial), float(value))]

    def tables(self, rows: Sequence[tuple[str, float, float]]) -> dict[str, pd.DataFrame]:
        """Return the table `quality`."""
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for name, *point in rows:
            points[name].append(tuple(point))  # type: ignore[arg-type]
        samples = []
        for condition in self.study.conditions:
            if condition.name in points:
                x, y = np.array(points[condition.name]).T
                keys = {**condition.axes, **dict(zip(_LINE, line_of(x, y), strict=True))}
                samples.append(SamplePair(keys, x, y, NUMBER))
        of_bias = {"pairs": "simulations", "difference": "bias", "low": "bias_low", "high": "bias_high"}
        return {"quality": compare(samples).rename(columns=of_bias)}


def line_of(x: Floats, y: Floats) -> list[float]:
    """Return slope, its limits, intercept and the standard deviation about the least-squares line of `y` on `x`.

    The limits are t with the standard error HC3 (MacKinnon and White, J. Econometrics 29, 1985, p. 305): what agents
    agree on scatters more about some initial values than about others. All are NaN for fewer than five points, or if
    all have the same `x`; the limits also for points on a line.
    """
    from statsmodels.regression.linear_model import OLS

    if x.size < MIN_POINTS or np.ptp(x) == 0:
        return [math.nan] * 5
    with np.errstate(divide="ignore", invalid="ignore"):  # a point alone at its end of the line has no error there
        line = OLS(y, np.stack([np.ones(x.size), x], axis=1)).fit(cov_type="HC3", use_t=True)
        low, high = line.conf_int(1 - CONFIDENCE)[1]
    residual = math.sqrt(line.mse_resid)
    if residual <= _ROUNDING * max(1.0, float(np.abs(y).max())) or not math.isfinite(high - low):
        low = high = math.nan
    intercept, slope = line.params
    return [float(slope), float(low), float(high), float(intercept), residual]
