"""The values of axes as users write them, and as paths have them."""

from support.studies import StudyFactory


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
