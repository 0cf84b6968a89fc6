"""Curves that compare conditions along an axis: whose lines stand in one panel, and what is left out."""

import dataclasses
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.analysis.tables import read_table
from parley.figures.curves import curves
from parley.figures.page import BELOW
from parley.figures.points import indicators
from parley.figures.style import own_style
from parley.study import Study
from support.measured import MeasuredGame, measured, played
from support.panels import data, panels_of, text_of
from support.studies import StudyFactory

LATE = {"name": "betray", "from_round": 3}
HUNTERS: dict[str, Any] = {
    "model": "grim_trigger",
    "n": 4,
    "b": [0, 1],
    "byzantine": ["betray", LATE],
    "prompt": "plain",
    "vary": {"cheap_talk": [True, False]},
}
HUNT: dict[str, Any] = {"game": "stag_hunt", "seeds": 2, "parameters": {"rounds": 5}}
ALL = [1.0] * 5
BETRAYED = [1.0, 0.0, 0.0, 0.0, 0.0]  # grim triggers after a betrayal in round 1
LATER = [1.0, 1.0, 1.0, 0.0, 0.0]


def drawn(study: Study, by: str) -> list[Figure]:
    [spec] = [spec for spec in study.figures if spec.name == f"cooperation_by_round_and_{by}"]
    with own_style():
        return curves(study, spec, read_table(study.name, "rounds"))


def lines_of(figure: list[Figure]) -> dict[str, list[list[float]]]:
    """Return the means by round of each line of each panel, by its heading."""
    return {" ".join(ax.get_title().split()): [means for _, means in data(ax) if means] for ax in panels_of(figure)}


def legend_of(figure: list[Figure]) -> list[str]:
    beside = (text for ax in panels_of(figure[0]) for text in ax.texts if text.get_gid() != BELOW)
    named = [text.get_text() for legend in figure[0].legends for text in legend.get_texts()]
    return named or sorted(text.get_text() for text in beside)  # at the ends of lines


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    one = HUNTERS | {"model": "follow_words", "vary": {"cheap_talk": [True]}}
    return played(study_factory(HUNTERS, one, **HUNT))


def test_undisturbed_games_stand_in_the_panel_of_every_adversary(study: Study) -> None:
    figure = drawn(study, "byzantine")
    first, late = "byzantine=betray, cheap_talk=", "byzantine=betray-from_round-3, cheap_talk="
    assert lines_of(figure) == {
        f"grim_trigger, {first}true": [ALL, BETRAYED],
        f"grim_trigger, {late}true": [ALL, LATER],
        f"grim_trigger, {first}false": [ALL, BETRAYED],
        f"grim_trigger, {late}false": [ALL, LATER],
        f"follow_words, {first}true": [ALL, ALL],
        f"follow_words, {late}true": [ALL, ALL],
    }
    assert legend_of(figure) == ["b=0", "b=1"]
    assert "Not shown" not in text_of(figure)
    # None is pooled: each point is of the two simulations of one condition.
    assert "2 sims in each mean." in text_of(figure)


def test_a_panel_shows_conditions_that_differ_in_the_axis_of_its_lines_alone(study: Study) -> None:
    figure = drawn(study, "cheap_talk")
    assert lines_of(figure) == {
        "b=0": [ALL, ALL],
        "b=1, byzantine=betray": [BETRAYED, BETRAYED],
        "b=1, byzantine=betray-from_round-3": [LATER, LATER],
    }
    assert legend_of(figure) == ["cheap_talk=true", "cheap_talk=false"]
    assert "Not shown: 3 of 6 groups of conditions, run with one cheap_talk only." in text_of(figure)
    assert "In all panels: grim_trigger, n=4" in text_of(figure)


def test_disclosures_are_compared_within_a_topology(study_factory: StudyFactory) -> None:
    def seen(topology: str, *disclosure: str) -> dict[str, Any]:
        return HUNTERS | {"b": 0, "vary": {"topology": [topology], "disclosure": [*disclosure]}}

    study = played(study_factory(seen("complete", "none"), seen("ring", "silent", "explicit"), **HUNT))
    figure = drawn(study, "disclosure")
    assert list(lines_of(figure).values()) == [[ALL, ALL]]
    assert "Not shown: 1 of 2 groups of conditions, run with one disclosure only." in text_of(figure)
    study = played(study_factory(seen("complete", "none"), seen("ring", "silent"), name="apart", **HUNT))
    # The figure is about a comparison that this study has not; one that is about more shows all.
    [spec] = [spec for spec in study.game.evidence.figures if spec.name == "cooperation_by_round_and_disclosure"]
    assert spec not in study.figures
    with own_style():
        figure = curves(study, dataclasses.replace(spec, needs=()), read_table(study.name, "rounds"))
    assert list(lines_of(figure).values()) == [[ALL], [ALL]]
    assert "Nothing to compare: no two conditions differ in disclosure alone." in text_of(figure)


def test_conditions_are_drawn_against_each_other_where_the_axis_varies(study_factory: StudyFactory) -> None:
    def made(grid: dict[str, Any]) -> set[str]:
        names = {spec.name for spec in study_factory(HUNTERS | grid, game="stag_hunt").figures}
        return {name.removeprefix("cooperation_by_round_and_") for name in names if "_round_and_" in name}

    assert made({}) == {"byzantine", "cheap_talk"}
    assert made({"b": 1, "vary": None}) == set()
    assert made({"b": 0, "vary": {"topology": ["ring"], "disclosure": ["silent", "explicit"]}}) == {"disclosure"}


@pytest.mark.slow
def test_more_values_than_lines_are_panels_and_told(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS | {"n": 8, "b": list(range(7)), "byzantine": "betray"}, **HUNT))
    figure = drawn(study, "byzantine")
    assert "b has more values than a panel has lines (6): a panel for each." in text_of(figure)
    assert legend_of(figure) == ["cheap_talk=true", "cheap_talk=false"]
    assert len(panels_of(figure)) == 7


# Along x: what gives way where panels are too many


def along_b(study_factory: StudyFactory, alone: int) -> list[Figure]:
    """Return a figure along b of 4 models with b = 0 and 1, after `alone` others with 0 only."""
    study = measured(study_factory())
    rows = [(f"alone{i}", 0) for i in range(alone)] + [(f"m{i}", b) for i in range(4) for b in (0, 1)]
    table = pd.DataFrame(rows, columns=["model", "b"]).assign(n=4, prompt="p", indicator="early", simulations=3)
    table = table.assign(rate=0.5, low=0.2, high=0.8)
    [condition] = study.conditions
    study = dataclasses.replace(
        study, conditions=tuple(dataclasses.replace(condition, axes={**condition.axes}) for _ in rows)
    )
    spec = dataclasses.replace(MeasuredGame.evidence.figures[1], x="b", of=("early",))
    with own_style():
        return indicators(study, spec, table)


def test_where_panels_are_too_many_those_that_compare_nothing_give_way(study_factory: StudyFactory) -> None:
    pages = along_b(study_factory, 90)
    assert [f"m{i}" in text_of(pages[0]).split() for i in range(4)] == [True] * 4
    shown = len(panels_of(pages))
    assert len(pages) == 4
    assert f"{94 - shown} of 94 panels are left out." in text_of(pages[0])


def test_where_all_panels_fit_those_that_compare_nothing_stay(study_factory: StudyFactory) -> None:
    told = text_of(along_b(study_factory, 10))
    assert "alone0" in told
    assert "left out" not in told
    assert told.count("not run") == 10
