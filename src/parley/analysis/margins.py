"""The tables `margins` and `paper`: rates over several conditions.

`margins` has them for each value of each axis, standardized over the other axes.

It answers what a study asks of an axis as a whole: how often do games end well with this prompt, whatever the model
and the number of agents? A rate is a mean of the rates of conditions, so no condition counts more because it was
played more often. All simulations of a seed are a cluster: what a seed deals makes them alike.
docs/explanation/statistics.md says what is computed, and why, and has the coverage of the intervals. `paper` has each
number of a paper that the study names, beside what its own games have in the same conditions.
"""

import itertools
import math
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
    MIN_SEEDS,
    Indices,
    Standardized,
    added_squares,
    mean_limits,
    rate_limits,
    standardized,
    wilson_by_seeds,
)
from parley.statistics.differences import RATE, Clusters, SamplePair, Unpaired, beside
from parley.statistics.stats import Floats
from parley.study import Study
from parley.study.comparisons import Comparison, labels_of, rates_of
from parley.study.condition import Condition, axes_text
from parley.study.study_file import PaperNumber
from parley.text import counted

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
    impossible: Impossible = NONE_IMPOSSIBLE,
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
        table.append(whole | (_rate(answers.over(everywhere), len(everywhere)) if len(everywhere) else {}))
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


# A paper's numbers

# What is of a round or of a player: its kind, the table that has it, and the column of the number.
_MADE = {"round": ("measure", "rounds", "mean"), "player": ("behavior", "behaviors", "share")}
_PAPER, _OWN = ("paper", "paper_low", "paper_high"), ("own", "low", "high")


def told(study: Study, what: str, conditions: Sequence[Condition], exactly: bool = True) -> list[int]:
    """Return the places of a paper's numbers of `what` in these conditions; else also in more, of fewest first."""
    names, found = {each.name for each in conditions}, list[tuple[int, int]]()
    for place, (each, over) in enumerate(zip(study.content.paper, study.of_paper, strict=True)):
        mine = {condition.name for condition in over}
        if each.what == what and each.is_mean and (mine == names or (names < mine and not exactly)):
            found.append((len(mine), place))
    return [place for _, place in sorted(found)]


def sides_told(study: Study, comparison: Comparison) -> list[list[int]]:
    """Return the places of a paper's numbers of either side of what a question compares."""
    sides = zip(*comparison.strata, strict=True)
    return [told(study, what, side) for what, side in zip(comparison.outcomes, sides, strict=True)]


def rows_beside(study: Study, comparison: Comparison, table: pd.DataFrame) -> list[int]:
    """Return the places of the rows of the table `paper` that are about what a question compares."""
    asked = pd.MultiIndex.from_frame(table[["question", "from", "to"]])
    about = asked.isin([(comparison.question.name, *comparison.values)])
    return [*itertools.chain(*sides_told(study, comparison)), *np.flatnonzero(about)]


def paper_table(
    study: Study, rows: pd.DataFrame, made: Mapping[str, pd.DataFrame], impossible: Impossible = NONE_IMPOSSIBLE
) -> pd.DataFrame:
    """Return a row per number of a paper, beside that of the study's own simulations (`rows`) in the same conditions.

    Then a row per question of which the paper has both sides. `made` has other tables. The difference is the study's
    number less the paper's, by the limits of both (`added_squares`): missing where either has none.
    """
    game, numbers = study.game, study.content.paper
    known = {each.name: "indicator" for each in game.evidence.indicators} | rates_of(game)
    kinds = {each.what: known.get(each.what, "quantity") for each in numbers if each.what and each.part is None}
    answers = {what: found for _, what, found in answers_of(rows, study.axes, game, impossible, kinds)}
    shares = {*known, *(each.name for each in game.evidence.quantities if each.share)}
    table = []
    for each, conditions in zip(numbers, study.of_paper, strict=True):
        kind = _MADE[each.part][0] if each.part else kinds.get(each.what or "", "difference")
        share, where = each.part is not None or each.what in shares, dict(each.where)
        where |= {each.part: getattr(each, each.part)} if each.part else {}
        row: dict[str, Any] = {
            "kind": kind,
            "what": each.what,
            "where": axes_text(where),
            "form": each.form,
            "share": share,
        }
        row |= {"of": each.of, "source": each.source} | dict(zip(_PAPER, _estimate(each, share), strict=True))
        if each.part:
            row |= _made(each, conditions, made)
        elif each.what in answers:
            row |= _own(each, conditions, share, answers[each.what])
        table.append(row)
    _add_questions(study, made["questions"], table)
    found = pd.DataFrame(table, columns=names_of("paper", study.axes, game))
    paper, own = ([found[name].astype(float) for name in names] for names in (_PAPER, _OWN))
    found["difference"] = own[0] - paper[0]
    found["difference_low"], found["difference_high"] = added_squares(paper, own)
    texts = ["where", "question", "from", "to", "source"]
    found[texts] = found[texts].astype(object).fillna("")
    return found.astype(dict.fromkeys(["of", "conditions", "simulations", "seeds"], "Int64") | {"share": bool})


def _estimate(each: PaperNumber, share: bool) -> tuple[float, float, float]:
    if each.margin is not None:
        return each.value, each.value - each.margin, each.value + each.margin
    low, high = wilson_by_seeds(each.value, each.of, each.of) if each.of and share else (math.nan, math.nan)
    return each.value, low, high


def _own(each: PaperNumber, conditions: Sequence[Condition], share: bool, answers: Answers) -> dict[str, Any]:
    fits = answers.answered & _fitting(conditions, answers.keys)
    if not fits.any():
        return {}
    over = answers.over(np.flatnonzero(fits))
    row = {"conditions": int(fits.sum()), "simulations": over.simulations, "seeds": over.seeds}
    if each.form == "most":
        return row | {"own": float(np.nanmax(answers.values[fits[answers.cells]]))}
    limits = rate_limits(over) if share else mean_limits(over)
    return row | dict(zip(_OWN, (over.rate, *limits), strict=True))


def _fitting(conditions: Sequence[Condition], keys: pd.DataFrame) -> NDArray[np.bool_]:
    index = pd.MultiIndex.from_frame(keys[list(conditions[0].axes)])
    return index.isin([tuple(each.axes.values()) for each in conditions])


def _made(each: PaperNumber, conditions: Sequence[Condition], made: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    part = each.part or ""
    name, table, number = _MADE[part]
    rows = made[table][(made[table][name] == each.what) & (made[table][part] == getattr(each, part))]
    rows = rows[_fitting(conditions, rows)]
    if rows.empty or not (size := int(rows["simulations"].iloc[0])):
        return {}
    own = float(rows[number].iloc[0])
    limits = wilson_by_seeds(own, size, size) if size >= MIN_SEEDS else (math.nan, math.nan)
    return {"conditions": 1, "simulations": size, "seeds": size, **dict(zip(_OWN, (own, *limits), strict=True))}


def _add_questions(study: Study, asked: pd.DataFrame, table: list[dict[str, Any]]) -> None:
    """Add what questions say to the rows of differences, and a row for each of which the paper has both sides."""
    for comparison, found in zip(study.comparisons, asked.to_dict("records"), strict=True):
        own = {"simulations": found["pairs"], "own": found["difference"], "low": found["low"], "high": found["high"]}
        about = {name: found[name] for name in ("what", "question", "from", "to")} | (own if found["pairs"] else {})
        about |= {"kind": "difference", "form": "difference", "share": comparison.share}
        for row, each in zip(table, study.content.paper, strict=False):
            if each.question == comparison.question.name:
                row |= about
        for one, two in itertools.product(*sides_told(study, comparison)):
            first, second = ([table[place][name] for name in _PAPER] for place in (one, two))
            if (source := table[one]["source"]) == table[two]["source"]:
                change = (second[0] - first[0], *added_squares(first, second))
                table.append(about | {"source": source} | dict(zip(_PAPER, change, strict=True)))


def paper_lines(table: pd.DataFrame, game: type[Game]) -> list[str]:
    """Return a sentence for each row of the table `paper`: the paper's number, one's own, and whether they differ."""
    own = {
        "measure": game.evidence.measures,
        "behavior": game.evidence.about("behaviors"),
    }  # names like outcomes' names
    labels = {kind: {each.name: each.label for each in of} for kind, of in own.items()}
    rows = table.to_dict("records")
    return [_paper_line(row, labels.get(row["kind"], labels_of(game)).get(row["what"], row["what"])) for row in rows]


def _paper_line(row: Mapping[Any, Any], label: str) -> str:
    low, high, size, differs = row["difference_low"], row["difference_high"], row["simulations"], bool(row["question"])

    def text(value: float, sign: bool = differs, unit: str = " points") -> str:
        if not row["share"]:
            return f"{value:{'+z' if sign else ''}.4g}"
        return f"{100 * value:+z.0f}{unit}" if sign else f"{100 * value:.3g}%"

    most, unit = "at most " * (row["form"] == "most"), "pair" if differs else "game"
    what = f"difference from {row['from']} to {row['to']} ({row['question']})" if differs else row["where"]
    of = f"{round(row['paper'] * row['of'])} of {row['of']}" if row["form"] == "count" else text(row["paper"])
    said = f"{label}{what and ', '}{what}: the paper's {most}{of}" + (f" ({row['source']})" if row["source"] else "")
    if pd.isna(row["own"]):
        return f"{said}; yours is not in the tables"
    counts = row["kind"] in ("outcome", "indicator") and row["conditions"] == 1
    yours = f"{round(row['own'] * size)} of {size}" if counts else f"{most}{text(row['own'])} in {counted(size, unit)}"
    if most:
        end = "more" if row["difference"] > 0 else "not more"
    elif not pd.isna(low):
        differ = "they differ, by" if low > 0 or high < 0 else "no difference can be told:"
        end = f"{differ} {text(row['difference'], True)} [{text(low, True, '')}, {text(high, True, '')}]"
    elif pd.isna(row["low"]):
        end = "nothing says how sure yours is"
    else:
        within = "within" if row["low"] <= row["paper"] <= row["high"] else "outside of"
        end = f"the paper's is {within} your interval [{text(row['low'])}, {text(row['high'])}]"
    return f"{said}, yours {yours}: {end}"
