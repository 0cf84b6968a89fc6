"""`parley rename` moves all that carries a study's name, and overwrites nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.errors import JournalError, UsageError
from parley.play.journal import Journal
from parley.play.relocate import find_moves
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.study import Study, load_study
from parley.workflow import rename as module
from parley.workflow.rename import rename
from support.studies import StudyFactory


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "jobs_left", lambda name: [])


@pytest.fixture
def played(study_factory: StudyFactory) -> Study:
    """A study with a record, a journal, a table, a ledger, a count of what was spent, and a log."""
    study = study_factory(seeds=2)
    one, two = study.simulations()
    simulate(study, one.record("small"), [], 1.0)
    with Journal(paths.journal(two.record("small")), two.id):
        pass
    for path in (paths.table("small", "rates", ".csv"), paths.ledger("small"), paths.spent("small")):
        path.parent.mkdir(parents=True)
        path.write_text("x")
    paths.log("small", "summarize").parent.mkdir(parents=True)
    paths.log("small", "summarize").write_text("x")
    return study


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_results_that_two_studies_share_are_not_renamed(played: Study) -> None:
    Path("config").mkdir()
    shutil.copy("small.yaml", "config/small.yaml")
    with pytest.raises(UsageError, match=r"^small\.yaml and config/small\.yaml: two studies of one name would share "):
        list(rename("small.yaml", "other.yaml"))


def test_a_study_file_may_change_its_suffix(played: Study) -> None:
    list(rename("small.yaml", "small.yml"))
    assert Path("small.yml").exists()
    assert paths.simulations("small").exists()


@pytest.mark.parametrize("renamed_before", [False, True])
def test_everything_moves(played: Study, renamed_before: bool) -> None:
    before = files(paths.results("small"))
    if renamed_before:
        Path("small.yaml").rename("other.yaml")
    lines = list(rename("small.yaml", "other.yaml"))
    assert files(paths.results("other")) == before
    assert len(before) == 6
    assert not paths.results("small").exists()
    assert not Path("small.yaml").exists()
    assert paths.log("other", "summarize").exists()
    assert f"moved: results/small -> results/other ({len(before)} files)" in lines
    study = load_study(Path("other.yaml"))
    assert find_moves(study).files == []
    one, two = study.simulations()
    assert replay(one.record("other")).difference is None
    assert paths.journal(two.record("other")).exists()


def test_a_death_in_between_goes_on(played: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(paths.results("small"))

    def die(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            list(rename("small.yaml", "other.yaml"))
    monkeypatch.setattr(module, "hold_lock", lambda path: None)  # as in another process
    assert Path("other.yaml").exists()
    list(rename("small.yaml", "other.yaml"))
    assert files(paths.results("other")) == before


def test_results_that_a_run_makes_anew_are_in_nobodys_way(played: Study) -> None:
    new = paths.table("other", "rates", ".csv")
    new.parent.mkdir(parents=True)
    new.write_text("of another")
    paths.simulations("other").joinpath("model=x").mkdir(parents=True)
    lines = list(rename("small.yaml", "other.yaml"))
    assert new.read_text() == "of another"
    assert "left: results/small/tables: results/other/tables is there already" in lines
    assert next(load_study(Path("other.yaml")).simulations()).record("other").exists()
    assert paths.spent("other").exists()


@pytest.mark.parametrize("there", [paths.spent, lambda name: paths.simulations(name) / "any" / "seed=0.parquet"])
def test_results_of_the_new_name_are_never_mixed_with_others(played: Study, there: Callable[[str], Path]) -> None:
    path = there("other")
    path.parent.mkdir(parents=True)
    path.write_text("of another")
    with pytest.raises(UsageError, match="has results of its own"):
        list(rename("small.yaml", "other.yaml"))
    assert path.read_text() == "of another"
    assert Path("small.yaml").exists()
    assert next(played.simulations()).record("small").exists()


def test_no_manifest_names_the_old_paths(played: Study) -> None:
    record = next(played.simulations()).record("small")
    tables = paths.table("small", "manifest", ".csv").parent
    for name in ("manifest.csv", "manifest.parquet", "plan-01234567.json"):
        (tables / name).write_text(str(record))
    lines = list(rename("small.yaml", "other.yaml"))
    assert (
        "removed: the manifest of results/small/tables, which names the old paths; the next run makes the tables anew"
    ) in lines
    assert [path.name for path in paths.table("other", "manifest", ".csv").parent.iterdir()] == ["rates.csv"]


def test_two_studies_stay_two(played: Study) -> None:
    Path("other.yaml").write_text(Path("small.yaml").read_text())
    with pytest.raises(UsageError, match="both are there, so they are two studies"):
        list(rename("small.yaml", "other.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("small.yaml", "../x/..yaml", "the file's name becomes a folder"),
        ("small.yaml", "a b.yaml", "the file's name becomes a folder"),
        ("..", "other", "no name of a study"),
        (
            "small",
            "../x",
            r"'../x': no name of a study; use letters, digits, '.', '_' and '-', or the path of its .yaml",
        ),
        ("small", "sub/x", "no name of a study"),
        ("../small", "x", "no name of a study"),
        ("small.yaml", "small.yaml", "the name that it has"),
        ("none.yaml", "nothing.yaml", "no such study file"),
    ],
)
def test_nonsense_is_refused(played: Study, old: str, new: str, problem: str) -> None:
    paths.CONFIG.mkdir()
    paths.study_file("small").write_text(played.file.read_text())
    before = files(Path())
    with pytest.raises(UsageError, match=problem):
        list(rename(old, new))
    assert files(Path()) == before


def test_a_misspelled_name_is_suggested(played: Study) -> None:
    Path("small.yaml").rename("other.yaml")
    with pytest.raises(UsageError, match=r"results/smal: no such results; did you mean 'small'\?"):
        list(rename("smal.yaml", "other.yaml"))


def test_nothing_is_renamed_while_it_is_played(played: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    _, two = played.simulations()
    with (
        Journal(paths.journal(two.record("small")), two.id),
        pytest.raises(JournalError, match="a process is playing it"),
    ):
        list(rename("small.yaml", "other.yaml"))
    monkeypatch.setattr(module, "hold_lock", lambda path: None)
    monkeypatch.setattr(module, "jobs_left", lambda name: ["12"] if name == "small" else [])
    with pytest.raises(JournalError, match="1 cluster jobs of small are still there"):
        list(rename("small.yaml", "other.yaml"))
    assert Path("small.yaml").exists()


def test_files_of_dvc_that_name_it_are_named(played: Study) -> None:
    stages = {"stages": {"study": {"matrix": {"study": ["small", "smaller"]}}}, "params": ["config/small.yaml"]}
    Path("dvc.yaml").write_text(yaml.safe_dump(stages))
    text = Path("dvc.yaml").read_text().splitlines()
    lines = [number for number, line in enumerate(text, 1) if line.endswith((" small", "config/small.yaml"))]
    assert len(lines) == 2
    assert list(rename("small.yaml", "other.yaml"))[-1] == (
        f"dvc.yaml: still names small, in line {lines[0]}, {lines[1]}; change it by hand"
    )
