"""What talking bought: the tables `decisions`, `decision_rates`, `martingale` and `equal_cost`.

What each rule decides, how talking moves answers, and what a group that talks decides beside what the same tokens buy
otherwise (`compare_with`): of independent answers each game takes the first ones, as many as cost no more than talking
did in the game of the same seed. docs/explanation/talking.md says what the tables mean.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from parley.games.deliberation.decisions import decisions, effect_of_talking, last_panel
from parley.games.deliberation.parameters import DeliberationTurn, values_of
from parley.games.deliberation.turns import chance_right
from parley.games.evidence import ARM_AXIS, FIRST, INDEPENDENT, NO_ARM, TALK, TableMaker
from parley.policies import Tokens
from parley.statistics.differences import NUMBER, RATE, SHARE, SamplePair, beside, compare
from parley.statistics.stats import wilson_of_mean

Trace = Sequence[DeliberationTurn]
_RULE = ("voters", "answers", "rule")


class TalkingMeasures(TableMaker):
    """Makes a row per game with what talking changed in the answers of the last panel."""

    def rows(self, game: Any, trace: Trace) -> list[dict[str, Any]]:
        """Return the row of one game."""
        right = game.summary.outcome["metrics"]["right_answer"]
        changed = effect_of_talking(right, game.honest, trace)
        first = last_panel(trace)[0]["measures"]["confidence"]
        same = {**game.simulation.condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
        return [{**changed, "first_confidence": first, **same}]

    def tables(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
        """Return the table `measures`."""
        return {"measures": pd.DataFrame(rows)}

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame | None:
        """Return what questions may ask about; nothing that is missing in all games."""
        names = [each.name for each in self.study.game.evidence.about("measures")]
        table = pd.DataFrame(rows, columns=["id", *names]).dropna(axis="columns", how="all")
        return table.set_index("id") if rows else None


class Decisions(TableMaker):
    """Makes a row per game and rule, and by condition how often each rule decides, and rightly."""

    def rows(self, game: Any, trace: Trace) -> list[dict[str, Any]]:
        """Return the decision of one game under each rule."""
        condition, right = game.simulation.condition, game.summary.outcome["metrics"]["right_answer"]
        same = {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
        return [
            {**same, **vars(decision)} for decision in decisions(right, condition.parameters.theta, game.honest, trace)
        ]

    def tables(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
        """Return the tables `decisions` and `decision_rates`.

        Differences are from the plurality of first answers, of the same voters: what the group would have decided
        without talking. They are of the same games (McNemar; paired t where a game has a tie), corrected by Holm over
        the rules of a condition.
        """
        if not rows:
            return {}
        by, table = list(self.study.axes), pd.DataFrame(rows).astype({"right": float})
        rates = [each for key, group in table.groupby(by, sort=False) for each in _rates(key, group, by)]
        return {"decisions": table, "decision_rates": beside(*zip(*rates, strict=True))}


def _rates(
    key: Sequence[Any], group: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], SamplePair | None]]:
    """Yield a row per rule, and whether the first rule is right beside it; nothing beside the first."""
    for _, of_voters in group.groupby("voters", sort=False):
        first: Any = None
        for names, of_rule in of_voters.groupby(list(_RULE), sort=False):
            of_rule = of_rule.set_index("id")
            right: Any = of_rule["right"]
            low, high = wilson_of_mean(right.mean(), right.notna().sum())
            row = dict(zip((*by, *_RULE), (*key, *names), strict=True))
            row |= {"simulations": len(of_rule), "decided": int(of_rule["winner"].notna().sum()) / len(of_rule)}
            row |= {"right": right.mean(), "low": low, "high": high}
            if first is None:
                first = right
                yield row, None
            else:
                yield row, _rightly(first, right.reindex(first.index), key)


def _rightly(first: pd.Series, second: pd.Series, family: Hashable) -> SamplePair:
    """Return how often two rules, or arms, are right in the same games; in shares where any of them has a tie."""
    x, y = first.to_numpy(dtype=float), second.to_numpy(dtype=float)
    ties = ((x > 0) & (x < 1)).any() or ((y > 0) & (y < 1)).any()
    return SamplePair({}, x, y, SHARE if ties else RATE, family=family)


class Martingale(TableMaker):
    """Makes a row per condition and state: how far the share of right answers moves in a turn, in the mean.

    In a martingale ("Debate or Vote", arXiv:2508.17536) that is 0 from any share, also from those below one half
    (`minority`) and above it (`majority`). How many turns a seed has there depends on where they led, so means by
    seed are biased. The sums by seed are not: Student's t is theirs, divided by the turns of a seed in the mean.
    """

    def rows(self, game: Any, trace: Trace) -> list[tuple[str, int, float, float]]:
        """Return the condition, the seed, and the share of right answers before and after each turn of a game."""
        name, seed = game.simulation.condition.name, game.simulation.seed
        shares = [share for entry in last_panel(trace) if (share := entry["measures"]["accuracy"]) is not None]
        return [(name, seed, float(before), float(after)) for before, after in pairwise(shares)]

    def tables(self, rows: Sequence[tuple[str, int, float, float]]) -> dict[str, pd.DataFrame]:
        """Return the table `martingale`."""
        by_name: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
        for name, seed, before, after in rows:
            by_name[name].append((seed, before, after))
        ends = {"any": (-1.0, 2.0), "minority": (-1.0, 0.5), "majority": (0.5, 2.0)}  # between which a share lies
        samples = []
        for condition in self.study.conditions:
            for state, (least, most) in ends.items():
                steps = [
                    (seed, after - before) for seed, before, after in by_name[condition.name] if least < before < most
                ]
                if steps:
                    seeds, changes = zip(*steps, strict=True)
                    sums = np.bincount(np.unique(seeds, return_inverse=True)[1], changes)
                    keys = {**condition.axes, "state": state, "steps": len(steps)}
                    moved = sums * len(sums) / len(steps)
                    samples.append(SamplePair(keys, np.zeros(len(sums)), moved, NUMBER))
        return {"martingale": compare(samples).rename(columns={"pairs": "seeds", "difference": "mean"})}


_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_COSTS = ("requests", *_COUNTS)


class EqualCost(TableMaker):
    """Makes a row per condition whose agents talk and arm; differences from talking are of the same seeds."""

    def rows(self, game: Any, trace: Trace) -> list[dict[str, Any]]:
        """Return what a game of an arm cost and whether its plurality is right; nothing for any other.

        Of independent answers there is a row for each number of first ones, from none at all, of which nothing is
        right; of a talk there is one for its first answers besides. NaN is what nobody counted.
        """
        simulation = game.simulation
        arm = str(simulation.condition.axes.get(ARM_AXIS, NO_ARM))
        if arm == NO_ARM:
            return []
        attempts = game.attempts(self.study.name, ["agent", "round", *_COUNTS]).assign(requests=1.0)
        attempts["cached_tokens"] = attempts["cached_tokens"].fillna(0)
        costs = attempts[list(_COSTS)].to_numpy(dtype=float)
        rights, last = _pluralities(game, trace)
        if arm == INDEPENDENT:
            each = [costs[attempts["agent"] == name].sum(axis=0) for name in game.honest]
            summed = np.cumsum([np.zeros(len(_COSTS)), *each], axis=0)
            paid = [
                (arm, float(number), *both) for number, both in enumerate(zip(summed, [0.0, *rights], strict=True))
            ]
        else:
            paid = [(arm, np.nan, costs.sum(axis=0), last)]
        if arm == TALK:
            paid.append((FIRST, np.nan, costs[attempts["round"] == 0].sum(axis=0), rights[-1]))
        same = {"condition": simulation.condition.name, "seed": simulation.seed, "id": simulation.id}
        return [
            {**same, "arm": arm, "answers": number, "right": right, **dict(zip(_COSTS, cost, strict=True))}
            for arm, number, cost, right in paid
        ]

    def tables(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
        """Return the table `equal_cost`."""
        return {"equal_cost": equal_cost_table(what_counts(rows, self.study), self.study)}

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame | None:
        """Return the chance of each game to be right at equal cost."""
        counts = what_counts(rows, self.study)
        right = counts[counts["arm"] != FIRST].set_index("id")["right"]
        return right.to_frame("right_at_equal_cost")


def _pluralities(game: Any, trace: Trace) -> tuple[Sequence[float], float]:
    """Return the chance that the plurality of the first answers of 1, 2, ... agents is right, and of all last answers.

    The agents are those of the last panel, in the order of `honest`.
    """
    right, turns = game.summary.outcome["metrics"]["right_answer"], last_panel(trace)
    names = [name for name in game.honest if name in turns[0]["answers"]]
    first, last = (values_of(entry, names) for entry in (turns[0], turns[-1]))
    return [chance_right(first[: k + 1], right) for k in range(len(names))], chance_right(last, right)


def what_counts(paid: Sequence[Mapping[str, Any]], study: Any) -> pd.DataFrame:
    """Return a row per game and arm: what of it counts at the cost of talking, and what it `spent` of its `unit`.

    They are the games of seeds whose other game talked; `talk` is the name of that condition.
    """
    games = pd.DataFrame(paid, columns=["condition", "seed", "id", "arm", "answers", "right", *_COSTS])
    parts = [games.iloc[:0].assign(talk="", unit="", spent=0.0, short=np.nan)]
    for talk in study.conditions:
        if talk.axes.get(ARM_AXIS) != TALK:
            continue
        arms = [each.name for each in study.conditions if {**each.axes, ARM_AXIS: TALK} == talk.axes]
        part = games[games["condition"].isin(arms)]
        counted = not part[list(_COSTS)].isna().any(axis=None)
        spent = part["prompt_tokens"] + part["completion_tokens"] if counted else part["requests"]
        talked = part["arm"] == TALK
        budget = part["seed"].map(dict(zip(part.loc[talked, "seed"], spent[talked], strict=True)))
        taken = part["answers"]
        most = taken == part.groupby(["arm", "seed"])["answers"].transform("max")
        short = (most & (spent * (1 + 1 / taken) <= budget)).astype(float).where(taken.notna())  # one more would fit
        part = part.assign(talk=talk.name, unit="tokens" if counted else "requests", spent=spent, short=short)
        parts.append(part[budget.notna() & (taken.isna() | (spent <= budget))].groupby(["arm", "seed"]).tail(1))
    return pd.concat(parts)


def equal_cost_table(counts: pd.DataFrame, study: Any) -> pd.DataFrame:
    """Return a row per condition whose agents talk and arm; differences from `talk` are of the same seeds."""
    conditions = {condition.name: condition for condition in study.conditions}
    rows, samples = [], list[SamplePair | None]()
    for name, group in counts.groupby("talk", sort=False):
        arms = {str(arm): games.set_index("seed") for arm, games in group.groupby("arm", sort=False)}
        for arm, games in arms.items():
            talking = arms[TALK].loc[games.index]
            rows.append(_row(conditions[str(name)], arm, games, talking))
            samples.append(None if arm == TALK else _rightly(talking["right"], games["right"], name))
    return beside(rows, samples)


def _row(talk: Any, arm: str, games: pd.DataFrame, talking: pd.DataFrame) -> dict[str, Any]:
    number, unit = len(games), games["unit"].iloc[0]
    right = float(games["right"].astype(float).mean())
    low, high = wilson_of_mean(right, number)
    tokens = Tokens(*map(int, games[list(_COUNTS)].sum())) if unit == "tokens" else None
    return {
        **{**talk.axes, ARM_AXIS: arm},
        "simulations": number,
        **games[["answers", "short", "requests"]].mean(),
        "unit": unit,
        "tokens": tokens.total / number if tokens else np.nan,
        "money": talk.money(tokens) / number if tokens else np.nan,
        "cost_ratio": games["spent"].sum() / talking["spent"].sum(),
        **{"right": right, "low": low, "high": high},
    }
