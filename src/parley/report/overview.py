"""The head of the report: the study in a sentence, what was reached, and its warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from parley.games.base import Game
from parley.games.evidence import ARM_AXIS, FIRST, INDEPENDENT
from parley.play.degenerate import REMEDIES
from parley.policies import FAILURE_CLASSES
from parley.report.html import interval_text
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.condition import axes_text
from parley.study.frozen import CHANGED
from parley.text import counted

# What a condition is held against, in words.
_ARMS = {
    FIRST: "its first answers",
    INDEPENDENT: "independent answers",
    "self_correction": "self-correction",
    "placebo": "a placebo",
}
_ACHIEVED = ("reached", "achievable", "promised")
WARN_FAILED = 0.05  # share of calls without a usable reply
_MAX_VALUES = 6  # of an axis in the sentence
_MAX_LINES = 12


@dataclass(frozen=True)
class Warn:
    """One thing that readers should know before they use a number: what it is, why it matters, and where it is so."""

    title: str
    text: str
    lines: Sequence[str] = ()


def study_sentence(study: Study, simulations: int) -> str:
    """Return the study in a sentence: the game, its conditions and what they vary, and what all have in common."""
    first = study.first_repeat.conditions
    values = {axis: list(dict.fromkeys(str(each.axes[axis]) for each in first)) for axis in study.axes}
    varying = "; ".join(f"{axis} {_listed(found)}" for axis, found in values.items() if len(found) > 1)
    alike = axes_text({axis: found[0] for axis, found in values.items() if len(found) == 1})
    game = study.game.name.replace("_", " ")
    what = f"{counted(simulations, 'simulation')} of the game {game} in {counted(len(first), 'condition')}"
    parts = [f"{what}: {varying or alike}"] + ([f"In all: {alike}"] if varying and alike else [])
    return " ".join(filter(None, [f"{'. '.join(parts)}.", study.shortfall]))


def achieved_sentence(achievable: pd.DataFrame, study: Study) -> str:
    """Return how much was reached of what was achievable, from the table of that name; "" where nothing is in it."""
    parts, wanted = [], study.achievable
    for of in study.game.evidence.about("regret"):
        rows = achievable[achievable["measure"] == of.name]
        number = rows["simulations"].sum()
        if of.share and number:
            own, best, promised = ((rows[name] * rows["simulations"]).sum() / number for name in _ACHIEVED)
            where = f"{promised:.0%} of them" if promised else "none"
            promise = "" if wanted else f" (theory promises it in {where})"
            name = wanted.label if wanted else "the best known protocol"
            parts.append(f"{of.label}: {own:.0%}, with {name} {best:.0%}{promise}")
    if not parts:
        return ""
    return f"Of what was achievable with the same seats, values, network and adversaries, {'; '.join(parts)}."


def talking_sentences(rates: pd.DataFrame, equal_cost: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return whether talking was worth it, from the table `equal_cost` for each condition, else from `decision_rates`.

    [""] where nobody talked.
    """
    if equal_cost.empty:
        return [_before_and_after(rates)]
    axes = [axis for axis in by if axis != ARM_AXIS]
    varying = [axis for axis in axes if equal_cost[axis].nunique() > 1]
    groups = [group.to_dict("records") for _, group in equal_cost.groupby(axes, sort=False)]
    return short([_at_equal_cost(rows, axes_text({axis: rows[0][axis] for axis in varying})) for rows in groups], 3)


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


def _before_and_after(rates: pd.DataFrame) -> str:
    """Return whether talking was worth it, from the table `decision_rates`; "" where nobody talked."""
    rows = rates[(rates["voters"] == "honest") & (rates["rule"] == "plurality") & rates["right"].notna()]
    after = rows[rows["answers"] == "last"]
    if after.empty:
        return ""
    number = after["simulations"].sum()
    last = (after["right"] * after["simulations"]).sum() / number
    first = last - (after["difference"] * after["simulations"]).sum() / number
    return (
        f"Was talking worth it? Of {counted(int(number), 'game')} in which agents may talk, the plurality of honest "
        f"agents was right in {first:.0%} with their first answers, and in {last:.0%} with their last."
    )


def _listed(values: Sequence[str]) -> str:
    if all(value.isdecimal() for value in values) and len(values) > 2:
        numbers = sorted(map(int, values))
        if numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{numbers[0]} to {numbers[-1]}"
    if len(values) > _MAX_VALUES:
        return f"{', '.join(values[: _MAX_VALUES - 1])}, ... ({len(values)} values)"
    return f"{', '.join(values[:-1])} or {values[-1]}"


def simulations_text(row: Mapping[Any, Any]) -> str:
    """Return how many simulations a row of the table of conditions is of, and of how many if not of all planned."""
    number, planned = row["simulations"], row["planned"]
    return str(number) if number == planned else f"{number} of {planned}"


def shortfall_warning(study: Study) -> list[Warn]:
    """Return a warning if not all that was planned is played, with the conditions of which nothing is."""
    there = {condition.name for condition in study.conditions}
    unplayed = [axes_text(each.axes) for each in study.whole.first_repeat.conditions if each.name not in there]
    text = (
        f"{study.shortfall} Short games end first, so rates and times will change. Intervals and p values are for one "
        "look: who goes on, or stops, because of them finds differences where there are none."
    )
    lines = short([f"nothing yet of {axes}" for axes in unplayed])
    return [Warn("not all is played", text, lines)] if study.shortfall else []


def failed_warning(conditions: pd.DataFrame, by: Sequence[str]) -> list[Warn]:
    """Return a warning if conditions lack usable replies to at least WARN_FAILED of their calls."""
    lines = []
    for row in conditions[conditions["failed_reply_rate"] >= WARN_FAILED].to_dict("records"):
        most = max(FAILURE_CLASSES, key=lambda name: row[name])
        lines.append(
            f"{axes_text({axis: row[axis] for axis in by})}: {row['failed_reply_rate']:.1%} of the calls, "
            f"{row['failed_replies']} replies, most of them {most} ({row[most]}); what helps: "
            f"{REMEDIES[most]}"
        )
    text = "Agents without a usable reply are silent, and the game goes on by its rule for silence."
    return [Warn("replies that failed", text, short(lines))] if lines else []


def noise_warning(contrasts: pd.DataFrame, game: type[Game], by: Sequence[str]) -> list[Warn]:
    """Return a warning if differences with a small p are within what sampling alone explains."""
    known = contrasts[contrasts["noise"].notna() & (contrasts["p"] < 1 - CONFIDENCE)]
    below = known[known["difference"].abs() <= known["noise"]]
    if below.empty:
        return []
    text = (
        f"{len(below)} of {len(known)} differences with p below {1 - CONFIDENCE:.2f} are no larger than what the same "
        "seeds, played again, differ by from themselves."
    )
    return [Warn("differences below the noise floor", text)]


def seeds_warning(noise: pd.DataFrame, study: Study, by: Sequence[str]) -> list[Warn]:
    """Return a warning if a model gave one prompt at temperature 0 two answers."""
    served = {tuple(c.axes.values()): any(e.is_service for e in c.entries.values()) for c in study.conditions}
    lines = [
        f"{axes_text(dict(zip(by, axes, strict=True)))}: {otherwise} of {asked} requests had another answer: "
        + ("this service does not honor seeds" if served.get(axes) else "its server depends on the batch")
        for *key, otherwise, asked in noise[[*by, "answered_otherwise", "asked_again"]].drop_duplicates().values
        if otherwise and (axes := tuple(key))
    ]
    text = "At temperature 0 one prompt should have one answer: these simulations cannot be repeated by anybody."
    return [Warn("other answers to the same prompt", text, short(lines))] if lines else []


def frozen_warning(state: str) -> list[Warn]:
    """Return a warning if a study is not as it was frozen; `state` says so."""
    text = "Who declares a question or a condition anew after a look at the games can find what is not there."
    return [Warn("not as it was frozen", text, [state])] if CHANGED in state or "edited" in state else []


def short(lines: Sequence[str], most: int = _MAX_LINES) -> list[str]:
    """Return the lines, at most so many, and one that counts the others."""
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return [*lines[:most], *more]
