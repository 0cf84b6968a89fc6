"""The table `rounds`: the mean of each of a game's measures, by condition and round, from the traces of the records.

A simulation contributes the rounds that it has: where games end early, `simulations` says how many are left.
"""

from collections.abc import Sequence

import pandas as pd

from parley.analysis.averages import Averages
from parley.play.record import Summary, read_trace
from parley.study import Study
from parley.study.condition import Simulation


def round_table(study: Study, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per condition, measure and round: axes, n, the mean in [0, 1] and its Wilson limits.

    `simulations` and their `summaries` are in the same order. No trace is read for a game without measures. Raises
    RecordError naming a record that cannot be read.
    """
    names = [measure.name for measure in study.game.evidence.measures]
    averages = Averages(study)
    if names:
        for simulation, summary in zip(simulations, summaries, strict=True):
            trace = read_trace(simulation.record(study.name))
            averages.add(simulation.condition.path, study.game.evidence.series(summary.outcome, trace))
    return averages.table(names, "measure", "round")
