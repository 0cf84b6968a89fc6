"""Networks: who is linked, what state each agent has in which round, and which games have the figure."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from parley.figures import layout as figures_layout
from parley.figures import network as figures_network
from parley.figures.layout import layout, spacing
from parley.figures.network import networks, rounds_shown
from parley.figures.page import write
from parley.figures.style import Look, own_style
from parley.figures.trajectories import read_played
from parley.games.consensus.evidence import STATES
from parley.games.evidence import Timeline, TimelineCell
from parley.games.network.graph import Network
from parley.study import Study
from support.hunting import HUNTERS
from support.measured import played
from support.studies import StudyFactory

COLOR = {state.name: state.color.lower() for state in STATES}
RING: dict[str, Any] = {"vary": {"topology": ["complete", "ring", "star"]}, "n": 5, "b": [0, 1], "byzantine": "random"}


def drawn(study: Study, look: Look | None = None) -> list[Figure]:
    [spec] = [spec for spec in study.figures if spec.kind == "network"]
    with own_style(look):
        return networks(study, spec)


def strips(pages: list[Figure]) -> list[Axes]:
    return [ax for page in pages for ax in page.axes if ax.get_visible()]


def rounds_of(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text().startswith(("round", "turn"))]


def told(*rounds: str) -> Timeline:
    """Return a timeline of agents whose states in a round are letters, from round 0."""
    cells = {
        (f"agent_{i}", at): TimelineCell(state) for at, states in enumerate(rounds) for i, state in enumerate(states)
    }
    names = {name: name for name, _ in cells}
    return Timeline(names, frozenset(), "", cells, STATES, (), {}, "")


# Which rounds


def test_the_first_round_the_last_and_those_in_between_that_change_are_shown() -> None:
    assert rounds_shown(told("aa", "aa", "ab", "ab", "ab")) == [0, 2, 4]
    assert rounds_shown(told("aa")) == [0]
    assert rounds_shown(told("aa", "bb")) == [0, 1]
    # Of many changes the largest; of equal ones the earliest.
    many = told("aaa", "aab", "bba", "bbb", "bba", "aab", "bba", "bbb", "bbb")
    assert rounds_shown(many) == [0, 1, 2, 5, 6, 8]
    assert rounds_shown(told()) == []


# Where agents stand


def test_a_ring_is_a_circle_and_the_hub_of_a_star_its_middle() -> None:
    ring = layout(Network.of_edges(6, [(i, (i + 1) % 6) for i in range(6)]))
    assert spacing(ring) == pytest.approx(math.dist(ring[0], ring[1]), abs=0.02)
    star = layout(Network.of_edges(7, [(0, i) for i in range(1, 7)]))
    assert math.hypot(*star[0]) < 0.2 < min(math.hypot(*place) for place in star[1:])


GRAPHS = {
    **{"one": nx.empty_graph(1), "two": nx.path_graph(2), "path": nx.path_graph(20), "all": nx.complete_graph(9)},
    **{"apart": nx.disjoint_union_all([nx.path_graph(4)] * 3), "many": nx.cycle_graph(300)},
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_agents_stand_apart_in_any_network_and_twice_in_the_same_place(graph: nx.Graph) -> None:
    network = Network.of_edges(len(graph), graph.edges)
    places = layout(network)
    assert layout(network) == places
    assert max(max(map(abs, place)) for place in places) <= 1
    circle = 2 * math.sin(math.pi / len(places)) if len(places) > 1 else 0
    assert spacing(places) > 0.5 * circle


def test_a_grid_looks_like_one() -> None:
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
    places = layout(Network.of_edges(12, graph.edges))
    lengths = [math.dist(places[a], places[b]) for a, b in graph.edges]
    assert max(lengths) < 1.3 * min(lengths)


# What is drawn


def test_each_agent_has_the_color_of_its_state_and_links_join_those_who_hear_each_other(
    study_factory: StudyFactory,
) -> None:
    study = played(study_factory(RING, seeds=1, parameters={"max_rounds": 4}))
    pages = drawn(study)
    panels = strips(pages)
    titles = [ax.get_title() for ax in panels]
    assert ["topology=ring" in titles[0], "topology=star" in titles[1]] == [True, True]
    assert len(panels) == 2  # where everyone hears everyone there is no graph
    [ring, star] = panels
    assert rounds_of(ring)[0] == "round 0"
    for ax, links in ((ring, 5), (star, 4)):
        assert {len(line.get_xdata()) for line in ax.lines} == {3 * links}
        assert len(ax.lines) == len(rounds_of(ax))
    shown = next(s for s in study.simulations() if s.id in ring.title.get_url())
    game, (outcome, trace) = shown.game(), read_played(study, shown)
    cells = study.game.evidence.timeline(outcome, trace).cells
    number = int(rounds_of(ring)[-1].split()[1])
    left = ring.get_xlim()[1] * (1 - 1 / len(rounds_of(ring)))
    found = {
        (x, y): to_hex(points.get_facecolor()[0])
        for points in ring.collections
        for x, y in points.get_offsets()
        if x > left
    }
    xs, ys = zip(*found, strict=True)
    scale = max(max(xs) - min(xs), max(ys) - min(ys)) / 2
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    places = layout(game.network)
    at = {
        seat.name: min(found, key=lambda p, x=x, y=y: math.dist(p, (middle[0] + scale * x, middle[1] - scale * y)))  # type: ignore[misc]
        for seat, (x, y) in zip(game.seats, places, strict=True)
    }
    assert {name: found[place] for name, place in at.items()} == {
        name: COLOR[cells[name, number].state] for name in at
    }
    written = {text.get_position(): text.get_text() for text in ring.texts}
    assert all(written[place] == cells[name, number].text for name, place in at.items())
    [*line] = zip(*ring.lines[-1].get_data(), strict=True)
    drawn_links = {frozenset(line[start : start + 2]) for start in range(0, len(line), 3)}
    names = [seat.name for seat in game.seats]
    assert drawn_links == {
        frozenset({at[name], at[names[peer]]})
        for place, name in enumerate(names)
        for peer in game.network.neighbors(place)
    }


def test_byzantine_agents_are_squares_with_a_frame_and_unknown_before_they_speak(study_factory: StudyFactory) -> None:
    [ring, _] = strips(pages := drawn(played(study_factory(RING, seeds=1, parameters={"max_rounds": 2}))))
    squares = [points for points in ring.collections if points.get_linewidths()[0] > 1]
    assert sum(len(points.get_offsets()) for points in squares) == len(rounds_of(ring))  # one agent in each round
    assert to_hex(squares[0].get_facecolor()[0]) == "#ffffff"
    labels = [text.get_text() for text in pages[0].legends[0].get_texts()]
    assert {"Byzantine agent", "nothing known of it", "hear each other"} <= set(labels)
    assert "In the circles: what each agent said or holds." in pages[0].get_label()


def test_words_too_long_for_a_circle_give_way_to_numbers_of_agents(study_factory: StudyFactory) -> None:
    parameters = {"rounds": 4, "topology": "ring", "disclosure": "explicit"}
    study = played(study_factory({**HUNTERS, "n": 4}, game="stag_hunt", seeds=1, parameters=parameters))
    [*panels] = strips(pages := drawn(study))
    assert "In the circles: the numbers of the agents." in pages[0].get_label()
    written = {text.get_text() for text in panels[0].texts if not text.get_text().startswith("round")}
    assert written == {"1", "2", "3", "4"}


def test_roles_tell_apart_whom_the_game_does_not(study_factory: StudyFactory) -> None:
    grid = {"model": {"name": "solver", "accuracy": 0.7}, "n": 4, "b": 1, "byzantine": "stubborn", "prompt": "improve"}
    problems = {"kind": "arithmetic", "steps": 2, "digits": 1}
    study = study_factory(grid, game="deliberation", seeds=1, parameters={"topology": "ring", "problems": problems})
    played(study)
    [ax] = strips(pages := drawn(study))
    assert [x.get_text() for x in pages[0].legends[0].get_texts() if "Byzantine" in x.get_text()] == [
        "Byzantine agent"
    ]
    assert "turn" in rounds_of(ax)[0]


@pytest.mark.parametrize("width", ["column", "page"])
def test_many_agents_and_rounds_stay_on_the_page(study_factory: StudyFactory, width: str) -> None:
    grid = {
        "n": [4, 50],
        "vary": {"topology": ["ring", {"kind": "erdos_renyi", "p": 0.4}]},
    }
    look = Look(width)
    pages = drawn(played(study_factory(grid, seeds=1, parameters={"max_rounds": 9})), look)
    for page in pages:
        wide, high = page.get_size_inches()
        assert (wide, high <= 9) == (look.inches, True)
        for ax in strips([page]):
            assert len(rounds_of(ax)) <= 6
            for points in ax.collections:
                radius = math.sqrt(points.get_sizes()[0]) / 144 * page.dpi
                for x, y in ax.transData.transform(points.get_offsets()):
                    assert radius <= x <= wide * page.dpi - radius
                    assert radius <= y <= high * page.dpi - radius


# Which studies have it


def test_a_study_in_which_everyone_hears_everyone_has_no_such_figure(study_factory: StudyFactory) -> None:
    def kinds(**parameters: Any) -> set[str]:
        return {spec.kind for spec in study_factory(parameters=parameters).figures}

    assert "network" not in kinds()
    assert "network" in kinds(topology="ring")


def test_a_study_names_the_games_that_are_shown(study_factory: StudyFactory) -> None:
    named = {"network": [{"where": {"topology": "star", "b": 0}, "seeds": [1]}]}
    pages = drawn(played(study_factory(RING, seeds=2, parameters={"max_rounds": 2}, figures=named)))
    [ax] = strips(pages)
    assert "seed 1" in ax.get_title()
    assert "1 of 8 simulations shown: those that the study names." in pages[0].get_label()


def test_without_the_records_of_its_networks_the_figure_shows_others(study_factory: StudyFactory) -> None:
    study = played(study_factory(RING, seeds=1, parameters={"max_rounds": 2}))
    [spec] = [spec for spec in study.figures if spec.kind == "network"]
    left = tuple(condition for condition in study.conditions if condition.axes["topology"] == "complete")
    with own_style():  # as a study is drawn whose other records are damaged
        [ax] = strips(networks(dataclasses.replace(study, conditions=left), spec))
    assert {len(line.get_xdata()) for line in ax.lines} == {3 * 10}


def test_two_drawings_are_byte_identical(study_factory: StudyFactory, tmp_path: Path) -> None:
    study = played(study_factory({**RING, "b": 1}, seeds=1, parameters={"max_rounds": 3}))
    written = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        folder.mkdir()
        pages = drawn(study)
        with own_style():
            files = write(pages, lambda suffix, number: folder / f"{number}{suffix}")  # noqa: B023
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]


def test_shared_modules_name_no_game() -> None:
    for module in (figures_network, figures_layout):
        source = Path(module.__file__).read_text(encoding="utf-8")
        assert not re.search(r"consensus|deliberation|stag.hunt|honest|byzantine", source, re.IGNORECASE)
