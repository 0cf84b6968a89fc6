import json
import math
from pathlib import Path

import pandas as pd
import pytest

from parley import paths
from parley.analysis.metrics import condition_metrics, outcome_table, write_metrics
from parley.analysis.stats import wilson_interval
from parley.games.consensus.game import ConsensusGame
from parley.study import Study
from support.measured import measured
from support.studies import StudyFactory

# In each of two conditions.
COUNTS = {"valid_consensus": (3, 1), "invalid_consensus": (1, 0), "premature_stop": (0, 0), "no_consensus": (0, 3)}

NONE = pd.DataFrame(columns=["indicator", "rate", "low", "high"])  # a game without indicators has no such rates


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"n": [3, 5]}, seeds=4)


@pytest.fixture
def conditions() -> pd.DataFrame:
    rows = []
    for index, n in enumerate((3, 5)):
        row: dict[str, object] = {"n": n, "simulations": 4, "failed_reply_rate": (0.25, math.nan)[index]}
        for name, counts in COUNTS.items():
            low, high = wilson_interval(counts[index], 4)
            row |= {f"{name}_count": counts[index], f"{name}_rate": counts[index] / 4}
            row |= {f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def test_a_condition_has_its_simulations_rates_limits_and_failed_replies(conditions: pd.DataFrame) -> None:
    metrics = condition_metrics(conditions.iloc[0], ConsensusGame, NONE)
    assert list(metrics) == ["simulations", *COUNTS, "failed_reply_rate"]
    assert (metrics["simulations"], metrics["failed_reply_rate"]) == (4, 0.25)
    low, high = wilson_interval(3, 4)
    assert metrics["valid_consensus"] == {"rate": 0.75, "low": low, "high": high}


def test_a_rate_that_is_undefined_is_missing(conditions: pd.DataFrame) -> None:
    assert condition_metrics(conditions.iloc[1], ConsensusGame, NONE)["failed_reply_rate"] is None


def test_every_condition_has_a_file_and_former_conditions_have_none(study: Study, conditions: pd.DataFrame) -> None:
    former = paths.metric("small", "model=majority/n=99/b=0/prompt=may_exist")
    former.parent.mkdir(parents=True)
    former.write_text("{}")
    write_metrics(study, conditions, NONE)
    files = {path: json.loads(path.read_text()) for path in paths.metrics("small").rglob("*") if path.is_file()}
    assert files == {
        paths.metric("small", f"model=majority/n={n}/b=0/prompt=may_exist"): condition_metrics(
            row, ConsensusGame, NONE
        )
        for n, (_, row) in zip((3, 5), conditions.iterrows(), strict=True)
    }


def test_the_same_conditions_give_the_same_bytes(study: Study, conditions: pd.DataFrame) -> None:
    def written() -> dict[Path, bytes]:
        write_metrics(study, conditions, NONE)
        return {path: path.read_bytes() for path in paths.metrics("small").rglob("*.json")}

    assert written() == written()


def test_the_table_of_outcomes_has_a_row_per_condition_and_outcome(study: Study, conditions: pd.DataFrame) -> None:
    table = outcome_table(study, conditions)
    assert list(zip(table["n"], table["outcome"], table["count"], strict=True)) == [
        (n, name, counts[index]) for index, n in enumerate((3, 5)) for name, counts in COUNTS.items()
    ]
    first = table.iloc[0]
    assert first["condition"] == "model=majority, n=3, b=0, prompt=may_exist"
    assert (first["simulations"], first["rate"]) == (4, 0.75)
    assert (first["low"], first["high"]) == wilson_interval(3, 4)


def test_indicators_have_their_rates_in_each_condition(study: Study, conditions: pd.DataFrame) -> None:
    study = measured(study)
    numbers = [(0.25, 0.1, 0.5), (math.nan, math.nan, math.nan), (0.5, 0.4, 0.6)] * 2
    rates = pd.DataFrame(numbers, columns=["rate", "low", "high"])
    rates["indicator"] = [indicator.name for indicator in study.game.evidence.indicators] * 2
    rates.loc[3, "rate"] = 0.375
    write_metrics(study, conditions, rates)
    told = [
        json.loads(paths.metric("small", condition.path).read_text())["indicators"] for condition in study.conditions
    ]
    assert told[0]["unanimous"] == {"rate": 0.25, "low": 0.1, "high": 0.5}
    assert [list(one) for one in told] == [["unanimous", "early", "unanswered"]] * 2
    assert told[1]["unanimous"]["rate"] == 0.375
    assert told[0]["early"] == {"rate": None, "low": None, "high": None}
