"""Sweeps: the shares of kinds by threshold, as the records tell them."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from parley.analysis.tables import read_table
from parley.figures import sweep as figures_sweep
from parley.figures.style import own_style
from parley.figures.sweep import sweep
from parley.games.stag_hunt.game import StagHuntGame
from parley.study import Study
from support.hunting import HUNTERS, hunt
from support.measured import played
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return played(study_factory(HUNTERS, game="stag_hunt", seeds=3, parameters={"rounds": 3}))


def drawn(study: Study) -> Figure:
    [spec] = [spec for spec in study.figures if spec.kind == "sweep"]
    with own_style():
        return sweep(study, spec, read_table(study.name, "thresholds"))[0]


def test_shares_move_with_the_threshold_as_counted_by_hand() -> None:
    # After round 1 agent_1 hunts 3 stags of 4, agent_3 1 of 4, agent_4 2 of 4, which is neither at any threshold.
    found = StagHuntGame.evidence.sweep(hunt("hbhh", "shss", "shss", "shhs", "shhh", "hhhh").of)
    assert set(found) == {"cooperation_persistent", "defection_prone", "unclassified"}
    persistent, prone, neither = (
        dict(found[name]) for name in ("cooperation_persistent", "defection_prone", "unclassified")
    )
    assert sorted(persistent) == pytest.approx([0.5 + 0.05 * step for step in range(11)])
    for threshold in persistent:
        told_apart = threshold <= 0.75
        assert persistent[threshold] == pytest.approx(told_apart / 3)
        assert prone[threshold] == pytest.approx(told_apart / 3)
        assert neither[threshold] == pytest.approx(1 / 3 if told_apart else 1)
    assert StagHuntGame.evidence.sweep(hunt("hh", "ss").of) == {}


def test_each_condition_has_a_panel_with_a_line_per_share(study: Study) -> None:
    figure = drawn(study)
    panels: list[Any] = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in panels] == ["grim_trigger", "always_stag"]
    assert {ax.get_xlabel() for ax in panels} == {"threshold t"}
    # Not the caps of error bars.
    lines = [line for line in panels[0].lines if len(line.get_xdata()) == 11 and line.get_linestyle() != "None"]
    assert [(line.get_marker(), set(line.get_ydata())) for line in lines] == [
        ("o", {0.0}),
        ("s", {1.0}),
        ("D", {0.0}),
    ]
    assert lines[0].get_xdata()[0] != lines[1].get_xdata()[0]  # equal means stay apart
    assert panels[0].get_ylabel() == "share of betrayed\nplayers"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("cooperation-persistent", "defection-prone", "unclassified"),
    ]
    said = " ".join(text.get_text() for text in figure.texts)
    assert "3 sims per point." in said
    assert "Not shown: 2 of 4 conditions, in which no simulation has what is drawn." in " ".join(said.split())


def test_a_study_without_betrayal_says_so(study_factory: StudyFactory) -> None:
    # After a betrayal in the last round nobody plays on.
    late = {"name": "betray", "from_round": 2}
    study = played(study_factory(HUNTERS | {"byzantine": late}, game="stag_hunt", seeds=1, parameters={"rounds": 2}))
    text = drawn(study).axes[0].texts[0].get_text()
    assert "no simulation has shares by threshold" in " ".join(text.split())


def test_shares_that_the_figure_does_not_name_are_left_out(study: Study) -> None:
    [spec] = [spec for spec in study.figures if spec.kind == "sweep"]
    with own_style():
        figure = sweep(
            study, dataclasses.replace(spec, of=("defection_prone",)), read_table(study.name, "thresholds")
        )[0]
    assert len(figure.legends[0].get_texts()) == 1


def test_shared_modules_name_no_game() -> None:
    source = Path(figures_sweep.__file__).read_text()
    assert not re.search(r"consensus|deliberation|stag.hunt|honest|byzantine", source, re.IGNORECASE)
