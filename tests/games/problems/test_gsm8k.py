"""GSM8K: its lines and its parquet files, rows that are no problem, and files that are something else."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parley.errors import UsageError
from parley.games.problems.data_sets import ProblemSet, gsm8k_files, load_gsm8k

pytestmark = pytest.mark.promise("GSM8K is read exactly; a row that is no problem is named.")

ROWS = [
    {"question": "How many <<1+1=2>>eggs\u200b?", "answer": "1+1=<<1+1=2>>2\n#### 2"},
    {"question": "How much?", "answer": "#### 1,000"},
    {"question": "What is left?", "answer": "Less.\n#### -3"},
    {"question": "Which share?", "answer": "#### 0.5"},
    {"question": "Which price?", "answer": "#### $5"},
]


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def load(path: Path, split: str = "test") -> ProblemSet:
    return load_gsm8k(gsm8k_files(path, split), split)


def loaded_text(folder: Path, content: str) -> ProblemSet:
    (folder / "test.jsonl").write_bytes(content.encode())
    return load(folder)


def refused(path: Path, split: str = "test") -> str:
    with pytest.raises(UsageError) as error:
        load(path, split)
    message = str(error.value)
    assert all(line.startswith(f"{path}") for line in message.splitlines())
    return message


def test_answers_are_read_exactly_and_annotations_are_not_shown(tmp_path: Path) -> None:
    problems = loaded_text(tmp_path, lines(ROWS)).problems
    assert [problem.answer for problem in problems] == ["2", "1000", "-3", "1/2", "5"]
    assert problems[0].question == "How many eggs?"
    assert [problem.id for problem in problems][:2] == ["gsm8k-test-1", "gsm8k-test-2"]


def test_parquet_of_the_hub_is_the_same_set_as_lines(tmp_path: Path) -> None:
    hub = tmp_path / "hub" / "main"
    hub.mkdir(parents=True)
    for part, rows in enumerate((ROWS[:2], ROWS[2:])):
        pq.write_table(pa.Table.from_pylist(rows), hub / f"test-0000{part}-of-00002.parquet")
    formatted = "\ufeff" + lines(ROWS).replace('", "', '" ,  "').replace("\n", "\r\n\n")
    expected = loaded_text(tmp_path, lines(ROWS))
    for found in (load(tmp_path / "hub"), load(hub), loaded_text(tmp_path, formatted)):
        assert found.problems == expected.problems
        assert found.sha256 == expected.sha256


NO_PROBLEMS: list[tuple[Any, str]] = [
    ({"question": "How many?", "answer": "#### two"}, "need an answer that can be read"),
    ({"question": "How many?"}, "answer: missing"),
    ({"question": "x" * 20_000, "answer": "#### 2"}, "at most 10000 characters"),
]


def test_a_row_that_is_no_problem_is_named(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    for row, why in NO_PROBLEMS:
        path.write_text(lines([*ROWS, row, ROWS[0]]))
        message = refused(path)
        assert "line 6: " in message
        assert why in message, row


SOMETHING_ELSE = [(b"\xff\xfe\x00\x01", "not UTF-8 text"), (b'{"question": "How', "line 1: no JSON")]
OTHER_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"question": ["a"], "text": ["b"]}, "row 1: answer: missing"),
    ({"question": ["a"], "answer": [7]}, "row 1: answer: 7"),
]


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    for content, named in SOMETHING_ELSE:
        path.write_bytes(content)
        assert named in refused(path), content


def test_missing_files_are_named(tmp_path: Path) -> None:
    assert "no train.jsonl and no train-*.parquet is there" in refused(tmp_path, "train")
    path = tmp_path / "train.jsonl"
    path.write_text(lines(ROWS))
    assert load(path, "train").problems[0].id == "gsm8k-train-1"


def test_a_cut_parquet_file_and_one_of_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    whole = path.read_bytes()
    for length in (0, 3, 100, -10, -1):
        path.write_bytes(whole[:length])
        assert "or a cut one" in refused(path), length
    for table, named in OTHER_COLUMNS:
        pq.write_table(pa.table(table), path)
        assert named in refused(path), table
