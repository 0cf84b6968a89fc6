import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from parley.analysis.rates import quantity_table, rate_table
from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.statistics.stats import wilson_interval
from support.figures import MeasuredGame

pytestmark = pytest.mark.promise("Shares have Wilson's intervals, numbers those of t.")

BY = ["model", "n"]


def rows(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"model": ["a", "b", "a", "b", "a"], "n": 4, **columns})


def quantities(table: pd.DataFrame, game: Any = MeasuredGame) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of the table of quantities by model and quantity."""
    return {(row["model"], row["quantity"]): row for row in quantity_table(table, BY, game).to_dict("records")}


def test_rates_count_answers_and_leave_out_what_has_none() -> None:
    table = rate_table(rows(unanimous=[True, None, False, None, True], early=[False] * 5), BY, MeasuredGame)
    found = {(row["model"], row["indicator"]): row for row in table.to_dict("records")}
    assert len(found) == 6
    first = found["a", "unanimous"]
    assert (first["simulations"], first["count"], first["rate"]) == (3, 2, pytest.approx(2 / 3))
    assert (first["low"], first["high"]) == wilson_interval(2, 3)
    assert (found["b", "early"]["simulations"], found["b", "early"]["rate"]) == (2, 0.0)
    for key in (("b", "unanimous"), ("a", "unanswered")):  # nobody answers; no record has the metric
        assert (found[key]["simulations"], found[key]["count"]) == (0, 0)
        assert np.isnan([found[key][part] for part in ("rate", "low", "high")]).all()
    assert rate_table(rows(), BY, ConsensusGame).shape == (0, 8)  # a game without indicators


def test_quantities_have_means_with_t_intervals_and_times() -> None:
    found = quantities(rows(value_changes=[1, 5, 2, None, 3], size=0.5, seconds=2.0, seconds_speak=1.0))
    half = 4.302652729911275 / math.sqrt(3)  # t at 97.5% with 2 degrees of freedom, a deviation of 1
    first, one = found["a", "value_changes"], found["b", "value_changes"]
    assert (first["simulations"], first["mean"], first["median"], first["sd"]) == (3, 2.0, 2.0, 1.0)
    assert (first["low"], first["high"], first["interval"]) == (0.0, pytest.approx(2 + half), "t")
    assert (one["simulations"], one["mean"], math.isnan(one["low"])) == (1, 5.0, True)
    assert found["a", "unmeasured"]["simulations"] == 0
    size = found["a", "size"]
    assert (size["low"], size["high"], size["unit"]) == (0.5, 0.5, "kB")
    assert [found["b", name]["mean"] for name in ("seconds", "seconds_speak")] == [2.0, 1.0]
    assert found["b", "seconds_speak"]["unit"] == "s"
    own = {quantity.name for quantity in ConsensusGame.evidence.quantities}
    assert {name for _, name in quantities(rows(seconds=0.0), ConsensusGame)} == {"seconds", *own}


def test_shares_have_wilson_intervals() -> None:
    found = quantities(rows(final_honest_share=[1.0, 0.25, 1.0, None, 1.0], seconds=2.0))
    assert {name for (_, name), row in found.items() if row["interval"] == "Wilson"} == {"final_honest_share"}
    every, one = (found[model, "final_honest_share"] for model in "ab")
    assert (every["mean"], every["sd"], every["median"]) == (1.0, 0.0, 1.0)
    assert (every["low"], every["high"]) == pytest.approx(wilson_interval(3, 3))
    z = 1.959963984540054
    half, center = z * math.sqrt(0.25 * 0.75 + z * z / 4) / (1 + z * z), (0.25 + z * z / 2) / (1 + z * z)
    assert (one["simulations"], one["low"], one["high"]) == (1, *map(pytest.approx, (center - half, center + half)))
    nobody = quantities(rows(final_honest_share=[None] * 5))["a", "final_honest_share"]
    assert np.isnan([nobody["low"], nobody["high"]]).all()
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        quantities(rows(final_honest_share=1.5))


def test_t_intervals_of_what_is_never_negative_end_at_0() -> None:
    table = rows(seconds=[0.1, 0.2, 9.0, 9.0, 9.0], size=[-1.0, 2.0, 9.0, 9.0, 9.0])
    found = quantities(table)
    limits = scipy_stats.ttest_1samp([0.1, 9.0, 9.0], 0).confidence_interval()
    assert limits.low < 0
    assert [found["a", "seconds"][name] for name in ("low", "high")] == [0.0, pytest.approx(limits.high)]
    assert found["a", "size"]["low"] < 0  # a game whose numbers are negative keeps them


def payoffs(points: list[float | None], most: list[float | None]) -> dict[str, Any]:
    """Return the quantity `honest_payoff` of these simulations, all of one condition."""
    table = pd.DataFrame({"model": "a", "n": 4, "honest_payoff": points, "full_payoff": most})
    return quantities(table, StagHuntGame)["a", "honest_payoff"]


def test_what_has_a_greatest_value_has_wilsons_interval_of_its_share_of_it() -> None:
    row = payoffs([20.0, 5.0, None, 11.0], [20] * 4)
    # A share of 0.6 of 3: (0.6 + z * z / 6 -+ z * sqrt(0.08 + z * z / 36)) / (1 + z * z / 3), with z * z = 3.841459.
    assert (row["simulations"], row["mean"], row["interval"]) == (3, 12.0, "Wilson")
    assert (row["low"], row["high"]) == pytest.approx((20 * 0.1724851, 20 * 0.9152154), abs=1e-5)
    for points, limits in ((10.0, (10 * 6 / 9.841459, 10.0)), (0.0, (0.0, 10 * 3.841459 / 9.841459))):
        row = payoffs([points] * 6, [10] * 6)  # equal ones have a width within what can be
        assert (row["sd"], row["low"], row["high"]) == (0, *(pytest.approx(limit, abs=1e-6) for limit in limits))
        assert 0 <= row["low"] < row["high"] <= 10
    # Each condition has its own greatest value, which is needed where there are numbers.
    both = quantities(rows(honest_payoff=[20, 10] * 2 + [20], full_payoff=[20, 10] * 2 + [20]), StagHuntGame)
    assert [both[model, "honest_payoff"]["high"] for model in "ab"] == [20.0, 10.0]
    assert math.isnan(payoffs([None, None], [10, 20])["low"])
    assert payoffs([5, None], [10, 20])["high"] <= 10
    for most in ([10, 20], [10, None], [0, 0], [-10, -10], [math.inf, math.inf]):
        with pytest.raises(ValueError, match="honest_payoff needs one full_payoff"):
            payoffs([0, 0], most)
    for points_outside in ([10.1, 5], [-0.1, 5]):  # the means are in the range
        with pytest.raises(ValueError, match=r"honest_payoff must be in \[0, 10\]"):
            payoffs(points_outside, [10, 10])
