"""The facts of networks, compared with closed forms and with networkx; and who sees whom, by name."""

from collections.abc import Sequence

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.network.graph import Facts, Links, Network

pytestmark = pytest.mark.promise("Facts of networks are those that networkx finds.")


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Any undirected simple graph of up to twelve agents."""
    n = draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    return Network.of_edges(n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


def facts_by_networkx(graph: "networkx.Graph[int]") -> Facts:
    connected = networkx.is_connected(graph)
    return Facts(
        diameter=networkx.diameter(graph) if connected else None,
        connectivity=networkx.node_connectivity(graph),
        edges=graph.number_of_edges(),
        components=networkx.number_connected_components(graph),
    )


@given(networks(), st.data())
def test_a_network_is_what_networkx_finds_and_so_is_each_part_of_it(network: Network, data: st.DataObject) -> None:
    n = len(network.masks)
    graph = networkx.empty_graph(n)
    graph.add_edges_from((a, b) for a in range(n) for b in network.neighbors(a))
    assert not list(networkx.selfloop_edges(graph))
    assert all(sorted(graph[agent]) == list(network.neighbors(agent)) for agent in range(n))  # they are mutual
    assert network.facts() == facts_by_networkx(graph)
    agents = data.draw(st.lists(st.sampled_from(range(n)), unique=True, min_size=1))
    part, place = network.among(agents), {agent: index for index, agent in enumerate(agents)}
    assert part == Network.of_edges(len(agents), ((place[a], place[b]) for a, b in graph.subgraph(agents).edges))
    assert set(network.component(agents[0])) == networkx.node_connected_component(graph, agents[0])


def cliques(size: int, shared: Sequence[tuple[int, int]]) -> "networkx.Graph[int]":
    """Two cliques, and for each of `shared` an agent with so many neighbors in the one and in the other."""
    graph = networkx.disjoint_union(networkx.complete_graph(size), networkx.complete_graph(size))
    for agent, (left, right) in enumerate(shared, start=2 * size):
        graph.add_edges_from((agent, peer) for peer in (*range(left), *range(size, size + right)))
    return graph


def test_larger_and_sparser_networks_and_small_cuts_are_as_networkx_finds_them() -> None:
    small_cuts = [
        cliques(8, [(3, 3), (8, 8)]),  # the agent with the fewest neighbors is in the only small cut
        cliques(5, [(4, 5)]),  # all ways of an agent lead over one and the same
        cliques(6, [(5, 6), (6, 5)]),
    ]
    assert [networkx.node_connectivity(graph) for graph in small_cuts] == [2, 1, 2]
    random = [networkx.gnp_random_graph(n, p, seed=1) for n in (15, 25, 40) for p in (0.1, 0.2, 0.5, 0.9)]
    for graph in [*small_cuts, *random]:
        assert Network.of_edges(len(graph), graph.edges).facts() == facts_by_networkx(graph), graph.edges


def test_links_are_by_name_and_traced_once_where_somebody_is_hidden() -> None:
    names = ["ann", "bob", "cid"]
    links = Links(names, Network.of_edges(3, [(0, 1)]))
    assert [links.neighbors(name) for name in names] == [("bob",), ("ann",), ()]
    assert [links.seen_by(name) for name in names] == [{"ann", "bob"}, {"ann", "bob"}, {"cid"}]
    assert links.trace(1) == {"neighbors": {"ann": ["bob"], "bob": ["ann"], "cid": []}}
    assert links.trace(2) == Links(names, Network.complete(3)).trace(1) == {}
    facts = Links(names, Network.of_edges(3, [(0, 1), (1, 2)])).facts(["ann", "cid"])
    assert (facts["edges"], facts["components"], facts["honest_edges"], facts["honest_components"]) == (2, 1, 0, 2)


def test_facts_of_complete_graphs_of_nobody_too() -> None:
    complete = {0: Facts(None, None, 0, 0), 1: Facts(0, 0, 0, 1), 2: Facts(1, 1, 1, 1), 8: Facts(1, 7, 28, 1)}
    assert {n: Network.complete(n).facts() for n in complete} == complete
