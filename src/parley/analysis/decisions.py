"""The tables `decisions`, `decision_rates` and `martingale`: what each rule decides, and how talking moves answers.

They are made from records alone. docs/explanation/talking.md says what they mean.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.columns import names_of
from parley.analysis.differences import count_pairs, rate_differences
from parley.analysis.rates import by_condition
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.stats import holm, paired_mean, wilson_interval
from parley.study import Study

_RULE = ("voters", "answers", "rule")
_ANY, _MINORITY, _MAJORITY = "any", "minority", "majority"
_EVERY = slice(None)


def decision_rows(game: PlayedGame, trace: Trace) -> list[dict[str, Any]]:
    """Return the rows of one game: its decision under each rule; none of a game without any."""
    condition = game.simulation.condition
    same = {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
    found = condition.game.evidence.decisions(condition.parameters, game.summary.outcome, game.honest, trace)
    return [
        {**same, "voters": d.voters, "answers": d.answers, "rule": d.rule, "winner": d.value, "right": d.right}
        for d in found
    ]


def decision_table(rows: Sequence[Mapping[str, Any]], study: Study) -> pd.DataFrame:
    """Return the rows of all games as a table."""
    table = pd.DataFrame(rows, columns=names_of("decisions", study.axes, study.game))
    return table.astype({"right": "boolean"})


def decision_rate_table(decisions: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition and rule: how often it decides, and rightly, and the difference from the first rule.

    That is the plurality of first answers, of the same voters: what the group would have decided without talking.
    Differences are of the same games (McNemar), corrected by Holm over the rules of a condition.
    """
    table = [row for key, group in by_condition(decisions, study.axes) for row in _rates(key, group)]
    return pd.DataFrame(table, columns=names_of("decision_rates", study.axes, study.game))


def _rates(key: Sequence[Any], group: pd.DataFrame) -> Iterator[list[Any]]:
    rows = []
    for _, of_voters in group.groupby("voters", sort=False):
        first: Any = None
        for names, of_rule in of_voters.groupby(list(_RULE), sort=False):
            of_rule = of_rule.set_index("id")
            decided = int(of_rule["winner"].notna().sum())
            right = of_rule["right"].astype("Int8").fillna(-1)
            known = int((right >= 0).sum())
            first = right if first is None else first
            numbers = [len(of_rule), decided / len(of_rule)]
            count = int((right == 1).sum())
            rate = [count / known if known else np.nan, *wilson_interval(count, known)]
            x, y = (side.reindex(first.index, fill_value=-1).to_numpy(dtype=np.int8) for side in (first, right))
            found = rate_differences(count_pairs(x, y, _EVERY, _EVERY)[np.newaxis])
            compared = [float(found[name][0]) for name in ("difference", "low", "high", "p")]
            rows.append([*key, *names, *numbers, *rate, *(compared if right is not first else [np.nan] * 4)])
    for row, p in zip(rows, holm([row[-1] for row in rows]).tolist(), strict=True):
        yield [*row, p]


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
    table = []
    for condition in study.conditions:
        for state, (least, most) in ends.items():
            moved: dict[int, list[float]] = defaultdict(list)
            for seed, before, after in by_name.get(condition.name, []):
                if least < before < most:
                    moved[seed].append(after - before)
            means = np.array([np.mean(each) for each in moved.values()])
            if means.size:
                low, high, p = paired_mean(np.zeros(means.size), means)
                number = sum(map(len, moved.values()))
                table.append([*condition.axes.values(), state, means.size, number, float(means.mean()), low, high, p])
    return pd.DataFrame(table, columns=names_of("martingale", study.axes, study.game))
