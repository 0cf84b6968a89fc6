"""What `parley plan` says of a study before it runs: what its questions can find, the seeds that takes, and the costs.

Power is that of the tests that `parley.analysis.questions` makes, at the first level of Holm's correction (0.05 by
the number of comparisons): that much a question has, whatever comes of the others. For McNemar's test all tables that
can occur are enumerated, or, where that are too many, drawn with a fixed seed; the tests of several strata, whose
unit is the seed, and the paired t test are simulated.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from parley.analysis.contrasts import REPEAT
from parley.analysis.made_by import Cost, Costs
from parley.analysis.questions import Pairs, all_pairs
from parley.analysis.simulations import simulation_row
from parley.errors import UsageError
from parley.play.record import Summary
from parley.statistics.clustered import MIN_SEEDS
from parley.statistics.stats import CONFIDENCE, Floats, mcnemar, wilson_of_mean
from parley.study import Study
from parley.study.comparisons import Comparison
from parley.study.condition import Condition, Simulation

_ENUMERATED = 3000  # discordant pairs; with more, tables are drawn
_DRAWN = 20_000
_SAMPLES, _NUMBERS = 2_000, 10_000_000  # samples of differences of a quantity for each power, and what they hold
_TAIL = 1e-12  # of a distribution, which is left out
_ROUNDING = 1e-12
MAX_PAIRS = 100_000


@dataclass(frozen=True)
class Rates:
    """Rates of two paired conditions, and the correlation of 1 and 0 within the pairs."""

    first: float
    second: float
    correlation: float = 0.0

    @property
    def discordant(self) -> tuple[float, float]:
        """The share of pairs in which only the first has it, and only the second; as correlated as can be."""
        p, q = self.first, self.second
        both = p * q + self.correlation * float(np.sqrt(p * (1 - p) * q * (1 - q)))
        both = min(max(both, 0.0, p + q - 1), p, q)
        return p - both, q - both


def correlation(both: int, only_first: int, only_second: int, neither: int) -> float:
    """Return the correlation (phi) of counted pairs; 0 where a margin is empty."""
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    return (both * neither - only_first * only_second) / margins**0.5 if margins else 0.0


@cache
def _limits(alpha: float) -> NDArray[np.int64]:
    """Return, by the number of discordant pairs, the largest smaller count that the test rejects at `alpha`; -1: none.

    The test is symmetric, and rejects the more the smaller the smaller count is.
    """
    m = np.arange(_ENUMERATED + 1)
    rejected, kept = np.full(m.shape, -1), m // 2 + 1  # the largest known to be, the smallest known not to be
    while np.any(kept - rejected > 1):
        middle = (rejected + kept) // 2
        rejects = (middle >= 0) & (mcnemar(m - np.maximum(middle, 0), np.maximum(middle, 0)) < alpha)
        rejected, kept = np.where(rejects, middle, rejected), np.where(rejects, kept, middle)
    return np.asarray(rejected, dtype=np.int64)


def power_of_rates(pairs: int, rates: Rates, alpha: float) -> float:
    """Return the probability that McNemar's test of so many pairs has a p below `alpha`, exact but for rounding."""
    only_first, only_second = rates.discordant
    discordant = only_first + only_second
    if pairs < 1 or discordant <= 0:
        return 0.0
    low, high = (int(scipy.stats.binom.ppf(tail, pairs, discordant)) for tail in (_TAIL, 1 - _TAIL))
    if high > _ENUMERATED:
        random = np.random.default_rng([pairs, *(round(1e9 * share) for share in (only_first, only_second))])
        drawn = random.multinomial(pairs, [only_first, only_second, max(0.0, 1 - discordant)], size=_DRAWN)
        return float((mcnemar(drawn[:, 0], drawn[:, 1]) < alpha).mean())
    m = np.arange(max(low, 0), high + 1)
    limit, share = _limits(alpha)[m], only_second / discordant
    # The second count is at most the limit, or the first is.
    tails = scipy.stats.binom.cdf(limit, m, share) + scipy.stats.binom.sf(m - limit - 1, m, share)
    chances = scipy.stats.binom.pmf(m, pairs, discordant) * np.where(limit >= 0, tails, 0.0)
    return float(min(1.0, chances.sum()))


def power_of_pooled(seeds: int, strata: int, rates: Rates, alpha: float) -> float:
    """Return how often the test of clustered pairs (`clustered_difference`) has a p below `alpha`, by simulation.

    Each seed has a pair in each of several strata, which are independent. The standard error is about one point.
    """
    if seeds < MIN_SEEDS:
        return 0.0
    only_first, only_second = rates.discordant
    size = (min(_SAMPLES, max(_NUMBERS // seeds, 100)), seeds)
    random = np.random.default_rng([seeds, strata, *(round(1e9 * share) for share in (only_first, only_second))])
    more = random.binomial(strata, only_second, size)
    sums = more - random.binomial(strata - more, only_first / max(1 - only_second, only_first, _ROUNDING))
    # All seeds have as many pairs, so the test's statistic is that of their sums.
    statistic = sums.sum(axis=1) ** 2 / np.maximum((sums**2).sum(axis=1), 1)
    return float((scipy.special.chdtrc(1, statistic) < alpha).mean())


def power_of_differences(pairs: int, differences: Floats, shift: float, alpha: float, share: bool = False) -> float:
    """Return how often the paired t test has a p below `alpha` if pairs differ by `shift` in the mean.

    That of a `share` has a p also where all pairs of a sample differ by the same (`paired_share`).

    Samples are drawn from measured `differences`, whose mean is taken from them, with a seed that `pairs` gives: the
    standard error is about one point.
    """
    if pairs < 2 or not differences.any():
        return 0.0
    size = (min(_SAMPLES, max(_NUMBERS // pairs, 100)), pairs)
    drawn = np.random.default_rng(pairs).choice(differences - differences.mean(), size=size)
    means, sd = drawn.mean(axis=1) + shift, drawn.std(axis=1, ddof=1)
    alike = sd <= _ROUNDING
    t = np.abs(means) * np.sqrt(pairs) / np.where(alike, np.inf, sd)  # without variation there is no p
    rejected = t > scipy.stats.t.isf(alpha / 2, pairs - 1)
    if share:
        rejected |= alike & (np.sqrt(pairs * np.minimum(np.abs(means), 1)) > scipy.stats.norm.isf(alpha / 2))
    return float(rejected.mean())


def pairs_needed(power: Callable[[int], float], target: float, step: int = 1, most: int = MAX_PAIRS) -> int | None:
    """Return the smallest multiple of `step` from which on `power` is at least `target`; None if above `most`.

    The power of a test of counts goes up and down a little as pairs are added: the next 20 steps are looked at, too.
    """
    high = 1
    while power(high * step) < target:
        high *= 2
        if high * step > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle * step) >= target else (middle, high)
    # Where a dip below the target ends.
    for steps in range(high + 20, max(high - 20, 0), -1):
        if power(steps * step) < target:
            return (steps + 1) * step
    return max(high - 19, 1) * step


def smallest_found(power: Callable[[float], float], most: float, target: float = 0.8) -> float | None:
    """Return the smallest difference in (0, most] that is found with this power; None if there is none."""
    if most <= 0 or power(most) < target:
        return None
    low, high = 0.0, most
    while high - low > 1e-4 * most:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= target else (middle, high)
    return high


PILOT = 20  # pairs that a correlation, a rate or a spread is taken from; fewer say too little
TARGETS = (0.8, 0.9)
_PILOT_ENDS, _PILOTS = (0.1, 0.9), 400  # of what a pilot says: the ends of an interval, and how often it is drawn anew
_REPEATS = (1, 2, 5, 10, 20)  # of forks
_SEEDS = (5, 10, 25, 50, 100, 200, 400)
_RATES = (0.5, 0.9)
# Of all pairs of rates that differ by as much these vary most.
_HARDEST = "rates about one half, the hardest"
Records = Sequence[tuple[Simulation, Summary]]
Power = Callable[[int, float, float], float]  # of so many pairs to find a difference, at a level


@dataclass(frozen=True)
class Planned:
    """One comparison with what is assumed of it; its power is None if nothing is known."""

    comparison: Comparison
    first: float  # rate of the first condition; NaN for quantities
    difference: float  # that is to be found
    pairs: int  # of records, that say how they correlate, or differ; 0 where too few
    correlation: float
    basis: str
    power: Power | None
    largest: float = math.nan  # difference in that direction that there can be
    one_stratum: Power | None = None  # where `power` is of several
    # The same where spread or rate and correlation lie at the ends of the pilot's 80% interval.
    ends: tuple[Power, ...] = ()
    # Of forks: their repeats, and `power` by how many these are.
    repeats: int = 1
    by_repeats: Mapping[int, Power] = field(default_factory=dict)


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
    times = max(repeats, default=0) + 1, max(condition.repeat or 0 for condition in study.conditions) + 1
    plans = [_planned(comparison, pairs, base, times) for comparison, pairs in all_pairs(rows, study)]
    return [replace(plan, repeats=times[1] if plan.comparison.averaged else 1) for plan in plans]


def _planned(comparison: Comparison, pairs: Pairs, base: float | None, times: tuple[int, int]) -> Planned:
    """Return what is assumed of a comparison; `times` are the repeats of the pilot and of the study."""
    as_rates = comparison.share and not comparison.between  # which vary at least as much, where no pilot is
    if comparison.of_numbers and not (as_rates and len(pairs.first) < PILOT):
        return _of_numbers(comparison, pairs, times)
    return _of_rates(comparison, pairs, base)


def _of_numbers(comparison: Comparison, pairs: Pairs, times: tuple[int, int]) -> Planned:
    """Return what is assumed of numbers: that pairs differ as those of the pilot, but for their mean."""
    alone, smallest, strata = pairs.second - pairs.first, comparison.question.smallest, len(comparison.strata)
    differences, unit = (pairs.by_seed[0], "seeds") if strata > 1 else (alone, "pairs")
    number = len(differences)
    if number < PILOT or not differences.std():
        basis = f"spread unknown: needs {PILOT} {unit} of a pilot that differ ({number} there)"
        return Planned(comparison, math.nan, smallest, 0, math.nan, basis, None)

    def power(n: int, difference: float, alpha: float, wide: float = 1.0) -> float:
        return power_of_differences(n // strata, differences * wide, difference, alpha, comparison.share)

    def one_stratum(n: int, difference: float, alpha: float) -> float:
        return power_of_differences(n, alone, difference, alpha, comparison.share)

    basis, now, by_repeats = f"spread of {number} {unit}", 1.0, dict[int, Power]()
    if comparison.averaged and not np.isnan(pairs.sampling).all():
        # What repeats leave of chance, of the whole variance: so much of it falls as one by their number.
        played, planned = times
        chance = min(1.0, float(np.nanmean(pairs.sampling) / differences.var(ddof=1)))
        wide = {n: math.sqrt(1 - chance + chance * played / n) for n in sorted({*_REPEATS, planned})}
        now, basis = wide[planned], f"{basis}, {chance:.0%} of its variance by the chance of {played} repeats"
        by_repeats = {n: partial(power, wide=each) for n, each in wide.items()}
    spreads = np.sqrt((number - 1) / scipy.stats.chi2.isf(_PILOT_ENDS, number - 1))
    ends = tuple(partial(power, wide=now * wide) for wide in spreads)
    plan = Planned(comparison, math.nan, smallest, number, math.nan, basis, partial(power, wide=now), 100 * smallest)
    return replace(plan, ends=ends, by_repeats=by_repeats, one_stratum=one_stratum if strata > 1 else None)


def _of_rates(comparison: Comparison, pairs: Pairs, base: float | None) -> Planned:
    """Return what is assumed of rates: the first of them, the difference, and how pairs correlate."""
    number = len(pairs.first)
    pilot = number >= PILOT
    phi = correlation(*pairs.counts) if pilot else 0.0
    given, difference, said = _assumed(comparison, float(pairs.first.mean()) if pilot else None, number, base)
    within = all(one is other for one, other in comparison.strata)
    alone = "outcomes of one simulation" if within else "pairs"
    paired = f"correlation of {number} pairs" if pilot else f"{alone} independent: no pilot"
    if within and comparison.kinds == ("outcome", "outcome"):  # a simulation ends in one way: never in both
        phi, paired = -1.0, "no simulation ends both ways"
    strata = len(comparison.strata)
    several = "; strata of a seed independent" * (strata > 1)
    several += "; varies at most as a rate" * (comparison.kind == "quantity")
    basis = f"{said}; {paired}{several}" + "; as with one repeat" * comparison.averaged

    def power(n: int, difference: float, alpha: float) -> float:
        return _power_at(_rates(given, difference, phi), strata, n, difference, alpha)

    def one_stratum(n: int, difference: float, alpha: float) -> float:
        return power_of_rates(n, _rates(given, difference, phi), alpha)

    first = _rates(given, difference, phi).first
    largest = 1.0 if given is None else 1 - first if difference >= 0 else first
    likely = _pilots(comparison, pairs.counts, base) if pilot and phi != -1 else ()
    ends = tuple(partial(_power_at, rates, strata) for rates in likely)
    return Planned(comparison, first, difference, number * pilot, phi, basis, power, largest, one_stratum, ends)


def _rates(first: float | None, difference: float, phi: float) -> Rates:
    """Return two rates that differ by so much; about a half without a first one."""
    first = 0.5 - difference / 2 if first is None else first
    return Rates(first, min(max(first + difference, 0.0), 1.0), phi)


def _power_at(rates: Rates, strata: int, pairs: int, difference: float, alpha: float) -> float:
    return (
        power_of_rates(pairs, rates, alpha) if strata == 1 else power_of_pooled(pairs // strata, strata, rates, alpha)
    )


def _pilots(comparison: Comparison, counts: tuple[int, int, int, int], base: float | None) -> tuple[Rates, ...]:
    """Return the rates where fewer and where more pairs differ than in a pilot, at the ends of its 80% interval.

    Pilots are drawn again from its counts, half a pair added to each.
    """
    number = sum(counts)
    likely = []
    for drawn in np.random.default_rng(number).multinomial(number, (np.array(counts) + 0.5) / (number + 2), _PILOTS):
        first, difference, _ = _assumed(comparison, float(drawn[:2].sum() / number), number, base)
        likely.append(_rates(first, difference, correlation(*map(int, drawn))))
    likely.sort(key=lambda rates: sum(rates.discordant))
    return tuple(likely[round(end * (_PILOTS - 1))] for end in _PILOT_ENDS)


def _assumed(
    comparison: Comparison, played: float | None, number: int, base: float | None
) -> tuple[float | None, float, str]:
    """Return the first rate, the difference, and whence they are; no rate: those about a half.

    `played` is the first rate of so many pairs of a pilot.
    """
    question, smallest = comparison.question, comparison.question.smallest
    if base is None and question.expected is not None:
        return question.expected[0], question.expected[1] - question.expected[0], "rates as expected"
    first = played if base is None else base
    if first is not None and smallest <= max(first, 1 - first) + 1e-9:
        # Towards a half, where rates vary most.
        said = f"rate of {number} pairs" if base is None else f"rate {base:g} as given"
        return first, smallest if first <= 0.5 else -smallest, said
    if base is not None:
        raise UsageError(
            f"--base {base:g}: {question.name}: no rate differs from it by {smallest:g} or more, the smallest "
            f"difference; give one of at most {1 - smallest:g} or at least {smallest:g}"
        )
    more = "" if played is None else f", as that of {number} pairs leaves no room"
    return None, smallest, f"{_HARDEST}{more}"


def plan_table(study: Study, plans: Sequence[Planned], costs: Costs) -> pd.DataFrame:
    """Return a row per comparison: what is assumed, its power as planned, what can be found, and what that costs."""
    return pd.DataFrame([_row(plan, level(study), costs) for plan in plans])


def _row(plan: Planned, alpha: float, costs: Costs) -> dict[str, Any]:
    comparison = plan.comparison
    strata, powers = len(comparison.strata), _found(plan, comparison.seeds, alpha)
    row: dict[str, Any] = {
        "question": comparison.question.name,
        "what": comparison.what,
        "axis": comparison.axis,
        "from": comparison.values[0],
        "to": comparison.values[1],
        "strata": strata,
        **powers,
        "rate_from": plan.first,
        "difference": plan.difference,
        "correlation": plan.correlation,
        "level": alpha,
        "basis": plan.basis,
        "seeds_80": pd.NA,
        "seeds_90": pd.NA,
        **{"power_low": math.nan, "power_high": math.nan, "seeds_80_cautious": pd.NA},
    }

    def seeds_for(target: float, power: Power) -> Any:
        needed = pairs_needed(lambda n: power(n, plan.difference, alpha), target, strata, _most(plan))
        return pd.NA if needed is None else needed // strata

    if plan.power is not None:
        row |= {f"seeds_{100 * target:.0f}": seeds_for(target, plan.power) for target in TARGETS}
    if plan.ends:
        high, low = (power_at(powers["pairs"], plan.difference, alpha) for power_at in plan.ends)
        row |= {"power_low": low, "power_high": high, "seeds_80_cautious": seeds_for(TARGETS[0], plan.ends[1])}
    needed = {f"seeds_80_repeats_{n}": seeds_for(TARGETS[0], power) for n, power in plan.by_repeats.items()}
    return row | needed | _costs(comparison, plan.repeats, row["seeds_80"], costs)


def _found(plan: Planned, counts: Sequence[int], alpha: float) -> dict[str, Any]:
    """Return what so many seeds of each stratum find."""
    # Strata count alike, so one of few seeds says how much is known: all are taken to have as few.
    seeds, pairs, alone = max(counts), min(counts) * len(counts), 1 - CONFIDENCE

    def power(n: int, at: float, power: Power | None = plan.power) -> float:
        return math.nan if power is None else power(n, plan.difference, at)

    return {
        "seeds": seeds,
        "pairs": sum(counts),
        "power": power(pairs, alpha),
        "power_alone": power(pairs, alone),
        "power_one_stratum": power(seeds, alone, plan.one_stratum or plan.power),
        "smallest_80": _smallest(plan, pairs, alpha),
    }


def _most(plan: Planned) -> int:
    simulated = math.isnan(plan.first) or len(plan.comparison.strata) > 1
    return 20_000 if simulated else 100_000


def _smallest(plan: Planned, pairs: int, alpha: float) -> float:
    """Return the smallest difference found with 80%, in the direction of the one that is to be found; NaN for none."""
    if (power := plan.power) is None:
        return math.nan
    sign = math.copysign(1.0, plan.difference)
    smallest = smallest_found(lambda difference: power(pairs, sign * difference, alpha), plan.largest)
    return math.nan if smallest is None else smallest


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
