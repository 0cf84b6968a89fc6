"""The API at work: tables, frames of four levels and figures, whole or damaged."""

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import parley
from parley import paths
from parley.api import frames
from parley.errors import RecordError, UsageError
from parley.play.parquet import BadParquetError, parquet_file, read_rows
from parley.play.record_content import SCHEMA
from parley.study import load_study
from support.demo_study import files_in, summarize_study, write_study
from support.forging import edit, make_former

# Results


def test_without_results_it_says_what_to_run(tmp_path: Path) -> None:
    write_study(tmp_path)
    told = f"no results yet in {tmp_path}/results/demo; run in {tmp_path}: snakemake --cores all --config study=demo"
    with pytest.raises(RecordError, match=re.escape(told)):
        parley.load("demo", tmp_path).results()
    with chdir(tmp_path), pytest.raises(RecordError, match="; run: snakemake"):
        parley.load("demo").results()


def test_results_beside_the_folder_of_a_study_file_are_pointed_to(root: Path, tmp_path: Path) -> None:
    with chdir(tmp_path), pytest.raises(RecordError, match=re.escape(f"load it with root='{root}'")):
        parley.load(root / "config" / "demo.yaml").results()


def test_tables_in_memory_are_those_that_are_written(root: Path, loose: Path) -> None:
    before = files_in(loose)
    written, made = (parley.load("demo", folder).results() for folder in (root, loose))
    for name in written.tables:
        tables = [found.table(name) for found in (made, written)]
        if name == "quantities":  # how long games took
            tables = [table[~table["quantity"].str.startswith("seconds")].reset_index(drop=True) for table in tables]
        timeless = [column for column in tables[0] if "seconds" not in column]
        pd.testing.assert_frame_equal(*(table[timeless] for table in tables), check_dtype=False)
    assert files_in(loose) == before


def test_an_unfinished_study_has_the_results_that_are_there(loose: Path) -> None:
    first, *_, last = parley.load("demo", loose).results().records
    last.path.unlink()
    paths.kept_record(last.path).unlink(missing_ok=True)
    results = parley.load("demo", loose).results()
    assert repr(results).splitlines()[0] == "Results of demo: 17 of 18 simulations"
    assert len(results.simulations) == len(results.records) == 17
    assert results.conditions["left_out"].sum() == 0
    assert results.figure("outcome_rates").axes
    assert first.id in set(results.rounds["id"])
    assert last.id not in set(results.attempts["id"])


def test_a_condition_without_records_is_one_of_the_study(loose: Path) -> None:
    for record in parley.load("demo", loose).results().records.where(byzantine="silent"):
        record.path.unlink()
        paths.kept_record(record.path).unlink(missing_ok=True)
    results = parley.load("demo", loose).results()
    assert len(results.records.where(byzantine="silent")) == 0
    with pytest.raises(UsageError, match="no records yet of b=1, byzantine=silent; "):
        results.frame("attempts", b=1, byzantine="silent")
    for level in ("simulations", "conditions"):
        frame = results.frame(level, byzantine="silent")  # type: ignore[arg-type]
        assert len(frame) == 0
        assert "byzantine" in frame
    with pytest.raises(UsageError, match="no condition has byzantine=oscillate"):
        results.records.where(byzantine="oscillate")


def test_a_record_that_is_not_there_names_how_many_are(results: parley.Results) -> None:
    for records, told in (
        (results.records, "demo: 18 records here; none at [99]"),
        (results.records.where(seed=99), "demo: 0 records here; none at [99]"),
    ):
        with pytest.raises(IndexError) as error:
            records[99]
        assert str(error.value) == told


def test_tables_of_records_that_are_gone_are_not_used(loose: Path) -> None:
    study = load_study(loose / "config" / "demo.yaml")
    summarize_study(loose, study)
    assert "read from the tables" in repr(parley.load("demo", loose).results())
    parley.load("demo", loose).results().records[0].path.unlink()
    assert len(parley.load("demo", loose).results().simulations) == 17


def test_a_damaged_record_is_left_out_with_a_warning(loose: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = parley.load("demo", loose).results().records[3]
    content = damaged.path.read_bytes()
    damaged.path.write_bytes(content[: len(content) // 2])
    levels = ("simulations", "attempts", "rounds")
    for first in levels:
        results = parley.load("demo", loose).results()
        for level in (first, *levels):
            frame = results.frame(level)  # type: ignore[arg-type]
            assert len(set(frame["id"])) == 17
            assert damaged.id not in set(frame["id"])
        assert sum(f"left out: {damaged.path}" in message for message in caplog.messages) == 1
        assert "warning:" not in caplog.text
        caplog.clear()
    assert results.conditions["left_out"].sum() == 1
    with pytest.raises(RecordError, match=r"seed=0\.parquet: "):
        damaged.outcome  # noqa: B018
    # Also where the tables know of it.
    summarize_study(loose, load_study(loose / "config" / "demo.yaml"))
    caplog.clear()
    known = parley.load("demo", loose).results()
    assert (len(known.records), len(known.simulations), len(known.attempts["id"].unique())) == (17, 17, 17)
    assert not caplog.text
    damaged.path.write_bytes(content)
    assert len(parley.load("demo", loose).results().simulations) == 18


def test_if_all_records_are_damaged_the_first_is_told(loose: Path) -> None:
    for record in parley.load("demo", loose).results().records:
        record.path.write_bytes(b"PAR1")
    results = parley.load("demo", loose).results()
    for level in ("attempts", "rounds", "simulations", "conditions"):
        with pytest.raises(RecordError, match="delete it and run the study again"):
            results.frame(level)  # type: ignore[arg-type]


def test_rows_that_were_changed_are_no_attempts(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    edit(record.path, lambda rows: rows[0].update(text="{}"))
    with pytest.raises(RecordError, match="its rows were changed"):
        record.transcript  # noqa: B018


def test_a_record_of_another_simulation_is_not_read(loose: Path) -> None:
    one, other = parley.load("demo", loose).results().records[:2]
    other.path.write_bytes(one.path.read_bytes())
    with pytest.raises(RecordError, match="holds another simulation"):
        other.transcript  # noqa: B018
    with pytest.raises(RecordError, match="holds another simulation"):
        other.outcome  # noqa: B018


def test_records_of_the_former_version_have_the_same_columns(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    now = record.transcript
    make_former(record.path)
    former = parley.load("demo", loose).results().records[0].transcript
    assert former.columns.tolist() == now.columns.tolist()
    pd.testing.assert_frame_equal(former, now, check_categorical=False, check_dtype=False)


# Frames


def test_the_levels_have_a_row_each(results: parley.Results) -> None:
    assert len(results.conditions) == 6
    assert len(results.simulations) == len(results.records) == 18
    assert len(results.rounds) == results.simulations["rounds"].sum()
    assert len(results.attempts) == results.simulations["calls"].sum()
    assert results.attempts.columns.tolist()[:6] == ["model", "n", "b", "prompt", "byzantine", "spec"]
    assert set(SCHEMA.names) <= set(results.attempts.columns)
    joined = results.attempts.groupby("id", observed=True)["completion_tokens"].count()
    assert len(joined) == 18


def test_attempts_are_those_of_the_records(results: parley.Results) -> None:
    attempts = results.attempts
    for record in results.records:
        own = attempts[attempts["id"] == record.id].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, record.transcript, check_categorical=False, check_dtype=False)
        stored = pd.read_parquet(record.path, partitioning=None)
        assert own["text"].tolist() == stored["text"].tolist()
        assert own["request_seed"].tolist() == stored["request_seed"].tolist()
        assert own["agent"].astype(str).tolist() == stored["agent"].astype(str).tolist()
        assert set(own["n"]) == {record.axes["n"]}


@pytest.mark.parametrize("level", ["attempts", "rounds", "simulations", "conditions"])
def test_a_part_of_a_frame_is_what_the_whole_has(root: Path, loose: Path, level: Any) -> None:
    columns = {"attempts": ["agent", "model", "text"], "rounds": ["n", "agreement"]}.get(level, ["n", "model"])
    for folder in (root, loose):
        results = parley.load("demo", folder).results()
        whole = results.frame(level)
        expected = whole[(whole["model"] == "majority") & whole["n"].isin([4, 5])][columns].reset_index(drop=True)
        found = results.frame(level, columns=columns, model="majority", n=[4, 5])
        assert len(found)
        pd.testing.assert_frame_equal(found, expected, check_categorical=False, check_dtype=False)


@pytest.mark.parametrize("level", ["attempts", "rounds", "simulations"])
def test_seeds_are_chosen_as_conditions_are(results: parley.Results, level: Any) -> None:
    seed = "simulation_seed" if level == "attempts" else "seed"
    assert set(results.frame(level, seed=1)[seed]) == {1}
    assert set(results.frame(level, [seed], seed=range(1, 9), b=1)[seed]) == {1, 2}


def test_only_chosen_records_and_columns_are_read(results: parley.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, list[str]]] = []
    real = frames.read_attempts

    def noted(path: Path, names: list[str]) -> Any:
        read.append((path.name, list(names)))
        return real(path, names)

    monkeypatch.setattr(frames, "read_attempts", noted)
    frame = results.frame("attempts", ["model", "id", "text"], byzantine="silent", seed=[0, 2])
    assert sorted(read) == [("seed=0.parquet", ["text"]), ("seed=2.parquet", ["text"])]
    assert frame.columns.tolist() == ["model", "id", "text"]
    assert results.frame("attempts", ["id"], byzantine="silent", seed=0)["id"].nunique() == 1


def test_columns_that_are_not_asked_for_are_not_unpacked(results: parley.Results) -> None:
    file = parquet_file(results.records[0].path.read_bytes())
    assert read_rows(file, 1_000, 10**6, ["agent", "text"]).column_names == ["agent", "text"]
    with pytest.raises(BadParquetError, match="unpacks to more"):
        read_rows(file, 1_000, 500)
    assert read_rows(file, 1_000, 500, ["attempt"]).num_columns == 1


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"level": "attempt"}, "'attempt': no such level; did you mean 'attempts'"),
        ({"level": "turns"}, "'turns' is a table, not a level; use results.table('turns')"),
        ({"columns": ["texts"]}, "columns: 'texts': no such column; did you mean 'text'"),
        ({"columns": "text"}, "columns='text': give a list of names"),
        ({"columns": 3}, "columns=3: give a list of names"),
        ({"level": "simulations", "columns": 3}, "columns=3: give a list of names"),
        ({"modle": "majority"}, "modle: not an axis of this study; did you mean 'model'"),
        ({"model": "majorty"}, "did you mean model=majority"),
        ({"model": "stubborn", "b": 1}, "no condition has model=stubborn, b=1; `study.conditions` lists them"),
        ({"seed": "1"}, "seed=1: give a whole number from 0, or a list of them"),
        ({"seed": 99}, "demo: no records yet of seed=99; `results.sim"),
        ({"level": "simulations", "columns": ["sed"]}, "columns: 'sed': no such column; did you mean 'seed'"),
        ({"level": "conditions", "seed": 1}, "seed: a condition has many"),
    ],
)
def test_what_is_not_there_is_one_clear_line(results: parley.Results, chosen: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as error:
        results.frame(**{"level": "attempts", **chosen})
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_tables_and_figures_are_told(results: parley.Results) -> None:
    with pytest.raises(UsageError, match="'contrast': no such table; did you mean 'contrasts'"):
        results.table("contrast")
    with pytest.raises(UsageError, match="'outcome_rate': no figure of this study; did you mean 'outcome_rates'"):
        results.figure("outcome_rate")


def test_what_is_done_to_a_frame_changes_no_other(loose: Path) -> None:
    results = parley.load("demo", loose).results()
    frame = results.simulations
    frame["outcome"] = "mine"
    table = results.table("contrasts")
    table["kind"] = "mine"
    assert "mine" not in set(results.simulations["outcome"])
    assert "mine" not in set(results.table("contrasts")["kind"])


# Figures


@pytest.mark.slow
def test_every_figure_is_drawn_for_a_notebook_and_not_written(root: Path, loose: Path) -> None:
    for folder in (root, loose):
        before = files_in(folder)
        results = parley.load("demo", folder).results()
        assert len(results.figures) > 2
        for name in results.figures:
            figure = results.figure(name)
            assert figure.axes
            png = figure._repr_png_()  # type: ignore[attr-defined]
            assert png.startswith(b"\x89PNG")
        assert files_in(folder) == before
