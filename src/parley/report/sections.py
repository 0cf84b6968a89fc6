"""The tables of the report: which columns each has, and its rows as text."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from parley.analysis.conditions import outcomes_of
from parley.analysis.degenerate_rates import degenerate_rows
from parley.analysis.precision import anytime_interval
from parley.analysis.stats import CONFIDENCE
from parley.games.evidence import OutcomeClass
from parley.play.usable import Records
from parley.policies import FAILURE_CLASSES
from parley.report.endings import quality_rows, time_rows
from parley.report.evidence import contrast_rows, noise_rows
from parley.report.links import Links
from parley.report.margins import effect_rows, margin_rows
from parley.report.overview import simulations_text
from parley.report.reactions import behavior_rows, reaction_rows
from parley.report.tables import Column, table, text_column
from parley.study import Study


def all_tables(study: Study, made: Mapping[str, pd.DataFrame], records: Records, links: Links) -> dict[str, Any]:
    """Return the tables of the page by name, each with how many rows the table on the disk has."""
    by, game, conditions = study.axes, study.game, made["conditions"]
    contrasts, outcomes = made["contrasts"], outcomes_of(conditions, game)
    differ = (contrasts["p"] < 1 - CONFIDENCE).to_numpy(dtype=bool)
    rows = [
        condition_row(row, by, outcomes, bool(condition.growing))
        | {"link": links.simulations([row[axis] for axis in by])}
        for condition, (_, row) in zip(records.first_repeat.study.conditions, conditions.iterrows(), strict=True)
    ]
    degenerate = [
        {"axes": key, **{str(place): cell for place, cell in enumerate(cells)}}
        for key, cells in degenerate_rows(conditions, by)["rows"]
    ]
    classes = ("replies", "degenerate", *(name for name, _ in degenerate_rows(conditions, by)["classes"]))
    margins, effects = margin_rows(made["margins"], made["effects"], game), effect_rows(made["effects"], game)
    reactions = reaction_rows(made["reactions"], by, game)
    times = time_rows(made["times"], by, game)
    differing = contrast_rows(contrasts[differ], by, game, links.contrast)
    alike = contrast_rows(contrasts[~differ], by, game, links.contrast)
    conditioned = partial(table, by=by)
    return {
        "conditions": conditioned("conditions", rows, *_condition_columns(outcomes, conditions)),
        "endings": conditioned("endings", ending_rows(endings(made["simulations"], by)), *_ENDINGS),
        "degenerate": conditioned(
            "degenerate", degenerate, *(Column(name, str(place)) for place, name in enumerate(classes))
        ),
        "contrasts": (table("contrasts", differing["rows"], *_CONTRASTS, by=differing["axes"], first=2), differing),
        "no_difference": (table("no-difference", alike["rows"], *_CONTRASTS, by=alike["axes"], first=2), alike),
        "noise": conditioned("noise", noise_rows(made["noise"], by, game), *_NOISE),
        "margins": (table("margins", margins["rows"], *_margin_columns(margins["paper"])), margins),
        "effects": (table("effects", effects["rows"], *_EFFECTS), effects),
        "times": (table("times", times["rows"], *_TIMES, by=times["axes"], first=1), times),
        "quality": conditioned("quality", quality_rows(made["quality"], by), *_QUALITY),
        "behaviors": conditioned("behaviors", behavior_rows(made["behaviors"], by, game), *_BEHAVIORS),
        "reactions": (conditioned("reactions", reactions["rows"], *_REACTIONS), reactions),
    }


def measure_table(measure: Mapping[str, Any], by: Sequence[str]) -> dict[str, Any]:
    """Return an indicator or a quantity of `measures_of` with its table."""
    value = Column("rate" if measure["kind"] == "Rate" else "mean", "value", "small")
    return {**measure, "table": table(measure["id"], measure["rows"], value, by=by)}


def _condition_columns(outcomes: Sequence[OutcomeClass], conditions: pd.DataFrame) -> list[Column]:
    several = conditions["threat_model"].nunique() > 1 or conditions["threat_model"].iloc[0] != "none"
    return [
        *([text_column("threat model", "threat_model")] if several else []),
        Column("simulations", "simulations", link="link"),
        *(Column(outcome.label, f"rate {outcome.name}", f"count {outcome.name}") for outcome in outcomes),
        Column("median rounds", "median_rounds"),
        Column("unusable replies", "failed", "failures"),
    ]


def _margin_columns(paper: bool) -> list[Column]:
    return [
        *(text_column("what", "what"), text_column("value", "value"), text_column("over", "of", "simulations")),
        *(Column("rate", "rate"), *([Column("paper", "paper", "source")] if paper else [])),
        *(Column("difference", "difference", "pairs"), Column("p", "p", "test"), Column("p corrected", "p_holm")),
    ]


_ENDINGS = (
    Column("simulations", "simulations"),
    text_column("diagnosis: why there was no good end", "diagnosis"),
    text_column("detail of the outcome", "detail"),
)
_CONTRASTS = (
    *(text_column("what", "what"), text_column("compared", "compared")),
    *(Column("pairs", "pairs", "discordant", link="link"), Column("from → to", "values", "all")),
    *(Column("difference", "difference", "noise"), Column("p", "p", "test")),
    *(Column("p (Holm)", "p_holm"), Column("p (BH)", "p_bh")),
)
_NOISE = (
    *(text_column("outcome", "what"), Column("pairs", "pairs")),
    *(Column("again less first", "difference"), Column("noise", "band")),
)
_EFFECTS = (
    *(text_column("compared", "compared"), text_column("at", "at"), Column("conditions", "conditions", "separated")),
    *(Column("effect", "effect"), Column("p", "p")),
)
_TIMES = (
    *(text_column("compared", "compared"), text_column("ended in", "ending"), Column("ended", "ended")),
    *(Column("median rounds", "medians"), Column("difference", "difference"), Column("ratio", "ratio")),
    *(Column("p", "p"), Column("p corrected", "p_holm")),
)
_QUALITY = (
    *(Column("agreed", "simulations"), Column("slope", "slope"), Column("bias", "bias")),
    Column("about the line", "residual"),
)
_BEHAVIORS = (
    *(text_column("player", "player"), text_column("behavior", "behavior"), Column("games", "simulations")),
    *(Column("share", "share"), Column("payoff per round", "payoff"), Column("cost per round", "cost")),
)
_REACTIONS = (
    *(text_column("measure", "what"), text_column("compared with", "without"), Column("pairs", "pairs")),
    *(Column("with", "with"), Column("without", "sham"), Column("difference", "difference")),
    *(Column("p", "p"), Column("p corrected (Holm)", "p_holm")),
)


def condition_row(row: Any, by: Sequence[str], outcomes: Sequence[OutcomeClass], grew: bool = False) -> dict[str, Any]:
    """Return the cells of one condition, as text; of `outcomes`, which it may not all be able to have.

    Where its seeds `grew`, also the limits that hold whenever one stops.
    """
    rates: dict[str, str] = {}
    for outcome in outcomes:
        count, rate, low, high = (row[f"{outcome.name}_{part}"] for part in ("count", "rate", "low", "high"))
        if pd.isna(rate):
            rates |= {f"rate {outcome.name}": "-", f"count {outcome.name}": "cannot be"}
            continue
        told = f"{count} of {row['simulations']}"
        if grew:
            any_low, any_high = anytime_interval(int(count), int(row["simulations"]))
            told += f"; at any time [{any_low:.0%}, {any_high:.0%}]"
        rates |= {f"rate {outcome.name}": f"{rate:.0%} [{low:.0%}, {high:.0%}]", f"count {outcome.name}": told}
    median, failed = row["median_rounds"], row["failed_reply_rate"]
    return {
        "axes": [row[axis] for axis in by],
        "threat_model": row["threat_model"],
        "simulations": simulations_text(row),
        **rates,
        "median_rounds": "-" if pd.isna(median) else f"{median:g}",
        "failed": "-" if pd.isna(failed) else f"{row['failed_replies']} ({failed:.1%})",
        "failures": ", ".join(f"{name}: {row[name]}" for name in FAILURE_CLASSES if row[name]),
    }


def endings(simulations: pd.DataFrame, by: Sequence[str]) -> dict[str, Any]:
    """Count, per condition and in all, each diagnosis and each detail that occurs."""
    kinds = [
        (kind, value) for kind in ("diagnosis", "detail") for value in sorted(simulations[kind].dropna().unique())
    ]
    rows = []
    for key, group in simulations.groupby(list(by), sort=False):
        rows.append((list(key), len(group), [int((group[kind] == value).sum()) for kind, value in kinds]))
    total = [int((simulations[kind] == value).sum()) for kind, value in kinds]
    return {"kinds": kinds, "rows": rows, "total": total, "simulations": len(simulations)}


def ending_rows(counted_by: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per condition in which something has a diagnosis or a detail, with those that occur, as text."""
    kinds = counted_by["kinds"]
    rows = []
    for axes, simulations, counts in counted_by["rows"]:
        told: dict[str, list[str]] = {"diagnosis": [], "detail": []}
        for (kind, value), count in zip(kinds, counts, strict=True):
            if count:
                told[kind].append(f"{value}: {count}")
        if any(counts):
            rows.append({"axes": axes, "simulations": simulations, **{k: "; ".join(v) for k, v in told.items()}})
    return rows
