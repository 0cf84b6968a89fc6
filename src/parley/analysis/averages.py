"""The tables `rounds` and `players`: means of shares by condition, and by round or player.

A simulation contributes the points that it has. By round, where games end early, `playing` says how many are left; a
game that has ended keeps its last value of what the game says stays as it is.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import names_of
from parley.statistics.differences import MEANS, SHARE, SamplePair, beside, selected
from parley.statistics.stats import wilson_of_mean
from parley.study import Study

# By name, the (round, share in [0, 1]) points of one simulation, and its last round.
Rounds = tuple[Mapping[str, Sequence[tuple[Any, float]]], int]
# Condition, simulation, quantity, player, and the mean over the player's agents.
Share = tuple[str, str, str, str, float]


def rounds_of(study: Study, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Rounds:
    """Return the measures of one simulation by round, from its trace."""
    evidence = study.game.evidence
    carried = any(measure.carried for measure in evidence.measures)
    series = {name: list(points) for name, points in evidence.series(outcome, trace).items()}
    for points in series.values():
        for _, share in points:
            if not (math.isnan(share) or 0 <= share <= 1):  # this, or a TypeError, names the record that has no share
                raise ValueError(f"{share} is no share")
    return series, evidence.last_round(outcome, trace) if carried else 0


class Averages:
    """The measures of simulations by round, added up by condition."""

    def __init__(self, study: Study) -> None:
        self._study = study
        # Condition, then name and round -> number of values, and their sum.
        self._sums: dict[str, dict[tuple[str, Any], list[float]]]
        self._sums = {condition.name: defaultdict(lambda: [0, 0.0]) for condition in study.conditions}
        # Condition and name -> last round and last value of what stays.
        self._ended: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)

    def add(self, condition: str, rounds: Rounds) -> None:
        """Add the measures of one simulation; NaN is none, `carried` ones keep their value after its last round."""
        series, last = rounds
        for name, points in series.items():
            for number, share in dict(points).items():
                if not math.isnan(share):
                    known = self._sums[condition][name, number]
                    known[0] += 1
                    known[1] += share
        for measure in self._study.game.evidence.measures:
            value = dict(series.get(measure.name, ())).get(last, math.nan)
            if measure.carried and not math.isnan(value):
                self._ended[condition, measure.name].append((last, value))

    def table(self) -> pd.DataFrame:
        """Return a row per condition, measure and round: axes, n, the mean in [0, 1] and its Wilson limits.

        `playing` counts the simulations that have the round; n also those that ended before it, if the value stays.
        """
        rows = []
        for condition, measure in product(self._study.conditions, self._study.game.evidence.measures):
            sums, ended = self._sums[condition.name], self._ended[condition.name, measure.name]
            for number in sorted(number for found, number in sums if found == measure.name):
                playing, total = sums[measure.name, number]
                kept = [value for last, value in ended if last < number]
                where = [*condition.axes.values(), measure.name, number]
                rows.append([*where, playing + len(kept), playing, total + sum(kept)])
        columns = [*self._study.axes, "measure", "round", "simulations", "playing", "mean"]
        table = pd.DataFrame(rows, columns=columns)
        table["mean"] = table["mean"].astype(float) / table["simulations"].astype(float)
        limits = wilson_of_mean(table["mean"].to_numpy(), table["simulations"].to_numpy(dtype=float))
        return table.assign(low=limits[0], high=limits[1])


def player_table(study: Study, shares: Iterable[Share]) -> pd.DataFrame:
    """Return a row per condition, quantity and player: axes, n, the mean in [0, 1] and its Wilson limits.

    A player is a model or a policy by its label, with the prompt of its group if that has its own. `shares` are those
    of `by_player`; n counts the simulations with such agents. Players of one game are compared with the first.
    """
    evidence = study.game.evidence
    frame = pd.DataFrame(shares, columns=["condition", "id", "quantity", "player", "share"])
    by_condition = {
        key: rows.pivot(index="id", columns="player", values="share")
        for key, rows in frame.groupby(["condition", "quantity"])
    }
    names = [quantity.name for quantity in evidence.quantities] + [measure.name for measure in evidence.measures]
    rows, samples = [], list[SamplePair | None]()
    for condition, name in product(study.conditions, names):
        if (games := by_condition.get((condition.name, name))) is None:
            continue
        first = games.iloc[:, 0].to_numpy(dtype=float)
        for place, player in enumerate(games):
            own = games[player].to_numpy(dtype=float)
            known = own[~np.isnan(own)]
            low, high = map(float, wilson_of_mean(known.mean(), known.size))
            row = {"quantity": name, "player": player, "simulations": known.size}
            rows.append({**condition.axes, **row, "mean": float(known.mean()), "low": low, "high": high})
            samples.append(SamplePair({}, first, own, SHARE, without_pairs=MEANS) if place else None)
    return selected(beside(rows, samples), names_of("players", study.axes, study.game))


def by_player(game: PlayedGame, trace: Sequence[Mapping[str, Any]]) -> list[Share]:
    """Return the shares of one simulation, by quantity and player.

    They are means over those of its agents that are not the adversary's and have the quantity (`Evidence.of_agents`).
    """
    simulation = game.simulation
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    agents = simulation.condition.game.evidence.of_agents(game.summary.outcome["metrics"], trace)
    for agent, shares in agents.items():
        for quantity, share in shares.items() if agent in game.honest else ():
            found[quantity, game.honest[agent]].append(share)
    return [(simulation.condition.name, simulation.id, *key, fmean(shares)) for key, shares in found.items()]
