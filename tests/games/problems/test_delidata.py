"""DeliData: the cards of its groups, and what does not fit."""

from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.games.problems.data_sets import ProblemSet, delidata_files, load_delidata

HEADER = (
    "group_id\tmessage_id\tmessage_type\torigin\toriginal_text\tclean_text\tannotation_type\tannotation_target\t"
    "annotation_additional\tteam_performance\tperformance_change\tsol_tracker_message\tsol_tracker_all\n"
)


def initial(group: str, text: str = "Cat,SYSTEM,Kiwi&&2,7,V,A") -> str:
    return f"{group}\t-1\tINITIAL\tSYSTEM\t{text}\t\t\t\t\t0.5\t0.0\t\t{{}}\n"


def message(group: str, text: str = 'Turn "A" &&2') -> str:
    return f"{group}\tm1\tMESSAGE\tCat\t{text}\t{text}\tNone\t0\t0\t0.5\t0.0\t\t{{}}\n"


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


def load(path: Path) -> ProblemSet:
    return load_delidata(path, delidata_files(path))


def test_the_cards_of_the_initial_row_make_the_problem_of_a_group(tmp_path: Path) -> None:
    found = load(
        folder(tmp_path, b=HEADER + initial("b", "Cat,SYSTEM,Kiwi&&E,4,12,K"), a=HEADER + initial("a") + message("a"))
    )
    assert [(problem.id, problem.answer, problem.options) for problem in found.problems] == [
        ("a", "7,A", ("2", "7", "V", "A")),
        ("b", "E", ("E", "4", "12", "K")),
    ]
    assert found.counts == {"rows": 2, "used": 2}


def test_what_does_not_fit_is_left_out_and_counted_by_reason(tmp_path: Path) -> None:
    good = {f"good-{k}": HEADER + initial(f"good-{k}", f"Cat,SYSTEM,Kiwi&&2,7,V,{'AEIOU'[k % 5]}") for k in range(300)}
    found = load(
        folder(
            tmp_path,
            **good,
            none=HEADER + message("none"),
            text=HEADER + initial("text", "2,7,V,A"),
            twice=HEADER + initial("twice", "Cat&&2,7,V,V"),
            idle=HEADER + initial("idle", "Cat&&2,4,V,K"),
            again=HEADER + initial("good-1"),
            other="name\tage\nCat\t7\n",
        )
    )
    assert found.counts == {
        "rows": 305,
        "used": 300,
        "left out: INITIAL row without participants&&cards": 1,
        "left out: group repeated": 1,
        "left out: no INITIAL row": 1,
        "left out: no card to turn": 1,
        "left out: unreadable cards": 1,
        "noted: question repeated": 295,
    }


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    others: list[tuple[dict[str, str], str]] = [
        ({}, "an empty folder"),
        ({"readme": "hello\n"}, "no rows"),
        ({"a": HEADER + initial("a"), "b": HEADER}, "1 of 2 rows do not fit (no INITIAL row: 1)"),
    ]
    for place, (files, named) in enumerate(others):
        (tmp_path / str(place)).mkdir()
        with pytest.raises(UsageError) as error:
            load(folder(tmp_path / str(place), **files))
        assert str(error.value).startswith(f"{tmp_path / str(place)}: {named}")
    with pytest.raises(UsageError, match="nowhere: no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="a: a file"):
        load(folder(tmp_path, a="x") / "a")
