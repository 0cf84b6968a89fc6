"""The table `quality`: how what agents agreed on depends on what they began with."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parley.analysis.tables import read_table
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.tables import Quality
from support.studies import OWN_POLICIES, StudyFactory, bring, summarized

pytestmark = pytest.mark.promise("Rules of known slope and bias are found in what agents agreed on.")


def test_where_an_agreed_value_lies_by_hand() -> None:
    names = ("initial_mean", "value_position", "value_shift", "distance_to_mean", "distance_to_median")
    for value, initial, expected in (
        (20, (10, 20, 50, 40), (30, 0.25, -10, 10, 10)),
        (50, (10, 10, 50), (pytest.approx(70 / 3), 1, pytest.approx(80 / 3), pytest.approx(80 / 3), 40)),
        (0, (10, 20, 30), (20, -0.5, -20, 20, 20)),  # an adversary's value
        (7, (7, 7), (7, None, 0, 0, 0)),
        (None, (10, 20), (15, None, None, None, None)),
        (None, (), (None,) * 5),
    ):
        given = {f"agent_{place}": each for place, each in enumerate(initial)}
        found = ConsensusEvidence().derived({"consensus_value": value, "initial_values": given})
        assert found == dict(zip(names, expected, strict=True)), (value, initial)


def line(*points: tuple[float, float]) -> dict[str, Any]:
    study = SimpleNamespace(conditions=[SimpleNamespace(name="four", axes={"n": 4})])
    table = Quality(study, []).tables([("four", x, y) for x, y in points])["quality"]
    return dict(table.iloc[0])


def test_the_line_by_other_means() -> None:
    random = np.random.default_rng(4)
    x = random.uniform(0, 50, 40)
    y = 5 + 0.7 * x + random.normal(0, 4, 40)
    row = line(*zip(x, y, strict=True))
    design = np.stack([np.ones(40), x], axis=1)
    coefficients, [squares], *_ = np.linalg.lstsq(design, y)
    inverse = np.linalg.inv(design.T @ design)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    weights = ((y - design @ coefficients) / (1 - leverage)) ** 2
    error = math.sqrt((inverse @ (design.T * weights) @ design @ inverse)[1, 1])
    assert [row["intercept"], row["slope"]] == pytest.approx(coefficients)
    assert row["slope_high"] - row["slope"] == pytest.approx(2.024394 * error)  # t of 38 degrees of freedom
    assert row["residual"] == pytest.approx(math.sqrt(squares / 38))
    assert row["bias"] == pytest.approx(np.mean(y - x))
    assert row["bias_high"] - row["bias"] == pytest.approx(2.022691 * np.std(y - x, ddof=1) / math.sqrt(40))


def test_what_is_not_defined_is_missing() -> None:
    few = [(1, 2), (2, 4), (3, 3), (4, 4)]
    one_mean = [(1, 2), (1, 3), (1, 5), (1, 6), (1, 7)]
    exact = [(x, x + 1) for x in range(5)]  # nothing says how much they vary
    for points, missing in (
        (few, ("slope", "slope_low", "residual")),
        (one_mean, ("slope", "intercept")),
        (exact, ("slope_low", "slope_high", "bias_low")),
    ):
        row = line(*points)
        assert np.isnan([row[name] for name in missing]).all(), missing
        assert not math.isnan(row["bias"])


@pytest.mark.slow
def test_rules_of_known_quality(study_factory: StudyFactory) -> None:
    bring(OWN_POLICIES)
    own = "own_policies"
    names = ("Middle", "Average", "First", "Highest")
    stubborn = {"name": "stubborn", "value": 50, "vote": "stop"}  # which is the highest of the game
    study = study_factory(
        *({"model": f"{own}:{name}", "n": 5} for name in names),
        {"model": f"{own}:Highest", "n": 6, "b": 1, "byzantine": stubborn},
        seeds=24,
        parameters={"max_rounds": 4},
    )
    quality = read_table(summarized(study).name, "quality").set_index(["model", "b"])
    assert set(quality["simulations"]) == {24}
    # Covariances with the mean over its variance, for order statistics of five uniform values: 9/7 of the median, 5/7
    # of the highest; 1 of any one agent's value.
    for name, slope in (("Middle", 9 / 7), ("Average", 1), ("First", 1), ("Highest", 5 / 7)):
        row = quality.loc[(name, 0)]
        assert abs(row["slope"] - slope) < 1.5 * (row["slope_high"] - row["slope"])  # three standard errors
        assert (abs(row["bias"]) < 1.5 * (row["bias_high"] - row["bias"])) == (name != "Highest")
    residual = quality["residual"]
    assert residual["Average", 0] < 0.45  # rounding: uniform on [-1/2, 1/2]
    assert residual["Average", 0] < residual["Middle", 0] < residual["First", 0]
    # The mean of the highest of five uniform values on 0 to 50 is 5/6 of the range, 1/3 above their mean.
    assert quality.loc[("Highest", 0), "bias"] == pytest.approx(50 / 3, abs=4.5)
    # Whatever agents begin with, the adversary's 50 wins.
    pulled = quality.loc[("Highest", 1)]
    assert pulled[["slope", "intercept"]].tolist() == pytest.approx([0, 50])
    assert math.isnan(pulled["slope_low"])
