"""The report's tables of times to stop and of the quality of agreement: cells as text, from the tables on the disk."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from parley.analysis.endings import ANY
from parley.games.base import Game
from parley.report.evidence import MAX_CONTRASTS, p_text


def time_rows(times: pd.DataFrame, by: Sequence[str], game: type[Game]) -> dict[str, Any]:
    """Return the comparisons of times to stop with the smallest p, at most MAX_CONTRASTS, and how many there are.

    Those of games that ended in one way follow that of all.
    """
    labels = {outcome.name: outcome.label for outcome in game.outcomes} | {ANY: "any"}
    varying = [axis for axis in by if times[axis].nunique() > 1]
    place = ["axis", "from", "to", *by]
    compared = times.groupby(place, sort=False, dropna=False)
    ranks = {"_p": compared["p"].transform("min"), "_place": compared.ngroup()}
    order = times.assign(**ranks).sort_values(list(ranks), kind="stable", na_position="last")
    rows = [
        {
            "compared": f"{row['axis']}: {row['from']} → {row['to']}",
            "axes": [row[axis] for axis in varying],
            "ending": labels.get(row["ending"], row["ending"]),
            "ended": " → ".join(f"{row[f'ended_{end}']} of {row[f'simulations_{end}']}" for end in ("from", "to")),
            "medians": " → ".join(_number(row, f"median_{end}", ".3g") for end in ("from", "to")),
            "difference": _number(row, "difference", "+.3g", ("low", "high")),
            "ratio": _number(row, "ratio", ".2g"),
            "p": p_text(row["p"]),
            "p_holm": p_text(row["p_holm"]),
        }
        for row in order.head(MAX_CONTRASTS).to_dict("records")
    ]
    return {"all": len(times), "axes": varying, "rows": rows}


def quality_rows(quality: pd.DataFrame, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return per condition its axes, the number of simulations that agreed, slope, bias and residual."""
    return [
        {
            "axes": [row[axis] for axis in by],
            "simulations": row["simulations"],
            "slope": _number(row, "slope", ".3g"),
            "bias": _number(row, "bias", "+.3g"),
            "residual": "-" if pd.isna(row["residual"]) else f"{row['residual']:.3g}",
        }
        for row in quality.to_dict("records")
    ]


def _number(row: dict[Any, Any], name: str, form: str, limits: tuple[str, str] | None = None) -> str:
    """Return a number with its interval; an open limit is "..."."""
    low, high = (row[limit] for limit in limits or (f"{name}_low", f"{name}_high"))
    middle = "-" if pd.isna(row[name]) else f"{row[name]:{form}}"
    if pd.isna(low) and pd.isna(high):
        return middle
    told = ["..." if pd.isna(limit) else f"{limit:{form}}" for limit in (low, high)]
    return f"{middle} [{told[0]}, {told[1]}]"
