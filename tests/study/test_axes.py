"""The values of axes as users write them, and as paths have them."""

from typing import Any

from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.study.condition import axis_names
from support.studies import StudyFactory

NAMES: list[tuple[Any, str, str, str]] = [
    (StagHuntGame, "cheap_talk", "True", "true"),
    (StagHuntGame, "cheap_talk", "no", "false"),
    (StagHuntGame, "needed", "3", "3"),
    (StagHuntGame, "topology", "{kind: erdos_renyi, p: 0.5}", "erdos_renyi-p-0.5"),
    (StagHuntGame, "archetype_threshold", "4/5", "0.8"),
    (ConsensusGame, "stop_threshold", "2/3", "2_3"),
    (ConsensusGame, "leaks", "[names, missing_value]", "missing_value+names"),
    (ConsensusGame, "leaks", "[]", "none"),
    # Any text is a name at least.
    *((StagHuntGame, "topology", text, text) for text in ("[", "!!bool maybe", "*x", "\t", "9" * 5000)),
    (StagHuntGame, "topology", "{kind: nowhere}", "{kind: nowhere}"),
]


def test_a_value_may_be_written_as_in_a_path_or_as_in_a_study() -> None:
    assert not [row for row in NAMES if row[3] not in axis_names(*row[:3])]


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
