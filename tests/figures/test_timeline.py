"""Timelines: what stands in the cells, what is marked, and what is left out where there is no room."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from parley.figures.single_games import fitted, names_shown, rounds_shown, timelines
from parley.figures.style import Look, own_style
from parley.games.evidence import Mark, State, Timeline, TimelineCell
from parley.games.stag_hunt.game import StagHuntGame
from parley.study import Study
from support.figures import panels_of, recorded, study_of, text_of
from support.playing import HUNTERS, Hunted, hunt


def told(hunted: Hunted) -> Timeline:
    return StagHuntGame.evidence.timeline(hunted.outcome.as_json(), hunted.outcome.as_json()["trace"])


def timeline(agents: int = 2, rounds: int = 3, marked: int | None = None) -> Timeline:
    """Return a timeline in which the last agent stands out."""
    names = [f"agent_{index + 1}" for index in range(agents)]
    return Timeline(
        agents={name: name for name in names},
        framed=frozenset(names[-1:]),
        framed_label="odd one",
        cells={(name, number): TimelineCell("did", "word") for name in names for number in range(1, rounds + 1)},
        states=[State("did", "did it", "#112233", "//")],
        marks=[] if marked is None else [Mark(names[-1], marked, "look here")],
        results={},
        results_label="",
    )


def drawn(study: Study) -> list[Figure]:
    [spec] = [spec for spec in study.figures if spec.kind == "timeline"]
    with own_style():
        return timelines(study, spec)


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
    silent = told(hunt("hh", "sh", cheap_talk=False))
    assert {cell.text for cell in silent.cells.values()} == {""}


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


# How it is drawn


def test_what_does_not_fit_is_cut() -> None:
    assert fitted("stag", 0.56) == "stag"
    assert fitted("cooperation", 0.56) == "cooperat…"
    assert fitted("中文中文中文", 0.56) == "中文中文…"  # twice as wide
    assert fitted("a\n\u202eb\x1b[31m", 5) == "a b[31m"


def test_long_games_show_the_rounds_of_the_first_mark_and_many_agents_those_that_stand_out() -> None:
    rows = [(None, range(1, 16)), (15, range(1, 16)), (50, range(48, 63)), (99, range(86, 101))]
    with own_style(Look("page")):
        assert [rounds_shown(timeline(rounds=100, marked=marked)) for marked, _ in rows] == [
            shown for _, shown in rows
        ]
    assert rounds_shown(timeline(rounds=100)) == range(1, 12)  # on a narrow screen
    names = names_shown(timeline(agents=50))
    assert (len(names), names[0], names[-1]) == (20, "agent_1", "agent_50")


# Drawn from a study


@pytest.mark.slow
def test_many_agents_long_games_and_long_words_stay_on_the_page() -> None:
    late = {"name": "betray", "from_round": 16, "word": "coordination"}
    grid = {**HUNTERS, "model": "grim_trigger", "n": [3, 25], "byzantine": late}
    content = {"game": "stag_hunt", "seeds": 1, "parameters": {"rounds": 18, "history_rounds": 1}}
    pages = drawn(recorded(study_of(grid, name="long", **content)))
    panels = [(page, ax) for page in pages for ax in panels_of(page)]
    assert len(panels) == 2
    for words in ("At most 11 rounds are shown", "At most 20 agents are shown", "are cut"):
        assert words in text_of(pages[0])
    for page, ax in panels:
        renderer: Any = page.canvas.get_renderer()  # type: ignore[attr-defined]
        assert min(label.get_window_extent(renderer).x0 for label in ax.get_yticklabels()) >= 0
        widest = max(text.get_window_extent(renderer).width for text in ax.texts)
        assert widest < 0.68 * page.dpi  # within its cell
