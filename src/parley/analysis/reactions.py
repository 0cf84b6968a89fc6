"""The tables `reactions` and `behaviors`: what agents do in the face of an adversary.

Agents who change at random seem to detect every betrayal. So each measure of a reaction is also taken where there is
nothing to react to, in the game of the same seed without adversary (a sham betrayal), and what counts is the
difference. Behaviors are by who plays the agents, with what each behavior paid. The unit is the simulation: a player's
share in it is that among the agents that it plays there and that are judged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import names_of
from parley.games.evidence import AgentBehavior, Indicator, Quantity
from parley.statistics.differences import (
    EVERY,
    NO_PAIRS,
    NOTHING,
    NUMBER,
    RATE,
    SHARE,
    TESTED,
    SamplePair,
    compare,
    selected,
)
from parley.statistics.stats import mean_interval, wilson_of_mean
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS, Condition

ANY = "any"  # the behavior of every agent that is judged
EVERYBODY = "all"  # whoever plays
NONE = "none"  # no condition to compare with
_SEAT = "seat"
_Values = Mapping[str, Any]
Trace = Sequence[Mapping[str, Any]]
Reacted = Mapping[tuple[str, str], _Values]  # by the ids of a game and of its source
Games = Mapping[int, PlayedGame]  # of one condition, by seed
Compared = tuple[Condition, Condition | None, Games, Games]  # with an adversary and without, and their games
Judged = tuple[str, str, list[AgentBehavior]]  # a condition, a player, and its agents in one game


def compared_games(study: Study, games: Sequence[PlayedGame]) -> list[Compared]:
    """Return the conditions with an adversary and those without that they are compared with, and the games of both."""
    by_seed: dict[str, dict[int, PlayedGame]] = defaultdict(dict)
    for game in games:
        by_seed[game.simulation.condition.name][game.simulation.seed] = game
    compared: list[Compared] = []
    for condition in study.conditions if study.game.evidence.table("reactions") else ():
        if condition.axes["b"]:
            other = without_adversary(condition, study.conditions)
            compared.append((condition, other, by_seed[condition.name], by_seed[other.name] if other else {}))
    return compared


def sources_of(own: Games, calm: Games) -> Iterator[tuple[PlayedGame, list[PlayedGame]]]:
    """Yield each game whose trace is needed with its sources: the games whose adversary its agents are taken to meet.

    Of a game without an adversary (`calm`) that is the one of its seed; if no seed is in both, all of them.
    """
    yield from ((game, [game]) for game in own.values())
    if _are_paired(own, calm):
        yield from ((calm[seed], [game]) for seed, game in own.items() if seed in calm)
    else:
        yield from ((game, list(own.values())) for game in calm.values())


def _are_paired(own: Games, calm: Games) -> bool:
    return bool({*own} & {*calm}) or not calm


def reacted(game: PlayedGame, sources: Iterable[PlayedGame], trace: Trace) -> Reacted:
    """Return what the agents of a game do from the rounds on in which those of its sources met an adversary."""
    values: dict[tuple[str, str], _Values] = {}
    if (table := game.simulation.condition.game.evidence.table("reactions")) is None:
        return values
    for source in sources:
        names = _same_agents(source.honest, game.honest)
        metrics, parameters = source.summary.outcome["metrics"], source.simulation.condition.parameters
        found = table.rows(parameters, metrics, names, trace)
        values[game.simulation.id, source.simulation.id] = {of.name: found.get(of.name) for of in table.measures}
    return values


def reaction_table(study: Study, compared: Sequence[Compared], values: Reacted) -> pd.DataFrame:
    """Return a row per condition with an adversary and measure among the `reactions` of the game's evidence.

    `values` has what `reacted` returns of all `sources_of` the games that are compared.
    """
    samples: list[SamplePair] = []
    for condition, other, own, calm in compared:
        differing = {} if other is None else {a: v for a, v in other.axes.items() if v != condition.axes[a]}
        without = NONE if other is None else ", ".join(f"{axis}={value}" for axis, value in differing.items())
        keys = {**condition.axes, "without": without}
        samples += reaction_samples(study.game.evidence.about("reactions"), own, calm, values, keys)
    return selected(reaction_rows(samples), names_of("reactions", study.axes, study.game))


def reaction_rows(samples: Iterable[SamplePair]) -> pd.DataFrame:
    """Return a row for each of `reaction_samples`."""
    found = compare(list(samples)).rename(columns=_OF_DIFFERENCE)
    counts = ["pairs", "simulations_without", "only_with", "only_without"]
    return found.astype(dict.fromkeys(counts, "Int64"))


_OF_DIFFERENCE = {
    **{"simulations_to": "simulations", "all_to": "value", "simulations_from": "simulations_without"},
    **{"value_to": "value_with", "value_from": "value_without"},
    **{"only_second": "only_with", "only_first": "only_without"},
}


def reaction_samples(
    measures: Sequence[Indicator | Quantity], own: Games, calm: Games, values: Reacted, keys: _Values
) -> Iterator[SamplePair]:
    """Yield each measure, of games without an adversary beside games with one.

    They are paired by seed. If no seed is in both, each game without an adversary has the mean of what its agents do
    from the rounds on in which those of the other games met theirs.
    """
    paired, every = _are_paired(own, calm), list(own.values())
    sham = [(calm.get(seed), [game]) for seed, game in own.items()] if paired else [(e, every) for e in calm.values()]
    of_sham, of_own = (
        [[values[game.simulation.id, s.simulation.id] for s in sources] if game else [] for game, sources in games]
        for games in (sham, [(game, [game]) for game in every])
    )
    places, otherwise = (EVERY, NOTHING) if paired else (NO_PAIRS, TESTED)
    for measure in measures:
        x, y = (np.array([_mean(each, measure.name) for each in games]) for games in (of_sham, of_own))
        x = np.where(np.isnan(y), np.nan, x) if paired else x
        if isinstance(measure, Indicator):
            kind, of = RATE if paired else SHARE, "indicator"
        else:
            kind, of = SHARE if measure.share else NUMBER, "quantity"
        about = {**keys, "kind": of, "what": measure.name}
        yield SamplePair(about, x, y, kind, places, places, family=measure.name, without_pairs=otherwise)


def without_adversary(condition: Condition, conditions: Sequence[Condition]) -> Condition | None:
    """Return the condition with b = 0 that is like this one in all else; None if there is none.

    Else in all else but n, which then counts as many fewer; else in all but where the adversary sits. What plays the
    adversary does not matter.
    """
    calm = [each for each in conditions if not each.axes["b"]]
    as_many, fewer = int(condition.axes["n"]), int(condition.axes["n"]) - int(condition.axes["b"])
    for skipped in (set(), {_SEAT}):
        for n in (as_many, fewer):
            alike = _alike(condition, skipped) | {"n": n}
            if found := next((each for each in calm if _alike(each, skipped) == alike), None):
                return found
    return None


def _alike(condition: Condition, skipped: set[str]) -> dict[str, Any]:
    apart = {"b", BYZANTINE_AXIS, *skipped}
    return {axis: value for axis, value in condition.axes.items() if axis not in apart}


def _same_agents(own: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the agent of the other game for each of one's own: itself, or else the next that the same plays."""
    if own.items() <= other.items():
        return {name: name for name in own}
    left, found = dict(other), {}
    for name, player in own.items():
        found[name] = next((each for each, plays in left.items() if plays == player), next(iter(left)))
        del left[found[name]]
    return found


def _mean(values: Sequence[_Values], name: str) -> float:
    known = [float(each[name]) for each in values if each.get(name) is not None]
    return float(np.mean(known)) if known else np.nan


# What agents that met an adversary do, by who plays them


def behaved_rows(study: Study, game: PlayedGame, trace: Trace) -> list[Judged]:
    """Return the judged agents of a game with an adversary: all of them, and those of each player."""
    condition, table = game.simulation.condition, study.game.evidence.table("behaviors")
    if not condition.axes["b"] or table is None:
        return []
    found = table.rows(condition.parameters, game.summary.outcome["metrics"], trace)
    by_player: dict[str, list[AgentBehavior]] = {EVERYBODY: list(found.values())} if found else {}
    for name, behaved in sorted(found.items(), key=lambda item: game.players[item[0]]):
        by_player.setdefault(game.players[name], []).append(behaved)
    return [(condition.name, player, agents) for player, agents in by_player.items()]


def behavior_table(rows: Iterable[Judged], study: Study) -> pd.DataFrame:
    """Return a row per condition, player (`all` first) and behavior of the game's evidence (`any` first).

    `rows` are those of `behaved_rows` of all games.
    """
    judged: dict[str, dict[str, list[list[AgentBehavior]]]] = defaultdict(lambda: defaultdict(list))
    for condition_name, player, agents in rows:
        judged[condition_name][player].append(agents)
    table = [
        [*condition.axes.values(), player, *_behavior(behavior, games)]
        for condition in study.conditions
        for player, games in judged[condition.name].items()
        for behavior in [ANY, *(each.name for each in study.game.evidence.about("behaviors"))]
    ]
    return pd.DataFrame(table, columns=names_of("behaviors", study.axes, study.game))


def _behavior(behavior: str, games: Sequence[Sequence[AgentBehavior]]) -> list[Any]:
    """Return the cells of one behavior, from the judged agents of one or more games."""
    those = [[each for each in agents if behavior in (ANY, *each.shown)] for agents in games]
    share = fmean(len(some) / len(agents) for some, agents in zip(those, games, strict=True))
    low, high = wilson_of_mean(share, len(games))
    shown = [some for some in those if some]
    payoff, cost = (mean_interval([fmean(getattr(each, what) for each in some) for some in shown]) for what in _PAID)
    limits = [payoff.mean, payoff.low, payoff.high, cost.mean, cost.low, cost.high]
    return [behavior, len(games), share, float(low), float(high), share > 0.5, len(shown), *limits]


_PAID = ("payoff", "cost")
