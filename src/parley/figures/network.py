"""Networks: a few single simulations as strips of small graphs, with who hears whom and the state of each agent.

A strip has the first round, the last one, and of the others those in which most agents changed. Agents keep their
places from graph to graph. Colors and words come from the game's timeline; no game is known here.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from parley.figures.page import evenly, pages, room
from parley.figures.single_games import few, legend_of, panels_of, read_played
from parley.figures.style import GRAY
from parley.games.evidence import FigureSpec, Timeline
from parley.games.network import Network
from parley.play.record import read_summary
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import one_line

_MAX_PANELS = 4
_MAX_ROUNDS = 6
_CELL = 0.93  # least inches of a graph with what stands above it
_ABOVE, _AROUND = 0.17, 0.22  # inches above a graph for its round, and around it for its outermost agents
_LARGEST, _SMALLEST, _WRITTEN = 13.0, 2.5, 9.0  # points: diameters of agents, and the least that has room for a text
_SHORT = 3  # characters that an agent has room for
_SOME_LINKS, _MANY_LINKS = 100, 1000  # that are drawn thinner; and as pixels, so that files stay small
_FILLED = 0.75  # of the least distance of two agents: the size of an agent
_UNKNOWN: dict[str, Any] = {"facecolor": "white", "edgecolor": "#BBBBBB", "linewidth": 0.6}
_KNOWN: dict[str, Any] = {"edgecolor": "#333333", "linewidth": 0.6}
_OF_STATE = {"facecolor": "color", "hatch": "hatch"}
_FRAME: dict[str, Any] = {"edgecolor": "black", "marker": "s"}
_WORD: dict[str, Any] = {"ha": "center", "va": "center_baseline", "size": 6, "zorder": 3}
_LINK: dict[str, Any] = {"color": "#999999"}
_ARROW: dict[str, Any] = {"arrowstyle": "-|>", "color": "#666666", "linewidth": 0.6, "mutation_scale": 6}
_LAID_OUT_WELL = 150  # agents up to which a layout takes a second or two
_CROWDED = 0.6  # of the room between agents on a circle

Points = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class _Game:
    """A simulation that is drawn: its agents' places in [-1, 1], their links, what it tells, and the rounds shown."""

    points: Points
    links: Sequence[tuple[str, str]]
    one_way: Sequence[tuple[str, str]]  # those of them that link a speaker to who hears it
    timeline: Timeline
    rounds: Sequence[int]


def networks(study: Study, spec: FigureSpec) -> list[Figure]:
    """Draw a strip of graphs for each of a few simulations; raises RecordError if a record cannot be read."""
    chosen, notes = few(study, spec, _MAX_PANELS, attacked=True)
    games = [_read(study, simulation) for simulation in chosen]
    in_a_row = max(2, min(_MAX_ROUNDS, int(room() / _CELL + 1e-6)))
    cell = room() / in_a_row
    columns = evenly(max(len(game.rounds) for game in games), in_a_row)
    width = cell * columns
    texts, more = _texts(games)
    draw = partial(_strip, cell=cell, columns=columns, rounds_are=study.game.evidence.round_name)
    draws = [partial(draw, game=game, texts=words) for game, words in zip(games, texts, strict=True)]
    heights = [cell * math.ceil(len(game.rounds) / columns) for game in games]
    panels = panels_of(study, chosen, draws, width, heights)
    beside = max(1, int(room() / width + 1e-6))
    return pages(study, spec, panels, (width, max(heights)), notes + more, _legend(games), columns=beside)


def _read(study: Study, simulation: Simulation) -> _Game:
    """Return what is drawn of a simulation; whom its game does not tell apart, roles do."""
    outcome, trace = read_played(study, simulation)
    material = read_summary(simulation.record(study.name)).simulation.get("material")
    game = replace(simulation, recorded=material).game()
    timeline = study.game.evidence.timeline(outcome, trace)
    names = [seat.name for seat in game.seats]
    apart = [seat for seat in game.seats if seat.role != game.roles[0]]
    if apart and not timeline.framed:
        label = ", ".join(dict.fromkeys(f"{seat.role.capitalize()} agent" for seat in apart))
        timeline = replace(timeline, framed=frozenset(seat.name for seat in apart), framed_label=label)
    rounds = rounds_shown(timeline)
    cells = {place: cell for place, cell in timeline.cells.items() if place[1] in rounds and place[0] in names}
    places = layout(game.network)
    heard = [(a, b) for a in range(len(names)) for b in game.network.neighbors[a]]  # a hears b
    links = [(names[a], names[b]) for a, b in heard if a < b or (b, a) not in heard]
    one_way = [(names[b], names[a]) for a, b in heard if (b, a) not in heard]
    return _Game(
        dict(zip(names, places, strict=True)), links, one_way, replace(timeline, cells=cells, marks=()), rounds
    )


def rounds_shown(timeline: Timeline) -> list[int]:
    """Return the rounds of a strip: the first, the last, and of the others those in which most agents changed."""
    rounds = sorted({number for _, number in timeline.cells})
    if len(rounds) <= 2:
        return rounds
    changes = {}
    for before, number in pairwise(rounds[:-1]):
        now, then = ({name: timeline.cells.get((name, at)) for name in timeline.agents} for at in (number, before))
        if changed := sum(now[name] != then[name] for name in timeline.agents):
            changes[number] = changed
    most = sorted(changes, key=lambda number: (-changes[number], number))[: _MAX_ROUNDS - 2]
    return sorted({rounds[0], *most, rounds[-1]})


def _texts(games: Sequence[_Game]) -> tuple[list[dict[tuple[str, int], str]], list[str]]:
    """Return what stands in the agents by name and round, what they said if it is short, else numbers; and notes."""
    words = [{place: one_line(cell.text) for place, cell in game.timeline.cells.items()} for game in games]
    notes = ["Who is linked hears each other." if not any(g.one_way for g in games) else "Arrows point to who hears."]
    lengths = [len(text) for texts in words for text in texts.values()]
    if max(lengths, default=0) in range(1, _SHORT + 1):
        notes.append("In the circles: what each agent said or holds.")
    else:
        words = [
            {(name, at): m[0] for name in game.points for at in game.rounds if (m := re.search(r"\d{1,3}$", name))}
            for game in games
        ]
        if any(words):
            notes.append("In the circles: the numbers of the agents.")
    left_out = (max(game.rounds) - min(game.rounds) + 1 > len(game.rounds) for game in games if game.rounds)
    if any(left_out):
        notes.append("Rounds shown: the first, the last, and of the others those in which most agents changed.")
    return words, notes


def _strip(
    ax: Axes, game: _Game, texts: Mapping[tuple[str, int], str], cell: float, columns: int, rounds_are: str
) -> None:
    """Draw the graphs of one simulation side by side, in coordinates that are inches."""
    ax.set_xlim(0, columns * cell)
    ax.set_ylim(math.ceil(len(game.rounds) / columns) * cell, 0)
    ax.set_axis_off()
    ax.set_aspect("equal")
    radius = (cell - _ABOVE - _AROUND) / 2
    diameter = min(_LARGEST, max(_SMALLEST, _FILLED * 72 * radius * spacing(game.points.values())))
    inset = max(0, columns - len(game.rounds)) * cell / 2
    for place, number in enumerate(game.rounds):
        left, top = inset + place % columns * cell, place // columns * cell
        middle = (left + cell / 2, top + _ABOVE + (cell - _ABOVE) / 2)
        at = {name: (middle[0] + radius * x, middle[1] - radius * y) for name, (x, y) in game.points.items()}
        ax.text(middle[0], top, f"{rounds_are} {number}", ha="center", va="top", size=7, color=GRAY)
        _graph(ax, game, number, at, texts, diameter)


def _graph(
    ax: Axes, game: _Game, number: int, at: Points, texts: Mapping[tuple[str, int], str], diameter: float
) -> None:
    ends = [(*at[a], *at[b]) for a, b in game.links]
    along_x = [x for x1, _, x2, _ in ends for x in (x1, x2, math.nan)]
    along_y = [y for _, y1, _, y2 in ends for y in (y1, y2, math.nan)]
    width = 0.8 if len(ends) < _SOME_LINKS else 0.25
    ax.plot(along_x, along_y, **_LINK, linewidth=width, zorder=1, rasterized=len(ends) > _MANY_LINKS)
    for speaker, hearer in game.one_way:
        (x, y), (to_x, to_y) = at[speaker], at[hearer]  # the head stops short of the agent
        ax.annotate("", ((x + 3 * to_x) / 4, (y + 3 * to_y) / 4), (x, y), arrowprops=_ARROW, zorder=1)
    states = {state.name: state for state in game.timeline.states}
    alike: dict[tuple[str | None, bool], list[str]] = {}
    for name in at:
        cell = game.timeline.cells.get((name, number))
        alike.setdefault((cell.state if cell else None, name in game.timeline.framed), []).append(name)
    for (state, framed), names in alike.items():
        look = _UNKNOWN if state is None else _KNOWN | {a: getattr(states[state], b) for a, b in _OF_STATE.items()}
        if framed:
            look = look | _FRAME | {"linewidth": min(1.5, 0.16 * diameter)}
        size = 0.92 * diameter if framed else diameter
        xs, ys = ([at[name][axis] for name in names] for axis in (0, 1))
        ax.scatter(xs, ys, size**2, **look, zorder=2)
        ground = {"facecolor": look["facecolor"], "edgecolor": "none", "pad": 0.2}
        for name in names if diameter >= _WRITTEN and state else ():
            ax.text(*at[name], texts.get((name, number), ""), **_WORD, bbox=ground)


def _legend(games: Sequence[_Game]) -> list[Artist]:
    legend, _ = legend_of([game.timeline for game in games])
    if any((name, at) not in game.timeline.cells for game in games for name in game.points for at in game.rounds):
        legend.append(Patch(**_UNKNOWN, label="nothing known of it"))
    if any(len(game.one_way) < len(game.links) for game in games):
        legend.append(Line2D([], [], **_LINK, label="hear each other"))
    if any(game.one_way for game in games):
        legend.append(Line2D([], [], **_LINK, marker=">", markersize=3, label="points to who hears"))
    return legend


# Where agents stand: about as far apart as they are in links, or on a circle


def layout(network: Network) -> list[tuple[float, float]]:
    """Return a place in [-1, 1] for each agent: by distances in links, or on a circle if these would crowd it."""
    import networkx as nx  # a quarter of a second, which studies without networks need not take

    n = len(network.neighbors)
    graph = nx.empty_graph(n)
    graph.add_edges_from((a, b) for a in range(n) for b in network.neighbors[a])
    places = _places(nx.circular_layout(graph))
    if n <= _LAID_OUT_WELL and not network.is_complete and not network.is_one_way and nx.is_connected(graph):
        # From a circle, a grid would end tangled.
        fitting = _places(nx.kamada_kawai_layout(graph, pos=nx.spring_layout(graph, seed=0)))
        if spacing(fitting) > _CROWDED * spacing(places):
            places = fitting
    # The last digits are not the same on every machine.
    return [(round(float(x), 3) + 0.0, round(float(y), 3) + 0.0) for x, y in places]


def _places(layout: Mapping[int, Any]) -> Any:
    """Return the places of a layout as an array, which fill [-1, 1] in one direction."""
    places = np.array([layout[agent] for agent in range(len(layout))])
    places = places - (places.min(axis=0) + places.max(axis=0)) / 2
    return places / (np.abs(places).max() or 1.0)


def spacing(places: Any) -> float:
    """Return the least distance of two places; 2 for a single one."""
    return min((math.dist(a, b) for a, b in combinations(places, 2)), default=2.0)
