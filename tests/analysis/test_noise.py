"""The table `noise`: how much a condition differs from itself."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import parley
from parley.analysis.noise import noise_table
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.consensus.game import ConsensusGame
from parley.play.simulate import simulate
from support.studies import StudyFactory

VALID = "valid_consensus"


def rows(*repeats: str) -> pd.DataFrame:
    """Return simulations of one condition: a text per repeat, a letter per seed, "y" for a valid consensus."""
    return pd.DataFrame(
        [
            {"n": 4, "seed": seed, "repeat": repeat, "outcome": VALID if letter == "y" else "no_consensus"}
            for repeat, letters in enumerate(repeats)
            for seed, letter in enumerate(letters)
            if letter != " "
        ]
    )


def valid(table: pd.DataFrame) -> pd.Series:  # type: ignore[type-arg]
    return table[table["what"] == VALID].iloc[0]


def test_by_hand() -> None:
    found = valid(noise_table(rows("yynn", "yyyn"), ["n"], ConsensusGame))
    # One of four pairs differs: the variance within seeds is 1/2 in one of four, so that of a difference is 1/4.
    assert (found["pairs"], found["difference"], found["spread"]) == (4, 0.25, 0.5)
    assert found["band"] == pytest.approx(1.959964 * 0.5 / 2)


def test_a_seed_without_its_repeat_is_no_pair() -> None:
    found = valid(noise_table(rows("yynn", "yy n"), ["n"], ConsensusGame))
    assert (found["pairs"], found["difference"], found["spread"]) == (3, 0, 0)


def test_nothing_repeated_has_no_rows() -> None:
    assert noise_table(rows("yynn").iloc[:0], ["n"], ConsensusGame).empty


def test_the_band_holds_the_placebo_in_95_percent_of_cases() -> None:
    random = np.random.default_rng(5)
    outside = 0
    for _ in range(400):
        rates = random.random(30)  # seeds differ in how likely they end well
        letters = ["".join("y" if random.random() < rate else "n" for rate in rates) for _ in range(3)]
        found = valid(noise_table(rows(*letters), ["n"], ConsensusGame))
        outside += abs(found["difference"]) > found["band"]
    assert 8 <= outside <= 34  # of 400: 20 expected, three standard deviations either way


def test_tables_show_the_first_repeat_and_noise_all(study_factory: StudyFactory) -> None:
    grid = {"model": "random", "n": 5}
    once = study_factory(grid, name="once", seeds=6, parameters={"max_rounds": 6})
    again = study_factory(grid, name="again", seeds=6, repeats=2, parameters={"max_rounds": 6})
    for study in (once, again):
        for simulation in study.simulations():
            simulate(study, simulation.record(study.name), [], 1.0)
        summarize(study)
    for name in ("conditions", "outcomes", "turns", "contrasts", "rounds"):
        same = [read_table(study, name) for study in ("once", "again")]
        pd.testing.assert_frame_equal(*same)
    assert read_table("once", "noise").empty
    assert (len(read_table("again", "simulations")), len(read_table("again", "manifest"))) == (6, 12)
    written = read_table("again", "noise")
    assert set(written["pairs"]) == {6}
    assert written["spread"].max() > 0
    results = parley.load("again.yaml").results()
    assert (len(results.simulations), len(results.table("noise"))) == (6, len(written))
    Path("results/again/tables/simulations.parquet").unlink()
    for stamp in Path("results/again/tables").glob("plan-*"):
        stamp.unlink()
    from_records = parley.load("again.yaml").results()
    assert "made from the records" in repr(from_records)
    pd.testing.assert_frame_equal(from_records.table("noise"), written)
    assert len(from_records.simulations) == 6
