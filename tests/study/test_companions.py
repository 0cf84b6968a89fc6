"""Studies that a study names beside it: checked, shown, and frozen with it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from parley.study import Study
from parley.study.frozen import content_of, frozen_state, write_frozen
from parley.study.load import companion_lines, companions
from support.studies import StudyFactory, refused

pytestmark = pytest.mark.promise("A frozen plan holds the studies of its noise and its control.")

ASKED = {"name": "size", "outcome": "valid_consensus", "compare": "n", "smallest": 0.2}
BOTH = {"noise": "again", "control": "known"}


def write(make: StudyFactory, noise: dict[str, Any] | None = None, control: dict[str, Any] | None = None) -> Study:
    """Write a study of a model with its noise floor and its control, changed so."""
    make({"model": "tiny", "n": 3, "seeds": 2, **(noise or {})}, name="again", repeats=2)
    make({"n": [3, 4], "seeds": 5, **(control or {})}, name="known", questions=[ASKED])
    return make({"model": "tiny", "n": [3, 4]}, seeds=4, questions=[ASKED], companions=BOTH)


def test_they_are_named_with_how_much_they_play(study_factory: StudyFactory) -> None:
    study = write(study_factory)
    assert companion_lines(study) == [
        "noise floor: again (1 condition, 4 simulations, each seed played 2 times)",
        "positive control: known (2 conditions, 10 simulations)",
    ]
    text = write_frozen(study).read_text()
    assert "- Positive control: known (2 conditions" in text
    assert str(Path.cwd()) not in text


def test_a_change_of_one_is_told(study_factory: StudyFactory) -> None:
    write_frozen(write(study_factory))
    assert "as it was frozen" in frozen_state(write(study_factory))
    assert "companions: control changed" in frozen_state(write(study_factory, control={"seeds": 6}))
    write(study_factory)
    alone = study_factory({"model": "tiny", "n": [3, 4]}, seeds=4, questions=[ASKED], companions={"noise": "again"})
    assert "companions: control removed" in frozen_state(alone)
    Path("again.yaml").unlink()
    assert "companions.noise: again" in frozen_state(alone)


def test_a_study_that_names_none_is_frozen_as_before(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=4, questions=[ASKED])
    assert list(content_of(study)) == ["game", "questions", "conditions", "rules"]
    assert companions(study) == []


def test_one_that_does_not_fit_is_refused(study_factory: StudyFactory) -> None:
    def misfits(study: Study, *names: str) -> None:
        refused(partial(companions, study), r"small\.yaml: companions\.", *names)

    study = write(study_factory, noise={"n": 5})
    misfits(study, "noise: again", "plays no condition")
    assert len(companion_lines(study)) == 1
    misfits(write(study_factory, control={"model": "tiny"}), "control: known", "asks a model (tiny)")
    study = write(study_factory)
    study_factory({"n": 3, "model": "tiny"}, name="again", seeds=2)
    misfits(study, "noise: again", "add to again.yaml repeats: 2")
    study = write(study_factory)
    study_factory({"n": [3, 4]}, name="known", questions=[ASKED | {"name": "other"}])
    misfits(study, "control: known", "(size)")
