"""The table `equal_cost`: what a group that talks decides, beside what the same tokens buy otherwise (`compare_with`).

Of independent answers each game takes the first ones: as many as cost no more than talking did in the game of the same
seed. docs/explanation/talking.md says what the rows mean.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.columns import names_of
from parley.analysis.costs import money_of
from parley.analysis.differences import count_pairs, rate_differences
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.stats import holm, wilson_interval
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study
from parley.study.condition import ARM_AXIS, NO_ARM, TALK, Condition

FIRST = "first_answers"  # the arm without a game of its own: what talking agents said before they talked
INDEPENDENT = "independent"
_EVERY = slice(None)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_COSTS = ("requests", *_COUNTS)


def paid_rows(study: Study, game: PlayedGame, trace: Trace) -> list[dict[str, Any]]:
    """Return what a game of an arm cost and whether its plurality is right; nothing for any other.

    Of independent answers there is a row for each number of first ones, from none at all, of which nothing is right;
    of a talk there is one for its first answers besides. NaN is what nobody counted.
    """
    simulation = game.simulation
    arm = str(simulation.condition.axes.get(ARM_AXIS, NO_ARM))
    if arm == NO_ARM:
        return []
    _, rows = read_attempts(simulation.record(study.name), ["agent", "round", *_COUNTS])
    attempts = rows.to_pandas().assign(requests=1.0)
    attempts["cached_tokens"] = attempts["cached_tokens"].fillna(0)
    costs = attempts[list(_COSTS)].to_numpy(dtype=float)
    rights, last = simulation.condition.game.evidence.pluralities(game.summary.outcome, list(game.honest), trace)
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
    indicator, played = study.game.evidence.at_equal_cost, counts[counts["arm"] != FIRST]
    return rows.assign(**{indicator.name: rows["id"].map(dict(played[["id", "right"]].values))}) if indicator else rows


def equal_cost_table(counts: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition whose agents talk and arm; differences from `talk` are of the same seeds."""
    conditions = {condition.name: condition for condition in study.conditions}
    table = []
    for name, group in counts.groupby("talk", sort=False):
        arms = {str(arm): games.set_index("seed") for arm, games in group.groupby("arm", sort=False)}
        rows = [_row(conditions[str(name)], arm, games, arms[TALK]) for arm, games in arms.items()]
        corrected = holm([row["p"] for row in rows]).tolist()
        table += [{**row, "p_holm": p} for row, p in zip(rows, corrected, strict=True)]
    return pd.DataFrame(table, columns=names_of("equal_cost", study.axes, study.game))


def _row(talk: Condition, arm: str, games: pd.DataFrame, talking: pd.DataFrame) -> Mapping[str, Any]:
    talking, number, unit = talking.loc[games.index], len(games), games["unit"].iloc[0]
    x, y = (side["right"].to_numpy(dtype=np.int8) for side in (talking, games))
    low, high = map(float, wilson_interval(int(y.sum()), number))
    found = rate_differences(count_pairs(x, y, _EVERY, _EVERY)[np.newaxis])
    compared = {"difference": "difference", "difference_low": "low", "difference_high": "high", "p": "p"}
    tokens = Tokens(*map(int, games[list(_COUNTS)].sum())) if unit == "tokens" else None
    return {
        **{**talk.axes, ARM_AXIS: arm},
        "simulations": number,
        **games[["answers", "short", "requests"]].mean(),
        "unit": unit,
        "tokens": tokens.total / number if tokens else np.nan,
        "money": money_of(talk, tokens) / number if tokens else np.nan,
        "cost_ratio": games["spent"].sum() / talking["spent"].sum(),
        **{"right": y.mean(), "low": low, "high": high},
        **{name: np.nan if arm == TALK else float(found[of][0]) for name, of in compared.items()},
    }
