"""Sweeps: the shares of kinds by threshold, as the records tell them."""

import pytest

from parley.games.stag_hunt.game import StagHuntGame
from parley.study import Study
from support.figures import pages_of, panels_of, played, study_of, text_of
from support.hunting import HUNTERS, hunt


@pytest.fixture(scope="module")
def study() -> Study:
    return played(study_of(HUNTERS, game="stag_hunt", seeds=3, parameters={"rounds": 3}))


def test_shares_move_with_the_threshold_as_counted_by_hand() -> None:
    # After round 1 agent_1 hunts 3 stags of 4, agent_3 1 of 4, agent_4 2 of 4, which is neither at any threshold.
    found = StagHuntGame.evidence.sweep(hunt("hbhh", "shss", "shss", "shhs", "shhh", "hhhh").of)
    kinds = ("cooperation_persistent", "defection_prone", "unclassified")
    assert set(found) == set(kinds)
    persistent, prone, neither = (dict(found[name]) for name in kinds)
    assert sorted(persistent) == pytest.approx([0.5 + 0.05 * step for step in range(11)])
    for threshold in persistent:
        told_apart = threshold <= 0.75
        assert persistent[threshold] == pytest.approx(told_apart / 3)
        assert prone[threshold] == pytest.approx(told_apart / 3)
        assert neither[threshold] == pytest.approx(1 / 3 if told_apart else 1)
    assert StagHuntGame.evidence.sweep(hunt("hh", "ss").of) == {}


def test_each_condition_has_a_panel_with_a_line_per_share(study: Study) -> None:
    [figure] = pages_of(study, "sweep")
    panels = panels_of(figure)
    assert [ax.get_title() for ax in panels] == ["grim_trigger", "always_stag"]
    # Not the caps of error bars.
    lines = [line for line in panels[0].lines if len(line.get_xdata()) == 11 and line.get_linestyle() != "None"]
    assert [(line.get_marker(), set(line.get_ydata())) for line in lines] == [("o", {0.0}), ("s", {1.0}), ("D", {0.0})]
    assert lines[0].get_xdata()[0] != lines[1].get_xdata()[0]  # equal means stay apart
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["cooperation-persistent", "defection-prone", "unclassified"]
    for words in ("threshold t", "share of betrayed players", "3 sims per point", "Not shown: 2 of 4 conditions"):
        assert words in text_of(figure)
    # Shares that the figure does not name are left out.
    [figure] = pages_of(study, "sweep", of=("defection_prone",))
    assert len(figure.legends[0].get_texts()) == 1


def test_a_study_without_betrayal_says_so() -> None:
    late = HUNTERS | {"byzantine": {"name": "betray", "from_round": 2}}  # nobody plays on after it
    study = played(study_of(late, game="stag_hunt", seeds=1, parameters={"rounds": 2}, name="late"))
    assert "no simulation has shares by threshold" in text_of(pages_of(study, "sweep"))
