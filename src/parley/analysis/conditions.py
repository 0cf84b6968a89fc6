"""The table `conditions`: a row per condition, with the rate of each outcome, its interval, and what it took."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.rates import by_condition
from parley.analysis.simulations import ALL, COLUMNS, DEGENERATE_COUNTS, with_counts
from parley.games.base import Game
from parley.games.evidence import OutcomeClass
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, MEANINGS, WARN_FROM
from parley.policies import FAILURE_CLASSES
from parley.statistics.stats import censored_median, wilson_interval
from parley.study import Study
from parley.study.condition import axes_text

RATE = "degenerate_rate"
_PARTS = ("count", "rate", "low", "high")  # of each outcome in the table of conditions


def impossible_outcomes(study: Study, rows: pd.DataFrame) -> Impossible:
    """Return, by the values of each condition's axes, the names of the outcomes that it cannot have.

    `rows` is the table of simulations. What a simulation ended with can be, whatever the game says: nothing is hidden.
    """
    ended = {key: set(group["outcome"]) for key, group in by_condition(rows, study.axes)}
    every = {outcome.name for outcome in study.game.outcomes}
    impossible = {}
    for condition in study.conditions:
        key = tuple(condition.axes.values())
        impossible[key] = frozenset(every - condition.possible_outcomes - ended.get(key, set()))
    return impossible


def outcomes_of(conditions: pd.DataFrame, game: type[Game], names: Sequence[str] = ()) -> list[OutcomeClass]:
    """Return the outcomes, of these names if there are any, that some of these conditions can have.

    `conditions` are rows of the table of conditions.
    """
    wanted = [outcome for outcome in game.outcomes if not names or outcome.name in names]
    return [outcome for outcome in wanted if conditions[f"{outcome.name}_rate"].notna().any()]


def condition_table(
    rows: pd.DataFrame, by: Sequence[str], game: type[Game], impossible: Impossible = NONE_IMPOSSIBLE
) -> pd.DataFrame:
    """Return a row per condition: axes, `simulations` (the n of every rate), per outcome count, rate, limits.

    An outcome that is `impossible` in a condition has none of the four there: they are missing, not 0.

    `threat_model` says whether the paper allows its adversaries ("none", "paper", "beyond: ...", "unknown: ...").

    `median_rounds` is the Kaplan-Meier median of the rounds until the game stopped, missing where fewer than half
    did. Tokens and calls are means per simulation; failed replies are a share of all calls, degenerate ones of what
    was asked of models.
    """
    table = []
    for values, group in by_condition(rows, by):
        n, never = len(group), impossible.get(values, frozenset())
        row: dict[str, Any] = dict(zip(by, values, strict=True))
        row["threat_model"] = group["threat_model"].iloc[0]
        row["simulations"] = n
        for outcome in game.outcomes:
            count = int((group["outcome"] == outcome.name).sum())
            rate = (count, count / n, *wilson_interval(count, n))
            values_of = (pd.NA, math.nan, math.nan, math.nan) if outcome.name in never else rate
            row |= {f"{outcome.name}_{part}": v for part, v in zip(_PARTS, values_of, strict=True)}
        ended = group["finished_early"].astype(bool)
        row["median_rounds"] = censored_median(group["rounds"].to_list(), ended.to_list())
        row |= {f"mean_{name}": group[name].mean() for name in ("calls", "prompt_tokens", "completion_tokens")}
        row |= {name: int(group[name].sum()) for name in ("failed_replies", *FAILURE_CLASSES)}
        row["failed_reply_rate"] = row["failed_replies"] / group["calls"].sum()
        if ASKED in group:  # some model is asked
            degenerate = {name: group[name].sum(min_count=1) for name in DEGENERATE_COUNTS}
            known = not pd.isna(degenerate[ASKED]) and degenerate[ASKED] > 0
            row |= {**degenerate, RATE: degenerate[ALL] / degenerate[ASKED] if known else math.nan}
        row["engines"] = group["engine"].nunique()
        table.append(row)
    counts = [f"{outcome.name}_count" for outcome in game.outcomes if table]
    return with_counts(pd.DataFrame(table)).astype(dict.fromkeys(counts, "Int64"))


def outcome_table(study: Study, conditions: pd.DataFrame) -> pd.DataFrame:
    """Return a row per condition and outcome that it can have: axes, `simulations`, `count`, `rate`, `low`, `high`.

    Where models are asked, each row also tells the degenerate replies of its condition. Plots are drawn from it: a
    tidy table needs no knowledge of the game's outcomes.
    """
    rows = []
    for condition, (_, row) in zip(study.conditions, conditions.iterrows(), strict=True):
        of = {"condition": axes_text(condition.axes), **condition.axes}
        for outcome in study.game.outcomes:
            values = {part: row[f"{outcome.name}_{part}"] for part in _PARTS}
            if not math.isnan(values["rate"]):
                rate = {"outcome": outcome.name, "simulations": row["simulations"], **values}
                rows.append({**of, **rate, **{name: row[name] for name in (*DEGENERATE_COUNTS, RATE) if name in row}})
    return with_counts(pd.DataFrame(rows))


def print_conditions(table: pd.DataFrame, by: Sequence[str], game: type[Game]) -> str:
    """Return the table of conditions as text: axes, n, and each outcome's rate with its interval in percent.

    Outcomes that no condition can have are left out; what is the same in all rows stands above them. A single
    condition is a line.
    """
    shown, outcomes = table[list(by)].assign(**{"threat model": table["threat_model"]}), outcomes_of(table, game)
    counts = zip(table["simulations"], table["planned"], strict=True)
    shown["simulations"] = [f"{n} of {planned}" if n < planned else str(n) for n, planned in counts]
    for outcome in outcomes:
        cells = []
        for _, row in table.iterrows():
            rate, low, high = (row[f"{outcome.name}_{part}"] for part in ("rate", "low", "high"))
            cells.append("-" if pd.isna(rate) else f"{rate:4.0%} [{100 * low:.0f}, {100 * high:.0f}]")
        shown[outcome.label] = cells
    shown["median rounds"] = ["-" if pd.isna(m) else f"{m:g}" for m in table["median_rounds"]]
    shown["unusable replies"] = [f"{rate:.1%}" for rate in table["failed_reply_rate"]]
    labels = {outcome.label for outcome in outcomes}
    kept = [name for name in shown if len(shown) > 1 and (shown[name].nunique() > 1 or name in labels)]
    alike = ", ".join(f"{name} {str(shown[name].iloc[0]).strip()}" for name in shown if name not in kept)
    if not kept:
        return alike
    return (f"In all rows: {alike}\n" if alike else "") + shown[kept].to_string(index=False)


# Degenerate replies: missing where no record tells them, never 0


def degenerate_warnings(conditions: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return a line for each condition in which at least WARN_FROM of the replies of models are degenerate."""
    if RATE not in conditions:
        return []
    lines = []
    for _, row in conditions[conditions[RATE] >= WARN_FROM].iterrows():
        name = max(DEGENERATE_CLASSES, key=lambda name: row[COLUMNS[name]])
        most = f"{row[COLUMNS[name]] / row[ASKED]:.1%} {name} ({MEANINGS[name]})"
        where = axes_text({axis: row[axis] for axis in by})
        lines.append(f"{where}: {row[RATE]:.1%} of {row[ASKED]} replies of models are degenerate; {most}")
    return lines
