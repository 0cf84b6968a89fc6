"""The table `rounds`: the mean of each of a game's measures, by condition and round, from the traces of the records.

A simulation contributes the rounds that it has: where games end early, `simulations` says how many are left.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from parley.condition import Simulation
from parley.games.base import Game
from parley.record import Summary, read_trace
from parley.stats import wilson_of_mean
from parley.study import Study

_OWN = ["measure", "round", "simulations", "mean", "low", "high"]
_Sums = dict[tuple[str, int], list[float]]  # measure and round -> number of values, and their sum


def round_table(study: Study, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per condition, measure and round: axes, n, the mean in [0, 1] and its Wilson limits.

    `simulations` and their `summaries` are in the same order. No trace is read for a game without measures. Raises
    RecordError naming a record that cannot be read.
    """
    axes = list(study.conditions[0].axes)
    names = [measure.name for measure in study.game.measures]
    found: dict[str, _Sums] = {condition.path: defaultdict(lambda: [0, 0.0]) for condition in study.conditions}
    if names:
        for simulation, summary in zip(simulations, summaries, strict=True):
            trace = read_trace(simulation.record(study.name))
            _add(found[simulation.condition.path], study.game, summary.outcome, trace)
    rows = [
        [*condition.axes.values(), name, number, *sums[name, number]]
        for condition in study.conditions
        for sums in [found[condition.path]]
        for name in names
        for number in sorted(number for measure, number in sums if measure == name)
    ]
    table = pd.DataFrame(rows, columns=[*axes, "measure", "round", "simulations", "mean"])
    table["mean"] = table["mean"].astype(float) / table["simulations"].astype(float)
    table["low"], table["high"] = wilson_of_mean(table["mean"].to_numpy(), table["simulations"].to_numpy(dtype=float))
    return table[[*axes, *_OWN]]


def _add(sums: _Sums, game: type[Game], outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> None:
    """Add one simulation: one value at most for each measure and round."""
    series: Mapping[str, Iterable[tuple[int, float]]] = game.series(outcome, trace)
    for name, points in series.items():
        for number, value in dict(points).items():
            if not math.isnan(value):
                known = sums[name, number]
                known[0] += 1
                known[1] += value
