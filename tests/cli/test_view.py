"""`parley view`: what it writes and where, and what it says where it cannot."""

from pathlib import Path

import pytest

from parley import paths
from parley.study import Study
from support.answering import record_with_model
from support.commands import Parley, one_line_error
from support.studies import StudyFactory
from support.viewed import index_of, small_played


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return small_played(study_factory)


def mark(study: Study) -> Path:
    return paths.stamp(study.name, "view", study.plan)


def shown(page: Path) -> list[str]:
    ids: list[str] = index_of(page.read_text())["simulations"]["id"]
    return ids


def test_it_writes_the_explorer_of_a_study_and_says_where(parley: Parley, study: Study) -> None:
    ran = parley("view", "small.yaml")
    page = paths.view_page(paths.view("small"))
    assert (ran.status, ran.out, ran.err) == (0, f"{page}\n", "")
    assert len(shown(page)) == 4
    assert mark(study).exists()


@pytest.mark.parametrize("options", [["--where", "n=4"], ["--most", "2"], ["--journals"]])
def test_a_part_of_it_is_not_marked_as_the_whole(parley: Parley, study: Study, options: list[str]) -> None:
    assert parley("view", "small.yaml").status == 0
    assert parley("view", "small.yaml", *options).status == 0
    assert not mark(study).exists()
    index = index_of(paths.view_page(paths.view("small")).read_text())
    assert (index["left_out"] is None) == (options == ["--journals"])


def test_what_is_not_finished_is_not_marked(parley: Parley, study: Study) -> None:
    next(study.simulations()).record("small").unlink()
    assert parley("view", "small.yaml").status == 0
    assert not mark(study).exists()
    assert len(shown(paths.view_page(paths.view("small")))) == 3


def test_it_can_be_written_elsewhere(parley: Parley, study: Study, tmp_path: Path) -> None:
    out = tmp_path / "for you"
    assert parley("view", "small.yaml", "--where", "n=3", "--out", out).out == f"{out / 'index.html'}\n"
    assert len(shown(out / "index.html")) == 2
    assert not paths.view("small").exists()


def test_a_study_is_shown_where_its_model_cannot_be_played(parley: Parley, study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    record_with_model(next(study.simulations()))
    Path("models.yaml").unlink()
    assert parley("view", "small.yaml").status == 0
    assert parley("expand", "small.yaml").status == 2


def test_a_study_without_results_is_told_in_one_line(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory()
    assert "no results yet" in one_line_error(parley("view", "small.yaml"), 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["smal.yaml"], "did you mean 'small'"),
        (["small.yaml", "--where", "m=4"], "not an axis of this study"),
        (["small.yaml", "--where", "n=7"], "no condition has n=7"),
        (["small.yaml", "--where", "n"], "write AXIS=VALUE"),
        (["small.yaml", "--port", "8000"], "--port: is for --serve"),
        (["small.yaml", "--serve", "--out", "x"], "--out: not used with --serve"),
    ],
)
def test_wrong_usage_is_told_in_one_line(parley: Parley, study: Study, arguments: list[str], told: str) -> None:
    assert told in one_line_error(parley("view", *arguments), 2)
