"""GSM8K: its lines, rows that are no problem, and files that are something else."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.problems.data_sets import ProblemSet, load_gsm8k

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


def loaded_text(folder: Path, content: str) -> ProblemSet:
    (folder / "test.jsonl").write_bytes(content.encode())
    return load_gsm8k(folder / "test.jsonl", "test")


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as error:
        load_gsm8k(path, "test")
    message = str(error.value)
    assert all(line.startswith(f"{path}") for line in message.splitlines())
    return message


def test_answers_are_read_exactly_and_annotations_are_not_shown(tmp_path: Path) -> None:
    problems = loaded_text(tmp_path, lines(ROWS)).problems
    assert [problem.answer for problem in problems] == ["2", "1000", "-3", "1/2", "5"]
    assert problems[0].question == "How many eggs?"
    assert [problem.id for problem in problems][:2] == ["gsm8k-test-1", "gsm8k-test-2"]


def test_the_form_of_a_file_makes_no_difference(tmp_path: Path) -> None:
    formatted = "\ufeff" + lines(ROWS).replace('", "', '" ,  "').replace("\n", "\r\n\n")
    expected = loaded_text(tmp_path, lines(ROWS))
    assert loaded_text(tmp_path, formatted).sha256 == expected.sha256


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


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    for content, named in SOMETHING_ELSE:
        path.write_bytes(content)
        assert named in refused(path), content
