"""The values of axes as users write them, and as paths have them."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame
from parley.games.deliberation.game import DeliberationGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.study.axes import axis_names
from support.studies import StudyFactory


@pytest.mark.parametrize(
    ("game", "axis", "text", "name"),
    [
        (StagHuntGame, "cheap_talk", "true", "true"),
        (StagHuntGame, "cheap_talk", "True", "true"),
        (StagHuntGame, "cheap_talk", "no", "false"),
        (StagHuntGame, "needed", "3", "3"),
        (StagHuntGame, "needed", "all", "all"),
        (StagHuntGame, "topology", "ring", "ring"),
        (StagHuntGame, "topology", "{kind: erdos_renyi, p: 0.5}", "erdos_renyi-p-0.5"),
        (StagHuntGame, "archetype_threshold", "4/5", "0.8"),
        (StagHuntGame, "archetype_threshold", "0.80", "0.8"),
        (StagHuntGame, "n", "4", "4"),
        (StagHuntGame, "n", "+4", "4"),
        (ConsensusGame, "stop_threshold", "2/3", "2_3"),
        (ConsensusGame, "stop_threshold", "2_3", "2_3"),
        (ConsensusGame, "leaks", "[names, missing_value]", "missing_value+names"),
        (ConsensusGame, "leaks", "[]", "none"),
        (DeliberationGame, "problems", "{kind: arithmetic, steps: 2, digits: 1}", "arithmetic-steps-2-digits-1"),
        (DeliberationGame, "model", "smollm2-135m", "smollm2-135m"),
    ],
)
def test_a_value_may_be_written_as_in_a_path_or_as_in_a_study(game: Any, axis: str, text: str, name: str) -> None:
    assert name in axis_names(game, axis, text)


@pytest.mark.parametrize("text", ["[", "!!bool maybe", "*x", "a: b: c", "\t", "{kind: nowhere}", "9" * 5000])
def test_any_text_is_a_name_at_least(text: str) -> None:
    assert text in axis_names(StagHuntGame, "topology", text)


def test_conditions_are_chosen_by_values_as_the_study_writes_them(study_factory: StudyFactory) -> None:
    vary = {"topology": ["ring", {"kind": "erdos_renyi", "p": 0.5}], "cheap_talk": [True, False], "needed": ["all", 3]}
    grid = {"model": "tiny", "n": [4, 6], "prompt": "plain", "vary": vary}
    study = study_factory(grid, game="stag_hunt", parameters={"disclosure": "silent"})
    assert len(study.fitting({})) == 16
    for axes, count in (
        ({"cheap_talk": "True"}, 8),
        ({"needed": "3", "n": 4}, 4),
        ({"topology": "{kind: erdos_renyi, p: 0.50}", "needed": "all"}, 4),
        ({"topology": "erdos_renyi-p-0.5", "needed": "all", "n": "4"}, 2),
    ):
        found = study.fitting(axes)
        assert len(found) == count
        assert all(len({condition.axes[axis] for condition in found}) == 1 for axis in axes)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"n": "5"}, "small.yaml: no condition has n=5; `parley expand small.yaml` lists them"),
        ({"disclosure": "silent"}, "small.yaml: disclosure: not an axis of this study; choose one of: model, n, b"),
    ],
)
def test_what_no_condition_has_is_refused(study_factory: StudyFactory, axes: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        study_factory().fitting(axes)
    assert words in str(caught.value)
