"""Timelines: what stands in the cells, what is marked, and what is left out where there is no room."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from parley import paths
from parley.figures import timeline as figures_timeline
from parley.figures.make import figures
from parley.figures.style import own_style
from parley.figures.timeline import draw, fitted, names_shown, rounds_shown, timelines
from parley.games.evidence import Mark, State, Timeline, TimelineCell
from parley.games.stag_hunt.game import StagHuntGame
from parley.study import Study
from support.hunting import HUNTERS, Hunted, hunt
from support.measured import played
from support.studies import StudyFactory

COLORS = {"did": "#112233", "idle": "#445566"}


def told(hunted: Hunted) -> Timeline:
    return StagHuntGame.evidence.timeline(hunted.outcome.as_json(), hunted.outcome.as_json()["trace"])


def timeline(agents: int = 2, rounds: int = 3, text: str = "word", marked: int | None = None) -> Timeline:
    """Return a timeline in which the last agent stands out, and the first is idle in round 1."""
    names = [f"agent_{index + 1}" for index in range(agents)]
    return Timeline(
        agents={name: name for name in names},
        framed=frozenset(names[-1:]),
        framed_label="odd one",
        cells={
            (name, number): TimelineCell("idle" if (name, number) == (names[0], 1) else "did", text)
            for name in names
            for number in range(1, rounds + 1)
        },
        states=[State(name, f"{name} it", color, "//") for name, color in COLORS.items()],
        marks=[] if marked is None else [Mark(names[-1], marked, "look here")],
        results={number: str(10 * number) for number in range(1, rounds + 1)},
        results_label="result",
    )


def panel(shown: Timeline) -> Any:
    with own_style():
        ax = Figure().subplots()
        draw(ax, shown, (len(names_shown(shown)), len(rounds_shown(shown))), 0.66, {"look here": "*"}, "turn")
    return ax


def texts(ax: Any) -> list[tuple[float, float, str]]:
    return [(*text.get_position(), text.get_text()) for text in ax.texts]


def drawn(study: Study) -> Figure:
    [spec] = [spec for spec in study.figures if spec.kind == "timeline"]
    with own_style():
        return timelines(study, spec)[0]


# What the stag hunt tells


def test_words_actions_and_points_stand_by_player_and_round() -> None:
    found = told(hunt("hbh", "sss", "shs", "h-h", words=[["yes", "trust", "stag"], ["a", "b", None], ["c", "d", "e"]]))
    assert list(found.agents) == ["agent_1", "agent_3", "agent_2"]  # the Byzantine player last
    assert found.framed == {"agent_2"}
    assert found.cells["agent_1", 1] == TimelineCell("Hunt Stag", "yes")
    assert found.cells["agent_2", 2] == TimelineCell("Hunt Hare", "b")
    assert found.cells["agent_3", 2] == TimelineCell("Hunt Stag", "–")  # no word
    assert found.cells["agent_2", 3] == TimelineCell("idle", "d")
    assert found.results == {1: "10", 2: "0", 3: "–"}


def test_the_first_betrayal_and_what_it_changed_are_marked() -> None:
    found = told(hunt("hbhb", "ssss", "shsh", "shsh", "shhs"))
    betrayed, changed = "first betrayal", "first other word or action of a player that saw one"
    assert list(found.marks) == [
        Mark("agent_2", 2, betrayed),
        Mark("agent_4", 2, betrayed),
        Mark("agent_3", 4, changed),
    ]
    later = told(hunt("hbhb", "ssss", "shss", "ssss", "sssh"))
    assert list(later.marks) == [Mark("agent_2", 2, betrayed)]  # agent_4 betrays only in round 4
    assert told(hunt("hbh", "sss", "ssh")).marks == ()


def test_without_cheap_talk_cells_have_no_words() -> None:
    found = told(hunt("hh", "sh", cheap_talk=False))
    assert {cell.text for cell in found.cells.values()} == {""}


# How it is drawn


def test_a_cell_has_the_color_hatch_and_word_of_its_agent_and_round() -> None:
    ax = panel(timeline(marked=2))
    cells = {
        (p.get_x() + 0.5, p.get_y() + 0.5): p for p in ax.patches if isinstance(p, Rectangle) and p.get_width() == 1
    }
    assert len(cells) == 6
    assert {at for at, p in cells.items() if p.get_hatch() == "//"} == set(cells)
    rgb = tuple(int(COLORS["idle"][i : i + 2], 16) / 255 for i in (1, 3, 5))
    assert [at for at, p in cells.items() if p.get_facecolor()[:3] == pytest.approx(rgb)] == [(1, 0)]
    assert (2, 1, "word") in texts(ax)
    assert (2, 2, "20") in texts(ax)  # the results stand below
    assert [label.get_text() for label in ax.get_yticklabels()] == ["agent_1", "agent_2", "result"]
    [frame] = [p for p in ax.patches if p.get_width() == 3]
    assert frame.get_y() == 0.5  # around the second row
    [mark] = ax.lines
    assert (mark.get_marker(), round(mark.get_xdata()[0]), round(mark.get_ydata()[0])) == ("*", 2, 1)


def test_what_does_not_fit_is_cut() -> None:
    assert fitted("stag", 0.56) == "stag"
    assert fitted("cooperation", 0.56) == "cooperat…"
    assert fitted("中文中文中文", 0.56) == "中文中文…"  # twice as wide
    assert fitted("a\n\u202eb\x1b[31m", 5) == "a b[31m"


def test_long_games_show_the_rounds_of_the_first_mark() -> None:
    assert rounds_shown(timeline(rounds=3)) == range(1, 4)
    assert rounds_shown(timeline(rounds=100)) == range(1, 16)
    assert rounds_shown(timeline(rounds=100, marked=15)) == range(1, 16)
    assert rounds_shown(timeline(rounds=100, marked=50)) == range(48, 63)
    assert rounds_shown(timeline(rounds=100, marked=99)) == range(86, 101)
    ax = panel(timeline(rounds=100, marked=50))
    assert {x for x, _, _ in texts(ax)} == set(range(48, 63))


def test_of_many_agents_those_that_stand_out_are_shown() -> None:
    names = names_shown(timeline(agents=50))
    assert (len(names), names[0], names[-1]) == (20, "agent_1", "agent_50")


# Drawn from a study


@pytest.mark.slow
def test_a_study_s_timelines_are_drawn_and_twice_alike(study_factory: StudyFactory) -> None:
    study = played(study_factory(HUNTERS, game="stag_hunt", seeds=2, parameters={"rounds": 3}))
    figures(study)
    path = paths.figure(study.name, "timeline", ".svg")
    first = path.read_bytes()
    text = " ".join(" ".join(ElementTree.parse(path).getroot().itertext()).split())
    for words in (
        *(
            "4 of 8 simulations shown: the lowest 2 seeds of 2 of 4 conditions",
            "In the cells: what was said.",
            "grim_trigger",
            "b=1",
            "seed 0",
            "stag pays",
        ),
        *("hunts the stag", "hunts the hare", "Byzantine player", "first betrayal", "round"),
    ):
        assert words in text
    assert "b=0" not in text  # nothing happens there
    assert "idle" not in text  # nobody was
    assert "are cut" not in text
    figures(study)
    assert path.read_bytes() == first


def test_a_panel_is_as_high_as_its_agents_need(study_factory: StudyFactory) -> None:
    study = study_factory({**HUNTERS, "n": [3, 8], "b": 1, "model": "grim_trigger"}, game="stag_hunt", seeds=1)
    figure = drawn(played(study))
    _, height = figure.get_size_inches()
    panels = [ax for ax in figure.axes if ax.get_visible()]
    rows = [ax.get_position().height * height / (len(ax.get_yticks())) for ax in panels]
    assert [len(ax.get_yticks()) for ax in panels] == [4, 9]  # with the line of the results
    assert rows == pytest.approx([0.2, 0.2], abs=0.002)


@pytest.mark.slow
def test_many_conditions_long_games_and_long_words_stay_on_the_page(study_factory: StudyFactory) -> None:
    grid = {
        **HUNTERS,
        "n": [3, 25],
        "byzantine": {"name": "betray", "from_round": 30, "word": "coordination"},
        "vary": {"needed": ["all", 3]},
    }
    study = played(study_factory(grid, game="stag_hunt", seeds=1, parameters={"rounds": 40, "history_rounds": 1}))
    [spec] = [spec for spec in study.figures if spec.kind == "timeline"]
    with own_style():
        pages = timelines(study, spec)
    panels = [(figure, ax) for figure in pages for ax in figure.axes if ax.get_visible()]
    assert len(panels) == 4
    said = " ".join(text.get_text() for text in pages[0].texts)
    assert "At most 15 rounds are shown" in said
    assert "At most 20 agents are shown." in said
    assert "are cut" in said
    for figure, ax in panels:
        renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for label in ax.get_yticklabels():
            assert label.get_window_extent(renderer).x0 >= 0
        for text in ax.texts:
            assert text.get_window_extent(renderer).width < 0.68 * figure.dpi  # within its cell


def test_shared_modules_name_no_game() -> None:
    source = Path(figures_timeline.__file__).read_text()
    assert not re.search(r"consensus|deliberation|stag.hunt|honest|byzantine", source, re.IGNORECASE)
