"""The table `noise`: how much a condition differs from itself."""

import numpy as np
import pandas as pd
import pytest

from parley.analysis.contrasts import band, noise_table, spread_of
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.consensus.game import ConsensusGame
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED
from support.studies import StudyFactory

VALID = "valid_consensus"


def noise(*repeats: str) -> pd.DataFrame:
    """Return the noise of one condition: a text per repeat, a letter per seed, "y" for a valid consensus."""
    rows = [
        {"n": 4, "seed": seed, "repeat": repeat, "outcome": VALID if letter == "y" else "no_consensus"}
        for repeat, letters in enumerate(repeats)
        for seed, letter in enumerate(letters)
        if letter != " "
    ]
    columns = ["n", "seed", "repeat", "outcome"]
    return noise_table(pd.DataFrame(rows, columns=columns), ["n"], ConsensusGame).set_index("what")


def test_noise_by_hand() -> None:
    found = noise("yynn", "yyyn").loc[VALID]
    # One of four pairs differs: the variance within seeds is 1/2 in one of four, so that of a difference is 1/4.
    assert found[["pairs", "difference", "spread"]].tolist() == [4, 0.25, 0.5]
    # One more pair, which differs: t with five degrees of freedom.
    assert found["freedom"] == 4
    assert found["band"] == pytest.approx(2.570582 * ((4 * 0.25 + 1) / 5 / 4) ** 0.5)
    # A seed without its repeat is no pair.
    assert noise("yynn", "yy n").loc[VALID, ["pairs", "difference", "spread"]].tolist() == [3, 0, 0]
    assert noise().empty


@pytest.mark.promise("The noise band holds other differences of sampling alone in 93.5% of made-up studies, and more.")
@pytest.mark.parametrize("rate", [0.05, 0.5, None])
def test_the_band_holds_other_pairs_that_differ_by_sampling_alone(rate: float | None) -> None:
    random, inside = np.random.default_rng(5), []
    for _ in range(3000):
        shape = (36, 2)  # 12 seeds played twice, and 24 others
        times = random.normal(size=shape) if rate is None else (random.random(shape) < rate).astype(float)
        limit = band([spread_of(times[:12])], 24, share=rate is not None)
        inside.append(abs(np.mean(times[12:, 1] - times[12:, 0])) <= limit)
    assert 0.935 < np.mean(inside) < 0.99


@pytest.mark.promise("Repeats of the same seeds measure a condition's noise and stand in no other table.")
@pytest.mark.slow
def test_tables_show_the_first_repeat_and_noise_all(study_factory: StudyFactory) -> None:
    parts = {}
    for name, more in (("once", {}), ("again", {"repeats": 2})):
        study = study_factory({"model": "random", "n": 5}, name=name, seeds=6, parameters={"max_rounds": 6}, **more)
        simulate_shard(study, SCRIPTED, 0)
        summarize(study)
        parts[name] = [read_table(name, table) for table in ("conditions", "outcomes", "turns", "contrasts", "rounds")]
    for one, other in zip(*parts.values(), strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert read_table("once", "noise").empty
    assert len(read_table("again", "simulations")) == 6
    written = read_table("again", "noise")
    assert set(written["pairs"]) == {6}
    assert written["spread"].max() > 0
