"""The table `margins`: rates over several conditions, for each value of each axis, standardized over the other axes.

It answers what a study asks of an axis as a whole: how often do games end well with this prompt, whatever the model
and the number of agents? A rate is a mean of the rates of conditions, so no condition counts more because it was
played more often. All simulations of a seed are a cluster: what a seed deals makes them alike.
docs/explanation/statistics.md says what is computed, and why, and has the coverage of the intervals.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.pairs import pair_numbers, strata
from parley.analysis.rates import by_condition, values_of
from parley.analysis.stats import CONFIDENCE, Floats, holm_within, wilson_of_mean
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.study.comparisons import rates_of
from parley.study.condition import axes_text, axis_names
from parley.study.study_file import PaperRate

CLUSTERED = "clustered McNemar"
MIN_SEEDS = 5  # with fewer nobody can say how much seeds differ
_NOTHING = 1e-18  # a variance that is none but for rounding
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Standardized:
    """A rate over conditions: the estimate, what each seed adds to its error, and how many simulations it is of.

    `influence` has a number per seed of the study, 0 for seeds without a simulation here; `seeds` counts the others,
    and `effective` says how many the variance between them comes from: fewer where conditions have other numbers of
    seeds (Satterthwaite, Biometrics Bulletin 2, 1946, pp. 110-114, for a variance that goes with a seed's weight).
    """

    rate: float
    influence: Floats
    simulations: int
    seeds: int
    effective: float


def standardized(answers: Floats, cells: Indices, seeds: Indices, weights: Floats) -> Standardized:
    """Return the mean of the rates of conditions, by their `weights` (a number per condition, adding up to 1).

    `answers` are 1, 0, or NaN for none, one for each simulation; `cells` and `seeds` are the numbers of its condition
    and seed, from 0. Each condition with a weight must have an answer. The influence of a seed is the sum of its
    simulations' deviations from the rate of their condition, as in the linearized variance of a stratified sample of
    clusters (Binder, International Statistical Review 51, 1983, pp. 279-292).
    """
    used = ~np.isnan(answers) & (weights[cells] > 0)
    y, cell, seed = answers[used], cells[used], seeds[used]
    size = np.bincount(cell, minlength=len(weights))
    rates = np.bincount(cell, y, len(weights)) / np.maximum(size, 1)
    number = int(seeds.max(initial=-1)) + 1
    parts = (y - rates[cell]) * weights[cell] / size[cell]
    influence = np.bincount(seed, parts, number).astype(float)
    shares = np.bincount(seed, weights[cell] / size[cell], number)
    effective = float((shares**2).sum() ** 2 / (shares**4).sum()) if len(y) else 0.0
    return Standardized(float(weights @ rates), influence, len(y), int((shares > 0).sum()), effective)


def rate_limits(of: Standardized) -> tuple[float, float]:
    """Return the interval of a rate: Wilson's, of the effective number of simulations, with the quantile of t.

    That number is the one of which a plain rate would have the variance found between seeds, at most all simulations
    (Franco, Little, Louis and Slud, J. Survey Statistics and Methodology 7, 2019, pp. 334-364). A rate of 0 or 1
    counts as one simulation per seed: nothing says how alike those of a seed are. NaN with fewer than MIN_SEEDS seeds.
    """
    if of.seeds < MIN_SEEDS:
        return math.nan, math.nan
    rate = min(max(of.rate, 0.0), 1.0)
    spread = rate * (1 - rate)
    variance = of.seeds / (of.seeds - 1) * float(of.influence @ of.influence)
    if spread < 1e-12:  # but for rounding
        rate, size = float(round(rate)), float(of.seeds)
    else:
        size = min(spread / variance if variance > 0 else math.inf, float(of.simulations))
    # Wilson's limits with another quantile are those at another level.
    quantile = scipy.special.stdtrit(of.seeds - 1, 0.5 + CONFIDENCE / 2)
    level = 2 * float(scipy.special.ndtr(quantile)) - 1
    low, high = wilson_of_mean(rate, size, level)
    return float(low), float(high)


def difference(first: Standardized, second: Standardized) -> tuple[float, float, float]:
    """Return limits and two-sided p of the second rate minus the first; both are of the same pairs.

    The test is McNemar's for clustered pairs (Durkalski, Palesch, Lipsitz and Rust, Statistics in Medicine 22, 2003,
    pp. 2417-2428) with weights: the squared difference by the sum of squares of what each seed adds to it, which has
    one degree of freedom. With one condition on each side it is McNemar's score test. The interval holds what the
    test does not refuse, so the two never contradict each other; with an effective number of seeds below 3.84 it
    refuses nothing. Where all seeds say the same there is no variance: then it is `apart`. NaN with fewer than
    MIN_SEEDS seeds.
    """
    if min(first.seeds, second.seeds) < MIN_SEEDS:
        return math.nan, math.nan, math.nan
    change, seeds = second.rate - first.rate, min(first.effective, second.effective)
    parts = second.influence - first.influence
    variance = float(parts @ parts)
    under_null = variance + change * change / seeds
    p = float(scipy.special.chdtrc(1, change * change / under_null)) if under_null > _NOTHING else 1.0
    if variance < _NOTHING:
        return *apart(first, second), p
    z = float(scipy.special.ndtri(0.5 + CONFIDENCE / 2))
    room = 1 - z * z / seeds
    half = z * math.sqrt(variance / room) if room > 0 else math.inf
    return max(-1.0, change - half), min(1.0, change + half), p


def apart(first: Standardized, second: Standardized) -> tuple[float, float]:
    """Return the interval of the second rate minus the first, where no seed says anything of their correlation.

    Square-and-add from the limits of both (Newcombe, Statistics in Medicine 17, 1998, pp. 873-890). NaN if either has
    fewer than MIN_SEEDS seeds.
    """
    (a, b), (c, d) = rate_limits(first), rate_limits(second)
    if math.isnan(a) or math.isnan(c):
        return math.nan, math.nan
    change = second.rate - first.rate
    low, high = math.hypot(second.rate - c, b - first.rate), math.hypot(d - second.rate, first.rate - a)
    return max(-1.0, change - low), min(1.0, change + high)


def mantel_haenszel(tables: NDArray[np.int64]) -> float:
    """Return the two-sided p of the Cochran-Mantel-Haenszel test, without continuity correction.

    `tables` has a 2 by 2 table per stratum (its first index): first and second sample, yes and no. Strata of which
    nothing can be learned are left out: less than two simulations, or all alike (Mantel and Haenszel, Journal of the
    National Cancer Institute 22, 1959). NaN if none is left.
    """
    from statsmodels.stats.contingency_tables import StratifiedTable  # a second, and few studies need it

    known = (tables.sum(axis=2) > 0).all(axis=1) & (tables.sum(axis=1) > 0).all(axis=1)
    if not known.any():
        return math.nan
    found = StratifiedTable(tables[known].transpose(1, 2, 0).astype(float))
    return float(found.test_null_odds(correction=False).pvalue)


STRATIFIED = "Cochran-Mantel-Haenszel"


@dataclass(frozen=True)
class Answers:
    """What simulations have: an answer for each (1, 0, NaN), the numbers of its condition, its seed and its pair."""

    keys: pd.DataFrame  # a row per condition: the values of its axes
    values: Floats
    cells: Indices
    seeds: Indices
    pairs: Indices

    @cached_property
    def counts(self) -> Indices:
        """How many have it, and how many have not; a row per condition."""
        answers = [np.bincount(self.cells[self.values == answer], minlength=len(self.keys)) for answer in (1, 0)]
        return np.stack(answers, axis=1).astype(np.int64)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which conditions have an answer."""
        return np.asarray(self.counts.any(axis=1))

    def over(self, cells: Sequence[int] | Indices) -> Standardized:
        """Return the rate over conditions, each with the weight of how often it is among `cells`."""
        weights = np.bincount(np.asarray(cells, dtype=np.int64), minlength=len(self.keys)) / len(cells)
        return standardized(self.values, self.cells, self.seeds, weights)

    @cached_property
    def _known(self) -> dict[int, Indices]:
        """The places of the answers of each condition."""
        cells = pd.Series(np.where(np.isnan(self.values), -1, self.cells))
        found: Any = cells.groupby(cells).indices
        return dict(found)

    def paired(self, cells: Sequence[tuple[int, int]]) -> tuple[Standardized, Standardized, int, int, int] | None:
        """Return the rates of both sides over combinations, each with equal weight, among simulations that are pairs.

        Then the number of pairs, and in how many only one of the two has it. What has no counterpart does not count: a
        side with more seeds would else be compared with what the other was never asked, and a side that always has it
        would hide how much those seeds differ. None if a combination has no pair.
        """
        sides = [np.concatenate([self._known[cell] for cell in side]) for side in zip(*cells, strict=True)]
        number = self.pairs.max() + 1
        one, two = (
            np.repeat(np.arange(len(cells)) * number, [len(self._known[cell]) for cell in side]) + self.pairs[places]
            for side, places in zip(zip(*cells, strict=True), sides, strict=True)
        )
        found, mine, yours = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        combinations = found // number
        if len(np.unique(combinations)) < len(cells):
            return None
        places, weights = (sides[0][mine], sides[1][yours]), np.full(len(cells), 1 / len(cells))
        x, y = (self.values[of] for of in places)
        first, second = (standardized(side, combinations, self.seeds[places[0]], weights) for side in (x, y))
        return first, second, len(found), int((x > y).sum()), int((x < y).sum())


@dataclass(frozen=True)
class ValuePair:
    """Two values of an axis, and the conditions that have them, alike in the other axes."""

    first: Any
    value: Any
    cells: dict[tuple[Any, ...], tuple[int, int]]  # by the values of the other axes


def answers_of(
    rows: pd.DataFrame, by: Sequence[str], game: type[Game], impossible: Impossible = NONE_IMPOSSIBLE
) -> Iterator[tuple[str, str, Answers]]:
    """Yield kind, name and answers of each outcome and contrasted indicator that some simulation can have.

    `rows` is the table of simulations, `by` its axes. Conditions that cannot have an outcome have no answer.
    """
    groups = list(by_condition(rows, by))
    rows = pd.concat([group for _, group in groups]) if groups else rows
    keys = pd.DataFrame([key for key, _ in groups], columns=list(by))
    cells = np.repeat(np.arange(len(groups)), [len(group) for _, group in groups]).astype(np.int64)
    seeds = np.unique(rows["seed"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    pairs = pair_numbers(rows, game)
    for name, kind in rates_of(game).items():
        values = values_of(rows, kind, name)
        if kind == "outcome":
            never = [name in impossible.get(key, frozenset()) for key, _ in groups]
            values[np.array(never, dtype=bool)[cells]] = np.nan
        if not np.isnan(values).all():
            yield kind, name, Answers(keys, values, cells, seeds, pairs)


def comparisons(keys: pd.DataFrame, axis: str, known: NDArray[np.bool_], game: type[Game]) -> list[list[ValuePair]]:
    """Return what each value of an axis is compared with, and in which conditions; values that are linked together.

    `keys` has a row per condition, `known` says which of them count. A value is compared with the first one in all
    combinations of the other axes that have both. If there is none, it is compared with the value by way of which
    it is linked to the first (over the fewest others). Values that are not linked are not compared. Along b, games are
    alike with as many agents, or as many honest ones, as in figures.
    """
    import networkx as nx  # a quarter of a second, which `import parley` need not take

    places = {key: dict(members) for key, members in strata(keys, axis, game, np.flatnonzero(known).tolist()).items()}
    graph = nx.Graph()
    for found in places.values():
        graph.add_edges_from(itertools.combinations(found, 2))
    order = {value: place for place, value in enumerate(dict.fromkeys(keys[axis]))}
    compared = []
    for component in sorted(nx.connected_components(graph), key=lambda values: min(order[v] for v in values)):
        start = min(component, key=order.__getitem__)
        tree = nx.bfs_predecessors(graph, start, sort_neighbors=lambda each: sorted(each, key=order.__getitem__))
        linked = []
        for value, first in sorted(tree, key=lambda both: order[both[0]]):
            shared = {stratum: at for stratum, at in places.items() if first in at and value in at}
            linked.append(ValuePair(first, value, {stratum: (at[first], at[value]) for stratum, at in shared.items()}))
        compared.append(linked)
    return compared


def margin_table(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible = NONE_IMPOSSIBLE,
    paper: Sequence[PaperRate] = (),
) -> pd.DataFrame:
    """Return rates by outcome or indicator: over all conditions, and for each value of an axis that can be compared.

    `rows` is the table of simulations, `by` its axes. A rate of a value is the mean of the rates of the conditions
    that have it, over those combinations of the other axes that also have the value it is compared with. Differences
    are of simulations that both values have with the same seed. The first row of each outcome and indicator is over
    all conditions; those that follow are over the conditions that the study names for the rates of a `paper`.
    """
    table = []
    for kind, what, answers in answers_of(rows, by, game, impossible):
        table += [{"kind": kind, "what": what, **row} for row in _named(answers, what, game, paper)]
        for axis in by:
            for linked in comparisons(answers.keys, axis, answers.answered, game):
                table += [{"kind": kind, "what": what, **row} for row in _compared(answers, axis, linked)]
    names = names_of("margins", by, game)
    found = pd.DataFrame(table, columns=[name for name in names if name != "p_holm"])
    found["p_holm"] = holm_within(found, ["what", "axis"])
    texts = ["value", "from", "test", "source"]
    found[texts] = found[texts].astype(object).fillna("")
    counts = ["conditions", "left_out", "simulations", "seeds", "pairs", "only_from", "only_value"]
    return found.astype(dict.fromkeys(counts, "Int64"))[names]


def _named(answers: Answers, what: str, game: type[Game], paper: Sequence[PaperRate]) -> Iterator[dict[str, Any]]:
    """Yield the rate over all conditions, and over those that stand beside a paper's rate."""
    given = [each for each in paper if each.what == what]
    for each in [None, *(each for each in given if each.where)]:
        fits = answers.answered.copy()
        for axis, value in each.where.items() if each else ():
            fits &= answers.keys[axis].astype(str).isin(axis_names(game, axis, str(value))).to_numpy()
        beside = each or next((each for each in given if not each.where), None)
        row = {"axis": "", "value": axes_text(each.where) if each else "", "left_out": 0}
        if fits.any():
            row |= _rate(answers.over(np.flatnonzero(fits)), int(fits.sum()))
        yield row | ({"paper": beside.rate, "source": beside.source} if beside else {})


def _rate(of: Standardized, conditions: int) -> dict[str, Any]:
    low, high = rate_limits(of)
    counted = {"conditions": conditions, "simulations": of.simulations, "seeds": of.seeds}
    return counted | {"rate": of.rate, "low": low, "high": high}


def _compared(answers: Answers, axis: str, linked: Sequence[ValuePair]) -> Iterator[dict[str, Any]]:
    """Yield a row per value of an axis: its rate, and all but the first what it differs from."""
    first = linked[0].first
    start = {stratum: i for each in linked if each.first == first for stratum, (i, _) in each.cells.items()}
    yield _of_value(answers, axis, first, list(start.values()))
    for each in linked:
        row = _of_value(answers, axis, each.value, [j for _, j in each.cells.values()])
        yield row | {"from": str(each.first)} | _tested(answers, list(each.cells.values()))


def _of_value(answers: Answers, axis: str, value: Any, cells: list[int]) -> dict[str, Any]:
    has_it, conditions = answers.answered & (answers.keys[axis] == value).to_numpy(), len(set(cells))
    row = {"axis": axis, "value": str(value), "left_out": int(has_it.sum()) - conditions}
    return row | _rate(answers.over(cells), conditions)


def _tested(answers: Answers, cells: list[tuple[int, int]]) -> dict[str, Any]:
    """Return difference, interval and test: of pairs where the conditions of each combination share seeds."""
    if found := answers.paired(cells):
        first, second, pairs, only_first, only_second = found
        low, high, p = difference(first, second)
        row = {"pairs": pairs, "only_from": only_first, "only_value": only_second, "test": CLUSTERED}
    else:
        first, second = (answers.over(side) for side in zip(*cells, strict=True))
        low, high = apart(first, second)
        p = mantel_haenszel(answers.counts[np.array(cells)])
        row = {"pairs": 0, "only_from": 0, "only_value": 0, "test": STRATIFIED}
    rates = {"rate_from": first.rate, "rate_value": second.rate, "difference": second.rate - first.rate}
    return row | rates | {"difference_low": low, "difference_high": high, "p": p}
