"""The facts of networks, compared with closed forms and with networkx."""

from collections.abc import Sequence

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.network.graph import Facts, Network


@st.composite
def networks(draw: st.DrawFn, most: int = 12) -> Network:
    """Any undirected simple graph."""
    n = draw(st.integers(1, most))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    return Network.of_edges(n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


def graph_of(network: Network) -> "networkx.Graph[int]":
    graph = networkx.empty_graph(len(network.masks))
    graph.add_edges_from((a, b) for a in range(len(network.masks)) for b in network.neighbors(a))
    return graph


def facts_by_networkx(graph: "networkx.Graph[int]") -> Facts:
    connected = networkx.is_connected(graph)
    return Facts(
        diameter=networkx.diameter(graph) if connected else None,
        connectivity=networkx.node_connectivity(graph),
        edges=graph.number_of_edges(),
        components=networkx.number_connected_components(graph),
    )


@given(networks())
def test_facts_are_those_that_networkx_finds(network: Network) -> None:
    assert network.facts() == facts_by_networkx(graph_of(network))


@pytest.mark.parametrize("n", [15, 25, 40])
@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_facts_of_larger_random_networks_are_those_that_networkx_finds(n: int, p: float, seed: int) -> None:
    graph = networkx.gnp_random_graph(n, p, seed=seed)
    assert Network.of_edges(n, graph.edges).facts() == facts_by_networkx(graph)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("degree", [3, 4, 5])
def test_facts_of_sparse_regular_networks_are_those_that_networkx_finds(degree: int, seed: int) -> None:
    graph = networkx.random_regular_graph(degree, 26, seed=seed)
    assert Network.of_edges(26, graph.edges).facts() == facts_by_networkx(graph)


def cliques(size: int, shared: Sequence[tuple[int, int]]) -> "networkx.Graph[int]":
    """Two cliques, and for each of `shared` an agent with so many neighbors in the one and in the other."""
    graph = networkx.disjoint_union(networkx.complete_graph(size), networkx.complete_graph(size))
    for agent, (left, right) in enumerate(shared, start=2 * size):
        graph.add_edges_from((agent, peer) for peer in (*range(left), *range(size, size + right)))
    return graph


@pytest.mark.parametrize(
    ("graph", "connectivity"),
    [
        (cliques(8, [(3, 3), (8, 8)]), 2),  # the agent with the fewest neighbors is in the only small cut
        (cliques(5, [(4, 5)]), 1),  # all ways of an agent lead over one and the same
        (cliques(6, [(5, 6), (6, 5)]), 2),
    ],
)
def test_a_small_cut_is_found_wherever_it_is(graph: "networkx.Graph[int]", connectivity: int) -> None:
    assert Network.of_edges(len(graph), graph.edges).facts().connectivity == connectivity
    assert networkx.node_connectivity(graph) == connectivity


@pytest.mark.parametrize(
    ("graph", "facts"),
    [
        (networkx.petersen_graph(), Facts(diameter=2, connectivity=3, edges=15, components=1)),
        (networkx.hypercube_graph(4), Facts(diameter=4, connectivity=4, edges=32, components=1)),
        (networkx.cycle_graph(9), Facts(diameter=4, connectivity=2, edges=9, components=1)),
        (networkx.path_graph(9), Facts(diameter=8, connectivity=1, edges=8, components=1)),
        (networkx.star_graph(8), Facts(diameter=2, connectivity=1, edges=8, components=1)),
        (networkx.complete_bipartite_graph(3, 5), Facts(diameter=2, connectivity=3, edges=15, components=1)),
        (networkx.barbell_graph(5, 0), Facts(diameter=3, connectivity=1, edges=21, components=1)),
        (networkx.disjoint_union(networkx.complete_graph(3), networkx.complete_graph(2)), Facts(None, 0, 4, 2)),
        (networkx.empty_graph(3), Facts(None, 0, 0, 3)),
    ],
)
def test_facts_of_well_known_graphs(graph: "networkx.Graph[int]", facts: Facts) -> None:
    plain = networkx.convert_node_labels_to_integers(graph)
    assert Network.of_edges(len(plain), plain.edges).facts() == facts


@pytest.mark.parametrize(
    ("n", "facts"),
    [
        (0, Facts(None, None, 0, 0)),
        (1, Facts(0, 0, 0, 1)),
        (2, Facts(1, 1, 1, 1)),
        (8, Facts(1, 7, 28, 1)),
    ],
)
def test_facts_of_a_complete_network_follow_from_its_size(n: int, facts: Facts) -> None:
    assert Network.complete(n).is_complete
    assert Network.complete(n).facts() == facts


@given(networks())
def test_neighbors_are_mutual_and_nobody_is_its_own(network: Network) -> None:
    for agent in range(len(network.masks)):
        assert agent not in network.neighbors(agent)
        assert all(agent in network.neighbors(peer) for peer in network.neighbors(agent))


@given(networks(), st.data())
def test_a_part_of_a_network_has_the_links_between_its_agents(network: Network, data: st.DataObject) -> None:
    agents = data.draw(st.lists(st.sampled_from(range(len(network.masks))), unique=True))
    part = network.among(agents)
    linked = [[b in network.neighbors(a) for b in agents] for a in agents]
    assert [[b in part.neighbors(a) for b in range(len(agents))] for a in range(len(agents))] == linked
