"""The table `quality`: how what agents agreed on depends on what they began with."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.quality import quality_table
from parley.analysis.simulations import simulation_row
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.play.record import read_summary
from parley.play.simulate import simulate
from support.studies import StudyFactory


def of(value: int | None, *initial: int) -> dict[str, Any]:
    names = {f"agent_{place}": each for place, each in enumerate(initial)}
    return dict(ConsensusEvidence().derived({"consensus_value": value, "initial_values": names}))


def test_where_an_agreed_value_lies_by_hand() -> None:
    assert of(20, 10, 20, 50, 40) == {
        "initial_mean": 30,
        "value_position": 0.25,
        "value_shift": -10,
        "distance_to_mean": 10,
        "distance_to_median": 10,
    }
    assert of(50, 10, 10, 50)["distance_to_median"] == 40
    assert of(0, 10, 20, 30)["value_position"] == -0.5  # an adversary's value
    assert of(7, 7, 7) == {
        "initial_mean": 7,
        "value_position": None,
        "value_shift": 0,
        "distance_to_mean": 0,
        "distance_to_median": 0,
    }


def test_without_agreement_or_honest_agents_there_is_none() -> None:
    assert {name for name, value in of(None, 10, 20).items() if value is not None} == {"initial_mean"}
    assert set(of(None).values()) == {None}
    assert set(of(None)) == set(of(3, 1, 2))


def rows(*points: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame([{"n": 4, "initial_mean": x, "consensus_value": y} for x, y in points])


def test_the_line_by_hand() -> None:
    # Means 2 and 3; sums of squares 2 and of products 2, so slope 1; two residuals of 1/1000 about y = x + 1.
    points = ((1, 2), (2, 3), (3, 4), (2, 3 + 1e-3), (2, 3 - 1e-3))
    [row] = quality_table(rows(*points), ["n"], ConsensusGame).to_dict("records")
    assert (row["simulations"], row["slope"], row["bias"]) == (5, pytest.approx(1), pytest.approx(1))
    assert row["residual"] == pytest.approx(1e-3 * math.sqrt(2 / 3))


def test_the_line_by_other_means() -> None:
    random = np.random.default_rng(4)
    x = random.uniform(0, 50, 40)
    y = 5 + 0.7 * x + random.normal(0, 4, 40)
    [row] = quality_table(rows(*zip(x, y, strict=True)), ["n"], ConsensusGame).to_dict("records")
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


@pytest.mark.parametrize(
    ("points", "missing"),
    [
        ([(1, 2), (2, 4), (3, 3), (4, 4)], {"slope", "slope_low", "residual"}),  # too few
        ([(1, 2), (1, 3), (1, 5), (1, 6), (1, 7)], {"slope", "intercept"}),
        ([(x, x + 1) for x in range(5)], {"slope_low", "slope_high", "bias_low"}),  # nothing says how much they vary
    ],
)
def test_what_is_not_defined_is_missing(points: list[tuple[float, float]], missing: set[str]) -> None:
    [row] = quality_table(rows(*points), ["n"], ConsensusGame).to_dict("records")
    assert all(math.isnan(row[name]) for name in missing)
    assert not math.isnan(row["bias"])


def test_games_without_an_initial_value_have_no_quality() -> None:
    assert quality_table(rows((1, 2)), ["n"], StagHuntGame).empty
    assert quality_table(rows((1, math.nan)), ["n"], ConsensusGame).empty


@pytest.mark.slow
def test_rules_of_known_quality(study_factory: StudyFactory) -> None:
    names = ("Middle", "Average", "First", "Highest")
    study = study_factory(
        *({"model": f"support.rules:{name}", "n": 5} for name in names),
        # One agent that always says 50, which is the highest of the game.
        {
            "model": "support.rules:Highest",
            "n": 6,
            "b": 1,
            "byzantine": {"name": "stubborn", "value": 50, "vote": "stop"},
        },
        seeds=50,
        parameters={"max_rounds": 4},
    )
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    quality = read_table("small", "quality").set_index(["model", "b"])
    assert set(quality["simulations"]) == {50}
    # Covariances with the mean over its variance, for order statistics of five uniform values: 9/7 of the median, 5/7
    # of the highest; 1 of any one agent's value.
    for name, slope in (("Middle", 9 / 7), ("Average", 1), ("First", 1), ("Highest", 5 / 7)):
        row = quality.loc[(name, 0)]
        assert abs(row["slope"] - slope) < 1.5 * (row["slope_high"] - row["slope"])  # three standard errors
        assert (abs(row["bias"]) < 1.5 * (row["bias_high"] - row["bias"])) == (name != "Highest")
    residual = quality["residual"]
    assert residual["Average", 0] < 0.4  # rounding: uniform on [-1/2, 1/2]
    assert residual["Average", 0] < residual["Middle", 0] < residual["First", 0]
    # The mean of the highest of five uniform values on 0 to 50 is 5/6 of the range, 1/3 above their mean.
    assert quality.loc[("Highest", 0), "bias"] == pytest.approx(50 / 3, abs=3)
    # Whatever agents begin with, the adversary's 50 wins.
    pulled = quality.loc[("Highest", 1)]
    assert pulled["slope"] == pytest.approx(0)
    assert pulled["intercept"] == pytest.approx(50)
    assert math.isnan(pulled["slope_low"])
    quantities = read_table("small", "quantities").set_index(["model", "b", "quantity"])["mean"]
    assert quantities["Average", 0, "distance_to_mean"] < 0.4
    assert quantities["Middle", 0, "distance_to_median"] == 0
    assert quantities["Highest", 0, "value_position"] == 1
    assert quantities["First", 0, "value_position"] == pytest.approx(0.5, abs=0.15)
    assert "value_shift" in set(read_table("small", "contrasts")["what"])
    # They are not in the records, and old records have them.
    simulation = next(study.simulations())
    summary = read_summary(simulation.record("small"))
    assert "value_shift" not in summary.outcome["metrics"]
    assert simulation_row(simulation, summary)["value_position"] is not None
