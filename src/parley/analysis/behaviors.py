"""The table `behaviors`: what agents did in the face of an adversary, by who plays them, and what each behavior paid.

The unit is the simulation: a player's share in it is that among the agents that it plays there and that are judged.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pandas as pd

from parley.analysis.columns import names_of
from parley.analysis.stats import mean_interval, wilson_of_mean
from parley.games.evidence import Behaved
from parley.play.record import read_trace
from parley.play.record_store import Records

ANY = "any"  # the behavior of every agent that is judged
EVERYBODY = "all"  # whoever plays


def behavior_table(records: Records) -> pd.DataFrame:
    """Return a row per condition, player (`all` first) and behavior of the game's evidence (`any` first).

    The traces of the conditions with an adversary are read. No rows for other games.
    """
    study = records.study
    names, shown = names_of("behaviors", study.axes, study.game), study.game.evidence.behaviors
    judged: dict[str, dict[str, list[list[Behaved]]]] = defaultdict(lambda: defaultdict(list))
    for simulation, summary in zip(records.simulations, records.summaries, strict=True) if shown else ():
        condition = simulation.condition
        if not condition.axes["b"]:
            continue
        trace = read_trace(simulation.record(study.name))
        found = study.game.evidence.behaved(condition.parameters, summary.outcome["metrics"], trace)
        # Who sat where in a game that was imported is in its record.
        own = replace(simulation, recorded=summary.simulation.get("material"))
        for player, agents in _by_player({n: p.label for n, p in own.players(own.game()).items()}, found).items():
            judged[condition.name][player].append(agents)
    table = [
        [*condition.axes.values(), player, *_row(behavior, games)]
        for condition in study.conditions
        for player, games in judged[condition.name].items()
        for behavior in (ANY, *(each.name for each in shown))
    ]
    return pd.DataFrame(table, columns=names)


def _by_player(labels: Mapping[str, str], found: Mapping[str, Behaved]) -> dict[str, list[Behaved]]:
    """Return the judged agents of one game by who plays them, all of them first; nothing if nobody is."""
    by_player: dict[str, list[Behaved]] = {EVERYBODY: list(found.values())} if found else {}
    for name, behaved in sorted(found.items(), key=lambda item: labels[item[0]]):
        by_player.setdefault(labels[name], []).append(behaved)
    return by_player


def _row(behavior: str, games: Sequence[Sequence[Behaved]]) -> list[Any]:
    """Return the cells of one behavior, from the judged agents of one or more games."""
    those = [[each for each in agents if behavior in (ANY, *each.shown)] for agents in games]
    share = fmean(len(some) / len(agents) for some, agents in zip(those, games, strict=True))
    low, high = wilson_of_mean(share, len(games))
    paid = [fmean(each.payoff for each in some) for some in those if some]
    costs = [fmean(each.cost for each in some) for some in those if some]
    payoff, cost = mean_interval(paid), mean_interval(costs)
    limits = [payoff.mean, payoff.low, payoff.high, cost.mean, cost.low, cost.high]
    return [behavior, len(games), share, float(low), float(high), share > 0.5, len(paid), *limits]
