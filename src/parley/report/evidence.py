"""The report's tables of questions, measures, contrasts: cells as text, from what `summarize` wrote."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from parley.analysis.rates import SECONDS, all_quantities
from parley.games.base import Game
from parley.report.tables import value_text
from parley.study import Study
from parley.study.comparisons import BOTH
from parley.study.questions import question_text

MAX_CONTRASTS = 60


def measures_of(
    rates: pd.DataFrame, quantities: pd.DataFrame, by: Sequence[str], game: type[Game]
) -> list[dict[str, Any]]:
    """Return each indicator and quantity with its rate or mean, interval and count in each condition, as text.

    `rates` and `quantities` are the tables of these names. Times, which the machine decides as much as the game, are
    marked: `is_time`.
    """
    told = [
        {"id": f"rate-{each.name}", "title": each.label, "kind": "Rate", "is_time": False}
        | {"rows": _cells(rates[rates["indicator"] == each.name], by, _rate_cell)}
        for each in game.evidence.indicators
    ]
    for what in all_quantities(quantities["quantity"], game):
        mine = quantities[quantities["quantity"] == what.name]
        told.append(
            {
                "id": f"mean-{what.name}",
                "title": f"{what.label} ({what.unit})" if what.unit else what.label,
                "kind": "Mean",
                "is_time": what.name == SECONDS or what.name.startswith(f"{SECONDS}_"),
                "rows": _cells(mine, by, partial(_mean_cell, share=what.share)),
            }
        )
    return [measure for measure in told if measure["rows"]]


def _cells(rows: pd.DataFrame, by: Sequence[str], cell: Callable[[Any], dict[str, str]]) -> list[dict[str, Any]]:
    """Return the cells of those conditions that have any simulation with a value."""
    known = rows[rows["simulations"] > 0].to_dict("records")
    return [{"axes": [row[axis] for axis in by], **cell(row)} for row in known]


def _rate_cell(row: dict[Any, Any]) -> dict[str, str]:
    return {"value": f"{row['rate']:.0%} {_shares(row['low'], row['high'])}", "small": _of(row)}


def _of(row: dict[Any, Any]) -> str:
    return f"{row['count']} of {row['simulations']}"


def _mean_cell(row: dict[Any, Any], share: bool) -> dict[str, str]:
    form = ".0%" if share else ".4g"
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:{form}}, {row['high']:{form}}]"
    median = f"median {row['median']:{form}}, of {row['simulations']}"
    return {"value": f"{row['mean']:{form}}{interval}", "small": median}


def contrast_rows(
    contrasts: pd.DataFrame, by: Sequence[str], game: type[Game], link: Callable[[Any], str] = lambda row: ""
) -> dict[str, Any]:
    """Return the contrasts with the smallest p, at most MAX_CONTRASTS, as text; and how many there are.

    `link` returns the address of what stands behind a row, or "".
    """
    order = contrasts.sort_values("p", kind="stable", na_position="last")
    labels, numbers = labels_of(game)
    varying = [axis for axis in by if contrasts[axis].nunique() > 1]
    shown = order.head(MAX_CONTRASTS).to_dict("records")
    return {
        "all": len(contrasts),
        "axes": varying,
        "noisy": "noise" in contrasts and bool(contrasts["noise"].notna().any()),
        "rows": [
            _contrast(row, labels, row["what"] in numbers)
            | {"axes": [row[axis].replace(" -> ", " → ") for axis in varying], "link": link(row)}
            for row in shown
        ],
    }


def noise_rows(noise: pd.DataFrame, by: Sequence[str], game: type[Game]) -> list[dict[str, Any]]:
    """Return how much each condition differs from itself, as text, in the outcomes that are not always alike."""
    labels = {outcome.name: outcome.label for outcome in game.outcomes}
    return [
        {
            "axes": [row[axis] for axis in by],
            "what": labels[row["what"]],
            "pairs": row["pairs"],
            "difference": f"{100 * row['difference']:+.0f}",
            "band": f"±{100 * row['band']:.0f}",
        }
        for row in noise.to_dict("records")
        if row["kind"] == "outcome" and row["band"] > 0
    ]


def question_rows(study: Study, questions: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what the questions of a study were answered, as text, in their order."""
    labels, numbers = labels_of(study.game)
    texts = {question.name: question_text(question) for question in study.questions}
    return [
        {
            **_contrast(
                row | dict.fromkeys(("simulations_from", "simulations_to"), row["pairs"]),
                labels,
                two_names(row["what"])[0] in numbers,
            ),
            "what": " → ".join(dict.fromkeys(labels[name] for name in two_names(row["what"]))),
            "compared": compared_text(row, labels),
            "name": row["question"],
            "text": texts[row["question"]],
            "strata": "1 stratum" if row["strata"] == 1 else f"{row['strata']} strata",
            "by_seed": p_text(row["p_by_seed"]),
            "answer": row["answer"],
        }
        for row in questions.to_dict("records")
    ]


def two_names(what: str) -> tuple[str, str]:
    """Return the names of what a question looks at on its first side and its second, from the column `what`."""
    first, _, second = what.partition(BOTH)
    return first, second or first


def compared_text(row: Mapping[Any, Any], labels: Mapping[str, str]) -> str:
    """Return what a row of the table `questions` compares: values of an axis, or two sides."""
    axis, values = row["axis"], (row["from"], row["to"])
    names = two_names(row["what"])
    if names[0] == names[1]:
        return f"{axis}: {values[0]} → {values[1]}" if "," not in axis else f"{values[0]} → {values[1]}"
    sides = [value_text(row, end) if axis else "" for end in ("from", "to")]
    return " → ".join(", ".join(filter(None, (labels[n], s))) for n, s in zip(names, sides, strict=True))


def labels_of(game: type[Game]) -> tuple[dict[str, str], set[str]]:
    """Return the labels of all that is compared, and the names of what is a number and no share."""
    evidence = game.evidence
    labels = {outcome.name: outcome.label for outcome in game.outcomes}
    labels |= {indicator.name: indicator.label for indicator in evidence.indicators}
    labels |= {quantity.name: quantity.label for quantity in evidence.quantities}
    return labels, {quantity.name for quantity in evidence.quantities if not quantity.share}


def _contrast(row: dict[Any, Any], labels: dict[str, str], number: bool) -> dict[str, Any]:
    """Return one contrast as text: of numbers as they are, else in percent and percentage points."""
    within = row["kind"] == "comparison"
    form, signed, times, unit = (".4g", "+.4g", 1, "") if number else (".0%", "+.0f", 100, " points")
    if pd.isna(row["difference"]):
        difference = values = "-"
    else:
        values = f"{row['value_from']:{form}} → {row['value_to']:{form}}"
        change, low, high = (times * row[name] for name in ("difference", "low", "high"))
        interval = "" if pd.isna(low) else f" [{low:{signed}}, {high:{signed}}]"
        difference = f"{change:{signed}}{interval}{unit}"
    pairs = f"{row['pairs']} pairs" if row["pairs"] else f"{row['simulations_from']}, {row['simulations_to']} unpaired"
    discordant = row["kind"] != "quantity" and row["pairs"]
    compared = [labels.get(row[end], row[end]) if within else row[end] for end in ("from", "to")]
    return {
        "what": "indicators of one condition" if within else labels.get(row["what"], row["what"]),
        "compared": f"{'' if within else row['axis'] + ': '}{compared[0]} → {compared[1]}",
        "pairs": pairs,
        "discordant": f"{row['only_first']} only first, {row['only_second']} only second" if discordant else "",
        "values": values,
        "all": _all(row, form),
        "difference": difference,
        "noise": _noise(row, form if number else ".0f", times, unit),
        "p": p_text(row["p"]),
        "p_holm": p_text(row["p_holm"]),
        "p_bh": p_text(row.get("p_bh", math.nan)),
        "test": row["test"],
    }


def _all(row: dict[Any, Any], form: str) -> str:
    """Return the rates or means of all simulations, where the pairs are only some of them."""
    sizes = row["simulations_from"], row["simulations_to"]
    if not row["pairs"] or sizes == (row["pairs"], row["pairs"]):
        return ""
    return f"all: {row['all_from']:{form}} of {sizes[0]} → {row['all_to']:{form}} of {sizes[1]}"


def _noise(row: dict[Any, Any], form: str, times: int, unit: str) -> str:
    """Return how much sampling alone explains, where seeds were played again; it is said if that is all there is."""
    noise = row.get("noise", math.nan)
    if pd.isna(noise) or pd.isna(row["difference"]):
        return ""
    below = "within the noise" if abs(row["difference"]) <= noise else "noise"
    return f"{below}: ±{times * noise:{form}}{unit}"


def p_text(value: float) -> str:
    """Return a p value as text."""
    if pd.isna(value):
        return "-"
    if value < 1e-300:
        return "< 1e-300"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _shares(low: float, high: float) -> str:
    return f"[{low:.0%}, {high:.0%}]"
