"""What `parley plan` says of a study before it runs: what its questions can find, the seeds that takes, and the costs.

Power is that of the tests that `parley.analysis.questions` makes, at the first level of Holm's correction (0.05 by
the number of comparisons): that much a question has, whatever comes of the others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from parley.analysis.costs import UNKNOWN, Cost, Costs, played
from parley.analysis.power import (
    Rates,
    correlation,
    pairs_needed,
    power_of_differences,
    power_of_rates,
    smallest_found,
)
from parley.analysis.questions import Pairs, all_pairs
from parley.analysis.simulations import simulation_row
from parley.analysis.stats import CONFIDENCE, wilson_of_mean
from parley.play.record import Summary
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.study.questions import Comparison

PILOT = 20  # pairs that a correlation, a rate or a spread is taken from; fewer say too little
TARGETS = (0.8, 0.9)
_SEEDS = (5, 10, 25, 50, 100, 200, 400)
_RATES = (0.5, 0.9)
_DEFAULT_RATE = 0.5
Records = Sequence[tuple[Simulation, Summary]]


@dataclass(frozen=True)
class Planned:
    """One comparison with what is assumed of it: `power(pairs, difference, alpha)` is None if nothing is known."""

    comparison: Comparison
    first: float  # rate of the first condition; NaN for quantities
    difference: float  # that is to be found
    pairs: int  # of records, that say how they correlate, or differ; 0 where too few
    correlation: float
    basis: str
    power: Callable[[int, float, float], float] | None


def level(study: Study) -> float:
    """Return the level of a question's test: the first of Holm's steps."""
    return (1 - CONFIDENCE) / max(1, len(study.comparisons))


def planned(study: Study, records: Records, base: float | None = None) -> list[Planned]:
    """Return what is assumed of each comparison; `records` are a pilot's, `base` is a rate of all first conditions."""
    rows = pd.DataFrame([simulation_row(*record) for record in records])
    by = [*study.axes, "seed"]
    # Another study may lack an axis, or have played the same.
    rows = pd.DataFrame() if any(name not in rows for name in by) else rows.dropna(subset=by).drop_duplicates(by)
    return [_planned(comparison, pairs, base) for comparison, pairs in all_pairs(rows, study)]


def _planned(comparison: Comparison, pairs: Pairs, base: float | None) -> Planned:
    question, number = comparison.question, len(pairs.first)
    if comparison.kind == "quantity":
        differences = pairs.second - pairs.first
        if number < PILOT or not differences.std():
            basis = f"spread unknown: needs {PILOT} pairs of a pilot that differ ({number} there)"
            return Planned(comparison, math.nan, question.smallest, 0, math.nan, basis, None)

        def by_samples(n: int, difference: float, alpha: float) -> float:
            return power_of_differences(n, differences, difference, alpha)

        basis = f"spread of {number} pairs"
        return Planned(comparison, math.nan, question.smallest, number, math.nan, basis, by_samples)
    pilot = number >= PILOT
    phi = correlation(*pairs.counts) if pilot else 0.0
    if base is not None:
        first, said = base, f"rate {base:g} as given"
    elif question.expected is not None:
        first, said = question.expected[0], "rates as expected"
    elif pilot:
        first, said = float(pairs.first.mean()), f"rate of {number} pairs"
    else:
        first, said = _DEFAULT_RATE, f"rate {_DEFAULT_RATE:g}, the hardest"
    if base is None and question.expected is not None:
        difference = question.expected[1] - first
    else:  # towards a half, where rates vary most
        difference = question.smallest if first + question.smallest <= 1 and first <= 0.5 else -question.smallest
    paired = f"correlation of {number} pairs" if pilot else "pairs independent: no pilot"

    def by_counts(n: int, difference: float, alpha: float) -> float:
        second = first + difference
        return power_of_rates(n, Rates(first, second, phi), alpha) if -1e-9 <= second <= 1 + 1e-9 else 0.0

    return Planned(comparison, first, difference, number * pilot, phi, f"{said}; {paired}", by_counts)


def plan_table(study: Study, plans: Sequence[Planned], costs: Costs) -> pd.DataFrame:
    """Return a row per comparison: what is assumed, its power as planned, what can be found, and what that costs."""
    return pd.DataFrame([_row(plan, level(study), costs) for plan in plans])


def _row(plan: Planned, alpha: float, costs: Costs) -> dict[str, Any]:
    comparison, alone = plan.comparison, 1 - CONFIDENCE
    counts = comparison.seeds()
    pairs, strata = sum(counts), len(comparison.strata)
    row: dict[str, Any] = {
        "question": comparison.question.name,
        "what": comparison.question.outcome,
        "axis": comparison.question.compare,
        "from": comparison.values[0],
        "to": comparison.values[1],
        "strata": strata,
        "seeds": max(counts),
        "pairs": pairs,
        "rate_from": plan.first,
        "difference": plan.difference,
        "correlation": plan.correlation,
        "level": alpha,
        "basis": plan.basis,
        "power": math.nan,
        "power_alone": math.nan,
        "power_one_stratum": math.nan,
        "smallest_80": math.nan,
        "seeds_80": pd.NA,
        "seeds_90": pd.NA,
    }
    if plan.power is not None:
        power, difference = plan.power, plan.difference
        row["power"], row["power_alone"] = power(pairs, difference, alpha), power(pairs, difference, alone)
        row["power_one_stratum"] = power(max(counts), difference, alone)
        row["smallest_80"] = _smallest(plan, pairs, alpha)
        for target in TARGETS:
            needed = pairs_needed(lambda n: power(n, difference, alpha), target, strata, _most(plan))
            row[f"seeds_{100 * target:.0f}"] = pd.NA if needed is None else needed // strata
    return row | _costs(comparison, row["seeds_80"], costs)


def _most(plan: Planned) -> int:
    return 20_000 if plan.comparison.kind == "quantity" else 100_000


def _smallest(plan: Planned, pairs: int, alpha: float) -> float:
    """Return the smallest difference found with 80%, in the direction of the one that is to be found; NaN for none."""
    sign = math.copysign(1.0, plan.difference)
    if plan.comparison.kind == "quantity":
        most = 100 * abs(plan.difference)
    else:
        most = 1 - plan.first if sign > 0 else plan.first

    def power(difference: float) -> float:
        assert plan.power is not None
        return plan.power(pairs, sign * difference, alpha)

    found = smallest_found(power, most)
    return math.nan if found is None else found


def _costs(comparison: Comparison, seeds: Any, costs: Costs) -> dict[str, Any]:
    conditions = list({condition.path: condition for pair in comparison.strata for condition in pair}.values())
    now = total_cost(conditions, costs)[0]
    each = sum((costs.of(condition)[0] for condition in conditions), Cost())
    then = each * (math.nan if pd.isna(seeds) else float(seeds))
    parts = ("tokens", "hours", "gpu_hours", "money")
    return {
        "conditions": len(conditions),
        "simulations": sum(len(condition.seeds) for condition in conditions),
        **{name: getattr(now, name) for name in parts},
        **{f"{name}_80": getattr(then, name) for name in parts},
    }


def total_cost(conditions: Sequence[Condition], costs: Costs) -> tuple[Cost, dict[str, list[str]]]:
    """Return what all simulations of some conditions take, and which models are known from what."""
    total, known = Cost(), dict[str, list[str]]()
    for condition in conditions:
        cost, source = costs.of(condition)
        total += cost * len(condition.seeds)
        if condition.models and condition.engine not in known.setdefault(source, []):
            known[source].append(condition.engine)
    return total, known


def width_table(study: Study) -> pd.DataFrame:
    """Return how wide Wilson's interval of an outcome's rate is by the number of seeds, at rates of 50% and 90%."""
    own = {len(condition.seeds) for condition in study.conditions}
    rows = []
    for seeds in sorted({*_SEEDS, *own}):
        low, high = wilson_of_mean(list(_RATES), [seeds] * len(_RATES))
        widths = {f"width_at_{100 * rate:.0f}": float(w) for rate, w in zip(_RATES, high - low, strict=True)}
        rows.append({"seeds": seeds, "of_the_study": seeds in own, **widths})
    return pd.DataFrame(rows)


def pilot(study: Study, other: Study | None) -> Records:
    """Return the records that assumptions and costs are taken from: those of the study, and of another one."""
    return [*played(study), *(played(other) if other is not None else [])]


__all__ = ["UNKNOWN", "Planned", "level", "pilot", "plan_table", "planned", "total_cost", "width_table"]
