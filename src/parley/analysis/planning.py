"""What `parley plan` says of a study before it runs: what its questions can find, the seeds that takes, and the costs.

Power is that of the tests that `parley.analysis.questions` makes, at the first level of Holm's correction (0.05 by
the number of comparisons): that much a question has, whatever comes of the others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.contrasts import REPEAT
from parley.analysis.made_by import ESTIMATED, Cost, Costs
from parley.analysis.paper import told
from parley.analysis.questions import Pairs, all_pairs
from parley.analysis.simulations import simulation_row
from parley.errors import UsageError
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
from parley.statistics.stats import CONFIDENCE, Floats, wilson_of_mean
from parley.study import Study
from parley.study.comparisons import Comparison
from parley.study.condition import Condition, Simulation
from parley.study.study_file import PaperNumber

PILOT = 20  # pairs that a correlation, a rate or a spread is taken from; fewer say too little
TARGETS = (0.8, 0.9)
_PILOT_ENDS, _PILOTS = (0.1, 0.9), 400  # of what a pilot says: the ends of an interval, and how often it is drawn anew
_REPEATS = (1, 2, 5, 10, 20)  # of forks
_SEEDS = (5, 10, 25, 50, 100, 200, 400)
_RATES = (0.5, 0.9)
# Of all pairs of rates that differ by as much these vary most.
_HARDEST = "rates about one half, the hardest"
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
    """Numbers whose differences vary, by seed, as those of a pilot do, each times `wide`."""

    differences: Floats
    difference: float
    strata: int
    share: bool
    wide: float = 1.0

    def power(self, pairs: int, alpha: float) -> float:
        """Return the probability to find the difference in so many pairs, over all strata."""
        differences = self.differences * self.wide
        return power_of_differences(pairs // self.strata, differences, self.difference, alpha, self.share)


Assumed = AssumedRates | AssumedNumbers


@dataclass(frozen=True)
class Planned:
    """One comparison with what is assumed of it: None if nothing is known."""

    comparison: Comparison
    pairs: int  # of records, that say how they correlate, or differ; 0 where too few
    basis: str
    assumed: Assumed | None = None
    one_stratum: Assumed | None = None
    # The same where spread or rate and correlation lie at the ends of the pilot's 80% interval.
    ends: tuple[Assumed, ...] = ()
    # Of forks: their repeats, and what is assumed by how many these are.
    repeats: int = 1
    by_repeats: Mapping[int, Assumed] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        """The difference that is to be found."""
        return self.comparison.question.smallest if self.assumed is None else self.assumed.difference

    @property
    def rates(self) -> Rates:
        """What is assumed of rates; NaN of numbers."""
        return self.assumed.rates if isinstance(self.assumed, AssumedRates) else Rates(math.nan, math.nan, math.nan)


def level(study: Study) -> float:
    """Return the level of a question's test: the first of Holm's steps."""
    return (1 - CONFIDENCE) / max(1, len(study.comparisons))


def planned(study: Study, records: Records, base: float | None = None) -> list[Planned]:
    """Return what is assumed of each comparison; `records` are a pilot's, `base` is a rate of all first conditions.

    Raises UsageError if no rate is the smallest difference of a question away from `base`.
    """
    if not any(comparison.averaged for comparison in study.comparisons):
        records = [(simulation, summary) for simulation, summary in records if not simulation.condition.repeat]
    repeats = [simulation.condition.repeat or 0 for simulation, _ in records]
    rows = pd.DataFrame([simulation_row(*record) for record in records]).assign(**{REPEAT: repeats})
    by = [*study.axes, "seed", REPEAT]
    # Another study may lack an axis, or have played the same.
    rows = pd.DataFrame() if any(name not in rows for name in by) else rows.dropna(subset=by).drop_duplicates(by)
    times = max(repeats, default=0) + 1, study.repeats
    plans = [
        _planned(comparison, pairs, base, times, _of_paper(study, comparison))
        for comparison, pairs in all_pairs(rows, study)
    ]
    return [replace(plan, repeats=times[1] if plan.comparison.averaged else 1) for plan in plans]


def _of_paper(study: Study, comparison: Comparison) -> PaperNumber | None:
    """Return what a paper says of the first side of a comparison: of its conditions, else of the fewest with them."""
    places = told(study, comparison.outcomes[0], [first for first, _ in comparison.strata], exactly=False)
    return study.content.paper[places[0]] if places and comparison.share else None


def _planned(
    comparison: Comparison, pairs: Pairs, base: float | None, times: tuple[int, int], paper: PaperNumber | None
) -> Planned:
    """Return what is assumed of a comparison; `times` are the repeats of the pilot and of the study."""
    as_rates = comparison.share and not comparison.between  # which vary at least as much, where no pilot is
    if comparison.of_numbers and not (as_rates and len(pairs.first) < PILOT):
        return _of_numbers(comparison, pairs, times)
    return _of_rates(comparison, pairs, base, paper)


def _of_numbers(comparison: Comparison, pairs: Pairs, times: tuple[int, int]) -> Planned:
    """Return what is assumed of numbers: that pairs differ as those of the pilot, but for their mean."""
    alone, strata = pairs.second - pairs.first, len(comparison.strata)
    differences, unit = (pairs.by_seed[0], "seeds") if strata > 1 else (alone, "pairs")
    number = len(differences)
    if number < PILOT or not differences.std():
        lacks = f"none of the pilot's {number} {unit} differs from another"
        if number < PILOT:
            lacks = f"needs {PILOT} {unit} of a pilot ({number} there)"
        basis = f"spread unknown: {lacks}"
        return Planned(comparison, 0, basis)
    assumed = AssumedNumbers(differences, comparison.question.smallest, strata, comparison.share)
    basis, by_repeats = f"spread of {number} {unit}", dict[int, Assumed]()
    if comparison.averaged and not np.isnan(pairs.sampling).all():
        # What repeats leave of chance, of the whole variance: so much of it falls as one by their number.
        played, planned = times
        chance = min(1.0, float(np.nanmean(pairs.sampling) / differences.var(ddof=1)))
        wide = {n: math.sqrt(1 - chance + chance * played / n) for n in sorted({*_REPEATS, planned})}
        by_repeats = {n: replace(assumed, wide=each) for n, each in wide.items()}
        assumed = replace(assumed, wide=wide[planned])
        basis = f"{basis}, {chance:.0%} of its variance by the chance of {played} repeats"
    spreads = np.sqrt((number - 1) / scipy.stats.chi2.isf(_PILOT_ENDS, number - 1))
    ends = tuple(replace(assumed, wide=assumed.wide * wide) for wide in spreads)
    one_stratum = replace(assumed, differences=alone, strata=1)
    return Planned(comparison, number, basis, assumed, one_stratum, ends, by_repeats=by_repeats)


def _of_rates(comparison: Comparison, pairs: Pairs, base: float | None, paper: PaperNumber | None) -> Planned:
    """Return what is assumed of rates: the first of them, the difference, and how pairs correlate."""
    number, strata = len(pairs.first), len(comparison.strata)
    pilot = number >= PILOT
    phi = correlation(*pairs.counts) if pilot else 0.0
    played = float(pairs.first.mean()) if pilot else None if paper is None else paper.value
    given, difference, said = _told(comparison, played, number, base, None if pilot else paper)
    within = all(one is other for one, other in comparison.strata)
    alone = "outcomes of one simulation" if within else "pairs"
    paired = f"correlation of {number} pairs" if pilot else f"{alone} independent: no pilot"
    if within and comparison.kinds == ("outcome", "outcome"):  # a simulation ends in one way: never in both
        phi, paired = -1.0, "no simulation ends both ways"
    several = "; strata of a seed independent" * (strata > 1)
    several += "; varies at most as a rate" * (comparison.kind == "quantity")
    basis = f"{said}; {paired}{several}" + "; as with one repeat" * comparison.averaged
    assumed = AssumedRates(given, difference, phi, strata)
    ends = _pilots(comparison, pairs.counts, base) if pilot and phi != -1 else ()
    return Planned(comparison, number * pilot, basis, assumed, replace(assumed, strata=1), ends)


def _pilots(comparison: Comparison, counts: tuple[int, int, int, int], base: float | None) -> tuple[Assumed, ...]:
    """Return the rates where fewer and where more pairs differ than in a pilot, at the ends of its 80% interval.

    Pilots are drawn again from its counts, half a pair added to each.
    """
    number = sum(counts)
    likely = []
    for drawn in np.random.default_rng(number).multinomial(number, (np.array(counts) + 0.5) / (number + 2), _PILOTS):
        first, difference, _ = _told(comparison, float(drawn[:2].sum() / number), number, base)
        likely.append(AssumedRates(first, difference, correlation(*map(int, drawn)), len(comparison.strata)))
    likely.sort(key=lambda each: sum(each.rates.discordant))
    return tuple(likely[round(end * (_PILOTS - 1))] for end in _PILOT_ENDS)


def _told(
    comparison: Comparison, played: float | None, number: int, base: float | None, paper: PaperNumber | None = None
) -> tuple[float | None, float, str]:
    """Return the first rate, the difference, and whence they are; no rate: those about a half.

    `played` is the first rate of so many pairs of a pilot, or of a `paper`.
    """
    question, smallest = comparison.question, comparison.question.smallest
    if base is None and question.expected is not None:
        return question.expected[0], question.expected[1] - question.expected[0], "rates as expected"
    first = played if base is None else base
    if first is not None and smallest <= max(first, 1 - first) + 1e-9:
        # Towards a half, where rates vary most.
        said = f"rate of {number} pairs" if base is None else f"rate {base:g} as given"
        if paper is not None and base is None:
            said = f"rate of the paper ({paper.source or 'no source'}{f', {paper.of} games' if paper.of else ''})"
        return first, smallest if first <= 0.5 else -smallest, said
    if base is not None:
        raise UsageError(
            f"--base {base:g}: {question.name}: no rate differs from it by {smallest:g} or more, the smallest "
            f"difference; give one of at most {1 - smallest:g} or at least {smallest:g}"
        )
    more = "" if played is None or paper else f", as that of {number} pairs leaves no room"
    return None, smallest, f"{_HARDEST}{more}"


def plan_table(study: Study, plans: Sequence[Planned], costs: Costs) -> pd.DataFrame:
    """Return a row per comparison: what is assumed, its power as planned, what can be found, and what that costs."""
    return pd.DataFrame([_row(plan, level(study), costs) for plan in plans])


def _row(plan: Planned, alpha: float, costs: Costs) -> dict[str, Any]:
    """Return the row of a comparison.

    Strata count alike, so one of few seeds says how much is known: all are taken to have as few.
    """
    comparison, assumed = plan.comparison, plan.assumed
    strata, seeds, alone = len(comparison.strata), max(comparison.seeds), 1 - CONFIDENCE
    pairs = min(comparison.seeds) * strata

    def power(of: Assumed | None, n: int, at: float) -> float:
        return math.nan if of is None else of.power(n, at)

    def seeds_for(target: float, of: Assumed | None) -> Any:
        exact = isinstance(of, AssumedRates) and strata == 1
        most = MAX_PAIRS if exact else _MAX_SIMULATED
        needed = None if of is None else pairs_needed(lambda n: of.power(n, alpha), target, strata, most)
        return pd.NA if needed is None else needed // strata

    high, low = plan.ends or (None, None)
    row: dict[str, Any] = {
        "question": comparison.question.name,
        "what": comparison.what,
        "axis": comparison.axis,
        "from": comparison.values[0],
        "to": comparison.values[1],
        "strata": strata,
        "seeds": seeds,
        "pairs": sum(comparison.seeds),
        "power": power(assumed, pairs, alpha),
        "power_alone": power(assumed, pairs, alone),
        "power_one_stratum": power(plan.one_stratum, seeds, alone),
        "smallest_80": math.nan if assumed is None else _smallest(assumed, pairs, alpha),
        "rate_from": plan.rates.first,
        "difference": plan.difference,
        "correlation": plan.rates.correlation,
        "level": alpha,
        "basis": plan.basis,
        **{f"seeds_{100 * target:.0f}": seeds_for(target, assumed) for target in TARGETS},
        "power_low": power(low, pairs, alpha),
        "power_high": power(high, pairs, alpha),
        "seeds_80_cautious": seeds_for(TARGETS[0], low),
        **{f"seeds_80_repeats_{n}": seeds_for(TARGETS[0], of) for n, of in plan.by_repeats.items()},
    }
    return row | _costs(comparison, plan.repeats, row["seeds_80"], costs)


def _smallest(assumed: Assumed, pairs: int, alpha: float) -> float:
    """Return the smallest difference found with 80%, in the direction of the one that is to be found; NaN for none."""
    sign, largest = math.copysign(1.0, assumed.difference), 100 * assumed.difference  # of numbers: more than matters
    if isinstance(assumed, AssumedRates):
        largest = 1.0 if assumed.first is None else 1 - assumed.first if sign > 0 else assumed.first
    found = smallest_found(lambda size: replace(assumed, difference=sign * size).power(pairs, alpha), largest)
    return math.nan if found is None else found


def _costs(comparison: Comparison, repeats: int, seeds: Any, costs: Costs) -> dict[str, Any]:
    conditions = comparison.conditions * repeats
    now, _ = total_cost(conditions, costs)
    each = sum((costs.of(condition)[0] for condition in conditions), Cost())
    then = each * (math.nan if pd.isna(seeds) else float(seeds))
    parts = ("tokens", "hours", "gpu_hours", "money")
    return {
        "conditions": len(conditions),
        "simulations": sum(len(condition.seeds) for condition in conditions),
        **{name: getattr(now, name) for name in parts},
        **{f"{name}_80": getattr(then, name) for name in parts},
    }


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


def width_table(study: Study) -> pd.DataFrame:
    """Return how wide Wilson's interval of an outcome's rate is by the number of seeds, at rates of 50% and 90%."""
    own = {len(condition.seeds) for condition in study.conditions}
    rows = []
    for seeds in sorted({*_SEEDS, *own}):
        low, high = wilson_of_mean(list(_RATES), [seeds] * len(_RATES))
        widths = {f"width_at_{100 * rate:.0f}": float(w) for rate, w in zip(_RATES, high - low, strict=True)}
        rows.append({"seeds": seeds, "of_the_study": seeds in own, **widths})
    return pd.DataFrame(rows)


def missing_pilot(study: Study, records: Records) -> str:
    """Return in a few words what the records of another study do not tell; "" for nothing that is needed."""
    if not records:
        return "no records, so it tells nothing"
    axes = [[simulation.condition.axes.get(axis) for axis in study.axes] for simulation, _ in records]
    if any(list(condition.axes.values()) in axes for condition in study.conditions):
        return ""
    models = {model for condition in study.conditions for model in condition.models}
    if models & {model for simulation, _ in records for model in simulation.condition.models}:
        return "no condition of this study is in it, so it tells no rates" * bool(study.comparisons)
    missing = "no rates" if not models else "neither rates nor costs"
    return f"no condition of this study is in it, so it tells {missing}"
