"""The table `thresholds`: how shares of kinds of agents move with the threshold that tells the kinds apart.

The points are the game's (`Evidence.sweep`), from the metrics of the records; a game that sweeps nothing has none.
"""

from collections.abc import Sequence

import pandas as pd

from parley.analysis.averages import Averages
from parley.play.record import Summary
from parley.study import Study
from parley.study.condition import Simulation


def threshold_table(study: Study, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per condition, share and threshold: axes, n, the mean in [0, 1] and its Wilson limits.

    `simulations` and their `summaries` are in the same order. n counts the simulations that have the share.
    """
    averages = Averages(study)
    for simulation, summary in zip(simulations, summaries, strict=True):
        averages.add(simulation.condition.path, study.game.evidence.sweep(summary.outcome["metrics"]))
    return averages.table(averages.names, "share", "threshold")
