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
    assert found["band"] == pytest.approx(1.959964 * 0.5 / 2)
    # A seed without its repeat is no pair.
    assert noise("yynn", "yy n").loc[VALID, ["pairs", "difference", "spread"]].tolist() == [3, 0, 0]
    assert noise().empty


@pytest.mark.promise("The noise band holds a placebo in 95% of made-up studies.")
def test_the_band_holds_the_placebo_in_95_percent_of_cases() -> None:
    random, outside = np.random.default_rng(5), 0
    for _ in range(400):
        rates = random.random(30)  # seeds differ in how likely they end well
        times = (random.random((3, 30)) < rates).T.astype(float)
        outside += abs(np.mean(times[:, 1] - times[:, 0])) > band(spread_of(times), 30)
    assert 8 <= outside <= 34  # of 400: 20 expected, three standard deviations either way


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
    assert (len(read_table("again", "simulations")), len(read_table("again", "manifest"))) == (6, 12)
    written = read_table("again", "noise")
    assert set(written["pairs"]) == {6}
    assert written["spread"].max() > 0
