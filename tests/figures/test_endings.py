"""Figures of when games ended and how, and of what agents agreed on by what they began with."""

import pytest

from parley.analysis.tables import read_table
from parley.figures.style import COLORS
from parley.study import Study
from support.figures import pages_of, panels_of, played, study_of, text_of


@pytest.fixture(scope="module")
def study() -> Study:
    return played(study_of({"model": ["majority", "random"], "n": 5}, seeds=6, parameters={"max_rounds": 4}))


def test_each_way_to_end_has_a_panel_and_each_condition_a_step_line(study: Study) -> None:
    figure = pages_of(study, "endings")
    table = read_table(study.name, "endings")
    ways = [way for way in dict.fromkeys(table["ending"]) if way != "any"]
    labels = {outcome.name: outcome.label for outcome in study.game.outcomes}
    assert [ax.get_title().replace("\n", " ") for ax in panels_of(figure)] == [labels[way] for way in ways]
    valid = panels_of(figure)[ways.index("valid_consensus")]
    here = table[(table["ending"] == "valid_consensus") & (table["model"] == "majority")]
    # Goes on to the end of the panel: all of them ended.
    assert (0.0, *here["incidence"], here["incidence"].iloc[-1]) in {tuple(line.get_ydata()) for line in valid.lines}
    assert len(valid.collections) == 2  # an interval for each
    assert "95% Wilson interval" in text_of(figure)
    # Under the panels: how many still play.
    texts = [text for text in panels_of(figure)[0].texts if text.get_text()]
    left = {color: [text.get_text() for text in texts if text.get_color() == color] for color in COLORS[:2]}
    assert left[COLORS[0]] == ["6", "6"]  # majorities end in round 2
    assert left[COLORS[1]][0] == "6"
    assert "0" not in left[COLORS[1]]


def test_games_that_do_not_end_have_nothing_to_draw() -> None:
    never = played(study_of({"model": "stubborn", "n": 3}, seeds=2, parameters={"max_rounds": 2}, name="never"))
    assert "no game ended before its deadline" in text_of(pages_of(never, "endings"))
    assert "no simulation ended in agreement" in text_of(pages_of(never, "final_on_initial"))


def test_a_point_for_each_agreement_and_its_line(study: Study) -> None:
    figure = pages_of(study, "final_on_initial")
    rows = read_table(study.name, "simulations").dropna(subset=["consensus_value"])
    points = {
        (x, y)
        for ax in panels_of(figure)
        for line in ax.lines
        if line.get_linestyle() == "None"
        for x, y in zip(*line.get_data(), strict=True)
    }
    assert points == set(zip(rows["initial_mean"], rows["consensus_value"], strict=True))
    row = read_table(study.name, "quality").iloc[0]
    assert str(row["simulations"]) in text_of(figure).split()
    [fitted] = [line for line in panels_of(figure)[0].lines if line.get_color() == "black"]
    (left, right), (low, high) = fitted.get_data()
    assert (high - low) / (right - left) == pytest.approx(row["slope"])
