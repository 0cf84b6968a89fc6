"""Sources: how a study names its problems, which problem a seed has, and what identity holds."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.deliberation.parameters import DeliberationParameters
from parley.text.yamlfile import is_slug, validated

pytestmark = pytest.mark.promise("Seeds go through all problems once; a problem set is identified by its content.")

GROUP = "group_id\tmessage_id\tmessage_type\torigin\toriginal_text\ng\t-1\tINITIAL\tSYSTEM\tCat&&2,7,V,A\n"


def read(written: Any) -> Any:
    """Return a source as a study file gives it."""
    return validated(DeliberationParameters, {"problems": written}, "study.yaml").problems


def refused(written: Any) -> str:
    with pytest.raises(UsageError) as error:
        read(written).check()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def gsm8k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a split of ten problems, whose answers are 0 to 9."""
    rows = [{"question": f"How many? ({k})", "answer": f"#### {k}"} for k in range(10)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def every_kind(gsm8k: Path) -> dict[str, Any]:
    """A source of every kind, by its label."""
    groups = gsm8k / "groups"
    groups.mkdir()
    (groups / "g").write_text(GROUP)
    mine = gsm8k / "mine.jsonl"
    mine.write_text('{"id": "fee", "question": "What first?", "choices": ["A fee", "No fee"]}')
    return {
        "arithmetic": "arithmetic",
        "arithmetic-steps-2-digits-1": {"kind": "arithmetic", "steps": 2, "digits": 1},
        "arithmetic-order-3-first-50": {"kind": "arithmetic", "order": 3, "first": 50},
        "gsm8k-test": {"kind": "gsm8k", "path": str(gsm8k)},
        "gsm8k-test-first-5": {"kind": "gsm8k", "path": str(gsm8k / "test.jsonl"), "first": 5},
        "delidata": {"kind": "delidata", "path": str(groups)},
        "policies": "policies",
        "jsonl-cef0ea": {"kind": "jsonl", "answers": "policies", "path": str(mine)},
    }


# How they are written


def test_the_label_tells_kind_and_what_is_not_as_usual_and_can_stand_in_a_path(every_kind: dict[str, Any]) -> None:
    assert [read(written).label for written in every_kind.values()] == list(every_kind)
    assert all(is_slug(label) for label in every_kind)
    assert all(read(name) == read({"kind": name}) for name in ("arithmetic", "policies"))


REFUSED: list[tuple[Any, str]] = [
    ("gsm", "study.yaml: problems: 'gsm': unknown problems; did you mean 'gsm8k'?"),
    *(({"kind": kind}, f"{kind}: its path is missing; add path") for kind in ("gsm8k", "delidata")),
    *(({"kind": kind, "path": "nul\0"}, "no such file or folder") for kind in ("gsm8k", "delidata", "jsonl")),
    ({"kind": "gsm8k", "path": "x" * 3_000}, "no such file or folder; relative paths start at"),
]


def test_what_is_no_source_is_refused_in_one_line() -> None:
    for written, named in REFUSED:
        assert named in refused(written), written


# Which problem a seed has


def test_seeds_go_through_all_problems_once_and_then_begin_again(gsm8k: Path) -> None:
    written = {"kind": "gsm8k", "path": str(gsm8k)}
    ids = [read(written).problem(seed).id for seed in range(25)]
    assert len({*ids[:10]}) == read(written).size == 10
    assert (ids[10:20], ids[20:]) == (ids[:10], ids[:5])
    other = [read({**written, "order": 1}).problem(seed).id for seed in range(10)]
    assert other != ids[:10]
    assert sorted(other) == sorted(ids[:10])


def test_first_is_the_beginning_of_the_same_order(gsm8k: Path) -> None:
    written = {"kind": "gsm8k", "path": str(gsm8k), "order": 5}
    whole, part = read(written), read({**written, "first": 4})
    assert part.size == 4
    assert [part.problem(s) for s in range(6)] == [whole.problem(s) for s in (0, 1, 2, 3, 0, 1)]
    assert "10 problems; lower first (11)" in refused({**written, "first": 11})
    generated = read({"kind": "arithmetic", "first": 3})
    assert generated.size == 3
    assert generated.problem(4) == generated.problem(1) == read("arithmetic").problem(1)


# Identity


def test_identity_holds_no_place_and_is_read_back(every_kind: dict[str, Any], gsm8k: Path) -> None:
    for written in every_kind.values():
        source = read(written)
        dumped = source.model_dump(mode="json")
        assert str(gsm8k) not in json.dumps(dumped)
        assert "path" not in dumped
        assert ("sha256" in dumped) != ("version" in dumped)
        again = read(dumped)
        assert (again.model_dump(mode="json"), again.label) == (dumped, source.label)


def test_identity_is_what_the_file_holds_not_where_or_how(gsm8k: Path, tmp_path: Path) -> None:
    first = read({"kind": "gsm8k", "path": str(gsm8k)}).model_dump()
    text = (gsm8k / "test.jsonl").read_text()
    other = tmp_path / "other.jsonl"
    other.write_text(text.replace(": ", ":  ").replace("\n", "\n\n"))
    assert read({"kind": "gsm8k", "path": str(other)}).model_dump() == first
    other.write_text(text.replace("#### 3", "#### 33"))
    os.utime(other, (0, 0))
    assert read({"kind": "gsm8k", "path": str(other)}).model_dump() != first


def test_the_problems_that_a_study_names_are_checked(gsm8k: Path) -> None:
    path = str(gsm8k)
    sha256 = read({"kind": "gsm8k", "path": path}).model_dump()["sha256"]
    read({"kind": "gsm8k", "path": path, "sha256": sha256}).check()
    message = refused({"kind": "gsm8k", "path": path, "sha256": "0" * 64})
    assert message.startswith(f"{path}: not the problems that the study names")
    assert sha256[:12] in message


def test_a_source_read_from_a_record_has_no_problems_but_those_of_parley(gsm8k: Path) -> None:
    dumped = read({"kind": "gsm8k", "path": str(gsm8k)}).model_dump()
    read(dumped).check()  # known by what it holds; missed only when it is played
    for act in (lambda s: s.problem(0), lambda s: s.size):
        with pytest.raises(UsageError, match="gsm8k: its path is missing"):
            act(read(dumped))
    assert read(read("policies").model_dump()).problem(0) == read("policies").problem(0)
    assert "policies: not the problems that the study names" in refused({"kind": "policies", "sha256": "0" * 64})
