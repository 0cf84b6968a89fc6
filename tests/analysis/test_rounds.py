import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis import summarize, tables
from parley.analysis.stats import wilson_interval, wilson_of_mean
from parley.games.evidence import GameColumns, Measure
from parley.games.registry import GAMES as GAMES_OF_PARLEY
from parley.play.record import read_trace
from parley.play.usable import read_records
from parley.study import Study
from support.measured import MeasuredEvidence, measured, played
from support.studies import StudyFactory

COLUMNS = ["measure", "round", "simulations", "playing", "mean", "low", "high"]


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
    assert table["playing"].to_list() == table["simulations"].to_list()
    first = table.iloc[0]
    assert first["mean"] == pytest.approx(odd / 3)
    assert (first["low"], first["high"]) == pytest.approx(wilson_interval(odd, 3))


def evidence_of(games: list[list[float | None]], *, carried: bool) -> MeasuredEvidence:
    """Return evidence in which the simulation of seed i has the values of games[i] by round, None for no value."""

    class Listed(MeasuredEvidence):
        measures = (Measure("agreed", "a", carried=carried),)
        played = iter(range(len(games)))

        def series(
            self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
        ) -> Mapping[str, Sequence[tuple[int, float]]]:
            self.game = games[next(self.played)]
            return {"agreed": [(i + 1, value) for i, value in enumerate(self.game) if value is not None]}

        def last_round(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> int:
            return len(self.game)

    return Listed()


GAMES: list[list[float | None]] = [[1.0], [0.5, 1.0], [0.0, 0.25, 0.25, 0.25], [0.5, None]]


@pytest.mark.parametrize(
    ("carried", "simulations", "means"),
    [
        (False, [4, 2, 1, 1], [0.5, 0.625, 0.25, 0.25]),  # of those that still play: it looks like a fall
        # The first two keep their 1; the last had no value when it ended, and has none from then on.
        (True, [4, 3, 3, 3], [0.5, 0.75, 0.75, 0.75]),
    ],
)
def test_finished_games_keep_their_last_value_where_the_measure_allows_it(
    study_factory: StudyFactory, carried: bool, simulations: list[int], means: list[float]
) -> None:
    played(measured(study_factory(seeds=4), evidence_of(GAMES, carried=carried)))
    table = read_rounds()
    assert table["round"].to_list() == [1, 2, 3, 4]
    assert table["simulations"].to_list() == simulations
    assert table["playing"].to_list() == [4, 2, 1, 1]
    assert table["mean"].to_list() == pytest.approx(means)
    expected = [wilson_of_mean(m, n) for m, n in zip(means, simulations, strict=True)]
    assert table["low"].to_list() == pytest.approx([float(low) for low, _ in expected])


def read_rounds() -> pd.DataFrame:
    return tables.read_table("small", "rounds")


def test_the_measures_that_a_finished_game_keeps_are_declared() -> None:
    carried = {m.name for game in GAMES_OF_PARLEY.values() for m in game.evidence.measures if m.carried}
    # Values and answers stay. Who changes an answer in a round, or what a round earns, does not.
    assert carried == {"agreement", "accuracy", "participation", "confidence"}


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
