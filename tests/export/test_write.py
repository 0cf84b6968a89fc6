"""`parley export`: what it refuses, in one line, and that the folder appears whole or not at all."""

from pathlib import Path

import pytest

from parley import export as write
from parley import paths
from parley.errors import RecordError
from parley.play.simulate import simulate
from parley.study import Study
from support.commands import Parley, one_line_error
from support.studies import StudyFactory, make_study

pytestmark = pytest.mark.promise("An export appears whole or not at all.")

ONE = "[{model: majority, n: 3, prompt: may_exist}]"


@pytest.fixture
def study(folder: Path) -> Study:
    """A study with records and no tables."""
    made = make_study(ONE, play=False)
    for simulation in made.simulations():
        simulate(made, simulation.record(made.name), [], 0.0)
    return made


def test_a_study_without_results_is_refused(study_factory: StudyFactory, parley: Parley) -> None:
    study_factory(name="empty")
    error = one_line_error(parley("export", "empty.yaml", "--format", "folder"), 1)
    assert "no results yet in results/empty; run: parley run empty.yaml" in error
    assert not Path("results").exists()


def test_what_exists_is_not_touched_not_even_a_link_to_nothing(study: Study, parley: Parley) -> None:
    Path("out").mkdir()
    Path("link").symlink_to("nowhere")
    for out in ("out", "link"):
        error = one_line_error(parley("export", "tiny", "--format", "folder", "--output", out), 2)
        assert f"{out}: exists already" in error
        assert "--output" in error
    assert not list(Path("out").iterdir())


def test_nothing_is_left_of_an_export_that_fails(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        next(Path("results/tiny/exports").iterdir()).joinpath("half").write_text("")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "_write", fail)
    with pytest.raises(RecordError, match="No space left on device"):
        write.export(study, "folder")
    assert not list(paths.export("tiny", "folder").parent.iterdir())
