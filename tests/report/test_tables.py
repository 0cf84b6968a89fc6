"""Tables of the report: their columns, and the rows of reactions and of several axes, as text."""

import math

import pandas as pd

from parley.games.stag_hunt.game import StagHuntGame
from parley.report import sections
from parley.report.html import HtmlTable


def rows_of(table: HtmlTable) -> list[dict[str, str]]:
    """Return the texts of a table by the headers of its columns, and those in small print under "(...)"."""
    labels = [column.label for column in table.columns]
    return [
        {label: str(cell.text) for label, cell in zip(labels, row, strict=True)}
        | {f"({label})": str(cell.small) for label, cell in zip(labels, row, strict=True)}
        for row in table.rows
    ]


# Several axes


# Reactions

REACTED = {
    **{"model": "m", "without": "b=0", "kind": "indicator", "what": "detected", "simulations": 30, "value": 0.9},
    **{"pairs": 28, "simulations_without": 28, "value_with": 0.9, "value_without": 0.85},
    **{"difference": 0.05, "low": -0.1, "high": 0.2, "p": 0.4, "p_holm": 0.8},
}


def test_reactions_as_text() -> None:
    seen = REACTED | {"model": "grim", "difference": 0.9, "value_without": 0.0, "p_holm": 0.001}
    rounds = REACTED | {"kind": "quantity", "what": "rounds_until_retreat", "value_with": 1.5, "value_without": 2.0}
    rounds |= {"difference": -0.5} | dict.fromkeys(("low", "high", "p", "p_holm"), math.nan)
    share = rounds | {"what": "kept_hunting", "value_with": 0.5, "value_without": 1.0}
    alone = REACTED | {"model": "alone", "without": "none", "pairs": 0, "simulations_without": 0}
    rows = [REACTED, seen, rounds, share, alone | {"value_with": math.nan}]
    table = sections.reaction_table(pd.DataFrame(rows), ["model"], StagHuntGame)
    first, _, third, fourth = rows_of(table)  # not what has nothing to be compared with
    assert (first["with"], first["without"], first["difference"]) == ("90%", "85%", "+5 [-10, +20]")
    assert (first["pairs"], first["p"], first["p corrected (Holm)"]) == ("28", "0.400", "0.800")
    assert (third["with"], third["difference"], third["p"]) == ("1.5", "-0.5", "-")
    assert (fourth["with"], fourth["without"], fourth["difference"]) == ("50%", "100%", "-50")
    # Without shared seeds it says how many games are compared.
    alone = pd.DataFrame([REACTED | {"pairs": 0, "simulations_without": 20}])
    [row] = rows_of(sections.reaction_table(alone, ["model"], StagHuntGame))
    assert row["pairs"] == "unpaired, 30 and 20"
