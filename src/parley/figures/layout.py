"""Where the agents of a network stand in a figure: about as far apart as they are in links, or on a circle."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from parley.games.network import Network

_LAID_OUT_WELL = 150  # agents up to which a layout takes a second or two
_CROWDED = 0.6  # of the room between agents on a circle


def layout(network: Network) -> list[tuple[float, float]]:
    """Return a place in [-1, 1] for each agent of a network, in order: always the same for the same network.

    Agents stand on a circle where distances in links would crowd them, or do not exist.
    """
    import networkx as nx  # a quarter of a second, which studies without networks need not take

    n = len(network.masks)
    graph = nx.empty_graph(n)
    graph.add_edges_from((a, b) for a in range(n) for b in network.neighbors(a))
    circle = nx.circular_layout(graph)
    found = _places(circle)
    if n <= _LAID_OUT_WELL and not network.is_complete and nx.is_connected(graph):
        # It ends where the way from its start leads: of two, that is kept whose places fit the distances better.
        tried = [_places(nx.kamada_kawai_layout(graph, pos=at)) for at in (circle, nx.spring_layout(graph, seed=0))]
        fitting = min(tried, key=lambda places: round(_strain(network, places), 3))
        if spacing(fitting) > _CROWDED * spacing(found):
            found = fitting
    # The last digits are not the same on every machine.
    return [(round(float(x), 3) + 0.0, round(float(y), 3) + 0.0) for x, y in found]


def _places(layout: Mapping[int, Any]) -> Any:
    """Return the places of a layout as an array, which fill [-1, 1] in one direction."""
    places = np.array([layout[agent] for agent in range(len(layout))])
    places = places - (places.min(axis=0) + places.max(axis=0)) / 2
    return places / (np.abs(places).max() or 1.0)


def spacing(places: Any) -> float:
    """Return the least distance of two places; 2 for a single one."""
    return min((math.dist(a, b) for a, b in combinations(places, 2)), default=2.0)


def _strain(network: Network, places: Any) -> float:
    """Return how far places are from being as far apart as agents are in links, at the best scale."""
    ratios = [
        math.dist(places[a], places[b]) / far
        for a in range(len(places))
        for far, layer in enumerate(network.layers(a))
        for b in range(a)
        if layer >> b & 1
    ]
    return float(np.std(ratios) / np.mean(ratios))
