"""Data sets of files: GSM8K, from JSON lines or Hugging Face's parquet files, and DeliData, a file for each group.

GSM8K (Cobbe et al. 2021) are grade school math problems; the groups of DeliData (Karadzhov, Stafford, Vlachos 2023)
deliberated the Wason card problem.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from parley.errors import UsageError
from parley.games.problems.cards import is_card, question, right_cards
from parley.games.problems.loading import (
    MAX_BYTES,
    MAX_FILES,
    MAX_QUESTION,
    MAX_ROW_BYTES,
    MAX_ROWS,
    ProblemSet,
    problem_set,
    read_bytes,
    read_text,
)
from parley.games.problems.numbers import READINGS, read_as, read_number
from parley.games.problems.problem import Problem
from parley.text import one_line

SPLITS = ("train", "test")
_GSM8K = "GSM8K's files are train.jsonl and test.jsonl, or main/<split>-*.parquet, with question and answer"

_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_ANSWER = re.compile(r"####([^\n#]*)\s*\Z")
_PARTS = re.compile(r"-[0-9]{5}-of-([0-9]{5})\.parquet")


def gsm8k_patterns(split: str) -> list[str]:
    """Return what of the data set's repository is needed for a split."""
    return [f"main/{split}-*.parquet"]


def gsm8k_files(path: Path, split: str) -> list[Path]:
    """Return the files of a split in a folder, or the file itself; raises UsageError if there are none."""
    if path.is_file():
        other = next(name for name in SPLITS if name != split)
        if other in path.stem.lower() and split not in path.stem.lower():
            raise UsageError(f"{path}: named like the split {other!r}, not {split!r}; write split: {other}")
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no file or folder; {_GSM8K}")
    lines = path / f"{split}.jsonl"
    if lines.is_file():
        return [lines]
    for folder in (path / "main", path):
        if found := sorted(folder.glob(f"{split}-*.parquet")):
            return _whole(found)
    raise UsageError(f"{path}: no {split}.jsonl and no {split}-*.parquet is there; {_GSM8K}")


def load_gsm8k(found: Sequence[Path], split: str) -> ProblemSet:
    """Return the problems of the files of a split; row k (from 1, empty lines left out) is `gsm8k-<split>-<k>`."""
    made = (_problem(row, f"gsm8k-{split}-{number}") for number, row in enumerate(_rows(found), 1))
    return problem_set(found[0], made, _GSM8K, Counter())


def _rows(found: Sequence[Path]) -> Iterator[dict[str, Any] | str]:
    """Yield each row of the files, or the reason why it holds nothing; raises UsageError if a file is cut."""
    for file in found:
        yield from _parquet(file) if file.suffix == ".parquet" else _lines(file)


def gold_solutions(found: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the worked solution of each row, without its calculator annotations, and what comes after its `#### `.

    Rows that hold none are left out. Raises UsageError as `load_gsm8k`.
    """
    for row in _rows(found):
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


def _problem(row: dict[str, Any] | str, problem_id: str) -> Problem | str:
    """Return the problem of a row, or the reason why it is none."""
    if isinstance(row, str):
        return row
    if not isinstance(row.get("question"), str) or not isinstance(row.get("answer"), str):
        return "no question and answer"
    asked = one_line(_ANNOTATION.sub("", row["question"]))
    if not asked:
        return "empty question"
    if len(asked) > MAX_QUESTION:
        return "question too long"
    stated = _ANSWER.search(row["answer"])
    if stated is None:
        return "no #### in the answer"
    answer = read_number(stated[1])
    return "unreadable number" if answer is None else Problem(problem_id, "number", asked, answer)


def _lines(file: Path) -> Iterator[dict[str, Any] | str]:
    text = read_text(file, _GSM8K)
    lines = [line for line in text.split("\n") if line.strip()]
    whole = 0
    for place, line in enumerate(lines, start=1):
        if len(line) > MAX_ROW_BYTES:
            yield "row too long"
            continue
        try:
            row = json.loads(line)
            whole += 1
            yield row if isinstance(row, dict) else "no question and answer"
        except (ValueError, RecursionError):
            if whole and place == len(lines):
                raise UsageError(f"{file}: its last line is broken: the file is cut; get it again") from None
            yield "not JSON"


def _whole(found: list[Path]) -> list[Path]:
    """Return the parquet files if all parts that their names count are there; raises UsageError otherwise."""
    for path in found:
        part = _PARTS.search(path.name)
        if part and int(part[1]) != len(found):
            raise UsageError(f"{path}: {len(found)} of {int(part[1])} parts are there; get all of them")
    return found


def _parquet(file: Path) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of a parquet file; raises UsageError if it is cut, has other columns, or unpacks to too much."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["question", "answer"]
    try:
        parquet = pq.ParquetFile(io.BytesIO(read_bytes(file, _GSM8K)))
        groups = [parquet.metadata.row_group(index) for index in range(parquet.metadata.num_row_groups)]
        unpacked = sum(group.total_byte_size for group in groups)
        schema = parquet.schema_arrow
        if missing := [name for name in columns if name not in schema.names]:
            others = one_line(", ".join(schema.names[:5]), 100) or "none"
            raise UsageError(f"{file}: no column {missing[0]!r} (but {others}); {_GSM8K}")
        if other := [name for name in columns if schema.field(name).type not in (pa.string(), pa.large_string())]:
            raise UsageError(f"{file}: the column {other[0]!r} is no text; {_GSM8K}")
        if unpacked > MAX_BYTES or parquet.metadata.num_rows > MAX_ROWS:
            raise UsageError(f"{file}: unpacks to more than {MAX_BYTES // 2**20} MiB; use a part of it")
        for batch in parquet.iter_batches(batch_size=100, columns=columns):
            for row in batch.to_pylist():
                long = any(len(text or "") > MAX_ROW_BYTES for text in row.values())
                yield "row too long" if long else row
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = one_line(str(error), 120)
        raise UsageError(f"{file}: no parquet file, or a cut one ({reason}); get it again") from None


# DeliData


_DELIDATA = "DeliData is a folder of tab-separated files, one per group, each with an INITIAL row"
DELIDATA_PATTERNS = ["*.tsv", "*.txt", "data/*", "delidata/*", "all/*"]

_DELIDATA_HEADER = ("group_id", "message_id", "message_type", "origin", "original_text")
_SYSTEM = "SYSTEM"


def delidata_files(path: Path) -> list[Path]:
    """Return the files of a folder, hidden ones left out, in order; raises UsageError if there are none."""
    if not path.is_dir():
        raise UsageError(f"{path}: {'a file' if path.exists() else 'no such folder'}; {_DELIDATA}")
    every = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    found = sorted(islice(every, MAX_FILES + 1))
    if not found:
        raise UsageError(f"{path}: an empty folder; {_DELIDATA}")
    if len(found) > MAX_FILES:
        raise UsageError(f"{path}: more than {MAX_FILES:,} files; {_DELIDATA}")
    return found


def load_delidata(folder: Path, found: Sequence[Path]) -> ProblemSet:
    """Return one problem per group, with the cards of its INITIAL row; the group's id is the problem's.

    Groups with the same cards are kept: each is a problem of its own. Files that have no header of this kind are no
    rows; they are counted beside them.
    """
    notes: Counter[str] = Counter()
    return problem_set(folder, _every_group(found, notes), _DELIDATA, notes)


def _every_group(found: Sequence[Path], notes: Counter[str]) -> Iterator[Problem | str]:
    seen: set[str] = set()
    for file in found:
        try:
            text = read_text(file, _DELIDATA)
        except UsageError:
            text = ""
        if "\t" not in text.partition("\n")[0]:
            notes["other file"] += 1
            continue
        for made in _groups(text):
            if isinstance(made, str):
                yield made
                continue
            problem, agree = made
            if problem.id in seen:
                yield "group repeated"
                continue
            seen.add(problem.id)
            yield problem
            if not agree:
                notes["participants and tracked solutions differ"] += 1


def _groups(text: str) -> Iterator[tuple[Problem, bool] | str]:
    """Yield for each group of a file its problem and whether its participants agree, or why there is no problem."""
    lines = text.split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if tuple(header[: len(_DELIDATA_HEADER)]) != _DELIDATA_HEADER:
        yield "other columns"
        return
    if lines[-1]:  # every line of a whole file ends
        yield "cut file"
        return
    initial = [cells for line in lines[1:] if (cells := line.rstrip("\r").split("\t"))[2:3] == ["INITIAL"]]
    if not initial:
        yield "no INITIAL row"
    for cells in initial:
        fits = len(cells) == len(header) and sum(map(len, cells)) <= MAX_ROW_BYTES
        yield _group(cells, header) if fits else "INITIAL row with other columns"


def _group(cells: list[str], header: list[str]) -> tuple[Problem, bool] | str:
    row = dict(zip(header, cells, strict=True))
    participants, separator, shown = row["original_text"].partition("&&")
    group = one_line(row["group_id"], 100)
    if not separator or not group:
        return "INITIAL row without participants&&cards"
    cards = tuple(card.strip() for card in shown.split(","))
    if not 2 <= len(cards) <= 10 or not all(map(is_card, cards)) or len(set(cards)) < len(cards):
        return "unreadable cards"
    answer = right_cards(cards)
    if not answer:
        return "no card to turn"
    names = {name.strip() for name in participants.split(",")} - {_SYSTEM}
    return Problem(group, "cards", question(cards), answer, cards), names == _tracked(row.get("sol_tracker_all", ""))


def _tracked(text: str) -> set[str] | None:
    """Return whose solutions are tracked; None if that cannot be read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return set(found) if isinstance(found, dict) else None
