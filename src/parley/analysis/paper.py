"""The table `paper`: each number of a paper that a study names, beside that of its own games in those conditions."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.rates import by_condition, values_of
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.statistics.clustered import (
    MIN_SEEDS,
    added_squares,
    mean_limits,
    rate_limits,
    standardized,
    wilson_by_seeds,
)
from parley.study import Study
from parley.study.comparisons import Comparison, labels_of, rates_of
from parley.study.condition import Condition, axes_text
from parley.study.study_file import PaperNumber
from parley.text import counted

# What is of a round or of a player: its kind, the table that has it, and the column of the number.
_MADE = {"round": ("measure", "rounds", "mean"), "player": ("behavior", "behaviors", "share")}
_PAPER, _OWN = ("paper", "paper_low", "paper_high"), ("own", "low", "high")


def _told(study: Study, what: str, conditions: Sequence[Condition]) -> list[int]:
    """Return the places of a paper's numbers of `what` in just these conditions."""
    names = {condition.name for condition in conditions}
    return [
        place
        for place, (each, over) in enumerate(zip(study.content.paper, study.of_paper, strict=True))
        if each.what == what and each.is_mean and {condition.name for condition in over} == names
    ]


def sides_told(study: Study, comparison: Comparison) -> list[list[int]]:
    """Return the places of a paper's numbers of either side of what a question compares; none of times to an end."""
    if comparison.kind == "time":  # a paper's rate of the ending is another number
        return [[], []]
    sides = zip(*comparison.strata, strict=True)
    return [_told(study, what, side) for what, side in zip(comparison.outcomes, sides, strict=True)]


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
    games = dict(by_condition(rows, study.axes))
    shares = {*known, *(each.name for each in game.evidence.quantities if each.share)}
    table = []
    for each, conditions in zip(numbers, study.of_paper, strict=True):
        kind = _MADE[each.part][0] if each.part else known.get(each.what, "quantity")
        share, where = each.part is not None or each.what in shares, dict(each.where)
        where |= {each.part: getattr(each, each.part)} if each.part else {}
        row: dict[str, Any] = {"kind": kind, "what": each.what, "where": axes_text(where), "form": each.form}
        row |= {"share": share, "of": each.of, "source": each.source}
        row |= dict(zip(_PAPER, _estimate(each, share), strict=True))
        if each.part:
            own = _made(each, conditions, made)
        else:
            keys = [tuple(condition.axes.values()) for condition in conditions]
            can = [key for key in keys if key in games and each.what not in impossible.get(key, frozenset())]
            own = _own(each, kind, share, [games[key] for key in can])
        table.append(row | own)
    _add_questions(study, made["questions"], table)
    found = pd.DataFrame(table, columns=names_of("paper", study.axes, game))
    paper, ours = ([found[name].astype(float) for name in names] for names in (_PAPER, _OWN))
    found["difference"] = ours[0] - paper[0]
    found["difference_low"], found["difference_high"] = added_squares(paper, ours)
    texts = ["where", "question", "from", "to", "source"]
    found[texts] = found[texts].astype(object).fillna("")
    return found.astype(dict.fromkeys(["of", "conditions", "simulations", "seeds"], "Int64") | {"share": bool})


def _estimate(each: PaperNumber, share: bool) -> tuple[float, float, float]:
    if each.margin is not None:
        return each.value, each.value - each.margin, each.value + each.margin
    low, high = wilson_by_seeds(each.value, each.of, each.of) if each.of and share else (math.nan, math.nan)
    return each.value, low, high


def _own(each: PaperNumber, kind: str, share: bool, games: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Return what the simulations of some conditions have, each condition with equal weight."""
    pairs = ((values_of(group, kind, each.what), group["seed"]) for group in games)
    known = [(values, seeds) for values, seeds in pairs if not np.isnan(values).all()]
    if not known:
        return {}
    values, seeds = (np.concatenate(side) for side in zip(*known, strict=True))
    cells = np.repeat(np.arange(len(known)), [len(of) for of, _ in known])
    weights = np.full(len(known), 1 / len(known))
    over = standardized(values, cells, seeds, weights)
    row = {"conditions": len(known), "simulations": over.simulations, "seeds": over.seeds}
    if each.form == "most":
        return row | {"own": float(np.nanmax(values))}
    limits = rate_limits(over) if share else mean_limits(over)
    return row | dict(zip(_OWN, (over.rate, *limits), strict=True))


def _made(each: PaperNumber, conditions: Sequence[Condition], made: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    part = each.part or ""
    name, table, number = _MADE[part]
    rows = made[table][(made[table][name] == each.what) & (made[table][part] == getattr(each, part))]
    axes = pd.MultiIndex.from_frame(rows[list(conditions[0].axes)])
    rows = rows[axes.isin([tuple(condition.axes.values()) for condition in conditions])]
    if rows.empty or not (size := int(rows["simulations"].iloc[0])):
        return {}
    own = float(rows[number].iloc[0])
    limits = wilson_by_seeds(own, size, size) if size >= MIN_SEEDS else (math.nan, math.nan)
    return {"conditions": 1, "simulations": size, "seeds": size, **dict(zip(_OWN, (own, *limits), strict=True))}


def _add_questions(study: Study, asked: pd.DataFrame, table: list[dict[str, Any]]) -> None:
    """Add a row for each question of which the paper has both sides."""
    for comparison, found in zip(study.comparisons, asked.to_dict("records"), strict=True):
        own = {"simulations": found["pairs"], "own": found["difference"], "low": found["low"], "high": found["high"]}
        about = {name: found[name] for name in ("what", "question", "from", "to")} | (own if found["pairs"] else {})
        about |= {"kind": "difference", "form": "difference", "share": comparison.share}
        for one, two in itertools.product(*sides_told(study, comparison)):
            first, second = ([table[place][name] for name in _PAPER] for place in (one, two))
            if (source := table[one]["source"]) == table[two]["source"]:
                change = (second[0] - first[0], *added_squares(first, second))
                table.append(about | {"source": source} | dict(zip(_PAPER, change, strict=True)))


def paper_lines(table: pd.DataFrame, game: type[Game]) -> list[str]:
    """Return a sentence for each row of the table `paper`: the paper's number, one's own, and whether they differ."""
    # These may have names of outcomes.
    own = {"measure": game.evidence.measures, "behavior": game.evidence.about("behaviors")}
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
