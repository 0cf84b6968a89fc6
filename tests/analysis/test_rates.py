import dataclasses
import json
import math
from typing import Any

import pandas as pd
import pytest
from scipy import stats as scipy_stats

from parley import paths
from parley.analysis import tables
from parley.analysis.rates import quantity_table, rate_table
from parley.analysis.stats import wilson_interval
from parley.games.consensus.game import ConsensusGame
from parley.games.registry import GAMES
from parley.games.stag_hunt.game import StagHuntGame
from support.measured import MeasuredGame, measured, played
from support.studies import StudyFactory

BY = ["model", "n"]


def rows(**columns: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"model": ["a", "b", "a", "b", "a"], "n": 4, **columns})


def test_rates_count_answers_and_leave_out_what_has_none() -> None:
    table = rate_table(rows(unanimous=[True, None, False, None, True], early=[False] * 5), BY, MeasuredGame)
    assert list(table.columns) == ["model", "n", "indicator", "simulations", "count", "rate", "low", "high"]
    found = {(row["model"], row["indicator"]): row for row in table.to_dict("records")}
    assert len(found) == 6
    first = found["a", "unanimous"]
    assert (first["simulations"], first["count"], first["rate"]) == (3, 2, pytest.approx(2 / 3))
    assert (first["low"], first["high"]) == wilson_interval(2, 3)
    assert (found["b", "early"]["simulations"], found["b", "early"]["rate"]) == (2, 0.0)
    for key in (("b", "unanimous"), ("a", "unanswered")):  # nobody answers; no record has the metric
        assert (found[key]["simulations"], found[key]["count"]) == (0, 0)
        assert all(math.isnan(found[key][part]) for part in ("rate", "low", "high"))


def test_quantities_have_means_with_intervals_and_times() -> None:
    table = rows(value_changes=[1, 5, 2, None, 3], size=[0.5] * 5, seconds=[2.0] * 5, seconds_speak=[1.0] * 5)
    found = quantity_table(table, BY, MeasuredGame)
    columns = ["model", "n", "quantity", "unit", "simulations", "mean", "sd", "low", "high", "interval", "median"]
    assert list(found.columns) == columns
    by_name = {(row["model"], row["quantity"]): row for row in found.to_dict("records")}
    half = 4.302652729911275 / math.sqrt(3)  # t at 97.5% with 2 degrees of freedom, a deviation of 1
    first = by_name["a", "value_changes"]
    assert (first["simulations"], first["mean"], first["median"], first["sd"]) == (3, 2.0, 2.0, 1.0)
    assert (first["low"], first["high"]) == (0.0, pytest.approx(2 + half))
    one = by_name["b", "value_changes"]
    assert (one["simulations"], one["mean"]) == (1, 5.0)
    assert math.isnan(one["low"])
    assert by_name["a", "unmeasured"]["simulations"] == 0
    assert by_name["a", "size"]["unit"] == "kB"
    assert [by_name["b", name]["mean"] for name in ("seconds", "seconds_speak")] == [2.0, 1.0]
    assert by_name["b", "seconds_speak"]["unit"] == "s"


def test_shares_have_wilson_intervals_and_all_else_t_intervals() -> None:
    shares = [1.0, 0.25, 1.0, None, 1.0]
    found = quantity_table(rows(final_honest_share=shares, size=[1.0] * 5, seconds=[2.0] * 5), BY, MeasuredGame)
    told = {(row["model"], row["quantity"]): row for row in found.to_dict("records")}
    assert {name: row["interval"] for (_, name), row in told.items()} == {
        "final_honest_share": "Wilson",
        **dict.fromkeys(("value_changes", "size", "unmeasured", "seconds"), "t"),
    }
    all_of_them = told["a", "final_honest_share"]
    assert (all_of_them["mean"], all_of_them["sd"], all_of_them["median"]) == (1.0, 0.0, 1.0)
    assert (all_of_them["low"], all_of_them["high"]) == pytest.approx(wilson_interval(3, 3))
    assert (told["a", "size"]["low"], told["a", "size"]["high"]) == (1.0, 1.0)
    one = told["b", "final_honest_share"]  # a t interval has no limits for a single one
    z = 1.959963984540054
    half, center = z * math.sqrt(0.25 * 0.75 + z * z / 4) / (1 + z * z), (0.25 + z * z / 2) / (1 + z * z)
    assert (one["simulations"], one["low"], one["high"]) == (1, *map(pytest.approx, (center - half, center + half)))
    nobody = quantity_table(rows(final_honest_share=[None] * 5), BY, MeasuredGame)
    assert nobody[["low", "high"]].isna().all(axis=None)


def test_t_intervals_of_what_is_never_negative_end_at_0(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(seconds=[0.1, 0.2, 9.0, 9.0, 9.0], size=[-1.0, 2.0, 9.0, 9.0, 9.0])
    found = {r["quantity"]: r for r in quantity_table(table, BY, MeasuredGame).to_dict("records") if r["model"] == "a"}
    seconds = numbers_of(table, "seconds")
    limits = scipy_stats.ttest_1samp(seconds, 0).confidence_interval()
    assert limits.low < 0
    assert (found["seconds"]["low"], found["seconds"]["high"]) == (0.0, pytest.approx(limits.high))
    assert found["size"]["low"] < 0  # a game whose numbers are negative keeps them
    signed = [dataclasses.replace(q, signed=True) for q in MeasuredGame.evidence.quantities]
    monkeypatch.setattr(MeasuredGame.evidence, "quantities", tuple(signed))
    table["size"] = table["seconds"]
    again = quantity_table(table, BY, MeasuredGame)
    assert again[again["quantity"] == "size"]["low"].iloc[0] == pytest.approx(limits.low)


def numbers_of(table: pd.DataFrame, name: str) -> list[float]:
    return [float(value) for value in table[table["model"] == "a"][name]]


def test_a_share_outside_of_0_and_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        quantity_table(rows(final_honest_share=[1.5] * 5), BY, MeasuredGame)


def payoffs(points: list[float | None], most: list[float | None]) -> pd.DataFrame:
    """Return the quantity `honest_payoff` of these simulations, all of one condition."""
    table = pd.DataFrame({"model": "a", "n": 4, "honest_payoff": points, "full_payoff": most})
    found = quantity_table(table, BY, StagHuntGame)
    return found[found["quantity"] == "honest_payoff"]


def test_what_has_a_greatest_value_has_wilsons_interval_of_its_share_of_it() -> None:
    [row] = payoffs([20.0, 5.0, None, 11.0], [20] * 4).to_dict("records")
    # A share of 0.6 of 3: (0.6 + z * z / 6 -+ z * sqrt(0.08 + z * z / 36)) / (1 + z * z / 3), with z * z = 3.841459.
    assert (row["simulations"], row["mean"], row["interval"]) == (3, 12.0, "Wilson")
    assert (row["low"], row["high"]) == pytest.approx((20 * 0.1724851, 20 * 0.9152154), abs=1e-5)


def test_equal_simulations_have_an_interval_with_a_width_within_what_can_be() -> None:
    for points, limits in ((10.0, (10 * 6 / 9.841459, 10.0)), (0.0, (0.0, 10 * 3.841459 / 9.841459))):
        [row] = payoffs([points] * 6, [10] * 6).to_dict("records")
        assert row["sd"] == 0
        assert (row["low"], row["high"]) == pytest.approx(limits, abs=1e-6)
        assert 0 <= row["low"] < row["high"] <= 10
    # Each condition has its own greatest value.
    table = rows(honest_payoff=[20, 10, 20, 10, 20], full_payoff=[20, 10, 20, 10, 20])
    found = quantity_table(table, BY, StagHuntGame).set_index(["quantity", "model"])["high"]
    assert found["honest_payoff"].to_dict() == {"a": 20.0, "b": 10.0}


def test_one_greatest_value_is_needed_where_there_are_numbers() -> None:
    assert payoffs([None, None], [10, 20])[["low", "high"]].isna().all(axis=None)
    assert payoffs([5, None], [10, 20])["high"].notna().all()
    for most in ([10, 20], [10, None], [0, 0], [-10, -10], [math.inf, math.inf]):
        with pytest.raises(ValueError, match="honest_payoff needs one full_payoff, above 0"):
            payoffs([0, 0], most)


def test_a_number_above_its_greatest_value_or_below_0_is_refused() -> None:
    for points in ([10.1, 5], [-0.1, 5]):  # the means are in the range
        with pytest.raises(ValueError, match=r"honest_payoff must be in \[0, 10\]"):
            payoffs(points, [10, 10])


def test_what_is_called_a_share_is_marked_as_one() -> None:
    for game in GAMES.values():
        for quantity in game.evidence.quantities:
            named = "share" in quantity.label or "confidence" in quantity.label
            assert quantity.share == named, quantity.name
            assert not (quantity.share and quantity.unit)


def test_a_game_without_indicators_has_an_empty_table_of_rates() -> None:
    assert rate_table(rows(), BY, ConsensusGame).shape == (0, 8)
    own = {quantity.name for quantity in ConsensusGame.evidence.quantities}
    assert set(quantity_table(rows(seconds=[0.0] * 5), BY, ConsensusGame)["quantity"]) == {"seconds", *own}


def test_the_tables_are_written_and_metrics_hold_the_rates(study_factory: StudyFactory) -> None:
    played(measured(study_factory({"model": ["majority", "random"], "n": [3, 4]}, seeds=3, title="t")))
    rates, quantities = tables.read_table("small", "rates"), tables.read_table("small", "quantities")
    assert len(rates) == 4 * 3
    assert len(pd.read_csv(paths.table("small", "rates", ".csv"))) == 4 * 3
    assert set(quantities["quantity"]) >= {"size", "seconds", "seconds_propose", "seconds_vote"}
    for values, here in rates.groupby(["model", "n", "b", "prompt"]):
        path = "/".join(f"{axis}={value}" for axis, value in zip(("model", "n", "b", "prompt"), values, strict=True))
        told = json.loads(paths.metric("small", path).read_text())["indicators"]
        assert list(told) == ["unanimous", "early", "unanswered"]
        assert told["unanswered"] == {"rate": None, "low": None, "high": None}
        assert told["early"]["rate"] == here[here["indicator"] == "early"]["rate"].iloc[0]
    stopped = rates[(rates["model"] == "majority") & (rates["indicator"] == "early")]
    assert stopped["rate"].to_list() == [1.0, 1.0]


def test_older_records_have_no_times_and_are_read(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("parley.play.record_content.times", lambda entries: {})
        played(study_factory(seeds=2))
    found = tables.read_table("small", "quantities")
    assert found.loc[found["unit"] == "s", ["quantity", "simulations"]].to_numpy().tolist() == [["seconds", 0]]
    assert tables.read_table("small", "simulations")["seconds"].isna().all()
