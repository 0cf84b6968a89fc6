"""The report's tables of reactions to an adversary, and of behaviors: cells as text, from what `summarize` wrote."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from parley.analysis.behaviors import ANY
from parley.analysis.reactions import NONE
from parley.analysis.stats import CONFIDENCE
from parley.games.base import Game
from parley.games.evidence import Quantity
from parley.report.evidence import p_text

_POINTS = ("payoff", "cost")


def reaction_rows(reactions: pd.DataFrame, by: Sequence[str], game: type[Game]) -> dict[str, Any]:
    """Return the rows of all conditions that can be compared, the axes of those that cannot, and two counts.

    Shares are in percent and percentage points. Of `rates` above 0, `unproven` do not differ from the game
    without adversary by the corrected p.
    """
    measures = {each.name: each for each in game.evidence.reactions}
    compared = reactions[reactions["without"] != NONE]
    alone = reactions.loc[reactions["without"] == NONE, list(by)].drop_duplicates()
    rates = compared[(compared["kind"] == "indicator") & (compared["value_with"] > 0)]
    differing = rates["p_holm"] < 1 - CONFIDENCE
    return {
        "rows": [
            _row(row, by, measures[row["what"]]) for row in compared.to_dict("records") if row["simulations_without"]
        ],
        "alone": [list(map(str, key)) for key in alone.itertuples(index=False, name=None)],
        "rates": len(rates),
        "unproven": int((~differing).sum()),
    }


def behavior_rows(behaviors: pd.DataFrame, by: Sequence[str], game: type[Game]) -> list[dict[str, Any]]:
    """Return the rows of behaviors that somebody shows; shares are in percent."""
    labels = {each.name: each.label for each in game.evidence.behaviors}
    return [
        {
            "axes": [row[axis] for axis in by],
            "player": row["player"],
            "behavior": labels.get(row["behavior"], row["behavior"]),
            "simulations": row["simulations"],
            "share": f"{row['share']:.0%} [{row['low']:.0%}, {row['high']:.0%}]" if row["behavior"] != ANY else "",
            **{what: _with_limits(*(row[f"{what}{end}"] for end in ("", "_low", "_high"))) for what in _POINTS},
        }
        for row in behaviors[behaviors["shown"] > 0].to_dict("records")
    ]


def _with_limits(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f}" + ("" if pd.isna(low) else f" [{low:.2f}, {high:.2f}]")


def _row(row: dict[Any, Any], by: Sequence[str], measure: Any) -> dict[str, Any]:
    number = isinstance(measure, Quantity) and not measure.share
    scale, form = (1, ".3g") if number else (100, ".0f")
    low, high = row["low"], row["high"]
    interval = "" if pd.isna(low) else f" [{scale * low:+{form}}, {scale * high:+{form}}]"
    percent = "" if number else "%"
    return {
        "axes": [row[axis] for axis in by],
        "without": row["without"],
        "what": f"{measure.label} ({measure.unit})" if getattr(measure, "unit", "") else measure.label,
        "pairs": row["pairs"] or f"unpaired, {row['simulations']} and {row['simulations_without']}",
        "with": f"{scale * row['value_with']:{form}}{percent}",
        "sham": f"{scale * row['value_without']:{form}}{percent}",
        "difference": f"{scale * row['difference']:+{form}}{interval}",
        "p": p_text(row["p"]),
        "p_holm": p_text(row["p_holm"]),
    }
