"""Policies: those that come with Parley, and files of a user's own."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.errors import UsageError
from parley.games.problems.data_sets import load_policies
from support.studies import refused

ENTRY: dict[str, Any] = {"id": "fee", "question": "What\n first?", "policies": ["A fee", "No fee"]}


def load(folder: Path, *entries: dict[str, Any]) -> Any:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"problems": list(entries)}))
    return load_policies(path)


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, ENTRY, {**ENTRY, "id": "other"})
    assert [problem.id for problem in found.problems] == ["fee", "other"]
    assert found.problems[0].question == "What first?"


WRONG: list[tuple[list[Any], str]] = [
    ([{**ENTRY, "policies": ["A fee"]}], "problems[0]: the options must be at least two"),
    ([ENTRY, ENTRY], "problems[1].id: 'fee' is repeated"),
]


def test_what_is_wrong_in_a_file_is_told_in_one_line(tmp_path: Path) -> None:
    for entries, named in WRONG:
        refused(partial(load, tmp_path, *entries), re.escape(f"{tmp_path / 'mine.yaml'}: {named}"))
    with pytest.raises(UsageError, match=r"other.yaml: no such file"):
        load_policies(tmp_path / "other.yaml")
