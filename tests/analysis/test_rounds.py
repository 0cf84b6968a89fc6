import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis import summarize, tables
from parley.analysis.stats import wilson_interval
from parley.games.evidence import GameColumns, Measure
from parley.play.record import read_trace
from parley.play.usable import read_records
from parley.study import Study
from support.measured import MeasuredEvidence, measured, played
from support.studies import StudyFactory

COLUMNS = ["measure", "round", "simulations", "mean", "low", "high"]


class ShortEvidence(MeasuredEvidence):
    """Simulations of seed 0 have three rounds, the others one; what is measured is 1 for even seeds."""

    measures = (Measure("agreed", "a"), Measure("stopping", "b"))

    def series(
        self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        first = min(outcome["metrics"]["initial_values"].items())[1]
        values = [(number, float(first % 2)) for number in ((1, 2, 3) if first == 20 else (1,))]
        return {"agreed": values, "stopping": [(1, math.nan)]}


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"model": ["majority", "random"], "n": 4}, seeds=3, parameters={"max_rounds": 3})


def test_rounds_have_the_means_of_the_traces(study: Study) -> None:
    study = played(measured(study))
    table = tables.read_table("small", "rounds")
    assert list(table.columns) == ["model", "n", "b", "prompt", *COLUMNS]
    assert set(table["measure"]) == {"agreed", "stopping"}  # in no trace: unheard; not declared: undeclared
    for condition in study.conditions:
        records = [s.record("small") for s in study.simulations() if s.condition is condition]
        shares = [entry["honest_share"] for record in records for entry in read_trace(record) if entry["round"] == 2]
        here = table[(table["model"] == condition.axes["model"]) & (table["measure"] == "agreed")]
        (row,) = here[here["round"] == 2].to_dict("records")
        assert (row["simulations"], row["mean"]) == (len(shares), pytest.approx(sum(shares) / len(shares)))
        assert row["low"] <= row["mean"] <= row["high"]


def test_a_simulation_counts_in_the_rounds_that_it_has(study: Study) -> None:
    study = played(measured(study, ShortEvidence()))
    table = tables.read_table("small", "rounds")
    table = table[table["model"] == "majority"]
    initial = [
        min(summary.outcome["metrics"]["initial_values"].items())[1]
        for summary in read_records(study).summaries
        if summary.simulation["axes"]["model"] == "majority"
    ]
    odd, long = sum(value % 2 for value in initial), initial.count(20)
    assert table["round"].to_list() == [1, 2, 3][: 3 if long else 1]
    assert table["simulations"].to_list() == [3, *[long] * (2 if long else 0)]
    first = table.iloc[0]
    assert first["mean"] == pytest.approx(odd / 3)
    assert (first["low"], first["high"]) == pytest.approx(wilson_interval(odd, 3))


def test_a_value_that_is_none_is_no_value(study: Study) -> None:
    played(measured(study, ShortEvidence()))
    assert "stopping" not in set(tables.read_table("small", "rounds")["measure"])


def test_a_game_without_measures_and_turns_has_empty_tables_and_reads_no_trace(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plain(MeasuredEvidence):
        measures = ()
        columns = GameColumns()

    def refuse(path: object) -> None:
        raise AssertionError("a trace was read")

    monkeypatch.setattr(summarize, "read_trace", refuse)
    played(measured(study, Plain()))
    for suffix, read in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        table = read(paths.table("small", "rounds", suffix))
        assert list(table.columns) == ["model", "n", "b", "prompt", *COLUMNS]
        assert len(table) == 0
        assert len(read(paths.table("small", "turns", suffix))) == 0
