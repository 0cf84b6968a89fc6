"""The report's table of reactions to an adversary."""

import math

import pandas as pd

from parley.games.stag_hunt.game import StagHuntGame
from parley.report.reactions import reaction_rows

ROW = {
    "model": "m",
    "without": "b=0",
    "kind": "indicator",
    "what": "detected",
    "simulations": 30,
    "value": 0.9,
    "pairs": 28,
    "value_with": 0.9,
    "value_without": 0.85,
    "difference": 0.05,
    "low": -0.1,
    "high": 0.2,
    "p": 0.4,
    "p_holm": 0.8,
}


def test_rates_and_numbers_as_text() -> None:
    seen = ROW | {"model": "grim", "difference": 0.9, "value_without": 0.0, "p_holm": 0.001}
    rounds = ROW | {"kind": "quantity", "what": "rounds_until_retreat", "value_with": 1.5, "value_without": 2.0}
    rounds |= {"difference": -0.5, "low": math.nan, "high": math.nan, "p": math.nan, "p_holm": math.nan}
    share = rounds | {"what": "kept_hunting", "value_with": 0.5, "value_without": 1.0}
    alone = ROW | {"model": "alone", "without": "none", "pairs": 0, "value_with": math.nan}
    unpaired = rounds | {"what": "rounds_until_detection", "pairs": 0}
    found = reaction_rows(pd.DataFrame([ROW, seen, rounds, share, alone, unpaired]), ["model"], StagHuntGame)
    assert (found["rates"], found["unproven"], found["alone"]) == (2, 1, [["alone"]])
    first, _, third, fourth = found["rows"]
    assert first == {
        "axes": ["m"],
        "without": "b=0",
        "what": "a player that saw a betrayal changes word or action",
        "pairs": 28,
        "with": "90%",
        "sham": "85%",
        "difference": "+5 [-10, +20]",
        "p": "0.400",
        "p_holm": "0.800",
    }
    assert (third["with"], third["difference"], third["p"]) == ("1.5", "-0.5", "-")
    assert (fourth["with"], fourth["sham"], fourth["difference"]) == ("50%", "100%", "-50")
