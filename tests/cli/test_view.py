"""`parley view`: what it writes and where, and what it says where it cannot."""

from pathlib import Path

import pytest

from parley import paths
from support.answering import record_with_model
from support.commands import Parley, one_line_error
from support.pages import index_of, small_played
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley view` writes the explorer also where the model cannot be played.")


def shown(page: Path) -> list[str]:
    ids: list[str] = index_of(page.read_text())["simulations"]["id"]
    return ids


def test_it_writes_the_explorer_of_a_study_and_says_where(parley: Parley, study_factory: StudyFactory) -> None:
    study = small_played(study_factory)
    page, mark = paths.view_page(paths.view("small")), paths.stamp(study.name, "view", study.plan)
    for options, whole in (([], True), (["--most", "2"], False)):
        ran = parley("view", "small.yaml", *options)
        assert (ran.status, ran.out, ran.err) == (0, f"{page}\n", "")
        assert mark.exists() is whole, options  # only the whole is marked as made
        assert len(shown(page)) == (4 if whole else 2)


def test_a_study_is_shown_where_its_model_cannot_be_played(parley: Parley, study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    record_with_model(next(study.simulations()))
    Path("models.yaml").unlink()
    assert parley("view", "small.yaml").status == 0
    assert parley("expand", "small.yaml").status == 2


def test_what_cannot_be_shown_is_told_in_one_line(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory()
    assert "no results yet" in one_line_error(parley("view", "small.yaml"), 1)
