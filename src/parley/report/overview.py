"""What was played, in words, and what was reached of what could be."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley.games.evidence import ANY, ARM_AXIS, FIRST, INDEPENDENT
from parley.report.html import Row, estimate, interval_text
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.condition import SCRIPTED, axes_text
from parley.text import counted

# What a condition is held against, in words.
_ARMS = {
    FIRST: "its first answers",
    INDEPENDENT: "independent answers",
    "self_correction": "self-correction",
    "placebo": "a placebo",
}
_MAX_LINES = 12
_MAX_SCRIPTS = 3


def played_sentences(study: Study, simulations: pd.DataFrame) -> str:
    """Return what agents do, how many games were played, when, and by whom they were answered."""
    scripted = simulations["engine"] == SCRIPTED
    by = [f"{number:,} by {name}" for name, number in simulations.loc[~scripted, "model"].value_counts().items()]
    if scripted.any():
        names = simulations.loc[scripted, "model"].unique()
        others = ", ..." * (len(names) > _MAX_SCRIPTS)
        by.append(f"{scripted.sum():,} by scripts ({', '.join(names[:_MAX_SCRIPTS])}{others})")
    days = sorted({day[:10] for day in simulations["started"] if day})
    when = f" ({' to '.join(dict.fromkeys([days[0], days[-1]]))})" if days else ""
    played = f"{counted(len(simulations), 'game')} in {counted(len(study.shown.conditions), 'condition')}"
    return f"{study.game.does} {played} were played{when}: {', '.join(by)}. {study.shortfall}".strip()


def achieved_sentences(achievable: pd.DataFrame, study: Study) -> list[str]:
    """Return how much was reached of what was achievable, in how many games, and of whom."""
    games, sentences = "", list[str]()
    for of in study.game.evidence.about("regret"):
        mine = achievable[achievable["measure"] == of.name]
        if of.share and (number := int(mine["simulations"].sum())):
            reached, with_best, promised = (
                f"{(mine[name] * mine['simulations']).sum() / number:.0%}"
                for name in ("reached", "achievable", "promised")
            )
            games = f"Of {counted(number, 'game')} of {', '.join(mine['model'].unique())}:"
            what = of.label.removeprefix("games ").removeprefix("that ").capitalize()
            best = f"with the best known protocol {with_best}; theory promises it in {promised}"
            sentences.append(f"{what}: {reached}; {best}.")
    return [games, *sentences] if sentences else []


def talking_sentences(equal_cost: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return for each condition whether talking was worth it, from the table `equal_cost`."""
    if equal_cost.empty:
        return []
    axes = [axis for axis in by if axis != ARM_AXIS]
    varying = [axis for axis in axes if equal_cost[axis].nunique() > 1]
    groups = [group.to_dict("records") for _, group in equal_cost.groupby(axes, sort=False)]
    return short([_at_equal_cost(rows, axes_text({axis: rows[0][axis] for axis in varying})) for rows in groups])


def votes_sentences(votes: pd.DataFrame, conformity: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return, by condition, how many independent votes answers are worth, and how often agents give way to others."""
    varying = [axis for axis in by if len(votes) and votes[axis].nunique() > 1]

    def where(row: Row) -> str:
        told = axes_text({axis: row[axis] for axis in varying})
        return told and f"With {told}: "

    sentences = []
    for _, rows in votes[votes["effective"].notna()].groupby(list(by), sort=False):
        first, *_ = told = rows.to_dict("records")
        worth = [f"{estimate('effective', '.1f')(row)} with their {row['answers']} answers" for row in told]
        sentences.append(f"{where(first)}{first['voters']} agents are worth {', '.join(worth)}, in independent votes.")
    gave = estimate("gave_way", "z.0f", scale=100, unit="%")
    misled = estimate("misled", "z.0f", "misled_low", "misled_high", scale=100, unit="%")
    ways = [
        f"{where(row)}{gave(row)} of the answers that others were against were given up for theirs, of right ones "
        f"{misled(row)} for a wrong one."
        for row in conformity[(conformity["faced"] == ANY) & (conformity["answers"] > 0)].to_dict("records")
    ]
    return [*short(sentences), *short(ways)]


def _at_equal_cost(rows: Sequence[Mapping[Any, Any]], where: str) -> str:
    talk, *arms = rows
    better, worse, unsure = (
        ", ".join(
            _ARMS[row["arm"]] for row in arms if sign == (row["p_holm"] < 1 - CONFIDENCE) * np.sign(row["difference"])
        )
        for sign in (-1, 1, 0)
    )
    if worse:
        answer = f"No: more often right are {worse}"
    elif not better:
        answer = "These games cannot tell"
    elif unsure:
        answer = f"In part: it is right more often than {better}; it cannot be told from {unsure}"
    else:
        answer = "Yes: it is right more often than all that it is held against"
    money = "" if pd.isna(talk["money"]) else f" and {talk['money']:.3g} in money"
    return (
        f"Was talking worth it{where and f' with {where}'}? {answer}. After talking, the plurality is right in "
        f"{talk['right']:.0%} of {counted(talk['simulations'], 'game')}, for {talk[talk['unit']]:,.0f} {talk['unit']}"
        f"{money} a game. Its gain is {'; '.join(map(_gain, arms))}."
    )


def _gain(row: Mapping[Any, Any]) -> str:
    """Return the gain of talking over an arm, and what that cost; the table has the arm less talking."""
    ends = [0 - row[name] for name in ("difference", "difference_high", "difference_low")]
    taken = "" if pd.isna(row["answers"]) else f", {row['answers']:.3g} answers a game"
    few = f"; in {row['short']:.0%} of the games all of them cost less than talking" if row["short"] > 0 else ""
    gain = interval_text(ends, "+z.0f", scale=100, unit=" points")
    return f"{gain} over {_ARMS[row['arm']]} ({row['cost_ratio']:.0%} of the cost{taken}{few})"


def short(lines: Sequence[str]) -> list[str]:
    """Return the lines, at most _MAX_LINES, and one that counts the others."""
    more = [f"and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
    return [*lines[:_MAX_LINES], *more]
