"""GSM8K (Cobbe et al. 2021): grade school math problems, from JSON lines or from Hugging Face's parquet files."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.errors import UsageError
from parley.games.problems.loading import (
    MAX_BYTES,
    MAX_QUESTION,
    MAX_ROW_BYTES,
    MAX_ROWS,
    ProblemSet,
    Rows,
    read_bytes,
    read_text,
)
from parley.games.problems.numbers import READINGS, read_as, read_number
from parley.games.problems.problem import Problem
from parley.text import one_line

SPLITS = ("train", "test")
REMEDY = "GSM8K's files are train.jsonl and test.jsonl, or main/<split>-*.parquet, with question and answer"

_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_ANSWER = re.compile(r"####([^\n#]*)\s*\Z")
_PARTS = re.compile(r"-[0-9]{5}-of-([0-9]{5})\.parquet")


@dataclass(frozen=True)
class _NoRow:
    """A row that holds nothing, and why."""

    reason: str


def patterns(split: str) -> list[str]:
    """Return what of the data set's repository is needed for a split."""
    return [f"main/{split}-*.parquet"]


def files(path: Path, split: str) -> list[Path]:
    """Return the files of a split in a folder, or the file itself; raises UsageError if there are none."""
    if path.is_file():
        other = next(name for name in SPLITS if name != split)
        if other in path.stem.lower() and split not in path.stem.lower():
            raise UsageError(f"{path}: named like the split {other!r}, not {split!r}; write split: {other}")
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no file or folder; {REMEDY}")
    lines = path / f"{split}.jsonl"
    if lines.is_file():
        return [lines]
    for folder in (path / "main", path):
        if found := sorted(folder.glob(f"{split}-*.parquet")):
            return _whole(found)
    raise UsageError(f"{path}: no {split}.jsonl and no {split}-*.parquet is there; {REMEDY}")


def load(found: Sequence[Path], split: str) -> ProblemSet:
    """Return the problems of the files of a split; row k (from 1, empty lines left out) is `gsm8k-<split>-<k>`."""
    rows = Rows(found[0])
    for file in found:
        for row in _parquet(file) if file.suffix == ".parquet" else _lines(file):
            number = rows.next()
            made = _problem(row, f"gsm8k-{split}-{number}")
            if isinstance(made, Problem):
                rows.use(made)
            else:
                rows.leave_out(made)
    return rows.done(REMEDY)


def gold_solutions(found: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the worked solution of each row, without its calculator annotations, and what comes after its `#### `.

    Rows that hold none are left out. Raises UsageError as `load`.
    """
    for file in found:
        for row in _parquet(file) if file.suffix == ".parquet" else _lines(file):
            text = row.get("answer") if isinstance(row, dict) else None
            if isinstance(text, str) and (stated := _ANSWER.search(text)) is not None:
                yield _ANNOTATION.sub("", text[: stated.start()]).strip(), stated[1].strip()


def readings_of_gold(found: Sequence[Path]) -> list[tuple[str, int, dict[str, int]]]:
    """Count how often each reading finds the gold number when gold solutions are replies.

    Returns a row per form of the reply: what it is, how many there are, and the count of each reading.
    """
    forms: dict[str, Callable[[str, str], tuple[str, str]]] = {  # (answer, argument)
        "argument: the solution; answer: what follows ####": lambda solution, gold: (gold, solution),
        "answer: the solution with its #### line": lambda solution, gold: (f"{solution}\n#### {gold}", ""),
        "answer: the last line of the solution": lambda solution, gold: (solution.rpartition("\n")[2], ""),
    }
    golds = [(solution, gold, str(int(gold.replace(",", "")))) for solution, gold in gold_solutions(found)]
    return [
        (
            what,
            len(golds),
            {
                r: sum(read_as(r, *form(solution, gold)) == number for solution, gold, number in golds)
                for r in READINGS
            },
        )
        for what, form in forms.items()
    ]


def _problem(row: Any, problem_id: str) -> Problem | str:
    """Return the problem of a row, or the reason why it is none."""
    if isinstance(row, _NoRow):
        return row.reason
    if not isinstance(row, dict) or not isinstance(row.get("question"), str) or not isinstance(row.get("answer"), str):
        return "no question and answer"
    question = one_line(_ANNOTATION.sub("", row["question"]))
    if not question:
        return "empty question"
    if len(question) > MAX_QUESTION:
        return "question too long"
    stated = _ANSWER.search(row["answer"])
    if stated is None:
        return "no #### in the answer"
    answer = read_number(stated[1])
    return "unreadable number" if answer is None else Problem(problem_id, "number", question, answer)


def _lines(file: Path) -> Iterator[Any]:
    """Yield what each line holds, or the reason why it holds nothing; raises UsageError if the file is cut."""
    text = read_text(file, REMEDY)
    lines = [line for line in text.split("\n") if line.strip()]
    whole = 0
    for place, line in enumerate(lines, start=1):
        if len(line) > MAX_ROW_BYTES:
            yield _NoRow("row too long")
            continue
        try:
            row = json.loads(line)
            whole += 1
        except (ValueError, RecursionError):
            if whole and place == len(lines):
                raise UsageError(f"{file}: its last line is broken: the file is cut; get it again") from None
            row = _NoRow("not JSON")
        yield row


def _whole(found: list[Path]) -> list[Path]:
    """Return the parquet files if all parts that their names count are there; raises UsageError otherwise."""
    for path in found:
        part = _PARTS.search(path.name)
        if part and int(part[1]) != len(found):
            raise UsageError(f"{path}: {len(found)} of {int(part[1])} parts are there; get all of them")
    return found


def _parquet(file: Path) -> Iterator[Any]:
    """Yield the rows of a parquet file; raises UsageError if it is cut, has other columns, or unpacks to too much."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["question", "answer"]
    try:
        parquet = pq.ParquetFile(io.BytesIO(read_bytes(file, REMEDY)))
        groups = [parquet.metadata.row_group(index) for index in range(parquet.metadata.num_row_groups)]
        unpacked = sum(group.total_byte_size for group in groups)
        schema = parquet.schema_arrow
        if missing := [name for name in columns if name not in schema.names]:
            raise UsageError(f"{file}: no column {missing[0]!r} (but {_some(schema.names)}); {REMEDY}")
        if other := [name for name in columns if schema.field(name).type not in (pa.string(), pa.large_string())]:
            raise UsageError(f"{file}: the column {other[0]!r} is no text; {REMEDY}")
        if unpacked > MAX_BYTES or parquet.metadata.num_rows > MAX_ROWS:
            raise UsageError(f"{file}: unpacks to more than {MAX_BYTES // 2**20} MiB; use a part of it")
        for batch in parquet.iter_batches(batch_size=100, columns=columns):
            for row in batch.to_pylist():
                long = any(len(text or "") > MAX_ROW_BYTES for text in row.values())
                yield _NoRow("row too long") if long else row
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = one_line(str(error), 120)
        raise UsageError(f"{file}: no parquet file, or a cut one ({reason}); get it again") from None


def _some(names: list[str]) -> str:
    return one_line(", ".join(names[:5]), 100) or "none"
