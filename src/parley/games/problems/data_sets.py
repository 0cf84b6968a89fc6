"""Problems of files: GSM8K, the groups of DeliData, and policies to choose from.

GSM8K (Cobbe et al. 2021) are grade school math problems, in JSON lines or Hugging Face's parquet files; the groups of
DeliData (Karadzhov, Stafford, Vlachos 2023), a file for each, deliberated the Wason card problem.

Loaders are strict with files and lenient with rows: a file that is not what it should be is an error, a row that does
not fit is left out and counted, and more than 5% of such rows are an error again.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.problems.numbers import read_number
from parley.games.problems.problem import MAX_CHARACTERS, Problem, is_card, question, read_choice, right_cards
from parley.identity import digest
from parley.text import one_line
from parley.text.yamlfile import FileModel, Slug, load_yaml, validated

_OWN = 'each line is a JSON object: {"question": ..., "answer": ...}, perhaps with "choices": [...] and "facts": [...]'
_MAX_BYTES = 64 * 2**20  # of one file
_MAX_QUESTION = 10_000  # characters
_MAX_LEFT_OUT = 0.05  # of the rows


@dataclass(frozen=True)
class ProblemSet:
    """Problems in the order of their file, and what became of the file's rows."""

    problems: tuple[Problem, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the canonical JSON of the problems: neither path nor formatting of the file are in it."""
        return digest([problem.as_json() for problem in self.problems])


def _problem_set(where: Path, made: Iterable[Problem | str], remedy: str) -> ProblemSet:
    """Return what was made of rows, in order: problems, or why one does not fit; too many of these are an error."""
    rows = list(made)
    problems = tuple(each for each in rows if isinstance(each, Problem))
    left_out = Counter(each for each in rows if isinstance(each, str))
    if not rows:
        raise UsageError(f"{where}: no rows; {remedy}")
    if not problems or left_out.total() > _MAX_LEFT_OUT * len(rows):
        reasons = ", ".join(f"{reason}: {count}" for reason, count in left_out.most_common(3))
        raise UsageError(f"{where}: {left_out.total():,} of {len(rows):,} rows do not fit ({reasons}); {remedy}")
    counts = {"rows": len(rows), "used": len(problems)}
    counts |= {f"left out: {reason}": count for reason, count in sorted(left_out.items())}
    if repeated := len(problems) - len({problem.question for problem in problems}):
        counts["noted: question repeated"] = repeated
    return ProblemSet(problems, counts)


def _text(path: Path, remedy: str) -> str:
    """Return the text of a file of a problem set; raises UsageError if it cannot be read, or is none."""
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; {remedy}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else one_line(str(error), 200)
        raise UsageError(f"{path}: cannot be read: {reason}; {remedy}") from None


@lru_cache(maxsize=16)
def download(repo: str, revision: str, patterns: tuple[str, ...]) -> Path:
    """Return the folder with files of a data set of the Hugging Face hub, cached or fetched; may raise UsageError."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    wanted: dict[str, Any] = {"repo_type": "dataset", "revision": revision, "allow_patterns": list(patterns)}
    with suppress(LocalEntryNotFoundError, OSError, ValueError):  # then the hub has the files, or says what is wrong
        cached = Path(snapshot_download(repo, **wanted, local_files_only=True))
        if any(file.is_file() for pattern in patterns for file in cached.glob(pattern)):
            return cached
    try:
        return Path(snapshot_download(repo, **wanted, local_files_only=False))
    except Exception as error:
        reason = one_line((str(error).strip() or type(error).__name__).splitlines()[0], 200)
        raise UsageError(
            f"cannot fetch the data set {repo} at {revision[:8]}: {reason}; check the network, or fetch it on a "
            "machine that has one and give its folder as path"
        ) from error


# Problems of one's own


class _Row(BaseModel):
    """One problem in a line of JSON."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: Annotated[str, Field(min_length=1, max_length=_MAX_QUESTION)]
    answer: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)] | int | float
    choices: list[Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]] | None = Field(
        default=None, min_length=2, max_length=26
    )
    facts: list[Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]] = Field(default=[], max_length=100)
    id: Annotated[str, Field(min_length=1, max_length=100)] | None = None


def load_json_lines(path: Path, answers: Literal["number", "choice"]) -> ProblemSet:
    """Return the problems of a file of JSON lines; raises UsageError naming the first line that is none.

    The answer of a choice is the text of one of its choices, or its letter, A for the first.
    """
    problems = []
    for number, line in enumerate(_text(path, _OWN).splitlines(), 1):
        where = f"{path}: line {number}"
        try:
            row = validated(_Row, json.loads(line), where) if line.strip() else None
        except (ValueError, RecursionError):
            raise UsageError(f"{where}: no JSON; {_OWN}") from None
        if row is not None:
            problems.append(_own_problem(row, answers, number, where))
    return _problem_set(path, problems, _OWN)


def _own_problem(row: _Row, answers: Literal["number", "choice"], number: int, where: str) -> Problem:
    options, answer = tuple(row.choices or ()), str(row.answer)
    if (answers == "choice") != bool(options):
        remedy = "add choices, or set answers: number" if not options else "set answers: choice in the study"
        raise UsageError(f"{where}: {'has' if options else 'lacks'} choices; {remedy}")
    right = read_number(answer) if answers == "number" else read_choice(answer, options)
    if right is None:
        known = "one of the choices, or its letter" if options else "a number"
        raise UsageError(f"{where}: answer: {one_line(answer, 60)!r}: not {known}; correct it")
    try:
        return Problem(row.id or f"line-{number}", answers, row.question, right, options, tuple(row.facts))
    except ValueError:  # all else was looked at
        raise UsageError(f"{where}: choices: two of them are the same, or one has no letter; correct them") from None


# GSM8K


SPLITS = ("train", "test")
_GSM8K = "GSM8K's files are train.jsonl and test.jsonl, or main/<split>-*.parquet, with question and answer"
_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_ANSWER = re.compile(r"####([^\n#]*)\s*\Z")


def gsm8k_files(path: Path, split: str) -> list[Path]:
    """Return the files of a split in a folder, or the file itself; raises UsageError if there are none."""
    if path.is_file():
        other = next(name for name in SPLITS if name != split)
        if other in path.stem.lower() and split not in path.stem.lower():
            raise UsageError(f"{path}: named like the split {other!r}, not {split!r}; write split: {other}")
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no file or folder; {_GSM8K}")
    for pattern in (f"{split}.jsonl", f"main/{split}-*.parquet", f"{split}-*.parquet"):
        if found := sorted(path.glob(pattern)):
            return found
    raise UsageError(f"{path}: no {split}.jsonl and no {split}-*.parquet is there; {_GSM8K}")


def load_gsm8k(found: Sequence[Path], split: str) -> ProblemSet:
    """Return the problems of the files of a split; row k (from 1, empty lines left out) is `gsm8k-<split>-<k>`."""
    rows = chain.from_iterable(_parquet(file) if file.suffix == ".parquet" else _lines(file) for file in found)
    made = (_problem(row, f"gsm8k-{split}-{number}") for number, row in enumerate(rows, 1))
    return _problem_set(found[0], made, _GSM8K)


def _problem(row: Any, problem_id: str) -> Problem | str:
    """Return the problem of a row, or the reason why it is none."""
    if row is None:
        return "not JSON"
    if not isinstance(row, dict) or not isinstance(row.get("question"), str) or not isinstance(row.get("answer"), str):
        return "no question and answer"
    asked = one_line(_ANNOTATION.sub("", row["question"]))
    if not 0 < len(asked) <= _MAX_QUESTION:
        return "question too long" if asked else "empty question"
    stated = _ANSWER.search(row["answer"])
    if stated is None:
        return "no #### in the answer"
    answer = read_number(stated[1])
    return "unreadable number" if answer is None else Problem(problem_id, "number", asked, answer)


def _lines(file: Path) -> Iterator[Any]:
    lines = [line for line in _text(file, _GSM8K).split("\n") if line.strip()]
    for place, line in enumerate(lines, start=1):
        row = None
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
        if row is None and place == len(lines) > 1:
            raise UsageError(f"{file}: its last line is broken: the file is cut; get it again")
        yield row


def _parquet(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a parquet file; raises UsageError if it is cut, or has other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"question", "answer"}
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        reason = one_line(str(error), 120)
        raise UsageError(f"{file}: no parquet file, or a cut one ({reason}); get it again") from None
    if missing := columns.difference(table.column_names):
        others = one_line(", ".join(table.column_names[:5]), 100)
        raise UsageError(f"{file}: no column {min(missing)!r} (but {others}); {_GSM8K}")
    return table.select(sorted(columns)).to_pylist()  # type: ignore[no-any-return]


# DeliData


_DELIDATA = "DeliData is a folder of tab-separated files, one per group, each with an INITIAL row"
_DELIDATA_COLUMNS = {"group_id", "message_type", "original_text"}


def delidata_files(path: Path) -> list[Path]:
    """Return the files of a folder, hidden ones left out, in order; raises UsageError if there are none."""
    if not path.is_dir():
        raise UsageError(f"{path}: {'a file' if path.exists() else 'no such folder'}; {_DELIDATA}")
    found = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    if not found:
        raise UsageError(f"{path}: an empty folder; {_DELIDATA}")
    return found


def load_delidata(folder: Path, found: Sequence[Path]) -> ProblemSet:
    """Return one problem per group, with the cards of its INITIAL row; the group's id is the problem's."""
    return _problem_set(folder, _groups(found), _DELIDATA)


def _groups(found: Sequence[Path]) -> Iterator[Problem | str]:
    seen: set[str] = set()
    for file in found:
        with suppress(UsageError):  # of another file, such as a picture
            rows = [line.rstrip("\r").split("\t") for line in _text(file, _DELIDATA).split("\n")]
            if not _DELIDATA_COLUMNS.issubset(rows[0]):
                continue
            groups = [dict(zip(rows[0], cells, strict=False)) for cells in rows[1:]]
            initial = [group for group in groups if group.get("message_type") == "INITIAL"]
            if not initial:
                yield "no INITIAL row"
            for group in initial:
                made = _group(group)
                if isinstance(made, Problem):
                    made = "group repeated" if made.id in seen else made
                    seen.add(made.id if isinstance(made, Problem) else "")
                yield made


def _group(row: Mapping[str, str]) -> Problem | str:
    _, separator, shown = row.get("original_text", "").partition("&&")
    group = one_line(row["group_id"], 100)
    if not separator or not group:
        return "INITIAL row without participants&&cards"
    cards = tuple(card.strip() for card in shown.split(","))
    if not 2 <= len(cards) <= 10 or not all(map(is_card, cards)) or len(set(cards)) < len(cards):
        return "unreadable cards"
    answer = right_cards(cards)
    return Problem(group, "cards", question(cards), answer, cards) if answer else "no card to turn"


# Policies to choose from


OUR_POLICIES = Path(__file__).parent / "policies.yaml"
OUR_PROFILES = Path(__file__).parent / "hidden_profiles.jsonl"


class _Entry(FileModel):
    id: Slug
    question: Annotated[str, AfterValidator(one_line), Field(min_length=1, max_length=_MAX_QUESTION)]
    policies: list[Annotated[str, Field(max_length=MAX_CHARACTERS)]] = Field(max_length=50)


class _PolicyFile(FileModel):
    problems: list[_Entry] = Field(min_length=1, max_length=10_000)


def load_policies(path: Path) -> ProblemSet:
    """Return the problems of a file; raises UsageError with the first thing that is wrong in it."""
    problems: dict[str, Problem] = {}
    for index, entry in enumerate(validated(_PolicyFile, load_yaml(path), str(path)).problems):
        where = f"{path}: problems[{index}]"
        if entry.id in problems:
            raise UsageError(f"{where}.id: {entry.id!r} is repeated; rename one of the problems")
        options = tuple(map(one_line, entry.policies))
        try:
            problems[entry.id] = Problem(entry.id, "policies", entry.question, None, options)
        except ValidationError as error:
            raise UsageError(f"{where}.policies: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
    return ProblemSet(tuple(problems.values()), {"rows": len(problems), "used": len(problems)})
