"""`parley rename` moves all that carries a study's name, and overwrites nothing."""

import shutil
from pathlib import Path

import pytest

from parley import paths
from parley.errors import JournalError, UsageError
from parley.play.journal import Journal
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.play.stale_records import find_moves
from parley.study import Study, load_study
from parley.workflow import rename as module
from parley.workflow.rename import rename
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley rename` moves all that carries a study's name, and overwrites nothing.")


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "jobs_left", lambda name: [])


@pytest.fixture
def played(study_factory: StudyFactory) -> Study:
    """A study with a record, a journal, a table, a ledger, a count of what was spent, and a log."""
    study = study_factory(seeds=2, parameters={"max_rounds": 1})
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


@pytest.mark.parametrize("renamed_before", [False, True])
def test_everything_moves(played: Study, renamed_before: bool) -> None:
    before = files(paths.results("small"))
    paths.frozen(played.file).write_text("mine")
    if renamed_before:
        Path("small.yaml").rename("other.yaml")
    list(rename("small.yaml", "other.yaml"))
    assert files(paths.results("other")) == before
    assert len(before) == 6
    assert not paths.results("small").exists()
    assert not Path("small.yaml").exists()
    assert paths.log("other", "summarize").exists()
    assert Path("other.frozen.md").read_text() == "mine"
    study = load_study(Path("other.yaml"))
    assert find_moves(study) == {}
    one, two = study.simulations()
    assert replay(one.record("other")).difference is None
    assert paths.journal(two.record("other")).exists()


def test_a_death_in_between_goes_on(played: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(paths.results("small"))

    renamed: list[Path] = []
    do_rename = Path.rename

    def die(source: Path, target: Path) -> Path:
        if len(renamed) == 2:  # the study file and its results, and not yet its logs
            raise KeyboardInterrupt
        renamed.append(source)
        return do_rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            list(rename("small.yaml", "other.yaml"))
    monkeypatch.setattr(module, "hold_lock", lambda path: None)  # as in another process
    assert Path("other.yaml").exists()
    list(rename("small.yaml", "other.yaml"))
    assert files(paths.results("other")) == before


def test_results_of_the_new_name_are_never_mixed_with_others(played: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hold_lock", lambda path: None)  # as in a process for each
    for path in (paths.spent("other"), paths.simulations("third") / "any" / "seed=0.parquet"):
        path.parent.mkdir(parents=True)
        path.write_text("of another")
        name = path.relative_to("results").parts[0]
        with pytest.raises(UsageError, match="has results of its own"):
            list(rename("small.yaml", f"{name}.yaml"))
        assert path.read_text() == "of another"
        assert Path("small.yaml").exists()
        assert next(played.simulations()).record("small").exists()


def test_nonsense_is_refused_and_changes_nothing(played: Study) -> None:
    def refused(old: str, new: str, problem: str) -> None:
        before = files(Path())
        with pytest.raises(UsageError, match=problem):
            list(rename(old, new))
        assert files(Path()) == before

    Path("other.yaml").write_text("")
    refused("small.yaml", "other.yaml", "two studies")
    Path("other.yaml").unlink()
    paths.CONFIG.mkdir()
    shutil.copy("small.yaml", paths.CONFIG)
    for old, new, problem in (
        ("small.yaml", "other.yaml", r"^small\.yaml and config/small\.yaml: two studies of one name"),
        ("small.yaml", "../x/..yaml", "the file's name becomes a folder"),
        ("small", "../x", r"'../x': not the name of a study"),
        ("small.yaml", "small.yaml", "is its name already"),
        ("none.yaml", "nothing.yaml", "no such study file"),
    ):
        refused(old, new, problem)
    Path("small.yaml").rename("other.yaml")
    refused("smal.yaml", "other.yaml", r"results/smal: .*'small'")


def test_nothing_is_renamed_while_it_is_played(played: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    _, two = played.simulations()
    with (
        Journal(paths.journal(two.record("small")), two.id),
        pytest.raises(JournalError, match="a process is playing it"),
    ):
        list(rename("small.yaml", "other.yaml"))
    monkeypatch.setattr(module, "hold_lock", lambda path: None)
    monkeypatch.setattr(module, "jobs_left", lambda name: ["12"] if name == "small" else [])
    with pytest.raises(JournalError, match="1 cluster jobs of small"):
        list(rename("small.yaml", "other.yaml"))
    assert Path("small.yaml").exists()
