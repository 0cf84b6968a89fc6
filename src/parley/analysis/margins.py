"""The table `margins`: rates over several conditions, for each value of each axis, standardized over the other axes.

It answers what a study asks of an axis as a whole: how often do games end well with this prompt, whatever the model
and the number of agents? A rate is a mean of the rates of conditions, so no condition counts more because it was
played more often. All simulations of a seed are a cluster: what a seed deals makes them alike.
docs/explanation/statistics.md says what is computed, and why, and has the coverage of the intervals.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.pairs import pair_numbers, strata
from parley.analysis.rates import by_condition, values_of
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.statistics.clustered import (
    Indices,
    Standardized,
    rate_limits,
    standardized,
)
from parley.statistics.differences import RATE, Clusters, SamplePair, Unpaired, beside
from parley.statistics.stats import Floats
from parley.study.comparisons import rates_of

# Of a difference, what the table calls it.
_OF_DIFFERENCE = {
    **{"value_from": "rate_from", "value_to": "rate_value", "difference": "difference"},
    **{"low": "difference_low", "high": "difference_high", "pairs": "pairs"},
    **{"only_first": "only_from", "only_second": "only_value", "test": "test", "p": "p", "p_holm": "p_holm"},
}


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
        return np.bincount(self.cells[~np.isnan(self.values)], minlength=len(self.keys)) > 0

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

    def samples(self, cells: Sequence[tuple[int, int]], family: tuple[str, str]) -> SamplePair:
        """Return both sides over combinations, each with equal weight, of the simulations that are pairs.

        What has no counterpart does not count: a side with more seeds would else be compared with what the other was
        never asked, and a side that always has it would hide how much those seeds differ. If a combination has no
        pair, all simulations count.
        """
        sides = [np.concatenate([self._known[cell] for cell in side]) for side in zip(*cells, strict=True)]
        number = self.pairs.max() + 1
        one, two = (
            np.repeat(np.arange(len(cells)) * number, [len(self._known[cell]) for cell in side]) + self.pairs[places]
            for side, places in zip(zip(*cells, strict=True), sides, strict=True)
        )
        found, mine, yours = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        clusters: Clusters | Unpaired = Clusters(self.seeds[sides[0][mine]], found // number)
        if len(np.unique(found // number)) < len(cells):
            first, second = (self.over(side) for side in zip(*cells, strict=True))
            clusters = Unpaired((first, second), self.counts[np.array(cells)])
        x, y = (self.values[places] for places in sides)
        return SamplePair({}, x, y, RATE, mine, yours, clusters, family)


@dataclass(frozen=True)
class ValuePair:
    """Two values of an axis, and the conditions that have them, alike in the other axes."""

    first: Any
    value: Any
    cells: dict[tuple[Any, ...], tuple[int, int]]  # by the values of the other axes


def answers_of(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    impossible: Impossible,
    kinds: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str, Answers]]:
    """Yield kind, name and answers of each outcome and contrasted indicator that some simulation can have.

    `rows` is the table of simulations, `by` its axes. Conditions that cannot have an outcome have no answer. `kinds`
    names others than these, each with its kind.
    """
    groups = list(by_condition(rows, by))
    rows = pd.concat([group for _, group in groups]) if groups else rows
    keys = pd.DataFrame([key for key, _ in groups], columns=list(by))
    cells = np.repeat(np.arange(len(groups)), [len(group) for _, group in groups]).astype(np.int64)
    seeds = np.unique(rows["seed"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    pairs = pair_numbers(rows, game)
    for name, kind in (rates_of(game) if kinds is None else kinds).items():
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
) -> pd.DataFrame:
    """Return rates by outcome or indicator: over all conditions, and for each value of an axis that can be compared.

    `rows` is the table of simulations, `by` its axes. A rate of a value is the mean of the rates of the conditions
    that have it, over those combinations of the other axes that also have the value it is compared with. Differences
    are of simulations that both values have with the same seed. The first row of each outcome and indicator is over
    all conditions.
    """
    table: list[dict[str, Any]] = []
    samples: list[SamplePair | None] = []
    for kind, what, answers in answers_of(rows, by, game, impossible):
        everywhere = np.flatnonzero(answers.answered)
        whole = {"kind": kind, "what": what, "axis": "", "value": "", "left_out": 0}
        table.append(whole | _rate(answers.over(everywhere), len(everywhere)))
        for axis in by:
            for linked in comparisons(answers.keys, axis, answers.answered, game):
                first = linked[0].first
                start = {key: i for each in linked if each.first == first for key, (i, _) in each.cells.items()}
                about = {"kind": kind, "what": what, "axis": axis}
                table.append(about | _of_value(answers, axis, first, list(start.values())))
                samples += [None] * (len(table) - len(samples))
                for each in linked:
                    cells = list(each.cells.values())
                    row = _of_value(answers, axis, each.value, [j for _, j in cells])
                    table.append(about | row | {"from": str(each.first)})
                    samples.append(answers.samples(cells, (what, axis)))
        samples += [None] * (len(table) - len(samples))
    rates = beside(table, samples, _OF_DIFFERENCE).reindex(columns=names_of("margins", by, game))
    texts = ["value", "from", "test"]
    rates[texts] = rates[texts].astype(object).fillna("")
    counts = ["conditions", "left_out", "simulations", "seeds", "pairs", "only_from", "only_value"]
    return rates.astype(dict.fromkeys(counts, "Int64"))


def _rate(of: Standardized, conditions: int) -> dict[str, Any]:
    low, high = rate_limits(of)
    counted = {"conditions": conditions, "simulations": of.simulations, "seeds": of.seeds}
    return counted | {"rate": of.rate, "low": low, "high": high}


def _of_value(answers: Answers, axis: str, value: Any, cells: list[int]) -> dict[str, Any]:
    has_it, conditions = answers.answered & (answers.keys[axis] == value).to_numpy(), len(set(cells))
    row = {"value": str(value), "left_out": int(has_it.sum()) - conditions}
    return row | _rate(answers.over(cells), conditions)
