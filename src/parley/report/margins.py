"""The report on several axes at once: margins and effects as text, from the tables that `summarize` wrote."""

from typing import Any

import pandas as pd

from parley.analysis.effects import CHANGES, points
from parley.games.base import Game
from parley.report.evidence import p_text
from parley.study.margins import labels_of_rates
from parley.text import counted

MAX_MARGINS = 80


def margin_rows(margins: pd.DataFrame, effects: pd.DataFrame, game: type[Game]) -> dict[str, Any]:
    """Return the rows of margins as text, at most MAX_MARGINS, and how many the table has.

    They are those of the outcome that the effects are about, and of all that a paper gives rates of.
    """
    labels = labels_of_rates(game)
    whats = {*effects["what"], *margins.loc[margins["paper"].notna(), "what"]} or {game.outcomes[0].name}
    rows = [_margin(row, labels) for row in margins[margins["what"].isin(whats)].to_dict("records")]
    return {"all": len(margins), "rows": rows[:MAX_MARGINS], "paper": bool(margins["paper"].notna().any())}


def _margin(row: dict[Any, Any], labels: dict[str, str]) -> dict[str, str]:
    value = f"{row['axis']}: {row['value']}" if row["axis"] else row["value"] or "all conditions"
    known = not pd.isna(row["rate"])
    compared = not pd.isna(row["difference"])
    left_out = f", {row['left_out']} left out" if row["left_out"] else ""
    pairs = f"; {row['only_from']} only {row['from']}, {row['only_value']} only {row['value']}" if row["pairs"] else ""
    rates = f"{row['from']} {row['rate_from']:.1%}, {row['value']} {row['rate_value']:.1%}"
    return {
        "what": labels.get(row["what"], row["what"]),
        "value": value,
        "of": f"{counted(row['conditions'], 'condition')}{left_out}",
        "simulations": f"{counted(row['simulations'], 'simulation')}, {counted(row['seeds'], 'seed')}",
        "rate": f"{row['rate']:.1%}{_limits(row['low'], row['high'], '.0%')}" if known else "-",
        "paper": "" if pd.isna(row["paper"]) else f"{row['paper']:.1%}",
        "source": row["source"],
        "difference": _points(row["difference"], row["difference_low"], row["difference_high"]) if compared else "",
        "pairs": rates + pairs if compared else "",
        "p": p_text(row["p"]) if compared else "",
        "p_holm": p_text(row["p_holm"]) if compared else "",
        "test": row["test"] if compared else "",
    }


def _limits(low: float, high: float, form: str) -> str:
    return "" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]"


def _points(change: float, low: float, high: float) -> str:
    interval = "" if pd.isna(low) else f" [{points(100 * low)}, {points(100 * high)}]"
    return f"{points(100 * change)}{interval} points"


def effect_rows(effects: pd.DataFrame, game: type[Game]) -> dict[str, Any]:
    """Return what is modeled, each effect as text, and what the fit warned of."""
    labels = labels_of_rates(game)
    rows = [
        {
            "compared": f"{row['axis']}: {row['from']} → {row['to']}",
            "at": row["at"].replace(CHANGES, " → ") + (" (change)" if CHANGES in row["at"] else ""),
            "conditions": row["conditions"],
            "effect": "-" if pd.isna(row["effect"]) else _points(row["effect"], row["low"], row["high"]),
            "p": p_text(row["p"]),
            "separated": f"{row['separated']} always or never" if row["separated"] else "",
        }
        for row in effects.to_dict("records")
    ]
    what = labels[str(effects["what"].iloc[0])] if rows else ""
    notes = list(dict.fromkeys(note for note in effects["note"] if note))
    return {"what": what, "rows": rows[:MAX_MARGINS], "all": len(rows), "notes": notes}
