"""DeliData (Karadzhov, Stafford, Vlachos 2023): groups that deliberated the Wason card problem, one file each."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from parley.errors import UsageError
from parley.games.problems.cards import is_card, question, right_cards
from parley.games.problems.loading import MAX_FILES, MAX_ROW_BYTES, ProblemSet, Rows, read_text
from parley.games.problems.problem import Problem
from parley.text import one_line

REMEDY = "DeliData is a folder of tab-separated files, one per group, each with an INITIAL row"
PATTERNS = ["*.tsv", "*.txt", "data/*", "delidata/*", "all/*"]

_HEADER = ("group_id", "message_id", "message_type", "origin", "original_text")
_SYSTEM = "SYSTEM"


def files(path: Path) -> list[Path]:
    """Return the files of a folder, hidden ones left out, in order; raises UsageError if there are none."""
    if not path.is_dir():
        raise UsageError(f"{path}: {'a file' if path.exists() else 'no such folder'}; {REMEDY}")
    every = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    found = sorted(islice(every, MAX_FILES + 1))
    if not found:
        raise UsageError(f"{path}: an empty folder; {REMEDY}")
    if len(found) > MAX_FILES:
        raise UsageError(f"{path}: more than {MAX_FILES:,} files; {REMEDY}")
    return found


def load(folder: Path, found: Sequence[Path]) -> ProblemSet:
    """Return one problem per group, with the cards of its INITIAL row; the group's id is the problem's.

    Groups with the same cards are kept: each is a problem of its own. Files that have no header of this kind are no
    rows; they are counted beside them.
    """
    rows = Rows(folder)
    seen: set[str] = set()
    for file in found:
        try:
            text = read_text(file, REMEDY)
        except UsageError:
            rows.note("other file")
            continue
        if "\t" not in text.partition("\n")[0]:
            rows.note("other file")
            continue
        for made in _groups(text):
            rows.next()
            if isinstance(made, str):
                rows.leave_out(made)
                continue
            problem, agree = made
            if problem.id in seen:
                rows.leave_out("group repeated")
                continue
            seen.add(problem.id)
            rows.use(problem)
            if not agree:
                rows.note("participants and tracked solutions differ")
    return rows.done(REMEDY)


def _groups(text: str) -> Iterator[tuple[Problem, bool] | str]:
    """Yield for each group of a file its problem and whether its participants agree, or why there is no problem."""
    lines = text.split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if tuple(header[: len(_HEADER)]) != _HEADER:
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
