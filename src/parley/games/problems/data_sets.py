"""Problems of files: GSM8K, the groups of DeliData, HiddenBench, and one's own.

GSM8K (Cobbe et al. 2021) are grade school math problems, in JSON lines; the groups of DeliData (Karadzhov, Stafford,
Vlachos 2023), a file for each, deliberated the Wason card problem; HiddenBench (Li, Naito, Shirado 2025) are hidden
profiles, in one JSON file.

Loaders raise UsageError that names the first row that is no problem: the same file is always the same problems.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.problems.numbers import MAX_CHARACTERS, read_number
from parley.games.problems.problem import Problem, question, read_choice, right_cards
from parley.identity import digest
from parley.policies.own_code import first_problem
from parley.text import one_line
from parley.text.yamlfile import StrictModel, validated

_MAX_BYTES = 64 * 2**20  # of one file

_Short = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class ProblemSet:
    """Problems in the order of their file."""

    problems: tuple[Problem, ...]

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the canonical JSON of the problems: neither path nor formatting of the file are in it."""
        return digest([problem.as_json() for problem in self.problems])


def _problem(where: str, **parts: Any) -> Problem:
    """Return the problem with these fields; raises UsageError if they do not fit together."""
    try:
        return Problem(**parts)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        names = "".join(f": {name}" for name in first["loc"])
        raise UsageError(f"{where}{names}: {first['msg'].removeprefix('Value error, ')}") from None


def _text(path: Path) -> str:
    """Return the text of a file of a problem set; raises UsageError if it cannot be read, or is none."""
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else one_line(str(error), 200)
        raise UsageError(f"{path}: cannot be read: {reason}") from None


def _json_lines(path: Path, model: type[_Model]) -> Iterator[tuple[str, _Model]]:
    """Yield the objects of a file of JSON lines, each with the place where it stands."""
    for number, line in enumerate(_text(path).split("\n"), 1):
        where = f"{path}: line {number}"
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise UsageError(f"{where}: no JSON") from None
            yield where, validated(model, row, where)


OUR_POLICIES = Path(__file__).parent / "policies.jsonl"
OUR_PROFILES = Path(__file__).parent / "hidden_profiles.jsonl"
Answers = Literal["number", "choice", "policies"]


class _Own(StrictModel):
    question: str
    answer: _Short | int | float | None = None
    choices: list[_Short] = Field(default=[], max_length=26)
    facts: list[_Short] = Field(default=[], max_length=100)
    id: Annotated[str, Field(min_length=1, max_length=100)] | None = None


def load_json_lines(path: Path, answers: Answers) -> ProblemSet:
    """Return the problems of a file of JSON lines.

    The answer of a choice is the text of one of its choices, or its letter, A for the first; among policies none is
    right.
    """
    problems = []
    for where, row in _json_lines(path, _Own):
        options, answer, right = tuple(row.choices), str(row.answer), None
        if answers != "policies":
            right = read_number(answer) if answers == "number" else read_choice(answer, options)
        name = row.id or where.removeprefix(f"{path}: ").replace(" ", "-")  # line-1
        parts = {"question": row.question, "answer": right, "options": options, "facts": tuple(row.facts)}
        problems.append(_problem(where, id=name, kind=answers, **parts))
    return ProblemSet(tuple(problems))


class _Task(BaseModel):
    id: int
    description: str
    shared_information: list[_Short]
    hidden_information: list[_Short]
    possible_answers: list[_Short]
    correct_answer: str


_TASKS = TypeAdapter(list[_Task])


def load_hidden_bench(path: Path, agents: int | None) -> ProblemSet:
    """Return the tasks of a file of HiddenBench that are made for so many agents: one for each hidden fact."""
    try:
        tasks = _TASKS.validate_json(_text(path))
    except ValidationError as error:
        raise UsageError(f"{path}: not HiddenBench's list of tasks: {first_problem(error)}") from None
    problems = []
    for number, task in enumerate(tasks, 1):
        options = tuple(task.possible_answers)
        right = read_choice(task.correct_answer, options)
        parts = {"question": task.description, "answer": right, "options": options}
        parts |= {"facts": tuple(task.hidden_information), "shared": tuple(task.shared_information)}
        problem = _problem(f"{path}: task {number}", id=f"hidden_bench-{task.id}", kind="choice", **parts)
        if agents in (None, len(problem.facts)):
            problems.append(problem)
    return ProblemSet(tuple(problems))


_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_ANSWER = re.compile(r"####([^\n#]*)\s*\Z")


class _Solved(BaseModel):
    question: str
    answer: str


def load_gsm8k(file: Path, split: str) -> ProblemSet:
    """Return the problems of the file of a split; row k (from 1, empty lines left out) is `gsm8k-<split>-<k>`."""
    problems = []
    for number, (where, row) in enumerate(_json_lines(file, _Solved), 1):
        stated = _ANSWER.search(row.answer)
        asked = one_line(_ANNOTATION.sub("", row.question))
        right = read_number(stated[1]) if stated else None
        problems.append(_problem(where, id=f"gsm8k-{split}-{number}", kind="number", question=asked, answer=right))
    return ProblemSet(tuple(problems))


def load_delidata(folder: Path) -> ProblemSet:
    """Return one problem per group, with the cards of its INITIAL row; the group's id is the problem's.

    A row's text is `participants&&cards`. Files of something else, and hidden ones, are passed over.
    """
    problems: dict[str, Problem] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        rows: list[list[str]] = [[]]
        with suppress(UsageError):  # of another file, such as a picture
            rows = [line.rstrip("\r").split("\t") for line in _text(file).split("\n")]
        for row in [dict(zip(rows[0], cells, strict=False)) for cells in rows[1:]]:
            if row.get("message_type") == "INITIAL":
                cards = tuple(card.strip() for card in row.get("original_text", "").partition("&&")[2].split(","))
                group = one_line(row.get("group_id", ""), 100)
                parts = {"question": question(cards), "answer": right_cards(cards), "options": cards}
                problems[group] = _problem(str(file), id=group, kind="cards", **parts)
    return ProblemSet(tuple(problems.values()))
