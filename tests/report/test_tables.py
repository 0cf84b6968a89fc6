"""Reactions as text."""

import math

import pandas as pd

from parley.games.stag_hunt.game import StagHuntGame
from parley.report.html import HtmlTable
from parley.report.sections import reaction_table

REACTED = {
    **{"model": "m", "without": "b=0", "kind": "indicator", "what": "detected", "simulations": 30, "value": 0.9},
    **{"pairs": 28, "simulations_without": 28, "value_with": 0.9, "value_without": 0.85},
    **{"difference": 0.05, "low": -0.1, "high": 0.2, "p": 0.4, "p_holm": 0.8},
}


def rows_of(table: HtmlTable) -> list[dict[str, str]]:
    """Return the texts of a table by the headers of its columns."""
    labels = [column.label for column in table.columns]
    return [{label: str(cell.text) for label, cell in zip(labels, row, strict=True)} for row in table.rows]


def test_reactions_as_text() -> None:
    rounds = REACTED | {"kind": "quantity", "what": "rounds_until_retreat", "value_with": 1.5, "value_without": 2.0}
    rounds |= {"difference": -0.5} | dict.fromkeys(("low", "high", "p", "p_holm"), math.nan)
    share = rounds | {"what": "kept_hunting", "value_with": 0.5, "value_without": 1.0}
    alone = REACTED | {"without": "none", "pairs": 0, "simulations_without": 0, "value_with": math.nan}
    unpaired = REACTED | {"pairs": 0, "simulations_without": 20}  # it says how many games are compared
    table = reaction_table(pd.DataFrame([REACTED, rounds, share, alone, unpaired]), ["model"], StagHuntGame)
    first, second, third, fourth = rows_of(table)  # not what has nothing to be compared with
    assert (first["without → with"], first["difference"]) == ("85% → 90%", "+5 [-10, +20] points")
    assert (first["pairs"], first["p"], first["p (Holm)"]) == ("28", "0.400", "0.800")
    assert (second["without → with"], second["difference"], second["p"]) == ("2 → 1.5", "-0.5", "-")
    assert (third["without → with"], third["difference"]) == ("100% → 50%", "-50 points")
    assert fourth["pairs"] == "unpaired, 30 and 20"
