"""The report's tables of times to stop and of the quality of agreement."""

import math

import pandas as pd

from parley.games.consensus.game import ConsensusGame
from parley.report.endings import quality_rows, time_rows

ROW = {
    "axis": "prompt",
    "from": "a",
    "to": "b",
    "ending": "any",
    "n": "4",
    "prompt": "",
    "ended_from": 20,
    "simulations_from": 30,
    "ended_to": 29,
    "simulations_to": 30,
    "median_from": 12.0,
    "median_from_low": 9.0,
    "median_from_high": math.nan,
    "median_to": 6.0,
    "median_to_low": 5.0,
    "median_to_high": 8.0,
    "difference": -6.0,
    "low": math.nan,
    "high": -2.0,
    "ratio": 0.5,
    "ratio_low": 0.3,
    "ratio_high": 0.8,
    "p": 0.004,
    "p_holm": 0.008,
}


def test_times_as_text_with_open_limits() -> None:
    other = ROW | {"n": "8"}
    valid = ROW | {"ending": "valid_consensus", "p": math.nan, "p_holm": math.nan}
    found = time_rows(pd.DataFrame([ROW, other, ROW | {"n": "2", "p": 0.001}, valid]), ["n", "prompt"], ConsensusGame)
    assert (found["all"], found["axes"]) == (4, ["n"])
    zeroth, first, second, third = found["rows"]
    assert zeroth["axes"] == ["2"]
    assert first == {
        "compared": "prompt: a → b",
        "axes": ["4"],
        "ending": "any",
        "ended": "20 of 30 → 29 of 30",
        "medians": "12 [9, ...] → 6 [5, 8]",
        "difference": "-6 [..., -2]",
        "ratio": "0.5 [0.3, 0.8]",
        "p": "0.004",
        "p_holm": "0.008",
    }
    assert (second["ending"], second["p"]) == ("valid consensus", "-")  # beside that of all
    assert third["axes"] == ["8"]


def test_no_times_and_no_quality() -> None:
    assert time_rows(pd.DataFrame([ROW]).iloc[:0], ["n", "prompt"], ConsensusGame)["rows"] == []
    empty = pd.DataFrame([], columns=["n", "simulations", "slope"])
    assert quality_rows(empty, ["n"]) == []


def test_quality_as_text() -> None:
    row = {"n": 4, "simulations": 9, "slope": 0.81, "slope_low": 0.5, "slope_high": 1.1, "bias": -2.0}
    row |= {"bias_low": math.nan, "bias_high": math.nan, "residual": 3.21}
    [found] = quality_rows(pd.DataFrame([row]), ["n"])
    assert found == {"axes": [4], "simulations": 9, "slope": "0.81 [0.5, 1.1]", "bias": "-2", "residual": "3.21"}
