"""The table `players`: shares of agents by what plays them, where one population mixes models or policies.

The shares are quantities of the game, agent by agent (`Evidence.of_agents`); the study knows what plays each agent.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd

from parley.analysis.averages import Averages
from parley.play.record import Summary
from parley.study import Study
from parley.study.condition import Simulation


def player_table(study: Study, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per condition, quantity and player: axes, n, the mean in [0, 1] and its Wilson limits.

    A player is a model or a policy by its label, as in the axis `model`. Its share in a simulation is that among the
    agents that it plays there and that have the quantity; n counts the simulations with such agents. `simulations` and
    their `summaries` are in the same order.
    """
    averages = Averages(study)
    for simulation, summary in zip(simulations, summaries, strict=True):
        if agents := study.game.evidence.of_agents(summary.outcome["metrics"]):
            averages.add(simulation.condition.path, _by_player(simulation, agents))
    return averages.table([quantity.name for quantity in study.game.evidence.quantities], "quantity", "player")


def _by_player(
    simulation: Simulation, agents: Mapping[str, Mapping[str, float]]
) -> dict[str, list[tuple[str, float]]]:
    """Return the (player, share) points of one simulation by quantity, from the shares of its agents."""
    players = simulation.players(simulation.game())
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for agent, shares in agents.items():
        for quantity, share in shares.items():
            found[quantity][players[agent].label].append(share)
    return {
        quantity: [(label, fmean(shares)) for label, shares in by_label.items()]
        for quantity, by_label in found.items()
    }
