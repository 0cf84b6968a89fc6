"""What `parley plan` prints."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from parley import paths
from parley.analysis.forks import without_effect
from parley.analysis.made_by import ESTIMATED, PER_AGENT, SCRIPTED, UNKNOWN, Costs, played
from parley.analysis.planning import Planned, plan_table, planned, total_cost
from parley.analysis.registration import registered_lines
from parley.analysis.simulations import simulation_row
from parley.files import keep_only, write_atomically
from parley.play.degenerate import REMEDIES
from parley.play.forks import forks_line
from parley.study import Study
from parley.study.prompt_sent import too_long
from parley.text import one_line, table

_PARTS = ("tokens", "hours", "gpu_hours", "money")


class Plan:
    """What the questions of a study can find and what it takes, by its own records and those of another study."""

    def __init__(self, study: Study, other: Study | None) -> None:
        self._study, self._own = study, played(study)
        records = [*self._own, *(played(other) if other is not None else [])]
        self._costs, self._plans = Costs(records), planned(study, records)
        self._too_long = too_long(study)
        self._table = plan_table(study, self._plans)

    def write(self) -> list[str]:
        """Write the table of the questions, if there are any, and return its path. Raises RecordError."""
        path = paths.plan(self._study.name)
        keep_only([path] if self._plans else [], paths.listing(path.parent))
        if not self._plans:
            return []
        write_atomically(path, lambda file: file.write(self._table.to_csv(index=False).encode()))
        return [str(path)]

    def registered(self) -> Iterator[str]:
        """Yield whether the questions of a study that was played were frozen before its games, each answer once."""
        rows = pd.DataFrame([simulation_row(*each) for each in self._own])
        yield from registered_lines(rows, self._study) if self._own else ()

    def lines(self) -> Iterator[str]:
        """Yield all of it as text."""
        yield from _questions(self._plans, self._table) if self._plans else ["no question is declared"]
        yield ""
        yield from _costs(self._study, self._costs)
        yield from filter(None, [forks_line(self._study), without_effect(self._study)])
        for each in self._too_long:
            yield one_line(
                f"{each.model}: its context of {each.context:,} tokens may be too small from n = {each.n} on in round "
                f"{each.round} (prompt {each.prompt}: about {each.tokens:,} tokens with its reply, if all replies are "
                f"as long as they may be); change {REMEDIES['prompt_too_long']}, or max_tokens"
            )
        yield ""


def _questions(plans: list[Planned], found: pd.DataFrame) -> Iterator[str]:
    header = ("question", "compared", "pairs", "difference", "power", "80% finds", "seeds", "for 80%")
    rows = []
    for plan, row in zip(plans, found.to_dict("records"), strict=True):
        rate, difference = row["rate_from"], row["difference"]
        share = not math.isnan(rate)
        rows.append(
            [
                one_line(row["question"]),
                one_line(plan.comparison.text),
                _pairs(row),
                f"{rate:.1%} -> {rate + difference:.1%}" if share else f"{difference:g}",
                "?" if plan.assumed is None else f"{row['power']:.0%}",
                "?" if plan.assumed is None else _found(row["smallest_80"], share),
                str(row["seeds"]),
                _count(row["seeds_80"], plan),
            ]
        )
    yield from table(header, rows)
    if len(plans) > 1:
        level = found["level"][0]
        yield f"power: of p < {level:.2g}, the first step of Holm's correction over {len(plans)} comparisons"
    for plan in plans:
        yield one_line(f"{plan.comparison.label}: {plan.basis}")


def _costs(study: Study, costs: Costs) -> Iterator[str]:
    cost, known = total_cost(study.conditions, costs)
    header = ("what it takes", "simulations", "tokens", "engine hours", "GPU hours", "money")
    simulations = f"{sum(len(condition.seeds) for condition in study.conditions):,}"
    rows = [["the study as it is", simulations, *(_number(getattr(cost, part)) for part in _PARTS)]]
    if ESTIMATED in known:
        most, _ = total_cost(study.conditions, costs, at_most=True)
        rows.append(["the study, at most", simulations, *(_number(getattr(most, part)) for part in _PARTS)])
    yield from table(header, rows)
    if UNKNOWN in known:
        yield one_line(
            f"?: no record says what {', '.join(known[UNKNOWN])} takes; play some simulations, or name with --from a "
            "study that did"
        )
    if ESTIMATED in known:
        yield one_line(
            f"{', '.join(known[ESTIMATED])}: no record, so for games that last as long as they may, and replies of a "
            "quarter of max_tokens (at most: of all of them, each asked for again as often as it may be)"
        )
        if math.isnan(cost.hours):
            slow, slowest = (_number(of.tokens / 3.6e6) for of in (cost, most))
            yield f"at 1,000 tokens a second, in and out, one server takes {slow} hours, at most {slowest}"
    for source, models in known.items():
        if source not in (UNKNOWN, ESTIMATED):
            rough = " (rough: prompts grow with the group)" if source == PER_AGENT else ""
            yield one_line(f"{', '.join(models)}: by records of {source}{rough}")
    if known.keys() - {UNKNOWN, ESTIMATED}:
        yield "hours: as if one server answered at the pace of those records; money: by the prices in models.yaml"
    elif not known:
        yield f"{SCRIPTED}: nothing is paid for"


def _pairs(row: dict[Any, Any]) -> str:
    strata, seeds, pairs = row["strata"], row["seeds"], row["pairs"]
    return f"{strata} x {seeds}" if strata * seeds == pairs else str(pairs)


def _number(value: Any) -> str:
    if pd.isna(value):
        return "?"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _found(value: float, share: bool) -> str:
    if math.isnan(value):
        return "none"
    return f"{100 * value:.1f} points" if share else f"{value:.3g}"


def _count(value: Any, plan: Planned) -> str:
    if plan.assumed is None:
        return "?"
    return "too many" if pd.isna(value) else f"{value:,.0f}"
