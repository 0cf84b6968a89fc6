"""The table of shares by threshold, from records to files."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis.stats import wilson_interval
from parley.analysis.tables import read_table
from parley.play.record import read_summary
from support.hunting import HUNTERS
from support.measured import MeasuredEvidence, measured, played
from support.studies import StudyFactory

COLUMNS = ["share", "threshold", "simulations", "mean", "low", "high"]


class SweepingEvidence(MeasuredEvidence):
    """Simulations in which the first agent starts odd have a share that is 1 below the threshold 0.5, 0 from there."""

    def sweep(self, metrics: Mapping[str, Any]) -> Mapping[str, Sequence[tuple[float, float]]]:
        odd = min(metrics["initial_values"].items())[1] % 2
        return {"some": [(0.75, 0.0), (0.25, 1.0)], "odd": [(0.5, 1.0)] if odd else []}


def test_shares_of_archetypes_move_with_the_threshold(study_factory: StudyFactory) -> None:
    played(study_factory(HUNTERS, game="stag_hunt", seeds=3, parameters={"rounds": 3}))
    table = read_table("small", "thresholds")
    assert list(table.columns) == ["model", "n", "b", "prompt", *COLUMNS]
    assert set(table["b"]) == {1}  # nobody is betrayed without a betrayer
    assert len(table) == 2 * 3 * 11
    row = table[(table["model"] == "grim_trigger") & (table["share"] == "defection_prone")].iloc[0]
    assert (row["threshold"], row["simulations"], row["mean"]) == (0.5, 3, 1.0)
    assert (row["low"], row["high"]) == pytest.approx(wilson_interval(3, 3))
    loyal = table[(table["model"] == "always_stag") & (table["share"] == "cooperation_persistent")]
    assert set(loyal["mean"]) == {1.0}
    assert loyal["threshold"].to_list() == pytest.approx([0.5 + 0.05 * step for step in range(11)])
    pd.testing.assert_frame_equal(table, pd.read_csv(paths.table("small", "thresholds", ".csv")), check_dtype=False)


def test_n_counts_the_simulations_that_have_the_share(study_factory: StudyFactory) -> None:
    study = played(measured(study_factory({"model": ["majority", "random"]}, seeds=6), SweepingEvidence()))
    table = read_table("small", "thresholds")
    summaries = [read_summary(s.record("small")) for s in study.simulations() if s.condition.axes["model"] == "random"]
    odd = sum(min(summary.outcome["metrics"]["initial_values"].items())[1] % 2 for summary in summaries)
    assert 0 < odd < 6
    found = table[table["model"] == "random"][["share", "threshold", "simulations", "mean"]].to_numpy().tolist()
    assert found == [["some", 0.25, 6, 1.0], ["some", 0.75, 6, 0.0], ["odd", 0.5, odd, 1.0]]


def test_a_game_that_sweeps_nothing_has_an_empty_table(study_factory: StudyFactory) -> None:
    played(study_factory(seeds=2))
    for suffix, read in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        table = read(paths.table("small", "thresholds", suffix))
        assert list(table.columns) == ["model", "n", "b", "prompt", *COLUMNS]
        assert len(table) == 0
