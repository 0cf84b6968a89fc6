"""`parley problems`: what it prints of a kind, of files and of a study."""

import json
from pathlib import Path

import pytest
import yaml

from support.commands import Parley, one_line_error


@pytest.fixture
def ask(parley: Parley, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Parley:
    """Run `parley problems` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: parley("problems", *arguments)


def test_generated_problems_are_printed_with_answers(ask: Parley) -> None:
    ran = ask("arithmetic", "--show", "2")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "arithmetic: no end of problems (number)",
        "seed  problem         answer  question",
        "   0  arithmetic-0-0  8       What is 55 / 11 + 33 / 11?",
        "   1  arithmetic-0-1  362     What is 43 * 81 / 9 - 25?",
    ]


def test_a_file_is_tried_without_a_study(ask: Parley) -> None:
    rows = [{"question": "How many?", "answer": f"#### {k}"} for k in range(30)] + [{"question": "?"}]
    Path("test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = ask("gsm8k", "--path", "test.jsonl", "--first", "1")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[:5] == [
        "gsm8k-test-first-1: 1 problems (number)",
        "  rows: 31",
        "  used: 30",
        "  left out: no question and answer: 1",
        "  noted: question repeated: 29",
    ]
    assert lines[5].startswith("  sha256: ")
    assert len(lines) == 8


def test_each_reading_is_counted_over_gold_solutions(ask: Parley) -> None:
    solutions = ["Half of 36 is <<36/2=18>>18.\n#### 18", "9 + 9 = 18, so 1,800.\n#### 1,800", "Add 10.\n#### 20"]
    Path("test.jsonl").write_text("".join(json.dumps({"question": "?", "answer": text}) + "\n" for text in solutions))
    ran = ask("gsm8k", "--path", "test.jsonl", "--readings", "--show", "0")
    assert ran.out.splitlines()[-4:] == [
        "gold solutions as replies                          replies  exact  strict  flexible",
        "argument: the solution; answer: what follows ####        3      3       3         3",
        "answer: the solution with its #### line                  3      0       3         3",
        "answer: the last line of the solution                    3      0       0         2",
    ]
    assert "GSM8K alone has worked solutions" in one_line_error(ask("arithmetic", "--readings"), 2)


def test_the_problems_of_a_study_are_shown_each_once(ask: Parley) -> None:
    grids = [{"model": "m", "prompt": "p", "vary": {"problems": ["wason", {"kind": "arithmetic", "steps": 2}]}}] * 2
    Path("mine.yaml").write_text(yaml.safe_dump({"game": "any", "parameters": {"problems": "wason"}, "grids": grids}))
    ran = ask("mine.yaml", "--show", "0")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "wason: no end of problems (cards)",
        "",
        "arithmetic-steps-2: no end of problems (number)",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gsm8k"], "parley: gsm8k: problems: {'kind': 'gsm8k'}: add path, or repo and revision\n"),
        (
            ["gsm8k", "--path", "x"],
            "parley: x: no such file or folder; relative paths start at the working directory",
        ),
        (["nothing"], "parley: config/nothing.yaml: no such file\n"),
        (["nothing", "--first", "2"], "parley: nothing: no kind of problems (arithmetic, wason, gsm8k, delidata, "),
        (
            ["wason", "--split", "test"],
            "parley: wason: problems.split: unknown key; known keys are: kind, order, first, version",
        ),
    ],
)
def test_errors_are_one_line_and_exit_2(ask: Parley, arguments: list[str], message: str) -> None:
    ran = ask(*arguments)
    assert one_line_error(ran, 2).startswith(message)
    assert ran.out == ""


def test_a_study_without_problems_is_told_so(ask: Parley) -> None:
    Path("mine.yaml").write_text("{game: any, grids: [{model: m, prompt: p, n: 3}]}")
    assert one_line_error(ask("mine.yaml"), 2).startswith(
        "parley: mine.yaml: names no problems; add parameters.problems"
    )
