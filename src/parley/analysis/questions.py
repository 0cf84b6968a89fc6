"""The table `questions`: what the simulations answer to the questions that the study declared.

All questions of a study are one family. docs/explanation/statistics.md says what an answer means.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from parley.analysis.pairs import pair_numbers
from parley.analysis.rates import by_condition, values_of
from parley.analysis.tables import names_of
from parley.statistics.clustered import MIN_SEEDS, over_strata
from parley.statistics.differences import (
    CLUSTERED,
    FEW_SEEDS,
    NUMBER,
    RATE,
    SHARE,
    Clusters,
    SamplePair,
    by_seed,
    compare,
)
from parley.statistics.stats import (
    CONFIDENCE,
    Floats,
    bounded_interval,
    holm,
    mean_interval,
    p_below,
    paired_mean,
    wilson_of_mean,
)
from parley.statistics.survival import paired_log_rank
from parley.study import Study
from parley.study.comparisons import Comparison
from parley.study.condition import Condition

OPEN, DIFFERS, SMALLER, NO_PAIRS = "open", "differs", "no difference", "no pairs"
LINES = "t of lines"  # the test of a trend
LOG_RANK = "paired log-rank"  # of times
ALIKE = "open: all pairs differ by the same"  # of numbers without bounds, which then have no interval
FEW = f"open: fewer than {MIN_SEEDS} seeds"  # of several strata
_PAIR = "_pair"
_MOST_MISSING = 0.05  # share of the planned pairs beyond which bounds are said


@dataclass(frozen=True)
class Pairs:
    """What the pairs of simulations of a comparison have, over all strata: rates as 1 and 0, or their means.

    Each of the `strata` counts as much, however many pairs it has.
    """

    first: Floats
    second: Floats
    seeds: NDArray[np.int64]
    strata: NDArray[np.int64] | None = None  # None: one
    games: NDArray[np.object_] = field(default_factory=lambda: np.empty((2, 0), object))  # a game of each side, by id

    @cached_property
    def by_seed(self) -> tuple[Floats, Floats]:
        """What the pairs of each seed differ by in the mean, and the weight of each seed."""
        return by_seed(self.second - self.first, self.seeds, self.strata)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Pairs in which both have it, only the first, only the second, neither; for rates."""
        x, y = self.first == 1, self.second == 1
        both, first, second = int((x & y).sum()), int((x & ~y).sum()), int((~x & y).sum())
        return both, first, second, len(x) - both - first - second


def question_table(rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per comparison of the study's questions; `rows` is the table of simulations."""
    names = names_of("questions", study.axes, study.game)
    together = 1 - (1 - CONFIDENCE) / max(1, len(study.comparisons))
    asked = list(all_pairs(rows, study))
    table: list[Any] = compare([_samples(*each) for each in asked], anytime=True).to_dict("records")
    for (comparison, pairs), row in zip(asked, table, strict=True):
        row |= _equivalence(pairs, row["smallest"], most_of(comparison), together)
        row |= {"test": LINES} if comparison.between and row["pairs"] else {}
        if comparison.kind == "time" and row["pairs"]:
            row |= _of_times(pairs, comparison.never, row["test"])
        row |= dict(zip(("worst_low", "worst_high"), _at_worst(comparison, pairs), strict=True))
        row |= _of_sides(comparison, pairs)
    answered = pd.DataFrame(table, columns=names).assign(stopped=False)
    # A question without p counts: who deletes its games gains nothing.
    for name in ("p", "anytime_p", "p_equivalence"):
        corrected = pd.Series(holm(answered[name].astype(float).fillna(1.0)), index=answered.index)
        answered[f"{name}_holm"] = corrected.where(answered[name].notna())
    return with_answers(answered, study)


def with_answers(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the table with the answer of each row in words, and notes on it."""
    rows: Any = table.assign(answer="", note="").to_dict("records")
    for row, comparison in zip(rows, study.comparisons, strict=True):
        row["answer"] = _answer(row)
        of_share = [*_room(row, comparison.least), *_missing(row, comparison)] if comparison.share else []
        row["note"] = "; ".join([*_notes(row), *of_share])
    return table.assign(**{name: [row[name] for row in rows] for name in ("answer", "note")})


def all_pairs(rows: pd.DataFrame, study: Study) -> Iterable[tuple[Comparison, Pairs]]:
    """Yield each comparison of the study's questions with the pairs of simulations that there are."""
    if study.comparisons and len(rows):
        # Games of a plan have no id.
        rows = rows.assign(**{_PAIR: pair_numbers(rows, study.game), "id": rows.get("id", "")})
    groups = dict(by_condition(rows, study.axes)) if study.comparisons else {}
    for comparison in study.comparisons:
        parts = [_stratum(comparison, each, groups) for each in comparison.between or comparison.strata]
        first, second, seeds, games = (np.concatenate(side, axis=-1) for side in zip(*parts, strict=True))
        strata = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
        yield comparison, Pairs(first, second, seeds, strata, games)


def _stratum(comparison: Comparison, conditions: Sequence[Condition], groups: Any) -> tuple[Any, ...]:
    """Return what `Pairs` has of the simulations of two conditions; a pair lacks no value.

    Of a trend these are the ends of the line of each seed that all conditions have.
    """
    sides = [groups.get(tuple(condition.axes.values())) for condition in conditions]
    if any(side is None for side in sides):
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), np.empty((2, 0), object)
    looked_at = list(zip(comparison.kinds, comparison.outcomes, strict=True))
    what = [looked_at[0], *looked_at[1:] * (len(sides) - 1)]
    by_side = [
        side[["seed", "id"]]
        .assign(value=rounds_until(side, name, comparison.never) if kind == "time" else values_of(side, kind, name))
        .groupby(side[_PAIR], sort=False)
        .agg(seed=("seed", "first"), value=("value", "mean"), id=("id", "first"))
        for (kind, name), side in zip(what, sides, strict=True)
    ]
    common = reduce(lambda both, side: both.intersection(side.index), by_side[1:], by_side[0].index)
    by_side = [side.loc[common] for side in by_side]
    values = np.array([side["value"] for side in by_side])
    known = ~np.isnan(values).any(axis=0)
    seeds = by_side[0]["seed"].to_numpy(dtype=np.int64)[known]
    if comparison.between:
        values = line_ends([float(condition.axes[comparison.axis]) for condition in conditions], values)
    games = np.array([by_side[0]["id"], by_side[-1]["id"]], object)[:, known]
    return values[0][known], values[-1][known], seeds, games


def rounds_until(rows: pd.DataFrame, way: str, never: int) -> Floats:
    """Return the round in which each game ended before its deadline in a way; `never` for all that did not by then."""
    reached = rows["finished_early"].to_numpy(dtype=bool) & (rows["outcome"] == way).to_numpy()
    return np.where(reached, np.minimum(rows["rounds"], never), never).astype(float)


def line_ends(at: Sequence[float], values: Floats) -> Floats:
    """Return the ends of the least-squares line of each column of `values`, whose rows are `at` so much."""
    x = np.asarray(at) - np.mean(at)
    slopes = x @ values / (x @ x)
    return np.asarray(values.mean(axis=0) + np.outer([x[0], x[-1]], slopes))


def _samples(comparison: Comparison, pairs: Pairs) -> SamplePair:
    """Return what is compared, and which question that answers; by seed, where strata are pooled."""
    question, (first, second) = comparison.question, comparison.values
    about = {
        **{"question": question.name, "kind": comparison.kind, "what": comparison.what, "axis": comparison.axis},
        **{"from": first, "to": second, "over": ", ".join(question.over), "strata": len(comparison.strata)},
        "smallest": question.smallest,
    }
    yes_or_no = np.isin([pairs.first, pairs.second], (0, 1)).all() and not (comparison.between or comparison.averaged)
    if not comparison.of_numbers or (comparison.signed and comparison.share and yes_or_no):
        kind = RATE
    else:
        kind = SHARE if comparison.share or (comparison.kind == "time" and len(comparison.strata) == 1) else NUMBER
    pooled = len(comparison.strata) > 1 or (comparison.of_numbers and bool(comparison.between))
    clusters = Clusters(pairs.seeds, pairs.strata) if pooled else None
    most = most_of(comparison)
    return SamplePair(
        about, pairs.first, pairs.second, kind, clusters=clusters, most=most, flips_signs=comparison.averaged
    )


def most_of(comparison: Comparison) -> float:
    """Return the largest difference of a pair: 1 of rates and shares (2 of what was lost); inf of other numbers.

    That of their lines is larger. Times have the rounds after the first.
    """
    if comparison.kind == "time":
        return comparison.never - 1.0
    if not comparison.share:
        return math.inf
    most = 2.0 if comparison.signed else 1.0
    for conditions in comparison.between:
        steps = np.eye(len(conditions))
        at = [float(condition.axes[comparison.axis]) for condition in conditions]
        most = max(most, float(np.maximum(np.diff(line_ends(at, steps), axis=0), 0).sum()))
    return most


def _equivalence(pairs: Pairs, smallest: float, most: float, together: float) -> dict[str, float]:
    """Return the larger p of two one-sided tests, and limits that hold with those of all questions at once.

    What has a largest difference (`most`) has bounded limits, whatever its law; all else t.
    """
    means, number = pairs.by_seed
    if most < math.inf:
        lower, upper = map(float, bounded_interval(means, most, together, number))
        p = max(float(p_below(sign * means, smallest, most, number)) for sign in (-1.0, 1.0)) if len(means) else np.nan
    else:
        change = over_strata(pairs.second - pairs.first, pairs.seeds, pairs.strata)
        lower, upper, _ = paired_mean(np.zeros(len(means)), change.by_seed, together)
        errors = (abs((lower + upper) / 2) - smallest) / ((upper - lower) / 2)  # in halves of the interval
        t = errors * scipy.special.stdtrit(max(1, len(means) - 1), 0.5 + together / 2)
        p = float(scipy.special.stdtr(max(1, len(means) - 1), t))
    return {"together_low": lower, "together_high": upper, "p_equivalence": p}


def _answer(row: dict[str, Any]) -> str:
    """Return the answer in words: that of a question that stopped early by the p of any time, without equivalence."""
    if not row["pairs"]:
        return NO_PAIRS
    if row["pairs"] > 1 and np.isnan(row["low"]):
        return FEW if row["test"] in (CLUSTERED, FEW_SEEDS) else ALIKE
    level = 1 - CONFIDENCE
    smallest, differs = row["smallest"], row["anytime_p_holm" if row["stopped"] else "p_holm"] < level
    if not row["stopped"] and row["p_equivalence"] < level / 2 and row["p_equivalence_holm"] < level:
        return f"{DIFFERS}, by less than {smallest:g}" if differs else f"{SMALLER} of {smallest:g} or more"
    return DIFFERS if differs else OPEN


def _room(row: dict[str, Any], least: float) -> Iterator[str]:
    """Yield a warning where no difference is seen, and what is in [0, 1] began too near an end to change enough."""
    for room, way in ((row["value_from"] - least, "fall"), (1 - row["value_from"], "rise")):
        seen = row["answer"].startswith(DIFFERS) or abs(row["difference"]) >= row["smallest"]
        if room < row["smallest"] - 1e-9 and not seen:
            what = f"a {way} of {100 * row['smallest']:g} points"
            yield f"it starts at {100 * row['value_from']:.3g}%: {what} could not have been seen"


def _of_sides(comparison: Comparison, pairs: Pairs) -> dict[str, float]:
    """Return limits of what each side has by itself: Wilson's of rates and shares, of other numbers t, over seeds.

    Strata count alike, and seeds as they do in the difference. NaN for fewer than two, and
    for t where all are alike, which says nothing of how much others would differ.
    """
    limits: dict[str, float] = {}
    for end, values in (("from", pairs.first), ("to", pairs.second)):
        each = mean_interval(over_strata(values, pairs.seeds, pairs.strata).by_seed)
        if comparison.share and not (comparison.signed or comparison.between) and each.n > 1:
            count = 1 / float((pairs.by_seed[1] ** 2).sum())
            low, high = map(float, wilson_of_mean(each.mean, count))
        else:
            low, high = (math.nan, math.nan) if math.isclose(each.low, each.high) else (each.low, each.high)
        limits |= {f"low_{end}": low, f"high_{end}": high}
    return limits


def _of_times(pairs: Pairs, never: int, test: str) -> dict[str, Any]:
    """Return in how many pairs games ended as is asked, and their log-rank test where there are enough seeds."""
    times = np.stack([pairs.first, pairs.second], axis=1)
    one, other = (times < never).T.astype(float)
    both, first, second, _ = Pairs(one, other, pairs.seeds).counts
    p = {} if test == FEW_SEEDS else {"test": LOG_RANK, "p": paired_log_rank(times, times < never, pairs.seeds)}
    return {"only_first": first, "only_second": second, "both": both, **p}


def _at_worst(comparison: Comparison, pairs: Pairs) -> tuple[float, float]:
    """Return what the difference could be if all pairs that are missing fell, or rose, as far as they can.

    Strata count alike. NaN where at most 5% are missing, nothing is there, or there are no bounds.
    """
    planned, most = np.array(comparison.seeds), most_of(comparison)
    missing = planned.sum() - len(pairs.first)
    if not len(pairs.first) or math.isinf(most) or missing <= _MOST_MISSING * planned.sum() or comparison.between:
        return math.nan, math.nan
    size, differences = len(planned), pairs.second - pairs.first
    strata = np.zeros(len(differences), dtype=np.int64) if pairs.strata is None else pairs.strata
    sums, there = np.bincount(strata, differences, size), np.bincount(strata, minlength=size)
    low, high = (float(((sums + sign * most * (planned - there)) / planned).mean()) for sign in (-1, 1))
    return low, high


def _missing(row: dict[str, Any], comparison: Comparison) -> Iterator[str]:
    if not math.isnan(row["worst_low"]):
        planned = sum(comparison.seeds)
        ends = f"{100 * row['worst_low']:+.0f} to {100 * row['worst_high']:+.0f} points"
        yield f"{planned - row['pairs']} of {planned} pairs are missing: with them it could be {ends}"


def _notes(row: dict[str, Any]) -> Iterator[str]:
    """Yield in one sentence each why an answer is another one than an interval seems to say; of times how many end."""
    if row["kind"] == "time" and row["pairs"]:
        first, second = ((row["both"] + row[name]) / row["pairs"] for name in ("only_first", "only_second"))
        yield f"{first:.0%} of the first games end so, and {second:.0%} of the second"
    low, high, smallest = row["low"], row["high"], row["smallest"]
    if row["answer"] == OPEN and (low > 0 or high < 0):
        yield f"its interval excludes 0 by itself, but not once corrected for all questions (p {row['p_holm']:.3f})"
    if not row["stopped"] and row["answer"] in (OPEN, DIFFERS) and -smallest < low and high < smallest:
        p = f"p {row['p_equivalence']:.3f}, corrected {row['p_equivalence_holm']:.3f}"
        yield f"its interval is closer to 0 than {smallest:g}, but rare larger differences are not ruled out ({p})"
    if row["answer"].startswith(DIFFERS) and row["together_low"] <= 0 <= row["together_high"]:
        yield "the interval that holds for all questions at once, and for few pairs, is wider and includes 0"
