"""The table `reactions`: how agents react to an adversary, beside what they do from the same round on without one.

Agents who change at random seem to detect every betrayal. So each measure is also taken where there is nothing to
react to, in the game of the same seed without adversary (a sham betrayal), and what counts is the difference.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.columns import names_of
from parley.analysis.stats import (
    Floats,
    holm,
    mcnemar,
    paired_difference,
    paired_mean,
    paired_share,
    unpaired_difference,
    unpaired_p,
    welch,
)
from parley.games.evidence import Indicator, Quantity
from parley.games.parameters import BYZANTINE
from parley.play.record import Summary, read_trace
from parley.play.record_store import Records
from parley.study.condition import BYZANTINE_AXIS, Condition, Simulation
from parley.text import by_number

NONE = "none"  # no condition to compare with
_SEAT = "seat"
Played = tuple[Simulation, Summary]
_Values = Mapping[str, Any]


def reaction_table(records: Records) -> pd.DataFrame:
    """Return a row per condition with an adversary and measure among the `reactions` of the game's evidence.

    The traces of these conditions, and of those that they are compared with, are read. No rows for other games.
    """
    study = records.study
    names, measures = names_of("reactions", study.axes, study.game), study.game.evidence.reactions
    table: list[list[Any]] = []
    played: dict[str, dict[int, Played]] = {condition.name: {} for condition in study.conditions}
    for simulation, summary in zip(records.simulations, records.summaries, strict=True) if measures else ():
        played[simulation.condition.name][simulation.seed] = simulation, summary
    for condition in study.conditions if measures else ():
        if not condition.axes["b"]:
            continue
        other = without_adversary(condition, study.conditions)
        differing = {} if other is None else {a: v for a, v in other.axes.items() if v != condition.axes[a]}
        told = NONE if other is None else ", ".join(f"{axis}={value}" for axis, value in differing.items())
        own, calm = played[condition.name], {} if other is None else played[other.name]
        table += [[*condition.axes.values(), told, *row] for row in compared(measures, own, calm, study.name)]
    found = pd.DataFrame(table, columns=names[:-1])
    counts = ["pairs", "simulations_without", "only_with", "only_without"]
    found[counts] = found[counts].astype("Int64")
    return found.assign(p_holm=found.groupby("what")["p"].transform(lambda p: holm(p.to_numpy(dtype=float))))


def without_adversary(condition: Condition, conditions: Sequence[Condition]) -> Condition | None:
    """Return the condition with b = 0 that is like this one in all else; None if there is none.

    Else in all else but n, which then counts as many fewer; else in all but where the adversary sits. What plays the
    adversary does not matter.
    """
    calm = [each for each in conditions if not each.axes["b"]]
    as_many, fewer = int(condition.axes["n"]), int(condition.axes["n"]) - int(condition.axes["b"])
    ways = [(n, skipped) for skipped in (set(), {_SEAT}) for n in (as_many, fewer)]
    for n, skipped in ways:
        wanted = _alike(condition, skipped) | {"n": n}
        if found := next((each for each in calm if _alike(each, skipped) == wanted), None):
            return found
    return None


def _alike(condition: Condition, skipped: set[str]) -> dict[str, Any]:
    apart = {"b", BYZANTINE_AXIS, *skipped}
    return {axis: value for axis, value in condition.axes.items() if axis not in apart}


def compared(
    measures: Sequence[Indicator | Quantity], played: Mapping[int, Played], calm: Mapping[int, Played], study: str
) -> list[list[Any]]:
    """Return the cells of each measure but the axes and `without`, from simulations of two conditions by seed.

    They are paired by seed. If no seed is in both, each game without an adversary has the mean of what its agents do
    from the rounds on in which those of the other games met theirs.
    """
    if {*played} & {*calm} or not calm:
        values = list(_values(played, calm, study))
        return [_row(measure, values) for measure in measures]
    mine = [values for values, _ in _values(played, {}, study)]
    others = [list(_from_its_rounds(each, played, study)) for each in calm.values()]
    return [
        _unpaired_row(
            measure,
            _floats(mine, measure.name),
            np.array([_mean_known(_floats(values, measure.name)) for values in others]),
        )
        for measure in measures
    ]


def _from_its_rounds(calm: Played, played: Mapping[int, Played], study: str) -> Iterator[_Values]:
    """Yield what agents did in a game without an adversary, from the rounds of each game with one."""
    other, told = calm
    trace, theirs = read_trace(other.record(study)), _honest(other, told)
    for simulation, summary in played.values():
        evidence, parameters = simulation.condition.game.evidence, simulation.condition.parameters
        names = _same_agents(_honest(simulation, summary), theirs)
        yield evidence.reacted(parameters, summary.outcome["metrics"], names, trace)


def _values(played: Mapping[int, Played], calm: Mapping[int, Played], study: str) -> Iterator[tuple[_Values, _Values]]:
    """Yield what agents did in each game with an adversary, and in that of its seed without: nothing without one."""
    for seed, (simulation, summary) in played.items():
        evidence, parameters = simulation.condition.game.evidence, simulation.condition.parameters
        metrics, own = summary.outcome["metrics"], _honest(simulation, summary)
        mine = evidence.reacted(
            parameters, metrics, {name: name for name in own}, read_trace(simulation.record(study))
        )
        if seed not in calm:
            yield mine, {}
            continue
        other, told = calm[seed]
        names = _same_agents(own, _honest(other, told))
        yield mine, evidence.reacted(parameters, metrics, names, read_trace(other.record(study)))


def _honest(simulation: Simulation, summary: Summary) -> dict[str, str]:
    """Return the agents that are not the adversary's, by number, and what plays each."""
    # Who sat where in a game that was imported is in its record.
    simulation = replace(simulation, recorded=summary.simulation.get("material"))
    game = simulation.game()
    players = simulation.players(game)
    names = [seat.name for seat in game.seats if seat.role != BYZANTINE]
    return {name: players[name].label for name in sorted(names, key=by_number)}


def _same_agents(own: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the agent of the other game for each of one's own: itself, or else the next that the same plays."""
    if own.items() <= other.items():
        return {name: name for name in own}
    left, found = dict(other), {}
    for name, player in own.items():
        found[name] = next((each for each, plays in left.items() if plays == player), next(iter(left)))
        del left[found[name]]
    return found


def _row(measure: Indicator | Quantity, values: Sequence[tuple[_Values, _Values]]) -> list[Any]:
    """Return the cells of one measure but the axes and `without`, from its values in one or more games."""
    with_, without = (_floats(each, measure.name) for each in zip(*values, strict=True))
    known = ~np.isnan(with_) & ~np.isnan(without)
    whole, x, y = with_[~np.isnan(with_)], without[known], with_[known]
    told = [whole.size, _mean(whole), x.size, x.size, _mean(y), _mean(x)]
    if isinstance(measure, Quantity):
        low, high, p = paired_share(x, y) if measure.share else paired_mean(x, y)
        return ["quantity", measure.name, *told, pd.NA, pd.NA, _mean(y - x), low, high, "t" if x.size else "", p]
    both, only_without, only_with = (int(np.sum(each)) for each in (x * y, x * (1 - y), (1 - x) * y))
    if not x.size:
        return ["indicator", measure.name, *told, 0, 0, math.nan, math.nan, math.nan, "", math.nan]
    low, high = map(float, paired_difference(both, only_without, only_with, x.size - both - only_without - only_with))
    p = float(mcnemar(only_without, only_with))
    return ["indicator", measure.name, *told, only_with, only_without, _mean(y - x), low, high, "McNemar", p]


def _unpaired_row(measure: Indicator | Quantity, with_: Floats, without: Floats) -> list[Any]:
    """Return the cells of one measure from its values in one or more games of either kind, which share no seed."""
    y, x = with_[~np.isnan(with_)], without[~np.isnan(without)]
    number = isinstance(measure, Quantity) and not measure.share
    kind = "quantity" if isinstance(measure, Quantity) else "indicator"
    told = [kind, measure.name, y.size, _mean(y), 0, x.size, _mean(y), _mean(x), pd.NA, pd.NA, _mean(y) - _mean(x)]
    if not number:
        low, high = map(float, unpaired_difference(x.sum(), x.size, y.sum(), y.size))
        return [*told, low, high, "chi-squared", float(unpaired_p(x.sum(), x.size, y.sum(), y.size))]
    return [*told, *welch(x, y)[:2], "Welch", welch(x, y)[2]]


def _floats(values: Sequence[_Values], name: str) -> Floats:
    return np.array([math.nan if each.get(name) is None else float(each[name]) for each in values])


def _mean_known(values: Floats) -> float:
    return _mean(values[~np.isnan(values)])


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else math.nan
