"""The API at work: tables, frames of four levels and figures, whole or damaged."""

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import parley
from parley.errors import RecordError, UsageError
from parley.play.record_content import SCHEMA
from support.records import edit
from support.studies import files_in, write_study

pytestmark = pytest.mark.promise(
    "Frames of four levels, tables and figures can be read whole, in part, unfinished or beside damaged records."
)

LEVELS: Any = ("attempts", "rounds", "simulations", "conditions")


# Results


@pytest.mark.slow
def test_without_results_it_says_what_to_run(root: Path, tmp_path: Path) -> None:
    write_study(tmp_path)
    told = f"none of its 6 simulations is played; run: parley run {tmp_path}/config/demo.yaml"
    with pytest.raises(RecordError, match=re.escape(told)):
        parley.load("demo", tmp_path).results()
    with chdir(tmp_path):
        assert parley.load(root / "config" / "demo.yaml").results().simulations is not None


@pytest.mark.slow
def test_tables_in_memory_are_those_that_are_written(root: Path, loose: Path) -> None:
    before = files_in(loose)
    written, made = (parley.load("demo", folder).results() for folder in (root, loose))
    assert "read from the tables" in repr(written)
    assert "read from the tables" not in repr(made)
    for name in written.tables:
        tables = [found.table(name) for found in (made, written)]
        if name == "quantities":  # how long games took
            tables = [table[~table["quantity"].str.startswith("seconds")].reset_index(drop=True) for table in tables]
        timeless = [column for column in tables[0] if "seconds" not in column]
        pd.testing.assert_frame_equal(*(table[timeless] for table in tables), check_dtype=False)
    assert files_in(loose) == before
    with pytest.raises(UsageError, match=r"'contrast': .*'contrasts'"):
        made.table("contrast")
    # What is done to a frame changes no other.
    frame, table = made.simulations, made.table("contrasts")
    frame["outcome"] = table["kind"] = "mine"
    assert "mine" not in set(made.simulations["outcome"])
    assert "mine" not in set(made.table("contrasts")["kind"])


@pytest.mark.slow
def test_an_unfinished_study_has_the_results_that_are_there(loose: Path) -> None:
    before = parley.load("demo", loose).results().records
    first, *_ = before
    for record in before.where(byzantine="silent"):
        record.path.unlink()
    last = [*before][-4]
    last.path.unlink()
    results = parley.load("demo", loose).results()
    assert repr(results).splitlines()[0] == "Results of demo: 14 of 18 simulations"
    assert len(results.simulations) == len(results.records) == 14
    assert results.conditions["left_out"].sum() == 0
    assert results.figure("outcome_rates")._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert first.id in set(results.rounds["id"])
    assert last.id not in set(results.attempts["id"])
    # A condition without records is one of the study.
    assert len(results.records.where(byzantine="silent")) == 0
    with pytest.raises(UsageError, match="no records yet of b=1, byzantine=silent; "):
        results.frame("attempts", b=1, byzantine="silent")


@pytest.mark.slow
def test_a_damaged_record_is_left_out_with_a_warning(loose: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = parley.load("demo", loose).results().records[3]
    content = damaged.path.read_bytes()
    damaged.path.write_bytes(content[: len(content) // 2])
    results = parley.load("demo", loose).results()
    for level in LEVELS[:3]:
        frame = results.frame(level)
        assert len(set(frame["id"])) == 17
        assert damaged.id not in set(frame["id"])
    assert sum(f"left out: {damaged.path}" in message for message in caplog.messages) == 1
    assert results.conditions["left_out"].sum() == 1
    with pytest.raises(RecordError, match=r"seed=0\.parquet: "):
        damaged.outcome  # noqa: B018
    damaged.path.write_bytes(content)
    assert len(parley.load("demo", loose).results().simulations) == 18


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


@pytest.mark.slow
def test_a_part_of_a_frame_is_what_the_whole_has(root: Path, loose: Path) -> None:
    columns = {"attempts": ["agent", "model", "text"], "rounds": ["n", "agreement"]}
    for folder in (root, loose):
        results = parley.load("demo", folder).results()
        for level in LEVELS:
            names = columns.get(level, ["n", "model"])
            whole = results.frame(level)
            chosen = whole[(whole["model"] == "majority") & whole["n"].isin([4, 5])][names].reset_index(drop=True)
            found = results.frame(level, columns=names, model="majority", n=[4, 5])
            assert len(found)
            pd.testing.assert_frame_equal(found, chosen, check_categorical=False, check_dtype=False)
    for level in LEVELS[:3]:
        seed = "simulation_seed" if level == "attempts" else "seed"
        assert set(results.frame(level, seed=1)[seed]) == {1}
        assert set(results.frame(level, [seed], seed=range(1, 9), b=1)[seed]) == {1, 2}


def test_what_is_not_there_is_one_clear_line(results: parley.Results) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"level": "attempt"}, "'attempt': no such level; did you mean 'attempts'"),
        ({"columns": ["texts"]}, "columns: 'texts': no such column; did you mean 'text'"),
        ({"modle": "majority"}, "'modle': unknown axis; did you mean 'model'"),
        ({"model": "stubborn", "b": 1}, "no condition has model=stubborn, b=1; `study.conditions`"),
        ({"seed": 99}, "no records yet of seed=99; `results.sim"),
    ]
    for chosen, told in wrong:
        with pytest.raises(UsageError) as error:
            results.frame(**{"level": "attempts", **chosen})
        assert told in str(error.value)
        assert "\n" not in str(error.value)
