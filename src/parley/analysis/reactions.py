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
from numpy.typing import NDArray

from parley.analysis.pairs import count_pairs, number_differences, rate_differences
from parley.analysis.simulations import PlayedGame
from parley.analysis.stats import Floats, holm, mean_interval, wilson_of_mean
from parley.analysis.tables import names_of
from parley.games.evidence import Behaved, Indicator, Quantity
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS, Condition

ANY = "any"  # the behavior of every agent that is judged
EVERYBODY = "all"  # whoever plays
NONE = "none"  # no condition to compare with
_SEAT = "seat"
_Values = Mapping[str, Any]
Trace = Sequence[Mapping[str, Any]]
Reacted = Mapping[tuple[str, str], _Values]  # by the ids of a game and of its source
Judged = tuple[str, str, list[Behaved]]  # a condition, a player, and its agents in one game


class Reactions:
    """How agents react in the conditions with an adversary of a study, compared with those without one."""

    def __init__(self, study: Study, games: Sequence[PlayedGame]) -> None:
        self._study = study
        by_seed: dict[str, dict[int, PlayedGame]] = defaultdict(dict)
        for game in games:
            by_seed[game.simulation.condition.name][game.simulation.seed] = game
        self._compared: list[tuple[Condition, Condition | None, ReactionsOf]] = []
        self._by_game: dict[str, list[ReactionsOf]] = defaultdict(list)
        for condition in study.conditions if study.game.evidence.reactions else ():
            if condition.axes["b"]:
                other = without_adversary(condition, study.conditions)
                reactions = ReactionsOf(study, by_seed[condition.name], by_seed[other.name] if other else {})
                self._compared.append((condition, other, reactions))
                for name in reactions.sources:
                    self._by_game[name].append(reactions)

    def found(self, game: PlayedGame, trace: Trace) -> list[Reacted]:
        """Return what is needed of the trace of a game, which `add` takes."""
        return [reactions.found(game, trace) for reactions in self._by_game.get(game.simulation.id, ())]

    def add(self, game: PlayedGame, found: Sequence[Reacted]) -> None:
        """Take what was `found` in the trace of a game."""
        for reactions, values in zip(self._by_game.get(game.simulation.id, ()), found, strict=True):
            reactions.add(values)

    def table(self) -> pd.DataFrame:
        """Return a row per condition with an adversary and measure among the `reactions` of the game's evidence."""
        table = []
        for condition, other, reactions in self._compared:
            differing = {} if other is None else {a: v for a, v in other.axes.items() if v != condition.axes[a]}
            without = NONE if other is None else ", ".join(f"{axis}={value}" for axis, value in differing.items())
            table += [{**condition.axes, "without": without, **row} for row in reactions.rows()]
        found = pd.DataFrame(table, columns=names_of("reactions", self._study.axes, self._study.game)[:-1])
        counts = ["pairs", "simulations_without", "only_with", "only_without"]
        found[counts] = found[counts].astype("Int64")
        return found.assign(p_holm=found.groupby("what")["p"].transform(lambda p: holm(p.to_numpy(dtype=float))))


class ReactionsOf:
    """How agents react in games with an adversary, beside games without one, both by seed.

    They are paired by seed. If no seed is in both, each game without an adversary has the mean of what its agents do
    from the rounds on in which those of the other games met theirs. `sources` has, by the id of a game whose trace is
    needed, the games whose adversary its agents are taken to meet.
    """

    def __init__(self, study: Study, own: Mapping[int, PlayedGame], calm: Mapping[int, PlayedGame]) -> None:
        self._evidence, self._own, self._calm = study.game.evidence, own, calm
        self._paired = bool({*own} & {*calm}) or not calm
        self._values: dict[tuple[str, str], _Values] = {}
        self.sources: dict[str, list[PlayedGame]] = defaultdict(list)
        for seed, game in own.items():
            for each in [game, *([calm[seed]] if seed in calm else () if self._paired else calm.values())]:
                self.sources[each.simulation.id].append(game)

    def found(self, game: PlayedGame, trace: Trace) -> Reacted:
        """Return what the agents of a game do from the rounds on in which others met an adversary, by its trace."""
        values = {}
        for source in self.sources[game.simulation.id]:
            names = _same_agents(source.honest, game.honest)
            metrics, parameters = source.summary.outcome["metrics"], source.simulation.condition.parameters
            found = self._evidence.reacted(parameters, metrics, names, trace)
            reacted = {measure.name: found.get(measure.name) for measure in self._evidence.reactions}
            values[game.simulation.id, source.simulation.id] = reacted
        return values

    def add(self, found: Reacted) -> None:
        """Take what was `found` in the trace of a game."""
        self._values.update(found)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the cells of each measure, once the traces of all games were added."""
        with_ = [self._from(game, [game]) for game in self._own.values()]
        if self._paired:
            sham = [self._from(self._calm.get(seed), [game]) for seed, game in self._own.items()]
        else:
            sham = [self._from(each, list(self._own.values())) for each in self._calm.values()]
        values: list[tuple[Indicator | Quantity, Floats, Floats]] = []
        for measure in self._evidence.reactions:
            x, y = (np.array([_mean(each, measure.name) for each in games]) for games in (sham, with_))
            values.append((measure, x, y))
        places = slice(None) if self._paired else slice(0)
        rates = [(x, y) for measure, x, y in values if isinstance(measure, Indicator) and self._paired]
        counts = [count_pairs(_flags(x), _flags(y), places, places) for x, y in rates]
        differences = iter(_rows_of(rate_differences(np.array(counts, dtype=np.int64).reshape(-1, 8))))
        for measure, x, y in values:
            if isinstance(measure, Indicator) and self._paired:
                found = next(differences)
            else:
                share = isinstance(measure, Indicator) or measure.share
                [found] = _rows_of(number_differences([(x, y, places, places)], share, unpaired=not self._paired))
            yield _cells(measure, found, self._paired)

    def _from(self, game: PlayedGame | None, sources: Sequence[PlayedGame]) -> list[_Values]:
        """Return what agents do in a game from the rounds of each source; nothing without a game."""
        ids = [source.simulation.id for source in sources]
        return [self._values[game.simulation.id, each] for each in ids] if game else []


def _flags(values: Floats) -> NDArray[np.int8]:
    return np.nan_to_num(values, nan=-1).astype(np.int8)


def _rows_of(differences: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(differences, cells, strict=True)) for cells in zip(*differences.values(), strict=True)]


def _cells(measure: Indicator | Quantity, found: dict[str, Any], paired: bool) -> dict[str, Any]:
    """Return the cells of a measure, from its difference to the games without an adversary."""
    if paired and not found["pairs"]:  # nothing is compared
        found |= {**dict.fromkeys(("value_from", "value_to", "difference", "low", "high", "p"), np.nan), "test": ""}
    return {
        "kind": "indicator" if isinstance(measure, Indicator) else "quantity",
        "what": measure.name,
        "simulations": found["simulations_to"],
        "value": found["all_to"],
        "pairs": found["pairs"],
        "simulations_without": found["pairs"] if paired else found["simulations_from"],
        "value_with": found["value_to"],
        "value_without": found["value_from"],
        "only_with": found["only_second"],
        "only_without": found["only_first"],
        **{name: found[name] for name in ("difference", "low", "high", "test", "p")},
    }


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
    condition, evidence = game.simulation.condition, study.game.evidence
    if not condition.axes["b"] or not evidence.behaviors:
        return []
    found = evidence.behaved(condition.parameters, game.summary.outcome["metrics"], trace)
    by_player: dict[str, list[Behaved]] = {EVERYBODY: list(found.values())} if found else {}
    for name, behaved in sorted(found.items(), key=lambda item: game.players[item[0]]):
        by_player.setdefault(game.players[name], []).append(behaved)
    return [(condition.name, player, agents) for player, agents in by_player.items()]


def behavior_table(rows: Iterable[Judged], study: Study) -> pd.DataFrame:
    """Return a row per condition, player (`all` first) and behavior of the game's evidence (`any` first).

    `rows` are those of `behaved_rows` of all games.
    """
    judged: dict[str, dict[str, list[list[Behaved]]]] = defaultdict(lambda: defaultdict(list))
    for condition_name, player, agents in rows:
        judged[condition_name][player].append(agents)
    table = [
        [*condition.axes.values(), player, *_behavior(behavior, games)]
        for condition in study.conditions
        for player, games in judged[condition.name].items()
        for behavior in [ANY, *(each.name for each in study.game.evidence.behaviors)]
    ]
    return pd.DataFrame(table, columns=names_of("behaviors", study.axes, study.game))


def _behavior(behavior: str, games: Sequence[Sequence[Behaved]]) -> list[Any]:
    """Return the cells of one behavior, from the judged agents of one or more games."""
    those = [[each for each in agents if behavior in (ANY, *each.shown)] for agents in games]
    share = fmean(len(some) / len(agents) for some, agents in zip(those, games, strict=True))
    low, high = wilson_of_mean(share, len(games))
    shown = [some for some in those if some]
    payoff, cost = (mean_interval([fmean(getattr(each, what) for each in some) for some in shown]) for what in _PAID)
    limits = [payoff.mean, payoff.low, payoff.high, cost.mean, cost.low, cost.high]
    return [behavior, len(games), share, float(low), float(high), share > 0.5, len(shown), *limits]


_PAID = ("payoff", "cost")
