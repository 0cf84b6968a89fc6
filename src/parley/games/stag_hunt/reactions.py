"""The tables `reactions` and `behaviors`: what agents do in the face of an adversary.

Agents who change at random seem to detect every betrayal. So each measure of a reaction is also taken where there is
nothing to react to, in the game of the same seed without adversary (a sham betrayal), and what counts is the
difference. Behaviors are by who plays the agents, with what each behavior paid. The unit is the simulation: a player's
share in it is that among the agents that it plays there and that are judged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from parley.games.evidence import ANY, NONE, Indicator, TableMaker
from parley.games.parameters import BYZANTINE
from parley.games.promises import Deeds
from parley.games.stag_hunt.betrayal import player_after, reaction_metrics
from parley.games.stag_hunt.evidence import BEHAVIORS, REACTIONS
from parley.games.stag_hunt.parameters import HARE, HARE_WORD, STAG, HuntRound, counted
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
)
from parley.statistics.stats import mean_interval, wilson_of_mean

EVERYBODY = "all"  # whoever plays
_SEAT = "seat"
_Values = Mapping[str, Any]
Reacted = Mapping[tuple[str, str], _Values]  # by the ids of a game and of its source
Trace = Sequence[HuntRound]
Games = Mapping[int, Any]  # the games of one condition, by seed


class Reactions(TableMaker):
    """Makes a row per condition with an adversary and measure among REACTIONS."""

    def __init__(self, study: Any, games: Sequence[Any]) -> None:
        super().__init__(study, games)
        by_seed: dict[str, dict[int, Any]] = defaultdict(dict)
        for game in games:
            by_seed[game.simulation.condition.name][game.simulation.seed] = game
        # Conditions with an adversary, and those without that they are compared with, and the games of both.
        self._compared: list[tuple[Any, Any, Games, Games]] = []
        self._sources: dict[str, dict[str, Any]] = defaultdict(dict)  # by id, see `sources_of`
        for condition in (each for each in study.conditions if each.axes["b"]):
            other = without_adversary(condition, study.conditions)
            own, calm = by_seed[condition.name], by_seed[other.name] if other else {}
            self._compared.append((condition, other, own, calm))
            for game, sources in sources_of(own, calm):
                self._sources[game.simulation.id] |= {source.simulation.id: source for source in sources}

    def rows(self, game: Any, trace: Trace) -> list[Any]:
        """Return what `reacted` returns of a game and its sources, as items."""
        return list(reacted(game, self._sources.get(game.simulation.id, {}).values(), trace).items())

    def tables(self, rows: Sequence[Any]) -> dict[str, pd.DataFrame]:
        """Return the table `reactions`."""
        values, samples = dict(rows), list[SamplePair]()
        for condition, other, own, calm in self._compared:
            differing = {} if other is None else {a: v for a, v in other.axes.items() if v != condition.axes[a]}
            without = NONE if other is None else ", ".join(f"{axis}={value}" for axis, value in differing.items())
            samples += reaction_samples(own, calm, values, {**condition.axes, "without": without})
        return {"reactions": reaction_rows(samples)}


def sources_of(own: Games, calm: Games) -> Iterator[tuple[Any, list[Any]]]:
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


def reacted(game: Any, sources: Iterable[Any], trace: Trace) -> Reacted:
    """Return what the agents of a game do from the rounds on in which those of its sources met an adversary."""
    values: dict[tuple[str, str], _Values] = {}
    for source in sources:
        names, metrics = _same_agents(source.honest, game.honest), source.summary.outcome["metrics"]
        seen = {names[name]: after["seen"] for name, after in metrics["after_betrayal"].items()}
        threshold = source.simulation.condition.parameters.archetype_threshold
        measured = reaction_metrics(trace, seen, metrics["first_betrayal_round"], threshold)
        values[game.simulation.id, source.simulation.id] = measured
    return values


def reaction_rows(samples: Iterable[SamplePair]) -> pd.DataFrame:
    """Return a row for each of `reaction_samples`."""
    table = compare(list(samples)).rename(columns=_OF_DIFFERENCE)
    counts = ["pairs", "simulations_without", "only_with", "only_without"]
    return table.astype(dict.fromkeys(counts, "Int64"))


_OF_DIFFERENCE = {
    **{"simulations_to": "simulations", "all_to": "value", "simulations_from": "simulations_without"},
    **{"value_to": "value_with", "value_from": "value_without"},
    **{"only_second": "only_with", "only_first": "only_without"},
}


def reaction_samples(own: Games, calm: Games, values: Reacted, keys: _Values) -> Iterator[SamplePair]:
    """Yield each of REACTIONS, of games without an adversary beside games with one.

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
    for measure in REACTIONS:
        x, y = (np.array([_mean(each, measure.name) for each in games]) for games in (of_sham, of_own))
        x = np.where(np.isnan(y), np.nan, x) if paired else x
        if isinstance(measure, Indicator):
            kind, of = RATE if paired else SHARE, "indicator"
        else:
            kind, of = SHARE if measure.share else NUMBER, "quantity"
        about = {**keys, "kind": of, "what": measure.name}
        yield SamplePair(about, x, y, kind, places, places, family=measure.name, without_pairs=otherwise)


def without_adversary(condition: Any, conditions: Sequence[Any]) -> Any:
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


def _alike(condition: Any, skipped: set[str]) -> dict[str, Any]:
    left_out = {"b", BYZANTINE, *skipped}
    return {axis: value for axis, value in condition.axes.items() if axis not in left_out}


def _same_agents(own: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the agent of the other game for each of one's own: itself, or else the next that the same plays."""
    if own.items() <= other.items():
        return {name: name for name in own}
    left, matched = dict(other), {}
    for name, player in own.items():
        matched[name] = next((each for each, plays in left.items() if plays == player), next(iter(left)))
        del left[matched[name]]
    return matched


def _mean(values: Sequence[_Values], name: str) -> float:
    known = [float(each[name]) for each in values if each.get(name) is not None]
    return float(np.mean(known)) if known else np.nan


class AgentBehavior(NamedTuple):
    """What an agent did that was betrayed: behaviors, payoff per round, and what a hare, which is sure, pays more."""

    shown: frozenset[str]
    payoff: float
    cost: float


class Behaviors(TableMaker):
    """Makes a row per condition with an adversary, player (`all` first) and behavior of BEHAVIORS (`any` first)."""

    def rows(self, game: Any, trace: Trace) -> list[tuple[str, str, list[AgentBehavior]]]:
        """Return the betrayed agents of a game, all of them and those of each player: condition, player, agents."""
        condition = game.simulation.condition
        if not condition.axes["b"]:
            return []
        after, rounds = game.summary.outcome["metrics"]["after_betrayal"], counted(trace)
        by_player: dict[str, list[AgentBehavior]] = {EVERYBODY: []} if after else {}
        for name in sorted(after, key=lambda name: game.players[name]):
            payoff = sum(each["points"][name] for each in rounds) / len(rounds)
            reaction = player_after(trace, name, after[name]["seen"])
            shown = reaction.behaviors if reaction else frozenset()
            behaved = AgentBehavior(shown, payoff, condition.parameters.hare - payoff)
            by_player[EVERYBODY].append(behaved)
            by_player.setdefault(game.players[name], []).append(behaved)
        return [(condition.name, player, agents) for player, agents in by_player.items()]

    def tables(self, rows: Sequence[tuple[str, str, list[AgentBehavior]]]) -> dict[str, pd.DataFrame]:
        """Return the table `behaviors`."""
        judged: dict[str, dict[str, list[list[AgentBehavior]]]] = defaultdict(lambda: defaultdict(list))
        for name, player, agents in rows:
            judged[name][player].append(agents)
        table = [
            {**condition.axes, "player": player, **_behavior(behavior, games)}
            for condition in self.study.conditions
            for player, games in judged[condition.name].items()
            for behavior in [ANY, *(each.name for each in BEHAVIORS)]
        ]
        return {"behaviors": pd.DataFrame(table)}


def _behavior(behavior: str, games: Sequence[Sequence[AgentBehavior]]) -> dict[str, Any]:
    """Return the cells of one behavior, from the judged agents of one or more games."""
    those = [[each for each in agents if behavior in (ANY, *each.shown)] for agents in games]
    share = fmean(len(some) / len(agents) for some, agents in zip(those, games, strict=True))
    low, high = map(float, wilson_of_mean(share, len(games)))
    shown = [some for some in those if some]
    cells = {"behavior": behavior, "simulations": len(games), "share": share, "low": low, "high": high}
    cells |= {"majority": share > 0.5, "shown": len(shown)}
    for what in ("payoff", "cost"):
        paid = mean_interval([fmean(getattr(each, what) for each in some) for some in shown])
        cells |= {what: paid.mean, f"{what}_low": paid.low, f"{what}_high": paid.high}
    return cells


class HuntDeeds(Deeds):
    """Holds words that promise the stag, or announce the hare, against what is hunted."""

    phases = ("signal", "signal_again")
    private = "reasoning"
    phrases: ClassVar = {STAG: ("hunt stag", "hunting stag"), HARE: ("hunt hare", "hunting hare")}

    def rounds(self, trace: Trace) -> Trace:
        """Return the rounds that count; who says what is not one word is not silent."""
        return [{**each, "words": {**each["words"], **each["not_words"]}} for each in counted(trace)]

    def promised(self, parameters: Any, word: str) -> str | None:
        """Return the action that a word promises, whatever its case."""
        said = word.casefold()
        return STAG if said in parameters.cooperative_words else HARE if said == HARE_WORD else None

    def points(self, parameters: Any, actions: Mapping[str, Any]) -> Mapping[str, float]:
        """Return what each player gets for the actions of all."""
        points: Mapping[str, float] = parameters.points(actions)
        return points
