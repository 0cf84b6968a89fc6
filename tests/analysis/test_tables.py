import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.analysis.conditions import condition_table, print_conditions
from parley.analysis.simulations import engine_label, simulation_row
from parley.analysis.stats import wilson_interval
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import RecordError
from parley.games.consensus.game import ConsensusGame
from parley.play.record import read_summary, write_record
from parley.play.runner import play
from parley.play.simulate import simulate
from parley.play.usable import bring_back, left_out_of_tables, recall_left_out, usable_part
from parley.study import Study
from support.forging import edit, make_former
from support.hearing import heard
from support.playing import ListPolicy, scripted_policies
from support.studies import StudyFactory


def write_all(study: Study, provenance: dict[str, Any] | None = None, **failing: ListPolicy) -> None:
    for simulation in study.simulations():
        game = simulation.game()
        played = play(simulation.id, game, {**scripted_policies(simulation, game), **failing})
        write_record(simulation.record(study.name), simulation, played, provenance or {})


def a_row(outcome: str, rounds: int, finished: bool = True, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": "m",
        "n": 4,
        "threat_model": "none",
        "outcome": outcome,
        "rounds": rounds,
        "finished_early": finished,
        "calls": 10,
        "failed_replies": 0,
        "invalid_json": 0,
        "out_of_range": 0,
        "length": 0,
        "refused": 0,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "engine": "scripted",
    }
    return {**row, **changes}


# Conditions, by hand

ROWS = pd.DataFrame(
    [
        a_row("valid_consensus", 3),
        a_row("valid_consensus", 7, calls=30, failed_replies=6, invalid_json=4, length=2, prompt_tokens=500),
        a_row("invalid_consensus", 5, engine="vllm 1"),
        a_row("no_consensus", 50, finished=False),
        a_row("no_consensus", 50, finished=False, n=8),
        a_row("no_consensus", 50, finished=False, n=8, failed_replies=1, refused=1),
        a_row("valid_consensus", 2, n=8),
    ]
)


@pytest.fixture
def by_hand() -> pd.DataFrame:
    return condition_table(ROWS, ["model", "n"], ConsensusGame)


def test_a_condition_is_a_row_with_its_axes_and_its_simulations(by_hand: pd.DataFrame) -> None:
    assert by_hand[["model", "n", "simulations"]].to_numpy().tolist() == [["m", 4, 4], ["m", 8, 3]]


def test_outcomes_are_counted(by_hand: pd.DataFrame) -> None:
    counts = by_hand[[f"{name}_count" for name in ("valid_consensus", "invalid_consensus", "no_consensus")]]
    assert counts.to_numpy().tolist() == [[2, 1, 1], [1, 0, 2]]
    rates = by_hand[[f"{name}_rate" for name in ("valid_consensus", "invalid_consensus", "no_consensus")]]
    assert rates.to_numpy().tolist() == [[0.5, 0.25, 0.25], [pytest.approx(1 / 3), 0.0, pytest.approx(2 / 3)]]


def test_every_rate_has_its_wilson_limits(by_hand: pd.DataFrame) -> None:
    for _, row in by_hand.iterrows():
        for outcome in ConsensusGame.outcomes:
            limits = (row[f"{outcome.name}_low"], row[f"{outcome.name}_high"])
            assert limits == wilson_interval(row[f"{outcome.name}_count"], row["simulations"])
            assert limits[0] < limits[1]
    # 2 of 4 by the closed form: 0.5 -+ z sqrt(n / 4 + z^2 / 4) / (n + z^2).
    assert by_hand.loc[0, "valid_consensus_low"] == pytest.approx(0.1500, abs=5e-5)
    assert by_hand.loc[0, "valid_consensus_high"] == pytest.approx(0.8500, abs=5e-5)


def test_timeouts_are_censored_in_the_median_of_rounds(by_hand: pd.DataFrame) -> None:
    # Ends at 3, 5, 7, one censored at 50: half have ended from 5 to 7. Of the other three only one has ended.
    assert by_hand.loc[0, "median_rounds"] == 6
    assert math.isnan(by_hand.loc[1, "median_rounds"])


def test_tokens_and_calls_are_means_and_failures_shares_of_all_calls(by_hand: pd.DataFrame) -> None:
    row = by_hand.loc[0]
    assert (row["mean_calls"], row["mean_prompt_tokens"], row["mean_completion_tokens"]) == (15, 200, 20)
    assert (row["failed_replies"], row["invalid_json"], row["length"], row["refused"]) == (6, 4, 2, 0)
    assert row["failed_reply_rate"] == 0.1
    assert by_hand.loc[1, "refused"] == 1


def test_mixed_engines_are_counted(by_hand: pd.DataFrame) -> None:
    assert by_hand["engines"].to_list() == [2, 1]


def test_the_printed_table_shows_n_rates_and_intervals(by_hand: pd.DataFrame) -> None:
    text = print_conditions(by_hand, ["model", "n"], ConsensusGame)
    alike, header, first, second = text.splitlines()
    assert alike == "In all rows: model m"
    for word in ("simulations", "valid consensus", "invalid consensus", "no consensus", "median rounds"):
        assert word in header
    assert "50% [15, 85]" in first
    assert "10.0%" in first
    assert second.split()[:2] == ["8", "3"]
    assert " - " in second  # no median


# Outcomes that a condition cannot have

BOTH = {"model": "solver", "prompt": "improve", "vary": {"problems": ["arithmetic", "policies"]}}
NEVER = {"arithmetic": {"graded_consensus"}, "policies": {"correct_consensus", "wrong_consensus"}}


@pytest.fixture
def both(study_factory: StudyFactory) -> Study:
    study = study_factory(BOTH, game="deliberation", seeds=3)
    write_all(study)
    return study


def test_an_outcome_that_a_condition_cannot_have_is_missing_and_not_zero(both: Study) -> None:
    table = summarize(both)
    pd.testing.assert_frame_equal(table, read_table("small", "conditions"))
    text = pd.read_csv(paths.table("small", "conditions", ".csv"))
    for _, row in [*table.iterrows(), *text.iterrows()]:
        for outcome in both.game.outcomes:
            values = [row[f"{outcome.name}_{part}"] for part in ("count", "rate", "low", "high")]
            assert set(pd.isna(values)) == {outcome.name in NEVER[row["problems"]]}
        possible = [o.name for o in both.game.outcomes if o.name not in NEVER[row["problems"]]]
        assert sum(row[f"{name}_count"] for name in possible) == row["simulations"] == 3


def test_the_tidy_table_has_no_row_for_it_and_the_metrics_nothing(both: Study) -> None:
    summarize(both)
    table = read_table("small", "outcomes")
    every = {outcome.name for outcome in both.game.outcomes}
    for problems, never in NEVER.items():
        mine = table[table["problems"] == problems]
        assert set(mine["outcome"]) == every - never
        assert mine["count"].sum() == 3
        [file] = [path for path in paths.metrics("small").rglob("*.json") if f"problems={problems}" in str(path)]
        metrics = json.loads(file.read_text())
        empty = {name for name in every if metrics[name] == {"rate": None, "low": None, "high": None}}
        assert empty == never
    assert not table.isna().any().any()


def test_the_printed_table_has_a_dash_for_it_and_no_column_if_no_condition_can_have_it(both: Study) -> None:
    table = summarize(both)
    alike, header, arithmetic, policies = print_conditions(table, both.axes, both.game).splitlines()
    assert "model solver" in alike
    assert "simulations 3" in alike
    assert "model" not in header
    assert all(outcome.label in header for outcome in both.game.outcomes)
    for line, dashes in ((arithmetic, 1), (policies, 2)):
        assert line.split()[:-1].count("-") == dashes  # the last one is median rounds
    alone = print_conditions(table[table["problems"] == "policies"], both.axes, both.game)
    assert "policies accepted" in alone
    assert "unanimous" not in alone


def test_each_value_of_the_first_axis_has_a_printed_table_of_its_own(by_hand: pd.DataFrame) -> None:
    table = pd.concat([by_hand, by_hand.assign(model="other")], ignore_index=True)
    first, second = print_conditions(table, ["model", "n"], ConsensusGame).split("\n\n")
    assert first.splitlines()[0] == "In all rows: model m"
    assert second.splitlines()[0] == "In all rows: model other"
    assert first.splitlines()[1:] == second.splitlines()[1:]


def test_what_a_simulation_ended_with_is_shown_whatever_the_game_says(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConsensusGame, "possible_outcomes", classmethod(lambda *given: frozenset({"no_consensus"})))
    study = study_factory({"model": ["majority", "stubborn"]}, seeds=4, parameters={"max_rounds": 2})
    write_all(study)
    first, second = summarize(study).to_dict("records")
    assert (first["valid_consensus_count"], first["valid_consensus_rate"], first["no_consensus_count"]) == (4, 1.0, 0)
    assert pd.isna([second["valid_consensus_count"], second["valid_consensus_rate"]]).all()
    shown = read_table("small", "outcomes")
    assert list(zip(shown["model"], shown["outcome"], shown["count"], strict=True)) == [
        ("majority", "valid_consensus", 4),
        ("majority", "no_consensus", 0),
        ("stubborn", "no_consensus", 4),
    ]


# From records to files


def test_a_simulation_is_a_row(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 4, "b": 1, "byzantine": "random"}, seeds=2, parameters={"max_rounds": 3})
    write_all(study)
    for simulation in study.simulations():
        summary = read_summary(simulation.record("small"))
        row = simulation_row(simulation, summary)
        assert (row["model"], row["n"], row["b"], row["prompt"]) == ("majority", 4, 1, "may_exist")
        assert (row["seed"], row["id"], row["digest"]) == (simulation.seed, simulation.id, summary.digest)
        for key in ("name", "detail", "diagnosis", "rounds"):
            assert row[key if key != "name" else "outcome"] == summary.outcome[key]
        metrics = summary.outcome["metrics"]
        for key in ("consensus_value", "first_unanimity_round", "value_changes"):
            assert row[key] == metrics[key]
        assert json.loads(row["honest_shares"]) == metrics["honest_shares"]
        assert row["calls"] == summary.telemetry["calls"]


def test_all_tables_are_written_in_both_forms_and_metrics_per_condition(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4], "b": [0, 1], "byzantine": "random"}, seeds=3, parameters={"max_rounds": 3})
    write_all(study)
    with heard() as said:
        returned = summarize(study)
    assert said == ["12 simulations in 4 conditions"]
    for name, count in (("simulations", 12), ("conditions", 4)):
        table = read_table("small", name)
        text = pd.read_csv(paths.table("small", name, ".csv"))
        assert len(table) == len(text) == count
        assert list(table.columns) == list(text.columns)
        assert list(table.columns)[:4] == study.axes == ["model", "n", "b", "prompt"]
    made = {path.name for path in paths.table("small", "x", "").parent.iterdir()}
    tables = {paths.table("small", name, s).name for name in paths.TABLES for s in (".csv", ".parquet")}
    assert made == {*tables, paths.stamp("small", "tables", study.plan).name}
    assert len(read_table("small", "outcomes")) == 4 * len(ConsensusGame.outcomes)
    assert len(list(paths.metrics("small").rglob("*.json"))) == 4
    pd.testing.assert_frame_equal(returned, read_table("small", "conditions"))
    assert returned["simulations"].to_list() == [3] * 4
    counts = returned[[f"{outcome.name}_count" for outcome in ConsensusGame.outcomes]].sum(axis=1)
    assert counts.to_list() == [3] * 4


def test_majority_always_agrees(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=4)
    write_all(study)
    (row,) = summarize(study).to_dict("records")
    assert (row["valid_consensus_count"], row["valid_consensus_rate"], row["median_rounds"]) == (4, 1.0, 2)


def test_all_timeouts_have_no_median(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "stubborn"}, seeds=4, parameters={"max_rounds": 3})
    write_all(study)
    (row,) = summarize(study).to_dict("records")
    assert row["no_consensus_count"] == 4
    assert math.isnan(row["median_rounds"])
    assert math.isnan(pd.read_csv(paths.table("small", "conditions", ".csv")).loc[0, "median_rounds"])


def test_failed_replies_reach_the_table(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=2, parameters={"max_rounds": 1, "retries": 1})
    write_all(study, agent_1=ListPolicy("no", finish_reason="length"))
    (row,) = summarize(study).to_dict("records")
    # Each of two games: two other agents with 2 calls each, agent_1 with 4 that fail.
    assert (row["mean_calls"], row["failed_replies"], row["length"], row["invalid_json"]) == (8, 8, 8, 0)
    assert row["failed_reply_rate"] == 0.5


def test_thresholds_as_numbers_and_fractions_can_be_one_axis(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"stop_threshold": [0.66, "2/3"]}})
    write_all(study)
    assert len(summarize(study)) == 2
    assert len(read_table("small", "conditions")) == 2


def test_records_of_a_former_configuration_stay_out_of_the_tables(study_factory: StudyFactory) -> None:
    write_all(study_factory(seeds=3))
    study = study_factory(seeds=2, parameters={"max_rounds": 5})
    write_all(study)
    assert len(list(paths.simulations("small").rglob("*.parquet"))) == 5
    assert summarize(study)["simulations"].to_list() == [2]


# Records that cannot be used are named


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    study = study_factory(seeds=3)
    write_all(study)
    return study


def records(study: Study) -> list[Path]:
    return [simulation.record("small") for simulation in study.simulations()]


def refusal(study: Study) -> str:
    with pytest.raises(RecordError) as caught:
        summarize(study)
    assert len(str(caught.value).splitlines()) == 1
    assert not paths.table("small", "conditions", ".csv").exists()
    return str(caught.value)


def test_a_missing_record_is_named(study: Study) -> None:
    records(study)[1].unlink()
    remedy = "no such file; run the study to make it; what is there so far: parley report small.yaml --unfinished"
    assert refusal(study) == f"{records(study)[1]}: {remedy}"


def test_a_study_of_which_nothing_is_played_names_no_record(study: Study) -> None:
    for path in records(study):
        path.unlink()
    assert refusal(study) == (
        "small: none of its 3 simulations is played; run: snakemake --cores all --config study=small.yaml"
    )


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def another(path: Path) -> None:
    """Another record of the same study; the one there."""
    path.write_bytes(path.with_name("seed=2.parquet").read_bytes())


def foreign(path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(path)


def without_rows(path: Path) -> None:
    """A footer can be whole while pages before it are gone, as after a bad copy of the middle."""
    content = path.read_bytes()
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:4] + content[-footer:])


def edited(path: Path) -> None:
    edit(path, lambda rows: rows[-1].update(text="{}"))


def forged_outcome(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    meta = table.schema.metadata[b"parley"].replace(b'"outcome": {"name": "', b'"outcome": {"name": "un')
    assert meta != table.schema.metadata[b"parley"]
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"parley": meta}), path)


DAMAGE: list[tuple[Callable[[Path], Any], str]] = [
    (cut_short, "cut short or not Parquet"),
    (another, "holds another simulation; move it away"),
    (foreign, "not a record of Parley; move it away"),
    (without_rows, "cut short in its rows"),
    (edited, "its rows were changed; delete it and run the study again"),
    (forged_outcome, "damaged metadata"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_a_damaged_record_is_named_and_left_out_and_the_rest_goes_on(
    study: Study, damage: Callable[[Path], Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = records(study)[1]
    damage(bad)
    table = summarize(study)
    assert list(table["simulations"]) == [2]
    assert list(table["left_out"]) == [1]
    assert sorted(read_table("small", "simulations")["seed"]) == [0, 2]
    first, second = (line.getMessage() for line in caplog.records)
    assert first.startswith(f"left out: {bad}: {words}")
    assert second == ("left out: 1 of 3 records; delete the named files and run the study again")
    assert left_out_of_tables(study) == [bad]


def test_a_damaged_first_record_leaves_each_condition_its_own_numbers(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 4, "b": [0, 1], "byzantine": "oscillate"}, seeds=3)
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    records(study)[0].write_bytes(b"cut")
    conditions = summarize(study)
    assert conditions[["b", "simulations", "left_out"]].to_numpy().tolist() == [[0, 2, 1], [1, 3, 0]]
    outcomes = read_table("small", "outcomes")
    assert outcomes.groupby("b")["simulations"].unique().map(list).to_dict() == {0: [2], 1: [3]}
    assert all(f"b={b}" in condition for b, condition in zip(outcomes["b"], outcomes["condition"], strict=True))
    for condition, number in zip(study.conditions, (2, 3), strict=True):
        assert json.loads(paths.metric("small", condition.path).read_text())["simulations"] == number


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_strictly_a_damaged_record_ends_it(study: Study, damage: Callable[[Path], Any], words: str) -> None:
    bad = records(study)[1]
    damage(bad)
    with pytest.raises(RecordError) as caught:
        summarize(study, strict=True)
    assert str(caught.value).startswith(f"{bad}: {words}")
    assert not paths.table("small", "conditions", ".csv").exists()


def test_nothing_is_made_of_damaged_records_alone(study: Study) -> None:
    for path in records(study):
        path.write_bytes(b"")
    assert refusal(study).startswith(f"{records(study)[0]}: cut short or not Parquet")


def test_a_missing_record_among_damaged_ones_is_named_first(study: Study) -> None:
    first, second, third = records(study)
    first.write_bytes(b"")
    second.unlink()
    third.write_bytes(b"x")
    message = refusal(study)
    assert message.startswith(f"{second}: no such file")
    assert message.endswith(f"(and 2 more: {first}, {third})")


def test_a_condition_of_which_nothing_is_left_has_no_row_and_metrics_that_say_so(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=1)
    write_all(study)
    bad, good = records(study)
    bad.write_bytes(b"")
    table = summarize(study)
    assert list(table["n"]) == [4]
    assert [json.loads(paths.metric("small", c.path).read_bytes())["simulations"] for c in study.conditions] == [0, 1]
    assert records(usable_part(study)) == [good]


def test_tables_are_made_anew_once_a_record_is_mended(study: Study) -> None:
    bad = records(study)[1]
    whole = bad.read_bytes()
    bad.write_bytes(b"")
    summarize(study)
    stamp = paths.stamp("small", "tables", study.plan)
    line = recall_left_out(study)
    assert line is not None
    assert str(bad) in line
    assert stamp.exists()
    bad.write_bytes(whole)
    assert recall_left_out(study) is None
    assert not stamp.exists()
    summarize(study)
    assert (recall_left_out(study), stamp.exists()) == (None, True)


def test_a_record_that_holds_another_simulation_is_said_by_each_run_and_makes_no_tables_anew(study: Study) -> None:
    bad = records(study)[1]
    another(bad)
    summarize(study)
    line = recall_left_out(study)
    assert line is not None
    assert str(bad) in line
    assert paths.stamp("small", "tables", study.plan).exists()


def test_a_damaged_record_that_is_deleted_is_played_again_whatever_its_second_name_holds(study: Study) -> None:
    bad, other, _ = records(study)
    for path in (bad, other):
        kept = paths.kept_record(path)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.hardlink_to(path)
    edited(bad)
    bad.unlink()
    other.unlink()
    first, second, _ = study.simulations()
    paths.kept_record(bad).write_bytes(b"damaged, as the record was")
    assert not bring_back(bad, first)
    assert not paths.kept_record(bad).exists()
    assert bring_back(other, second)


def test_records_without_a_checksum_are_said_once(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    for path in records(study)[:2]:
        make_former(path)
    table = summarize(study)
    assert list(table["simulations"]) == [3]
    assert [line.getMessage() for line in caplog.records] == [
        "2 records of an older version without a checksum; parley replay checks them"
    ]


def test_the_manifest_names_the_records_that_the_tables_are_made_from(study: Study) -> None:
    stray = records(study)[0].with_name("seed=9.parquet")
    stray.write_bytes(records(study)[0].read_bytes())
    edited(records(study)[2])
    summarize(study)
    manifest = read_table("small", "manifest")
    assert list(manifest["path"]) == [str(path) for path in records(study)[:2]]
    expected = [(s.id, read_summary(s.record("small")).digest) for s in list(study.simulations())[:2]]
    assert list(zip(manifest["id"], manifest["digest"], strict=True)) == expected


def test_second_names_of_records_are_released(study: Study) -> None:
    kept = [paths.kept_record(record) for record in records(study)]
    for record, second in zip(records(study), kept, strict=True):
        second.parent.mkdir(parents=True, exist_ok=True)
        second.hardlink_to(record)
    summarize(study)
    assert not any(path.exists() for path in kept)
    assert all(path.exists() for path in records(study))


def test_a_table_that_was_not_made_says_how_to_make_it(folder: Path) -> None:
    with pytest.raises(RecordError, match=r"conditions\.parquet: no such table; run: parley summarize"):
        read_table("small", "conditions")


@pytest.mark.parametrize("kept", [0, 10, -1])
def test_a_table_that_is_cut_short_is_named_with_what_makes_it(study: Study, kept: int) -> None:
    summarize(study)
    table = paths.table("small", "conditions", ".parquet")
    table.write_bytes(table.read_bytes()[:kept])
    with pytest.raises(RecordError, match=r"conditions\.parquet: cut short or no table; run: parley summarize"):
        read_table("small", "conditions")


# Engines


def test_scripted_simulations_have_no_engine() -> None:
    assert engine_label({}) == engine_label({"engines": {}}) == "scripted"


def test_engines_that_differ_in_what_matters_have_other_labels() -> None:
    base: dict[str, Any] = {
        "engine": "vllm",
        "versions": {"vllm": "0.1"},
        "device": "cpu",
        "arguments": ["--seed", "1"],
        "weights_sha256": {"m.safetensors": "aa"},
    }
    changes: list[dict[str, Any]] = [
        {},
        {"versions": {"vllm": "0.2"}},
        {"device": "H100"},
        {"arguments": []},
        {"weights_sha256": {"m.safetensors": "bb"}},
    ]
    labels = [engine_label({"engines": {"m": {**base, **change}}}) for change in changes]
    assert len(set(labels)) == 5
    assert labels[0].startswith("vllm 0.1, cpu, ")
    assert engine_label({"engines": {"m": {**base, "hostname": "other"}}}) == labels[0]


def test_premature_stops_are_counted_apart_from_records_that_do_not_tell_them_apart(
    study_factory: StudyFactory,
) -> None:
    # Two thirds of the votes are the adversaries', which stop at once: too early, as no two honest values are equal.
    study = study_factory({"honest": 2, "b": 4, "byzantine": {"name": "stubborn", "vote": "stop"}}, seeds=6)
    write_all(study)
    names = {read_summary(s.record(study.name)).outcome["name"] for s in study.simulations()}
    assert names == {"invalid_consensus"}  # as in any record
    summarize(study)
    table = read_table(study.name, "simulations")
    assert set(table["outcome"]) == set(table["detail"]) == {"premature_stop"}
    [row] = read_table(study.name, "conditions").to_dict("records")
    assert (row["premature_stop_count"], row["invalid_consensus_count"]) == (6, 0)
    found = read_table(study.name, "outcomes").set_index("outcome")["rate"]
    assert found.to_dict() == {"valid_consensus": 0, "invalid_consensus": 0, "premature_stop": 1, "no_consensus": 0}
