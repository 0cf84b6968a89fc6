"""The API at work: tables, frames of four levels and figures, whole or damaged."""

import re
from pathlib import Path

import pandas as pd
import pytest

import parley
from parley.errors import RecordError, UsageError
from parley.play.record_content import SCHEMA
from parley.study import load_study
from support.records import edit
from support.studies import files_in, summarize_study, write_study

pytestmark = pytest.mark.promise(
    "Frames of four levels, tables and figures can be read, also unfinished or beside damaged records."
)

# Results


def test_without_results_it_says_what_to_run(loose: Path, tmp_path: Path) -> None:
    write_study(tmp_path)
    told = f"none of its 6 simulations is played; run: parley run {tmp_path}/config/demo.yaml"
    with pytest.raises(RecordError, match=re.escape(told)):
        parley.load("demo", tmp_path).results()
    with pytest.raises(RecordError, match="run: parley summarize"):
        parley.load("demo", loose).results().conditions  # noqa: B018


def test_tables_are_those_that_are_written(results: parley.Results, root: Path) -> None:
    before = files_in(root)
    for name in {*results.tables} - {"turns"}:
        written = pd.read_parquet(root / "results" / "demo" / "tables" / f"{name}.parquet")
        pd.testing.assert_frame_equal(results.table(name), written, check_dtype=False, check_categorical=False)
    assert results.figure("outcome_rates")._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert files_in(root) == before
    with pytest.raises(UsageError, match=r"'contrast': .*'contrasts'"):
        results.table("contrast")


@pytest.mark.slow
def test_unfinished_or_damaged_studies_have_the_results_that_are_there(
    loose: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, *_ = parley.load("demo", loose).results().records
    first.path.unlink()
    content = second.path.read_bytes()
    second.path.write_bytes(content[: len(content) // 2])
    results = parley.load("demo", loose).results()
    assert repr(results).splitlines()[0] == "Results of demo: 17 of 18 simulations"
    for frame in (results.attempts, results.rounds):
        assert len(set(frame["id"])) == 16
        assert {first.id, second.id}.isdisjoint(frame["id"])
    assert f"left out: {second.path}" in caplog.text
    summarize_study(loose, load_study(loose / "config" / "demo.yaml"))
    assert len(results.simulations) == 16
    assert results.conditions["left_out"].sum() == 1
    with pytest.raises(RecordError, match=r"seed=\d\.parquet: "):
        second.outcome  # noqa: B018


def test_what_is_not_the_record_is_not_read(loose: Path) -> None:
    one, other = parley.load("demo", loose).results().records[:2]
    other.path.write_bytes(one.path.read_bytes())
    for part in ("transcript", "outcome"):
        with pytest.raises(RecordError, match="holds another simulation"):
            getattr(other, part)
    edit(one.path, lambda rows: rows[0].update(text="{}"))
    with pytest.raises(RecordError, match="its rows were changed"):
        one.transcript  # noqa: B018


# Frames


@pytest.mark.slow
def test_the_levels_have_a_row_each(results: parley.Results) -> None:
    attempts = results.attempts
    assert len(results.conditions) == 6
    assert len(results.simulations) == len(results.records) == 18
    assert len(results.rounds) == results.simulations["rounds"].sum()
    assert len(attempts) == results.simulations["calls"].sum()
    assert attempts.columns.tolist()[:6] == ["model", "n", "b", "prompt", "byzantine", "spec"]
    assert set(SCHEMA.names) <= set(attempts.columns)
    for record in results.records[::5]:
        own = attempts[attempts["id"] == record.id].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, record.transcript, check_categorical=False, check_dtype=False)
        stored = pd.read_parquet(record.path, partitioning=None)
        assert own["text"].tolist() == stored["text"].tolist()
        assert set(own["n"]) == {record.axes["n"]}
