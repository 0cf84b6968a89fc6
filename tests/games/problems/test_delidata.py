"""DeliData: the cards of its groups, and groups without a problem."""

from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.games.problems.data_sets import load_delidata

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


def test_the_cards_of_the_initial_row_make_the_problem_of_a_group(tmp_path: Path) -> None:
    found = load_delidata(
        folder(tmp_path, b=HEADER + initial("b", "Cat,SYSTEM,Kiwi&&E,4,12,K"), a=HEADER + initial("a") + message("a"))
    )
    assert [(problem.id, problem.answer, problem.options) for problem in found.problems] == [
        ("a", "7,A", ("2", "7", "V", "A")),
        ("b", "E", ("E", "4", "12", "K")),
    ]


def test_a_file_of_something_else_is_passed_over(tmp_path: Path) -> None:
    files = folder(tmp_path, a=HEADER + initial("a"), other="name\tage\nCat\t7\n")
    (files / "picture").write_bytes(b"\xff\xd8")
    assert [problem.id for problem in load_delidata(files).problems] == ["a"]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (initial("a", "2,7,V,A"), "the options must be at least two"),
        (initial("a", "Cat&&2,4,V,K"), "not in normal form: ''"),
        (initial("a", f"Cat&&{','.join(map(str, range(11)))}"), "at most 10"),
    ],
)
def test_a_group_without_a_problem_is_named(tmp_path: Path, rows: str, named: str) -> None:
    found = folder(tmp_path, good=HEADER + initial("good"), wrong=HEADER + rows)
    with pytest.raises(UsageError, match=named) as error:
        load_delidata(found)
    assert str(error.value).startswith(f"{tmp_path / 'wrong'}: ")
