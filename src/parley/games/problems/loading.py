"""What every loader of problem sets shares: the set with its report, limits, and reading a file without surprise.

Loaders are strict with files and lenient with rows: a file that is not what it should be is an error, a row that does
not fit is left out and counted, and more than 5% of such rows are an error again.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.problems.problem import MAX_CHARACTERS, Problem, normal_policy
from parley.identity import digest
from parley.text import one_line
from parley.text.yamlfile import Slug, load_yaml, validated

MAX_BYTES = 64 * 2**20  # of one file
MAX_FILES = 20_000  # in one folder
MAX_ROWS = 200_000
MAX_ROW_BYTES = 100_000
MAX_QUESTION = 10_000  # characters
MAX_LEFT_OUT = 0.05  # of the rows


@dataclass(frozen=True)
class ProblemSet:
    """Problems in the order of their file, and what became of the file's rows."""

    problems: tuple[Problem, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the canonical JSON of the problems: neither path nor formatting of the file are in it."""
        return digest([problem.as_json() for problem in self.problems])


def problem_set(where: Path, made: Iterable[Problem | str], remedy: str, notes: Counter[str]) -> ProblemSet:
    """Return what was made of the rows of a file or folder, in order: problems, or why a row does not fit.

    `notes` count what is told of rows that are used all the same, and of files without rows. Raises UsageError, with
    `remedy`, if there are no rows or too many that do not fit, and if there are more than anybody needs.
    """
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    rows = 0
    for rows, each in enumerate(made, 1):
        if rows > MAX_ROWS:
            raise UsageError(f"{where}: more than {MAX_ROWS:,} rows; use a part of it")
        if isinstance(each, Problem):
            problems.append(each)
        else:
            left_out[each] += 1
    if not rows:
        raise UsageError(f"{where}: no rows; {remedy}")
    if not problems or left_out.total() > MAX_LEFT_OUT * rows:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in left_out.most_common(3))
        raise UsageError(f"{where}: {left_out.total():,} of {rows:,} rows do not fit ({reasons}); {remedy}")
    counts = {"rows": rows, "used": len(problems)}
    counts |= {f"left out: {reason}": count for reason, count in sorted(left_out.items())}
    counts |= {f"noted: {what}": count for what, count in sorted(notes.items())}
    if repeated := len(problems) - len({problem.question for problem in problems}):
        counts["noted: question repeated"] = repeated
    return ProblemSet(tuple(problems), counts)


def read_bytes(path: Path, remedy: str) -> bytes:
    """Return the content of a file of a problem set; raises UsageError if it is missing, too large or unreadable."""
    try:
        return read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; {remedy}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else one_line(str(error), 200)
        raise UsageError(f"{path}: cannot be read: {reason}; {remedy}") from None


def read_text(path: Path, remedy: str) -> str:
    """Return the text of a file of a problem set; raises UsageError also if it is empty or not UTF-8 text."""
    content = read_bytes(path, remedy)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; {remedy}") from None
    if "\0" in text:
        raise UsageError(f"{path}: binary, not text; {remedy}")
    if not text.strip():
        raise UsageError(f"{path}: empty; {remedy}")
    return text


def states(files: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of files: if none changed, what was loaded from them is taken to hold."""
    try:
        found = [(str(path), path.stat()) for path in files]
    except (OSError, ValueError):  # the loader says what is wrong with it
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


# Data sets of the Hugging Face hub: files alone, none of a repository's code


@lru_cache(maxsize=16)
def download(repo: str, revision: str, patterns: tuple[str, ...]) -> Path:
    """Return the folder with the files of a data set that fit `patterns`, from the hub's cache if it has them.

    Raises UsageError, in one line, if they can be had neither there nor from the network.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def folder(cached: bool) -> Path:
        found = snapshot_download(
            repo, repo_type="dataset", revision=revision, allow_patterns=list(patterns), local_files_only=cached
        )
        return Path(found)

    with suppress(LocalEntryNotFoundError, OSError, ValueError):  # then the hub has the files, or says what is wrong
        cached = folder(cached=True)
        if any(file.is_file() for pattern in patterns for file in cached.glob(pattern)):
            return cached
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells each retry in lines of its own
    try:
        return folder(cached=False)
    except Exception as error:
        reason = one_line(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, 200)
        raise UsageError(
            f"cannot fetch the data set {repo} at {revision[:8]}: {reason}; check the network, or fetch it on a "
            "machine that has one and give its folder as path"
        ) from error
    finally:
        logger.setLevel(level)


# Policies to choose from


OUR_POLICIES = Path(__file__).parent / "policies.yaml"

_Policy = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Slug
    question: str = Field(min_length=1, max_length=10_000)
    policies: list[_Policy] = Field(min_length=2, max_length=50)


class _PolicyFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    problems: list[_Entry] = Field(min_length=1, max_length=10_000)


def load_policies(path: Path) -> ProblemSet:
    """Return the problems of a file; raises UsageError with the first thing that is wrong in it."""
    entries = validated(_PolicyFile, load_yaml(path), str(path)).problems
    problems: dict[str, Problem] = {}
    for index, entry in enumerate(entries):
        where = f"{path}: problems[{index}]"
        if entry.id in problems:
            raise UsageError(f"{where}.id: {entry.id!r} is repeated; rename one of the problems")
        seen: dict[str, int] = {}
        for place, policy in enumerate(entry.policies):
            normal = normal_policy(policy)
            if not normal or normal in seen:
                why = f"the same as policies[{seen[normal]}]" if normal else "no words"
                raise UsageError(f"{where}.policies[{place}]: {why}; remove it or write another")
            seen[normal] = place
        question = one_line(entry.question)
        if not question:
            raise UsageError(f"{where}.question: empty; write one")
        options = tuple(one_line(policy) for policy in entry.policies)
        problems[entry.id] = Problem(entry.id, "policies", question, None, options)
    return ProblemSet(tuple(problems.values()), {"rows": len(entries), "used": len(problems)})
