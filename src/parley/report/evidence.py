"""The report's tables of questions, rates, quantities, contrasts: cells as text, from what `summarize` wrote."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from parley.analysis.rates import all_quantities, by_condition
from parley.games.base import Game
from parley.study import Study
from parley.study.questions import question_text

MAX_CONTRASTS = 60


def rate_rows(rates: pd.DataFrame, by: Sequence[str], game: type[Game]) -> dict[str, Any]:
    """Return the labels of the indicators, and per condition its axes and each one's rate, interval and count."""
    rows = []
    for key, here in by_condition(rates, by):
        cells = [
            {
                "main": "-" if not row["simulations"] else f"{row['rate']:.0%} {_shares(row['low'], row['high'])}",
                "small": f"{row['count']} of {row['simulations']}",
            }
            for row in here.to_dict("records")
        ]
        rows.append((list(key), cells))
    return {"labels": [indicator.label for indicator in game.evidence.indicators], "rows": rows}


def quantity_rows(quantities: pd.DataFrame, by: Sequence[str], game: type[Game]) -> dict[str, Any]:
    """Return the labels with units, and per condition its axes and each one's mean, interval, median and n."""
    described = all_quantities(quantities["quantity"], game)
    # Times of phases stand in the table; beside the time of the whole they would make the page's widest.
    described = [what for what in described if not what.name.startswith("seconds_")]
    rows = []
    for key, here in by_condition(quantities, by):
        found = {str(row["quantity"]): row for row in here.to_dict("records")}
        rows.append((list(key), [_mean_cell(found.get(what.name), what.share) for what in described]))
    return {"labels": [f"{w.label} ({w.unit})" if w.unit else w.label for w in described], "rows": rows}


def _mean_cell(row: dict[Any, Any] | None, share: bool) -> dict[str, str]:
    if row is None or not row["simulations"]:
        return {"main": "-", "small": "no simulation has it"}
    form = ".0%" if share else ".4g"
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:{form}}, {row['high']:{form}}]"
    return {
        "main": f"{row['mean']:{form}}{interval}",
        "small": f"median {row['median']:{form}}, of {row['simulations']}",
    }


def contrast_rows(contrasts: pd.DataFrame, by: Sequence[str], game: type[Game]) -> dict[str, Any]:
    """Return the contrasts with the smallest p, at most MAX_CONTRASTS, as text; and how many there are."""
    order = contrasts.sort_values("p", kind="stable", na_position="last")
    labels, numbers = _labels(game)
    varying = [axis for axis in by if contrasts[axis].nunique() > 1]
    shown = order.head(MAX_CONTRASTS).to_dict("records")
    return {
        "all": len(contrasts),
        "axes": varying,
        "noisy": "noise" in contrasts and bool(contrasts["noise"].notna().any()),
        "rows": [
            {**_contrast(row, labels, row["what"] in numbers), "axes": [row[axis] for axis in varying]}
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
    labels, numbers = _labels(study.game)
    texts = {question.name: question_text(question) for question in study.questions}
    return [
        {
            **_contrast(
                row | dict.fromkeys(("simulations_from", "simulations_to"), row["pairs"]),
                labels,
                row["what"] in numbers,
            ),
            "name": row["question"],
            "text": texts[row["question"]],
            "strata": "1 stratum" if row["strata"] == 1 else f"{row['strata']} strata",
            "by_seed": p_text(row["p_by_seed"]),
            "answer": row["answer"],
        }
        for row in questions.to_dict("records")
    ]


def _labels(game: type[Game]) -> tuple[dict[str, str], set[str]]:
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
