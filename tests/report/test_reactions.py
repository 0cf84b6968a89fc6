"""The report's table of reactions to an adversary."""

import math

import pandas as pd

from parley.games.stag_hunt.game import StagHuntGame
from parley.report.reactions import behavior_rows, reaction_rows

ROW = {
    "model": "m",
    "without": "b=0",
    "kind": "indicator",
    "what": "detected",
    "simulations": 30,
    "value": 0.9,
    "pairs": 28,
    "simulations_without": 28,
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
    alone = ROW | {"model": "alone", "without": "none", "pairs": 0, "simulations_without": 0, "value_with": math.nan}
    unpaired = rounds | {"what": "rounds_until_detection", "pairs": 0, "simulations_without": 0}
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


def test_without_shared_seeds_it_says_how_many_games_are_compared() -> None:
    found = reaction_rows(pd.DataFrame([ROW | {"pairs": 0, "simulations_without": 20}]), ["model"], StagHuntGame)
    assert [row["pairs"] for row in found["rows"]] == ["unpaired, 30 and 20"]


def test_behaviors_that_somebody_shows_as_text() -> None:
    row = {"model": "m", "player": "p", "behavior": "hare_for_good", "simulations": 4, "shown": 3}
    row |= {"share": 0.75, "low": 0.3, "high": 0.95, "payoff": 2.4, "payoff_low": 2.0, "payoff_high": 2.8}
    row |= {"cost": 0.6, "cost_low": math.nan, "cost_high": math.nan}
    rows = [row, row | {"behavior": "preemptive", "shown": 0}, row | {"behavior": "any", "share": 1.0}]
    hare, both = behavior_rows(pd.DataFrame(rows), ["model"], StagHuntGame)
    assert (hare["axes"], hare["player"], hare["simulations"]) == (["m"], "p", 4)
    assert hare["behavior"] == "hunts the hare in all rounds after the betrayal"
    assert (hare["share"], hare["payoff"], hare["cost"]) == ("75% [30%, 95%]", "2.40 [2.00, 2.80]", "0.60")
    assert (both["behavior"], both["share"]) == ("any", "")
