"""The table `equal_cost`: what a group that talks decides, beside what the same tokens buy otherwise (`compare_with`).

Of independent answers each game takes the first ones: as many as cost no more than talking did in the game of the same
seed. docs/explanation/talking.md says what the rows mean.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.analysis.columns import names_of
from parley.analysis.costs import money_of
from parley.analysis.differences import count_pairs, rate_differences
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.stats import Floats, holm, wilson_interval
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study
from parley.study.condition import ARM_AXIS, NO_ARM, TALK, Condition

FIRST = "first_answers"  # the arm without a game of its own: what talking agents said before they talked
TOKENS, REQUESTS = "tokens", "requests"  # in which costs are compared; in requests where records have no tokens
INDEPENDENT = "independent"
_EVERY = slice(None)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


@dataclass(frozen=True)
class Paid:
    """What a game cost, and whether it decided rightly.

    `costs` has a row for each agent in its order, and `first` is that of its first answers: requests, tokens of
    prompts, of replies, and from a cache; NaN where nobody counted them. `rights` says whether the plurality of the
    first 1, 2, ... first answers is right, and `last` of all last ones.
    """

    condition: str
    seed: int
    id: str
    costs: Floats
    first: Floats
    rights: tuple[bool, ...]
    last: bool


@dataclass(frozen=True)
class Taken:
    """What counts of a game: what it cost, whether it is right, and of independent answers how many were taken.

    `short` are those that all together cost less than talking.
    """

    seed: int
    id: str
    cost: Floats
    right: bool
    answers: float = np.nan
    short: bool = False


def paid_rows(study: Study, game: PlayedGame, trace: Trace) -> list[Paid]:
    """Return what a game of an arm cost; nothing for any other."""
    simulation = game.simulation
    if simulation.condition.axes.get(ARM_AXIS, NO_ARM) == NO_ARM:
        return []
    _, rows = read_attempts(simulation.record(study.name), ["agent", "round", *_COUNTS])
    attempts = rows.to_pandas()
    each = attempts[list(_COUNTS)].astype(float).assign(cached_tokens=lambda of: of["cached_tokens"].fillna(0))
    costs = np.column_stack([np.ones(len(each)), each.to_numpy()])
    agents, rounds = attempts["agent"].to_numpy(), attempts["round"].to_numpy()
    rights, last = simulation.condition.game.evidence.pluralities(game.summary.outcome, list(game.honest), trace)
    by_agent = np.array([costs[agents == name].sum(axis=0) for name in game.honest])
    first = costs[rounds == 0].sum(axis=0)
    return [Paid(simulation.condition.name, simulation.seed, simulation.id, by_agent, first, tuple(rights), last)]


class EqualCost:
    """What counts of the games of a study with arms, by condition and arm."""

    def __init__(self, study: Study, paid: Sequence[Paid]) -> None:
        self._study = study
        games: dict[str, dict[int, Paid]] = defaultdict(dict)
        for game in paid:
            games[game.condition][game.seed] = game
        self._of: list[tuple[Condition, str, list[tuple[Condition, str, dict[int, Taken]]]]] = []
        for talk in study.conditions:
            if talk.axes.get(ARM_AXIS) == TALK:
                arms = [each for each in study.conditions if _same_but_arm(each, talk)]
                counted = not any(np.isnan(g.costs).any() for arm in arms for g in games[arm.name].values())
                unit = TOKENS if counted else REQUESTS
                self._of.append((talk, unit, list(_taken(talk, arms, games, unit))))

    def right(self) -> dict[str, bool]:
        """Return by the id of a simulation whether it is right at the cost of talking."""
        return {
            game.id: game.right
            for _, _, arms in self._of
            for _, arm, games in arms
            if arm != FIRST
            for game in games.values()
        }

    def table(self) -> pd.DataFrame:
        """Return a row per condition whose agents talk and arm; differences from `talk` are of the same seeds."""
        table = [row for talk, unit, arms in self._of for row in _rows(talk, unit, arms)]
        return pd.DataFrame(table, columns=names_of("equal_cost", self._study.axes, self._study.game))


def with_equal_cost(rows: pd.DataFrame, equal: EqualCost, study: Study) -> pd.DataFrame:
    """Return the table of simulations with whether each is right at equal cost, about which questions may ask."""
    indicator = study.game.evidence.at_equal_cost
    return rows if indicator is None else rows.assign(**{indicator.name: rows["id"].map(equal.right())})


def _same_but_arm(one: Condition, other: Condition) -> bool:
    return {**one.axes, ARM_AXIS: TALK} == {**other.axes, ARM_AXIS: TALK}


def _spent(costs: Floats, unit: str) -> Any:
    return costs[..., 0] if unit == REQUESTS else costs[..., 1] + costs[..., 2]


def _taken(
    talk: Condition, arms: Sequence[Condition], games: Mapping[str, Mapping[int, Paid]], unit: str
) -> Iterator[tuple[Condition, str, dict[int, Taken]]]:
    """Yield each arm of a condition with what counts of its games, by seed: those of which the other talked, too."""
    talking = games[talk.name]
    whole = {seed: Taken(seed, game.id, game.costs.sum(axis=0), game.last) for seed, game in talking.items()}
    yield talk, TALK, whole
    yield talk, FIRST, {s: Taken(s, game.id, game.first, game.rights[-1]) for s, game in talking.items()}
    for arm in arms:
        if (name := str(arm.axes[ARM_AXIS])) != TALK:
            of = _independent if name == INDEPENDENT else _all
            both = {seed: game for seed, game in games[arm.name].items() if seed in whole}
            yield (
                arm,
                name,
                {seed: of(game, float(_spent(whole[seed].cost, unit)), unit) for seed, game in both.items()},
            )


def _all(game: Paid, budget: float, unit: str) -> Taken:
    return Taken(game.seed, game.id, game.costs.sum(axis=0), game.last)


def _independent(game: Paid, budget: float, unit: str) -> Taken:
    """Return what counts of the first answers that cost at most `budget`; of none at all nothing is right."""
    spent = np.cumsum(_spent(game.costs, unit))
    number = int(np.searchsorted(spent, budget, side="right"))
    short = number == len(spent) and spent[-1] + spent[-1] / number <= budget  # one more would have gone in
    cost = game.costs[:number].sum(axis=0)
    return Taken(game.seed, game.id, cost, number > 0 and game.rights[number - 1], number, bool(short))


def _rows(
    talk: Condition, unit: str, arms: Sequence[tuple[Condition, str, Mapping[int, Taken]]]
) -> Iterator[dict[str, Any]]:
    whole = arms[0][2]
    rows = []
    for condition, arm, games in arms:
        seeds = list(games)
        if not seeds:
            continue
        x, y = (_answers([side[seed] for seed in seeds]) for side in (whole, games))
        costs, talked = (np.array([side[seed].cost for seed in seeds]) for side in (games, whole))
        right = int(y.sum())
        low, high = wilson_interval(right, len(y))
        found = rate_differences(count_pairs(x, y, _EVERY, _EVERY)[np.newaxis]) if arm != TALK else {}
        tokens = Tokens(*map(int, costs[:, 1:].sum(axis=0))) if unit == TOKENS else None
        row = {
            **condition.axes,
            ARM_AXIS: arm,
            "simulations": len(seeds),
            "answers": float(np.mean([game.answers for game in games.values()])),
            "short": float(np.mean([game.short for game in games.values()])) if arm == INDEPENDENT else np.nan,
            "unit": unit,
            "requests": float(costs[:, 0].mean()),
            "tokens": np.nan if tokens is None else tokens.total / len(seeds),
            "money": np.nan if tokens is None else money_of(talk, tokens) / len(seeds),
            "cost_ratio": float(_spent(costs, unit).sum() / _spent(talked, unit).sum()),
            "right": right / len(y),
            "low": float(low),
            "high": float(high),
        }
        difference = {"difference": "difference", "difference_low": "low", "difference_high": "high", "p": "p"}
        rows.append(row | {name: float(found[of][0]) if found else np.nan for name, of in difference.items()})
    for row, p in zip(rows, holm([row["p"] for row in rows]).tolist(), strict=True):
        yield {**row, "p_holm": p}


def _answers(games: Sequence[Taken]) -> NDArray[np.int8]:
    return np.array([game.right for game in games], dtype=np.int8)
