"""Networks: who is linked, what state each agent has in which round, and which games have the figure."""

import math
from collections import Counter
from typing import Any

import networkx as nx
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from parley.figures.network import layout, networks, rounds_shown, spacing
from parley.figures.single_games import read_played
from parley.figures.style import own_style
from parley.games.consensus.evidence import STATES
from parley.games.evidence import Timeline, TimelineCell
from parley.games.network import Network
from parley.study import Study
from support.figures import panels_of, recorded, study_of

pytestmark = pytest.mark.promise("The network figure shows who hears whom and each agent's state.")

COLOR = {state.name: state.color.lower() for state in STATES}
RING: dict[str, Any] = {"vary": {"topology": ["complete", "ring", "star"]}, "n": 5, "b": [0, 1], "byzantine": "random"}


def drawn(study: Study) -> list[Figure]:
    spec = next(spec for spec in study.game.evidence.figures if spec.kind == "network")
    with own_style():
        return networks(study, spec)


def rounds_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text().startswith(("round", "turn"))]


def told(*rounds: str) -> Timeline:
    """Return a timeline of agents whose states in a round are letters, from round 0."""
    cells = {
        (f"agent_{i}", at): TimelineCell(state) for at, states in enumerate(rounds) for i, state in enumerate(states)
    }
    names = {name: name for name, _ in cells}
    return Timeline(names, frozenset(), "", cells, STATES, (), {}, "")


def test_the_first_round_the_last_and_those_in_between_that_change_are_shown() -> None:
    assert rounds_shown(told("aa", "aa", "ab", "ab", "ab")) == [0, 2, 4]
    assert rounds_shown(told("aa")) == [0]
    # Of many changes the largest; of equal ones the earliest.
    many = told("aaa", "aab", "bba", "bbb", "bba", "aab", "bba", "bbb", "bbb")
    assert rounds_shown(many) == [0, 1, 2, 5, 6, 8]
    assert rounds_shown(told()) == []


# Where agents stand


@pytest.mark.slow
def test_agents_stand_apart_in_any_network_and_twice_in_the_same_place() -> None:
    for graph in (
        *(nx.empty_graph(1), nx.path_graph(20), nx.complete_graph(9), nx.cycle_graph(100)),
        nx.disjoint_union_all([nx.path_graph(4)] * 3),
    ):
        network = Network.of_edges(len(graph), graph.edges)
        places = layout(network)
        assert layout(network) == places
        assert max(max(map(abs, place)) for place in places) <= 1
        circle = 2 * math.sin(math.pi / len(places)) if len(places) > 1 else 0
        assert spacing(places) > 0.5 * circle, graph


# What is drawn


@pytest.mark.slow
def test_each_agent_has_the_color_of_its_state_and_links_join_those_who_hear_each_other() -> None:
    rings = recorded(study_of(RING, seeds=2, parameters={"max_rounds": 4}, name="rings"))
    panels = panels_of(drawn(rings))
    titles = [ax.get_title() for ax in panels]
    # Where everyone hears everyone there is no graph.
    assert [("topology=ring" in title, "topology=star" in title) for title in titles] == [(True, False)] * 2 + [
        (False, True)
    ] * 2
    ring = panels[0]
    assert rounds_of(ring)[0] == "round 0"
    for ax, links in zip(panels, (5, 5, 4, 4), strict=True):
        assert {len(line.get_xdata()) for line in ax.lines} == {3 * links}
        assert len(ax.lines) == len(rounds_of(ax))
    shown = next(s for s in rings.simulations() if s.id in ring.title.get_url())
    cells = rings.game.evidence.timeline(*read_played(rings, shown)).cells
    number, last = int(rounds_of(ring)[-1].split()[1]), ring.lines[-1]
    agents = [
        (at, to_hex(points.get_facecolor()[0]))
        for points in ring.collections
        for at in map(tuple, points.get_offsets())
        if at in zip(*last.get_data(), strict=True)
    ]
    told = [cells[seat.name, number] for seat in shown.game().seats]
    texts = {text.get_position(): text.get_text() for text in ring.texts}
    assert Counter((color, texts[at]) for at, color in agents) == Counter((COLOR[c.state], c.text) for c in told)
    # On a ring everyone is linked with two others.
    ends = [at for at in zip(*last.get_data(), strict=True) if not math.isnan(at[0])]
    assert set(Counter(ends).values()) == {2}


# Which studies have it, and which games it shows


def test_a_study_in_which_everyone_hears_everyone_has_no_such_figure() -> None:
    kinds = [{spec.kind for spec in study_of(parameters=p).figures} for p in ({}, {"topology": "ring"})]
    assert ["network" in each for each in kinds] == [False, True]
