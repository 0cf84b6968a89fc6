"""What talking bought: the tables `decisions`, `decision_rates`, `martingale` and `equal_cost`, from records alone.

What each rule decides, how talking moves answers, and what a group that talks decides beside what the same tokens buy
otherwise (`compare_with`): of independent answers each game takes the first ones, as many as cost no more than talking
did in the game of the same seed. docs/explanation/talking.md says what the tables mean.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.made_by import money_of
from parley.analysis.rates import by_condition
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import names_of
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.statistics.differences import NUMBER, RATE, SamplePair, beside, compare, selected
from parley.statistics.stats import wilson_interval
from parley.study import Study
from parley.study.condition import ARM_AXIS, NO_ARM, TALK, Condition

_RULE = ("voters", "answers", "rule")
_ANY, _MINORITY, _MAJORITY = "any", "minority", "majority"


def decision_rows(game: PlayedGame, trace: Trace) -> list[dict[str, Any]]:
    """Return the rows of one game: its decision under each rule; none of a game without any."""
    condition = game.simulation.condition
    if (table := condition.game.evidence.table("decisions")) is None:
        return []
    same = {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
    found = table.rows(condition.parameters, game.summary.outcome, game.honest, trace)
    return [
        {**same, "voters": d.voters, "answers": d.answers, "rule": d.rule, "winner": d.value, "right": d.right}
        for d in found
    ]


def decision_rate_table(decisions: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition and rule: how often it decides, and rightly, and the difference from the first rule.

    That is the plurality of first answers, of the same voters: what the group would have decided without talking.
    Differences are of the same games (McNemar), corrected by Holm over the rules of a condition.
    """
    found = [each for key, group in by_condition(decisions, study.axes) for each in _rates(key, group, study.axes)]
    rows, samples = zip(*found, strict=True) if found else ((), ())
    return selected(beside(rows, samples), names_of("decision_rates", study.axes, study.game))


def _rates(
    key: Sequence[Any], group: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], SamplePair | None]]:
    """Yield a row per rule, and whether the first rule is right beside it; nothing beside the first."""
    for _, of_voters in group.groupby("voters", sort=False):
        first: Any = None
        for names, of_rule in of_voters.groupby(list(_RULE), sort=False):
            of_rule = of_rule.set_index("id")
            right: Any = of_rule["right"].astype("Float64").astype(float)
            known, count = int(right.notna().sum()), int((right == 1).sum())
            low, high = wilson_interval(count, known)
            row = dict(zip((*by, *_RULE), (*key, *names), strict=True))
            row |= {"simulations": len(of_rule), "decided": int(of_rule["winner"].notna().sum()) / len(of_rule)}
            row |= {"right": count / known if known else np.nan, "low": low, "high": high}
            if first is None:
                first = right
                yield row, None
            else:
                x, y = first.to_numpy(), right.reindex(first.index).to_numpy()
                yield row, SamplePair({}, x, y, RATE, family=tuple(key))


def steps_of(game: PlayedGame, trace: Trace) -> list[tuple[str, int, float, float]]:
    """Return the condition, the seed, and the share of right answers before and after each turn of a game."""
    condition = game.simulation.condition
    if "accuracy" not in [measure.name for measure in condition.game.evidence.measures]:
        return []
    points = condition.game.evidence.series(game.summary.outcome, trace)["accuracy"]
    shares = [share for _, share in points]
    return [(condition.name, game.simulation.seed, before, after) for before, after in pairwise(shares)]


def martingale_table(steps: Sequence[tuple[str, int, float, float]], study: Study) -> pd.DataFrame:
    """Return a row per condition and state: how far the share of right answers moves in a turn, in the mean.

    In a martingale ("Debate or Vote", arXiv:2508.17536) that is 0 from any share, also from those below one half
    (`minority`) and above it (`majority`). The means are over seeds, whose turns are dependent: Student's t.
    """
    by_name: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for name, *step in steps:
        by_name[name].append(tuple(step))  # type: ignore[arg-type]
    ends = {_ANY: (-1.0, 2.0), _MINORITY: (-1.0, 0.5), _MAJORITY: (0.5, 2.0)}  # between which a share lies
    samples = []
    for condition in study.conditions:
        for state, (least, most) in ends.items():
            moved: dict[int, list[float]] = defaultdict(list)
            for seed, before, after in by_name.get(condition.name, []):
                if least < before < most:
                    moved[seed].append(after - before)
            means = np.array([np.mean(each) for each in moved.values()])
            keys = {**condition.axes, "state": state, "steps": sum(map(len, moved.values()))}
            if means.size:
                samples.append(SamplePair(keys, np.zeros(means.size), means, NUMBER))
    found = compare(samples).rename(columns={"pairs": "seeds", "difference": "mean"})
    return selected(found, names_of("martingale", study.axes, study.game))


# At equal cost


FIRST = "first_answers"  # the arm without a game of its own: what talking agents said before they talked
INDEPENDENT = "independent"
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_COSTS = ("requests", *_COUNTS)


def paid_rows(study: Study, game: PlayedGame, trace: Trace) -> list[dict[str, Any]]:
    """Return what a game of an arm cost and whether its plurality is right; nothing for any other.

    Of independent answers there is a row for each number of first ones, from none at all, of which nothing is right;
    of a talk there is one for its first answers besides. NaN is what nobody counted.
    """
    simulation, table = game.simulation, study.game.evidence.table("equal_cost")
    arm = str(simulation.condition.axes.get(ARM_AXIS, NO_ARM))
    if arm == NO_ARM or table is None:
        return []
    _, rows = read_attempts(simulation.record(study.name), ["agent", "round", *_COUNTS])
    attempts = rows.to_pandas().assign(requests=1.0)
    attempts["cached_tokens"] = attempts["cached_tokens"].fillna(0)
    costs = attempts[list(_COSTS)].to_numpy(dtype=float)
    rights, last = table.rows(game.summary.outcome, list(game.honest), trace)
    if arm == INDEPENDENT:
        each = [costs[attempts["agent"] == name].sum(axis=0) for name in game.honest]
        summed = np.cumsum([np.zeros(len(_COSTS)), *each], axis=0)
        found = [(arm, float(number), *both) for number, both in enumerate(zip(summed, [False, *rights], strict=True))]
    else:
        found = [(arm, np.nan, costs.sum(axis=0), last)]
    if arm == TALK:
        found.append((FIRST, np.nan, costs[attempts["round"] == 0].sum(axis=0), rights[-1]))
    same = {"condition": simulation.condition.name, "seed": simulation.seed, "id": simulation.id}
    return [
        {**same, "arm": arm, "answers": number, "right": right, **dict(zip(_COSTS, cost, strict=True))}
        for arm, number, cost, right in found
    ]


def what_counts(paid: Sequence[Mapping[str, Any]], study: Study) -> pd.DataFrame:
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


def with_equal_cost(rows: pd.DataFrame, counts: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the table of simulations with whether each is right at equal cost, about which questions may ask."""
    right = rows["id"].map(dict(counts.loc[counts["arm"] != FIRST, ["id", "right"]].values))
    return rows.assign(**{indicator.name: right for indicator in study.game.evidence.about("equal_cost")})


def equal_cost_table(counts: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition whose agents talk and arm; differences from `talk` are of the same seeds."""
    conditions = {condition.name: condition for condition in study.conditions}
    rows, samples = [], list[SamplePair | None]()
    for name, group in counts.groupby("talk", sort=False):
        arms = {str(arm): games.set_index("seed") for arm, games in group.groupby("arm", sort=False)}
        for arm, games in arms.items():
            talking = arms[TALK].loc[games.index]
            rows.append(_row(conditions[str(name)], arm, games, talking))
            x, y = (side["right"].to_numpy(dtype=float) for side in (talking, games))
            samples.append(None if arm == TALK else SamplePair({}, x, y, RATE, family=name))
    return selected(beside(rows, samples), names_of("equal_cost", study.axes, study.game))


def _row(talk: Condition, arm: str, games: pd.DataFrame, talking: pd.DataFrame) -> dict[str, Any]:
    number, unit = len(games), games["unit"].iloc[0]
    right = games["right"].astype(int)
    low, high = wilson_interval(int(right.sum()), number)
    tokens = Tokens(*map(int, games[list(_COUNTS)].sum())) if unit == "tokens" else None
    return {
        **{**talk.axes, ARM_AXIS: arm},
        "simulations": number,
        **games[["answers", "short", "requests"]].mean(),
        "unit": unit,
        "tokens": tokens.total / number if tokens else np.nan,
        "money": money_of(talk, tokens) / number if tokens else np.nan,
        "cost_ratio": games["spent"].sum() / talking["spent"].sum(),
        **{"right": right.mean(), "low": low, "high": high},
    }
