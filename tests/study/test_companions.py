"""Studies that a study names beside it: checked, shown, and frozen with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study import Study, load_study
from parley.study.companions import companion_lines, companions
from parley.study.frozen import content_of, frozen_state, write_frozen
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

ASKED = {"name": "size", "outcome": "valid_consensus", "compare": "n", "smallest": 0.2}
BOTH = {"noise": "again", "control": "known"}


def write(make: StudyFactory, noise: dict[str, Any] | None = None, control: dict[str, Any] | None = None) -> Study:
    """Write a study of a model with its noise floor and its control, changed so."""
    make({"model": "tiny", "n": 3, "seeds": 2, **(noise or {})}, name="again", repeats=2)
    make({"n": [3, 4], "seeds": 5, **(control or {})}, name="known", questions=[ASKED])
    return make({"model": "tiny", "n": [3, 4]}, seeds=4, questions=[ASKED], companions=BOTH)


def test_they_are_named_with_how_much_they_play(study_factory: StudyFactory, parley: Parley) -> None:
    study = write(study_factory)
    told = [
        "noise floor: again (1 condition, 4 simulations, each seed played 2 times)",
        "positive control: known (2 conditions, 10 simulations)",
    ]
    assert companion_lines(study) == told
    planned = parley("plan", "small.yaml").out.splitlines()
    assert planned[-3:-1] == told
    text = write_frozen(study).read_text()
    assert "- Noise floor: again (1 condition" in text
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


@pytest.mark.parametrize(
    ("noise", "control", "told"),
    [
        ({"n": 5}, {}, "companions.noise: again: plays no condition of this study"),
        ({}, {"model": "tiny"}, r"companions.control: known: asks a model \(tiny\); a control is scripted"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    study_factory: StudyFactory, noise: dict[str, Any], control: dict[str, Any], told: str
) -> None:
    study = write(study_factory, noise, control)
    with pytest.raises(UsageError, match=f"^small.yaml: {told}"):
        companions(study)
    assert len(companion_lines(study)) == 1


def test_so_is_one_that_is_not_there_or_plays_another_game(study_factory: StudyFactory, parley: Parley) -> None:
    write(study_factory)
    study_factory({"n": 3, "model": "tiny"}, name="again", seeds=2)
    assert "plays no seed again; add to again.yaml repeats: 2" in one_line_error(parley("plan", "small.yaml"), 2)
    hunt = {"game": "stag_hunt", "grids": [{"model": "grim_trigger", "n": 3, "prompt": "plain"}]}
    Path("again.yaml").write_text(json.dumps(hunt))
    assert "plays stag_hunt, and this study consensus" in one_line_error(parley("plan", "small.yaml"), 2)
    Path("again.yaml").unlink()
    assert "companions.noise: again" in one_line_error(parley("plan", "small.yaml", "--freeze"), 2)
    write(study_factory)
    study_factory({"n": [3, 4]}, name="known", questions=[ASKED | {"name": "other"}])
    told = "companions.control: known: answers no question of this study; give it one of the same name (size)"
    assert told in one_line_error(parley("plan", "small.yaml"), 2)
    itself = study_factory({"n": [3, 4]}, companions={"control": "small"})
    with pytest.raises(UsageError, match="is this study itself"):
        companions(itself)
    with pytest.raises(UsageError, match="name noise, or control, or both"):
        study_factory(companions={})
    with pytest.raises(UsageError, match=r"companions\.noise: .*: is a path; give the name of a study"):
        study_factory(companions={"noise": "config/again.yaml"})


def test_the_shipped_plans_stay_as_they_were_frozen() -> None:
    from support import REPOSITORY

    for file in sorted((REPOSITORY / "config" / "findings").glob("*.frozen.md")):
        study = load_study(file.with_name(file.name.replace(".frozen.md", ".yaml")), needs_weights=False)
        assert frozen_state(study).endswith("the study is as it was frozen")
