"""From records to tables and metrics: by hand, in files, and where records are missing or damaged."""

import errno
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.analysis.conditions import condition_table, outcome_table, print_conditions
from parley.analysis.simulations import simulation_row
from parley.analysis.summarize import summarize, write_metrics
from parley.analysis.tables import csv_text, read_table, write_table
from parley.columns import table_names
from parley.errors import RecordError
from parley.files import mark_done
from parley.games.consensus.game import ConsensusGame
from parley.play import record
from parley.play.record import read_summary, read_trace
from parley.play.record_store import (
    changed_table,
    left_out_of_tables,
    mark_of_tables,
    read_records,
    recall_left_out,
    usable_part,
)
from parley.policies import FAILURE_CLASSES
from parley.statistics.stats import wilson_interval
from parley.study import Study
from support.commands import Parley, heard, one_line_error
from support.figures import measured, recorded
from support.records import forge
from support.studies import StudyFactory, records_of

OUTCOMES = [outcome.name for outcome in ConsensusGame.outcomes]
NO_RATE = {"rate": None, "low": None, "high": None}


def metrics_of(study: Study) -> list[dict[str, Any]]:
    return [json.loads(paths.metric(study.name, c.name).read_text()) for c in study.conditions]


# By hand

ALIKE: dict[str, Any] = {
    **{"model": "m", "threat_model": "none", "finished_early": True, "engine": "scripted"},
    **{"calls": 10, "prompt_tokens": 100, "completion_tokens": 20},
    **dict.fromkeys(("failed_replies", *FAILURE_CLASSES), 0),
}
VALID, INVALID, NONE = "valid_consensus", "invalid_consensus", "no_consensus"
FAILING = {"calls": 30, "failed_replies": 6, "invalid_json": 4, "length": 2, "prompt_tokens": 500}
TIMEOUT = {"outcome": NONE, "rounds": 50, "finished_early": False}
ROWS = pd.DataFrame(
    [
        {**ALIKE, "n": 4, "outcome": VALID, "rounds": 3},
        {**ALIKE, "n": 4, "outcome": VALID, "rounds": 7, **FAILING},
        {**ALIKE, "n": 4, "outcome": INVALID, "rounds": 5, "engine": "vllm 1"},
        {**ALIKE, "n": 4, **TIMEOUT},
        {**ALIKE, "n": 8, **TIMEOUT},
        {**ALIKE, "n": 8, **TIMEOUT, "failed_replies": 1, "refused": 1},
        {**ALIKE, "n": 8, "outcome": VALID, "rounds": 2},
    ]
)


@pytest.fixture(scope="module")
def by_hand() -> pd.DataFrame:
    return condition_table(ROWS, ["model", "n"], ConsensusGame)


def test_a_condition_counts_its_outcomes_with_wilsons_limits(by_hand: pd.DataFrame) -> None:
    assert by_hand[["model", "n", "simulations", "engines"]].to_numpy().tolist() == [["m", 4, 4, 2], ["m", 8, 3, 1]]
    counts = {VALID: (2, 1), INVALID: (1, 0), "premature_stop": (0, 0), NONE: (1, 2)}
    for name, each in counts.items():
        for place, (count, n) in enumerate(zip(each, (4, 3), strict=True)):
            row = by_hand.loc[place, [f"{name}_{part}" for part in ("count", "rate", "low", "high")]].tolist()
            assert row == [count, count / n, *wilson_interval(count, n)], (name, n)
    # 2 of 4 by the closed form: 0.5 -+ z sqrt(n / 4 + z^2 / 4) / (n + z^2).
    limits = by_hand.loc[0, ["valid_consensus_low", "valid_consensus_high"]].tolist()
    assert limits == pytest.approx([0.15, 0.85], abs=5e-5)


@pytest.mark.promise("Medians of rounds are censored, unusable replies are shares of all calls.")
def test_medians_are_censored_and_failures_are_shares_of_all_calls(by_hand: pd.DataFrame) -> None:
    # Ends at 3, 5, 7, one censored at 50: half have ended from 5 to 7. Of the other three only one has ended.
    assert by_hand["median_rounds"].to_list() == pytest.approx([6, math.nan], nan_ok=True)
    names = ["mean_calls", "mean_prompt_tokens", "mean_completion_tokens", "failed_reply_rate"]
    assert by_hand.loc[0, names].tolist() == [15, 200, 20, 0.1]
    assert by_hand.loc[0, ["failed_replies", "invalid_json", "length", "refused"]].tolist() == [6, 4, 2, 0]
    assert by_hand.loc[1, "refused"] == 1


def test_metrics_and_outcomes_are_those_of_the_conditions(study_factory: StudyFactory, by_hand: pd.DataFrame) -> None:
    study = measured(study_factory({"n": [4, 8]}))
    conditions = by_hand.assign(failed_reply_rate=[0.25, math.nan])
    # A table of rates has all indicators of a condition, then those of the next.
    rates = pd.DataFrame([(0.25, 0.1, 0.5), (math.nan,) * 3, (0.5, 0.4, 0.6)] * 2, columns=["rate", "low", "high"])
    rates["indicator"] = ["unanimous", "early", "unanswered"] * 2
    rates.loc[3, "rate"] = 0.375
    write_metrics(measured(study_factory({"n": [3, 6]})), conditions, rates, study)  # as it was before
    own = paths.metrics("small") / "my-own.json"
    own.write_text("{}")
    write_metrics(study, conditions, rates, study)
    now = {paths.metric("small", condition.name) for condition in study.conditions}
    assert {*paths.metrics("small").rglob("*.json")} == {own, *now}
    first, second = metrics_of(study)
    assert list(first) == ["simulations", *OUTCOMES, "failed_reply_rate", "indicators"]
    assert (first["simulations"], first["failed_reply_rate"], second["failed_reply_rate"]) == (4, 0.25, None)
    assert first[VALID] == dict(zip(("rate", "low", "high"), (0.5, *wilson_interval(2, 4)), strict=True))
    assert first["indicators"]["unanimous"] == {"rate": 0.25, "low": 0.1, "high": 0.5}
    assert (first["indicators"]["early"], second["indicators"]["unanimous"]["rate"]) == (NO_RATE, 0.375)
    table = outcome_table(study, conditions)
    assert table["outcome"].to_list() == OUTCOMES * 2
    assert table["count"].to_list() == [2, 1, 0, 1, 1, 0, 0, 2]
    row = table.iloc[0]
    assert (row["simulations"], row["rate"], row["low"], row["high"]) == (4, 0.5, *wilson_interval(2, 4))


# Files


def test_estimates_are_written_alike_on_all_processors_and_records_as_they_are(study_factory: StudyFactory) -> None:
    study, written = study_factory(), []
    for p in (0.10346204867862167, 0.10346204867862141):  # as two processors gave them for the same records
        rows = [{"kind": "outcome", "p": p, "n": 3}, {"kind": "outcome", "p": math.nan, "n": 4}]
        write_table(pd.DataFrame(rows), study, "forks")
        written.append(read_table("small", "forks"))
    pd.testing.assert_frame_equal(*written, check_exact=True)
    assert written[0]["p"].to_list() == pytest.approx([0.1034620487, math.nan], rel=1e-15, nan_ok=True)
    assert written[0]["n"].tolist() == [3, 4]
    write_table(pd.DataFrame([{"wall_seconds": 0.10346204867862167}]), study, "simulations")
    assert read_table("small", "simulations")["wall_seconds"][0] == 0.10346204867862167


def test_no_cell_of_a_csv_is_a_formula_or_a_true_that_r_does_not_read() -> None:
    texts = ["=1+1", "@x", "-2", "+1/2", "a=b", None]
    plain = pa.table({"declared": pa.array(texts), "other": pa.array(texts, pa.large_string())})
    harmless = ["'=1+1", "'@x", "-2", "+1/2", "a=b", ""]
    assert csv_text(plain).splitlines()[1:] == [",".join([cell, cell]) for cell in harmless]
    assert csv_text(pa.table({"a": [True, None, False], "b": [1, None, 2]}), header=False) == "TRUE,1\n,\nFALSE,2\n"


def test_a_table_that_is_not_there_or_not_whole_says_how_to_make_it(study_factory: StudyFactory) -> None:
    with pytest.raises(RecordError, match=r"conditions\.parquet: no such table; run: parley summarize"):
        read_table("small", "conditions")
    write_table(ROWS, study_factory(), "conditions")
    table = paths.table("small", "conditions", ".parquet")
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"conditions\.parquet: .*parley summarize"):
        read_table("small", "conditions")


IMPOSSIBLE: list[Any] = [[], [[]], [{}], [{"values": 3}]]


@pytest.mark.promise(
    "A record whose outcome or trace is of no game is named and left out, whatever its checksums say."
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "trace"),
    [
        *product(("consensus", "stag_hunt"), IMPOSSIBLE),
        *(("consensus", f"a share of {share}") for share in ("x", "1e308")),
    ],
)
def test_a_record_with_an_impossible_trace_is_named_and_left_out(
    study_factory: StudyFactory, game: str, trace: Any
) -> None:
    grid = {"consensus": {}, "stag_hunt": {"model": "grim_trigger", "prompt": "plain"}}[game]
    study = recorded(study_factory(grid, game=game, seeds=3))
    bad = next(iter(study.simulations())).record("small")
    if isinstance(trace, str):
        said, trace = trace, read_trace(bad)
        share = next(key for key, value in trace[-1].items() if isinstance(value, float))
        trace[-1][share] = 1e308 if said.endswith("1e308") else "x"
    forge(bad, trace=trace)
    with heard() as lines:
        summarize(study, processes=2)
    assert f"left out: {bad}: its outcome or trace is of no game" in "\n".join(lines)
    assert list(left_out_of_tables(study)) == [bad]
    assert len(read_table("small", "simulations")) == 2


IMPOSSIBLE_OUTCOMES: list[dict[str, Any]] = [
    *({"metrics": {"value_changes": value}} for value in ("many", [1, 2], 10**25, 10**400)),
    *({"metrics": {"final_honest_share": value}} for value in (7.0, float("inf"))),
    {"metrics": {"consensus_value": {"a": 1}}},
    {"metrics": {"first_unanimity_round": True}},
    {"name": "all_agreed"},
    *({"rounds": rounds} for rounds in (3, 2**50)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forged", "repeat"), [*((each, None) for each in IMPOSSIBLE_OUTCOMES), (IMPOSSIBLE_OUTCOMES[0], 1)]
)
def test_a_record_with_an_impossible_outcome_is_named_and_left_out(
    study_factory: StudyFactory, forged: dict[str, Any], repeat: int | None
) -> None:
    study = recorded(study_factory(seeds=2, parameters={"max_rounds": 2}, **({"repeats": 2} if repeat else {})))
    bad = next(each for each in study.simulations() if each.condition.repeat == repeat).record("small")

    def change(described: dict[str, Any]) -> None:
        outcome = described["outcome"]
        outcome.update({**forged, "metrics": {**outcome["metrics"], **forged.get("metrics", {})}})

    forge(bad, meta=change)
    with heard() as lines:
        summarize(study)
    assert f"left out: {bad}: its outcome or trace is of no game" in "\n".join(lines)
    assert list(left_out_of_tables(study)) == [bad]


def test_nobody_is_told_to_delete_a_record_that_the_disk_cannot_read(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = records_of(study)[1]
    read = record.read_regular

    def fail(path: Path, most: int) -> bytes:
        if path == bad:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return read(path, most)

    monkeypatch.setattr(record, "read_regular", fail)
    with heard() as lines:
        summarize(study)
    assert f"{bad}: cannot be read: Input/output error; look at its disk" in lines[0]
    assert "delete" not in "".join([*lines, recall_left_out(study) or "nothing"])


def test_no_name_of_a_forged_record_is_a_formula_and_no_cell_forges_a_line(study: Study) -> None:
    bad, odd = (simulation.record("small") for simulation in [*study.simulations()][:2])
    forge(bad, meta=lambda described: described["outcome"]["metrics"].update({"=cmd|x": 1}))
    forge(odd, meta=lambda described: described["outcome"].update(detail="\x1b[2J\u202egone\n1,2"))
    forge(odd, meta=lambda described: described["provenance"].update(started="\x1b[2Jnow"))
    with heard() as lines:
        summarize(study)
    assert f"left out: {bad}: damaged: outcome.metrics.=cmd|x" in lines[0]
    assert read_table("small", "simulations")[["detail", "started"]].to_numpy()[0].tolist() == [
        "[2Jgone 1,2",
        "[2Jnow",
    ]


def test_no_metric_takes_the_place_of_a_column_of_parley(study: Study) -> None:
    simulation = next(study.simulations())
    summary = read_summary(simulation.record("small"))
    forged = {**summary.outcome, "metrics": {**summary.outcome["metrics"], "seed": "x", "outcome": 3, "n": 7}}
    assert simulation_row(simulation, replace(summary, outcome=forged)) == simulation_row(simulation, summary)


@pytest.mark.promise("Tables that were changed are neither drawn nor reported, and no result is made of them.")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["outcomes", "turns"])
def test_no_later_stage_believes_a_table_that_was_changed(
    study_factory: StudyFactory, parley: Parley, name: str
) -> None:
    study = recorded(study_factory(seeds=2, parameters={"max_rounds": 2}))
    summarize(study)
    mark_done("small", "figures", study.plan)
    assert changed_table(study) is None
    path = paths.table("small", name, ".parquet")
    pq.write_table(pq.read_table(path).slice(1), path)
    assert changed_table(study)
    for command in ("figures", "report"):
        told = one_line_error(parley(command, study.file), 1)
        assert f"{path}: is not as it was made; run: parley summarize" in told
    summarize(study)
    edited = paths.table("small", name, ".csv")
    edited.write_text(edited.read_text().replace("\n", "0\n"))
    assert changed_table(study) == edited
    mark = paths.stamp("small", "tables", study.plan)
    for odd in ("[1]", '{"sha256": [1]}', '{"left_out": 3}', '{"made_by": "x"}', "\\0"):  # of somebody else
        mark.write_text(odd)
        assert mark_of_tables(study) == {}
        assert (left_out_of_tables(study), changed_table(study)) == ({}, None)


@pytest.mark.slow
def test_all_tables_are_written_in_both_forms_from_the_records_of_now(study_factory: StudyFactory) -> None:
    recorded(study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 2}))  # a former configuration
    grid = {"n": [3, 4], "b": [0, 1], "byzantine": "random"}
    study = recorded(study_factory(grid, seeds=3, parameters={"max_rounds": 3}))
    returned = summarize(study)
    for name, count in (("simulations", 12), ("conditions", 4)):
        table, text = read_table("small", name), pd.read_csv(paths.table("small", name, ".csv"))
        assert len(table) == len(text) == count
        assert list(table) == list(text)
    made = {path.name for path in paths.table("small", "x", "").parent.iterdir()}
    tables = {paths.table("small", name, s).name for name in table_names() for s in (".csv", ".parquet")}
    assert made == {*tables, paths.stamp("small", "tables", study.plan).name, paths.listing(Path()).name}
    counts = returned[[f"{name}_count" for name in OUTCOMES]].sum(axis=1)
    assert returned["simulations"].to_list() == counts.to_list() == [3] * 4
    for simulation in study.simulations():
        summary = read_summary(simulation.record("small"))
        row, outcome = simulation_row(simulation, summary), summary.outcome
        assert {name: row[name] for name in study.axes} == simulation.condition.axes
        assert (row["seed"], row["id"], row["digest"]) == (simulation.seed, simulation.id, summary.digest)
        assert (row["outcome"], row["rounds"]) == (outcome["name"], outcome["rounds"])
        assert row["consensus_value"] == outcome["metrics"]["consensus_value"]
        assert row["calls"] == summary.telemetry["calls"]


# Outcomes that a condition cannot have


@pytest.mark.promise("An outcome that a condition cannot have is missing, never 0 of n.")
@pytest.mark.slow
def test_an_outcome_that_a_condition_cannot_have_is_missing_and_not_zero(study_factory: StudyFactory) -> None:
    grid = {"model": "solver", "prompt": "improve", "vary": {"problems": ["arithmetic", "policies"]}}
    study = recorded(study_factory(grid, game="deliberation", seeds=3))
    never = {"arithmetic": {"graded_consensus"}, "policies": {"correct_consensus", "wrong_consensus"}}
    every = {outcome.name for outcome in study.game.outcomes}
    table, outcomes = summarize(study), read_table("small", "outcomes")
    for found in (table, pd.read_csv(paths.table("small", "conditions", ".csv"))):
        for _, row in found.iterrows():
            for name in every:
                values = [row[f"{name}_{part}"] for part in ("count", "rate", "low", "high")]
                assert set(pd.isna(values)) == {name in never[row["problems"]]}
            assert sum(row[f"{name}_count"] for name in every - never[row["problems"]]) == row["simulations"] == 3
    for condition, metrics in zip(study.conditions, metrics_of(study), strict=True):
        mine = outcomes[outcomes["problems"] == condition.axes["problems"]]
        assert set(mine["outcome"]) == every - never[condition.axes["problems"]]
        assert {name for name in every if metrics[name] == NO_RATE} == never[condition.axes["problems"]]
    _, _, arithmetic, policies = print_conditions(table, study.axes, study.game).splitlines()
    assert [line.split()[:-1].count("-") for line in (arithmetic, policies)] == [1, 2]  # the last is median rounds


# Records that cannot be used are named


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return recorded(study_factory(seeds=3))


def refusal(study: Study) -> str:
    with pytest.raises(RecordError) as caught:
        summarize(study)
    assert len(str(caught.value).splitlines()) == 1
    assert not paths.table("small", "conditions", ".csv").exists()
    return str(caught.value)


def test_of_damaged_records_alone_nothing_is_made(study: Study) -> None:
    first, second, third = records_of(study)
    second.unlink()
    first.write_bytes(b"")
    third.write_bytes(b"x")
    message = refusal(study)
    assert message.startswith(f"{first}: cut short")
    assert message.endswith(f"(and 1 more: {third})")
    for path in (first, third):
        path.unlink()
    message = refusal(study)  # of nothing played no record is named
    assert message.endswith("parley run small.yaml")


def another(path: Path) -> None:
    """Another record of the same study; the one there."""
    path.write_bytes(path.with_name("seed=2.parquet").read_bytes())


# `play/test_record.py` has more; these are the kinds.
DAMAGE: dict[Callable[[Path], Any], str] = {
    lambda path: path.write_bytes(path.read_bytes()[:-100]): "cut short or not Parquet",
    another: "holds another simulation; move it away",
}


@pytest.mark.promise("Damaged records are named, counted and left out of tables.")
@pytest.mark.slow
def test_damaged_records_are_named_and_left_out(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    bad = records_of(study)[1]
    whole = bad.read_bytes()
    for damage, words in DAMAGE.items():
        bad.write_bytes(whole)
        damage(bad)
        caplog.clear()
        found = read_records(study)
        assert [simulation.seed for simulation in found.simulations] == [0, 2], words
        first, second = (line.getMessage() for line in caplog.records)
        assert first.startswith(f"left out: {bad}: {words}")
        assert second.startswith("left out: 1 of 3 records")
    assert not paths.table("small", "conditions", ".csv").exists()
    assert summarize(study)[["simulations", "left_out"]].to_numpy().tolist() == [[2, 1]]
    assert sorted(read_table("small", "simulations")["seed"]) == [0, 2]
    assert list(left_out_of_tables(study)) == [bad]
    expected = [[s.id, read_summary(s.record("small")).digest] for s in found.simulations]
    assert read_table("small", "simulations")[["id", "digest"]].to_numpy().tolist() == expected


@pytest.mark.slow
def test_each_condition_keeps_its_own_numbers_where_records_are_damaged(study_factory: StudyFactory) -> None:
    study = recorded(study_factory({"n": 4, "b": [0, 1, 2], "byzantine": "silent"}, seeds=2))
    bad = [records_of(study)[place] for place in (0, 1, 4)]  # the first of b=0, and all of b=1
    for path in bad:
        path.write_bytes(b"cut")
    assert summarize(study)[["b", "simulations", "left_out"]].to_numpy().tolist() == [[0, 1, 1], [2, 2, 0]]
    outcomes = read_table("small", "outcomes")
    assert outcomes.groupby("b")["simulations"].unique().map(list).to_dict() == {0: [1], 2: [2]}
    assert all(f"b={b}" in condition for b, condition in zip(outcomes["b"], outcomes["condition"], strict=True))
    assert [metrics["simulations"] for metrics in metrics_of(study)] == [1, 0, 2]
    assert set(records_of(usable_part(study))) == set(records_of(study)) - set(bad)


@pytest.mark.slow
def test_tables_are_made_anew_once_a_record_is_mended(study: Study) -> None:
    bad, stamp = records_of(study)[1], paths.stamp("small", "tables", study.plan)
    whole = bad.read_bytes()
    another(bad)
    summarize(study)
    assert str(bad) in (recall_left_out(study) or "")
    assert stamp.exists()
    bad.write_bytes(whole)
    assert recall_left_out(study) is None
    assert not stamp.exists()
    summarize(study)
    assert (recall_left_out(study), stamp.exists()) == (None, True)


@pytest.mark.slow
def test_a_table_is_read_without_threads_which_abort_a_process_that_ends_soon_after(tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"name": ["a", "b"]}), table)
    code = (
        "import os, sys; from parley.files import read_columns; import pyarrow.parquet, pandas\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "rows = read_columns(open(sys.argv[1], 'rb'), ['name']).to_pandas(use_threads=False)\n"
        "print(len(rows), len(os.listdir('/proc/self/task')) - before)"
    )
    told = subprocess.run([sys.executable, "-c", code, table], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["2", "0"]
