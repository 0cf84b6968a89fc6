"""The table `questions`: what the simulations answer to the questions that the study declared.

All questions of a study are one family. docs/explanation/statistics.md says what an answer means.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.analysis.columns import names_of
from parley.analysis.differences import number_differences, rate_differences
from parley.analysis.pairs import pair_numbers, shared
from parley.analysis.rates import by_condition, flags, numbers
from parley.analysis.stats import CONFIDENCE, Floats, holm, paired_mean
from parley.study import Study
from parley.study.comparisons import Comparison, Kind

OPEN, DIFFERS, NO_PAIRS = "open", "differs", "no pairs"
ALIKE = "open: all pairs differ by the same"  # of numbers without bounds, which then have no interval
_PAIR = "_pair"


@dataclass(frozen=True)
class Pairs:
    """What the pairs of simulations of a comparison have, over all strata: rates as 1 and 0."""

    first: Floats
    second: Floats
    seeds: NDArray[np.int64]

    @property
    def p_by_seed(self) -> float:
        """The p of the t test that the differences of a seed, added up over the strata, are 0 in the mean.

        It does not take the strata of a seed to be independent.
        """
        _, places = np.unique(self.seeds, return_inverse=True)
        sums = np.bincount(places, self.second - self.first)
        return paired_mean(np.zeros(len(sums)), sums)[2]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Pairs in which both have it, only the first, only the second, neither; for rates."""
        x, y = self.first == 1, self.second == 1
        both, first, second = int((x & y).sum()), int((x & ~y).sum()), int((~x & y).sum())
        return both, first, second, len(x) - both - first - second


def question_table(rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per comparison of the study's questions; `rows` is the table of simulations."""
    names = names_of("questions", study.axes, study.game)
    table = [_row(comparison, pairs) for comparison, pairs in all_pairs(rows, study)]
    adjusted = holm([row["p"] for row in table])
    for row, p_holm in zip(table, adjusted.tolist(), strict=True):
        row["p_holm"] = p_holm
        row["answer"] = _answer(row)
    return pd.DataFrame(table, columns=names)


def all_pairs(rows: pd.DataFrame, study: Study) -> Iterable[tuple[Comparison, Pairs]]:
    """Yield each comparison of the study's questions with the pairs of simulations that there are."""
    if study.comparisons and len(rows):
        rows = rows.assign(**{_PAIR: pair_numbers(rows, study.game)})
    groups = dict(by_condition(rows, study.axes)) if study.comparisons else {}
    for comparison in study.comparisons:
        parts = [_stratum(comparison, pair, groups) for pair in comparison.strata]
        yield comparison, Pairs(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def _stratum(comparison: Comparison, pair: Sequence[Any], groups: Any) -> tuple[Any, ...]:
    """Return the values of the pairs of simulations of two conditions, and their seeds; a pair lacks no value."""
    sides = [groups.get(tuple(condition.axes.values())) for condition in pair]
    if any(side is None for side in sides):
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
    places = shared(*(side[_PAIR].to_numpy() for side in sides))
    first, second = (
        _values(kind, name, side)[at]
        for kind, name, side, at in zip(comparison.kinds, comparison.outcomes, sides, places, strict=True)
    )
    known = ~(np.isnan(first) | np.isnan(second))
    return first[known], second[known], sides[0]["seed"].to_numpy(dtype=np.int64)[places[0]][known]


def _values(kind: Kind, name: str, rows: pd.DataFrame) -> Floats:
    if kind == "outcome":
        return np.asarray(rows["outcome"] == name, dtype=np.float64)
    if kind == "quantity":
        return numbers(rows, name)
    answers = flags(rows, name).astype(float)
    return np.where(answers < 0, np.nan, answers)


_DIFFERENCE = (
    *("pairs", "only_first", "only_second", "both", "value_from", "value_to"),
    *("difference", "low", "high", "p"),
)


def _row(comparison: Comparison, pairs: Pairs) -> dict[str, Any]:
    question, (low_value, high_value) = comparison.question, comparison.values
    if comparison.kind == "quantity":
        every = slice(None)
        found = number_differences([(pairs.first, pairs.second, every, every)], comparison.share)
    else:
        both, first, second, _ = pairs.counts
        alone = (both + first, len(pairs.first), both + second, len(pairs.first))
        found = rate_differences(np.array([[*pairs.counts, *alone]], dtype=np.int64))
    cells = {name: found[name][0] for name in _DIFFERENCE}
    return {
        "question": question.name,
        "kind": comparison.kind,
        "what": comparison.what,
        "axis": comparison.axis,
        "from": low_value,
        "to": high_value,
        "over": ", ".join(question.over),
        "strata": len(comparison.strata),
        **cells,
        "test": "t" if comparison.kind == "quantity" else "McNemar",
        "p_by_seed": pairs.p_by_seed,
        "smallest": question.smallest,
    }


def _answer(row: dict[str, Any]) -> str:
    """Return the answer in words; a difference that matters is ruled out where the whole interval is smaller."""
    if not row["pairs"]:
        return NO_PAIRS
    if row["pairs"] > 1 and np.isnan(row["low"]):
        return ALIKE
    smallest, differs = row["smallest"], row["p_holm"] < 1 - CONFIDENCE
    if -smallest < row["low"] and row["high"] < smallest:
        return f"{DIFFERS}, by less than {smallest:g}" if differs else f"no difference of {smallest:g} or more"
    return DIFFERS if differs else OPEN
