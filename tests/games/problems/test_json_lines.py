"""Problems of one's own: a JSON object in each line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.problems.problem import letters, read_choice
from parley.games.problems.sources import JsonLines

pytestmark = pytest.mark.promise("Problems of one's own in JSON lines: numbers and choices, each bad line named.")

CHOICES = ("Paris", "Rome", "B", "12")


def source(folder: Path, *rows: Any, **given: Any) -> JsonLines:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "own.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return JsonLines(kind="jsonl", path=str(folder / "own.jsonl"), **given)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        *(("A", "A"), ("(a)", "A"), ("**C**", "C"), ("b.", "B"), ("Rome", "B"), ("  rome. ", "B"), ("B) Rome", "B")),
        *(("B", "C"), ("12", "D"), ("D: 12", "D"), ("A Rome", None), ("A) Rome", None), ("E", None), ("", None)),
        *(
            ("Paris or Rome", None),
            ("the first", None),
            ("A, B", None),
            ("A hunter avoids B; (C)", None),
            ("x" * 2000, None),
        ),
    ],
)
def test_a_choice_is_read_by_letter_and_by_text(said: str, read: str | None) -> None:
    """A text that is a choice by itself counts before letters: the third choice is called B."""
    assert read_choice(said, CHOICES) == read


@given(text=st.text(max_size=30), options=st.lists(st.text(min_size=1, max_size=9), min_size=2, max_size=26))
def test_reading_never_raises(text: str, options: list[str]) -> None:
    assert read_choice(text, options) in {None, *letters(options)}


def test_choices_are_shuffled_by_seed_and_the_right_one_stays_right(tmp_path: Path) -> None:
    row = {
        "question": "Which is a capital of France?",
        "answer": "Paris",
        "choices": ["Paris", "Rome", "Bern", "Oslo"],
    }
    own = source(tmp_path, row, answers="choice")
    problems = [own.problem(seed) for seed in range(40)]
    assert {problem.options[letters(problem.options).index(str(problem.answer))] for problem in problems} == {"Paris"}
    assert {problem.answer for problem in problems} == set("ABCD")
    wrong = [problem.wrong(np.random.default_rng(0)) for problem in problems]
    assert all(each in "ABCD" and each != problem.answer for each, problem in zip(wrong, problems, strict=True))
    assert [own.problem(seed) for seed in range(40)] == problems
    for letters_too in (["A", "B", "AB", "O"], ["red", "(b)", "O", "x"]):
        fixed = source(tmp_path, {"question": "1?", "answer": "O", "choices": letters_too}, answers="choice")
        assert len({fixed.problem(seed).options for seed in range(9)}) == 1
    plain = source(tmp_path, row, answers="choice", shuffle=False)
    assert {plain.problem(seed).answer for seed in range(9)} == {"A"}


def test_what_is_no_problem_is_named_by_its_line(tmp_path: Path) -> None:
    good = {"question": "1 + 1?", "answer": 2}
    assert source(tmp_path, good).problem(5).answer == "2"
    for row, answers, said in (
        ("{", "number", "line 2: no JSON"),
        ({"question": "1?"}, "number", "line 2: numbers, cards and choices need an answer"),
        ({"question": "1?", "choices": ["A fee"]}, "policies", "line 2: the options must be at least two"),
        (
            {"question": "1?", "answer": "one or two"},
            "number",
            "line 2: numbers, cards and choices need an answer that can be read",
        ),
        (
            {"question": "1?", "answer": "1", "choices": ["1", "1."]},
            "choice",
            "line 2: the options must be at least two, and different",
        ),
    ):
        first = good if answers == "number" else {**good, "choices": ["1", "2"]}
        with pytest.raises(UsageError, match=said):
            source(tmp_path, first, row, answers=answers).check()
