"""What `parley plan` says of a study before it runs: what its questions can find, the seeds that takes, and its costs.

Power is that of the tests that `parley.analysis.questions` makes, at the first level of Holm's correction (0.05 by
the number of comparisons): that much a question has, whatever comes of the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from parley.analysis.contrasts import REPEAT
from parley.analysis.made_by import ESTIMATED, Cost, Costs
from parley.analysis.questions import Pairs, all_pairs
from parley.analysis.simulations import simulation_row
from parley.play.record import Summary
from parley.statistics.power import (
    MAX_PAIRS,
    Rates,
    correlation,
    pairs_needed,
    power_of_differences,
    power_of_pooled,
    power_of_rates,
    smallest_found,
)
from parley.statistics.stats import CONFIDENCE, Floats
from parley.study import Study
from parley.study.comparisons import Comparison
from parley.study.condition import Condition, Simulation

PILOT = 20  # pairs that a correlation, a rate or a spread is taken from; fewer say too little
_MAX_SIMULATED = 20_000  # pairs
Records = Sequence[tuple[Simulation, Summary]]


@dataclass(frozen=True)
class AssumedRates:
    """Rates that are to be told apart; `first` is None for those about a half. Strata of a seed are independent."""

    first: float | None
    difference: float
    correlation: float
    strata: int

    @property
    def rates(self) -> Rates:
        """Both rates, as far apart as there is room."""
        first = 0.5 - self.difference / 2 if self.first is None else self.first
        return Rates(first, min(max(first + self.difference, 0.0), 1.0), self.correlation)

    def power(self, pairs: int, alpha: float) -> float:
        """Return the probability to find the difference in so many pairs, over all strata."""
        if self.strata == 1:
            return power_of_rates(pairs, self.rates, alpha)
        return power_of_pooled(pairs // self.strata, self.strata, self.rates, alpha)


@dataclass(frozen=True)
class AssumedNumbers:
    """Numbers whose differences vary, by seed, as these do."""

    differences: Floats
    difference: float
    strata: int
    share: bool

    def power(self, pairs: int, alpha: float) -> float:
        """Return the probability to find the difference in so many pairs, over all strata."""
        return power_of_differences(pairs // self.strata, self.differences, self.difference, alpha, self.share)


Assumed = AssumedRates | AssumedNumbers


@dataclass(frozen=True)
class Planned:
    """One comparison with what is assumed of it: None if nothing is known."""

    comparison: Comparison
    pairs: int  # of records, that say how they correlate, or differ; 0 where too few
    basis: str
    assumed: Assumed | None = None


def level(study: Study) -> float:
    """Return the level of a question's test: the first of Holm's steps."""
    return (1 - CONFIDENCE) / max(1, len(study.comparisons))


def planned(study: Study, records: Records) -> list[Planned]:
    """Return what is assumed of each comparison; `records` are a pilot's."""
    if not any(comparison.averaged for comparison in study.comparisons):
        records = [(simulation, summary) for simulation, summary in records if not simulation.condition.repeat]
    repeats = [simulation.condition.repeat or 0 for simulation, _ in records]
    rows = pd.DataFrame([simulation_row(*record) for record in records]).assign(**{REPEAT: repeats})
    by = [*study.axes, "seed", REPEAT]
    # Another study may lack an axis, or have played the same.
    rows = pd.DataFrame() if any(name not in rows for name in by) else rows.dropna(subset=by).drop_duplicates(by)
    return [_planned(comparison, pairs) for comparison, pairs in all_pairs(rows, study)]


def _planned(comparison: Comparison, pairs: Pairs) -> Planned:
    as_rates = comparison.share and not comparison.between  # which vary at least as much, where no pilot is
    if comparison.of_numbers and not (as_rates and len(pairs.first) < PILOT):
        return _of_numbers(comparison, pairs)
    return _of_rates(comparison, pairs)


def _of_numbers(comparison: Comparison, pairs: Pairs) -> Planned:
    """Return what is assumed of numbers: that pairs differ as those of the pilot, but for their mean."""
    strata = len(comparison.strata)
    differences, unit = (pairs.by_seed[0], "seeds") if strata > 1 else (pairs.second - pairs.first, "pairs")
    number = len(differences)
    if number < PILOT or not differences.std():
        lacks = f"none of the pilot's {number} {unit} differs from another"
        if number < PILOT:
            lacks = f"needs {PILOT} {unit} of a pilot ({number} there)"
        return Planned(comparison, 0, f"spread unknown: {lacks}")
    assumed = AssumedNumbers(differences, comparison.question.smallest, strata, comparison.share)
    basis = f"spread of {number} {unit}" + "; as with the pilot's repeats" * comparison.averaged
    return Planned(comparison, number, basis, assumed)


def _of_rates(comparison: Comparison, pairs: Pairs) -> Planned:
    """Return what is assumed of rates: the first of them, the difference, and how pairs correlate."""
    number, strata = len(pairs.first), len(comparison.strata)
    pilot = number >= PILOT
    phi = correlation(*pairs.counts) if pilot else 0.0
    first, difference, said = _told(comparison, float(pairs.first.mean()) if pilot else None, number)
    within = all(one is other for one, other in comparison.strata)
    alone = "outcomes of one simulation" if within else "pairs"
    paired = f"correlation of {number} pairs" if pilot else f"{alone} independent: no pilot"
    if within and comparison.kinds == ("outcome", "outcome"):  # a simulation ends in one way: never in both
        phi, paired = -1.0, "no simulation ends both ways"
    several = "; strata of a seed independent" * (strata > 1)
    several += "; varies at most as a rate" * (comparison.kind == "quantity")
    basis = f"{said}; {paired}{several}" + "; as with one repeat" * comparison.averaged
    return Planned(comparison, number * pilot, basis, AssumedRates(first, difference, phi, strata))


def _told(comparison: Comparison, played: float | None, number: int) -> tuple[float | None, float, str]:
    """Return the first rate, the difference, and whence they are; no rate: those about a half.

    `played` is the first rate of so many pairs of a pilot.
    """
    question, smallest = comparison.question, comparison.question.smallest
    if question.expected is not None:
        return question.expected[0], question.expected[1] - question.expected[0], "rates as expected"
    if played is not None and smallest <= max(played, 1 - played) + 1e-9:
        # Towards a half, where rates vary most.
        return played, smallest if played <= 0.5 else -smallest, f"rate of {number} pairs"
    more = "" if played is None else f", as that of {number} pairs leaves no room"
    # Of all pairs of rates that differ by as much these vary most.
    return None, smallest, f"rates about one half, the hardest{more}"


def plan_table(study: Study, plans: Sequence[Planned]) -> pd.DataFrame:
    """Return a row per comparison: what is assumed, its power as planned, what can be found, and with how many seeds.

    Strata count alike, so one of few seeds says how much is known: all are taken to have as few.
    """
    return pd.DataFrame([_row(study, plan) for plan in plans])


def _row(study: Study, plan: Planned) -> dict[str, Any]:
    comparison, assumed, alpha = plan.comparison, plan.assumed, level(study)
    strata = len(comparison.strata)
    pairs = min(comparison.seeds) * strata
    power = smallest = math.nan
    needed = None
    if assumed is not None:
        exact = isinstance(assumed, AssumedRates) and strata == 1
        most = MAX_PAIRS if exact else _MAX_SIMULATED
        needed = pairs_needed(lambda n: assumed.power(n, alpha), strata, most)
        power, smallest = assumed.power(pairs, alpha), _smallest(assumed, pairs, alpha)
    rates = assumed.rates if isinstance(assumed, AssumedRates) else Rates(math.nan, math.nan, math.nan)
    return {
        "question": comparison.question.name,
        "what": comparison.what,
        "axis": comparison.axis,
        "from": comparison.values[0],
        "to": comparison.values[1],
        "strata": strata,
        "seeds": max(comparison.seeds),
        "pairs": sum(comparison.seeds),
        "power": power,
        "smallest_80": smallest,
        "rate_from": rates.first,
        "difference": comparison.question.smallest if assumed is None else assumed.difference,
        "correlation": rates.correlation,
        "level": alpha,
        "basis": plan.basis,
        "seeds_80": pd.NA if needed is None else needed // strata,
    }


def _smallest(assumed: Assumed, pairs: int, alpha: float) -> float:
    """Return the smallest difference found with 80%, in the direction of the one that is to be found; NaN for none."""
    sign, largest = math.copysign(1.0, assumed.difference), 100 * assumed.difference  # of numbers: more than matters
    if isinstance(assumed, AssumedRates):
        largest = 1.0 if assumed.first is None else 1 - assumed.first if sign > 0 else assumed.first
    found = smallest_found(lambda size: replace(assumed, difference=sign * size).power(pairs, alpha), largest)
    return math.nan if found is None else found


def total_cost(
    conditions: Sequence[Condition], costs: Costs, at_most: bool = False
) -> tuple[Cost, dict[str, list[str]]]:
    """Return what all simulations of some conditions take, or `at_most`, and which models are known from what."""
    total, known = Cost(), dict[str, list[str]]()
    for condition in conditions:
        cost, source = costs.of(condition)
        if at_most and source == ESTIMATED:
            cost = costs.estimate(condition, at_most=True)
        total += cost * len(condition.seeds)
        if condition.models and condition.engine not in known.setdefault(source, []):
            known[source].append(condition.engine)
    return total, known
