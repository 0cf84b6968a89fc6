"""Who hears whom: how a study says it (topologies), the networks drawn from that, and their facts.

A topology is a name (`ring`), or a kind with its parameters (`{kind: watts_strogatz, k: 4, p: 0.1}`). Networks are
simple undirected graphs. They are drawn and measured by networkx, which is imported where it is needed: its import
takes longer than many a scripted game.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from parley.columns import Column
from parley.errors import UsageError
from parley.text.yamlfile import ByModel, StrictModel

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Facts:
    """What is recorded of a network; None where not everyone reaches everyone, and without any agent."""

    diameter: int | None
    connectivity: int | None
    edges: int
    components: int


@dataclass(frozen=True)
class Network:
    """A simple graph on the agents 0 ... n - 1: `neighbors[i]` are those that i hears, in order, and that hear i."""

    neighbors: tuple[tuple[int, ...], ...]

    @classmethod
    def complete(cls, n: int) -> "Network":
        """Return the network of `n` agents in which everyone hears everyone."""
        return cls(tuple(tuple(peer for peer in range(n) if peer != agent) for agent in range(n)))

    @classmethod
    def of_edges(cls, n: int, edges: Iterable[tuple[int, int]]) -> "Network":
        """Return the network of `n` agents with these links, pairs of agents."""
        heard: list[set[int]] = [set() for _ in range(n)]
        for a, b in edges:
            heard[a].add(b)
            heard[b].add(a)
        return cls(tuple(tuple(sorted(peers)) for peers in heard))

    @property
    def is_complete(self) -> bool:
        """Whether everyone hears everyone."""
        return all(len(peers) == len(self.neighbors) - 1 for peers in self.neighbors)

    def among(self, agents: Sequence[int]) -> "Network":
        """Return the part of the network that links `agents`, who are counted anew in the order given."""
        place = {agent: index for index, agent in enumerate(agents)}
        links = ((place[peer], place[agent]) for agent in agents for peer in self.neighbors[agent] if peer in place)
        return Network.of_edges(len(agents), links)

    def component(self, agent: int) -> list[int]:
        """Return the agents that an agent reaches over any number of links, itself among them, in order."""
        return sorted(set().union(*self.layers(agent)))

    @lru_cache(maxsize=10_000)  # noqa: B019  networks without chance are the same in every game
    def facts(self) -> Facts:
        """Return its facts; those of a complete network follow from its size."""
        n = len(self.neighbors)
        if not n:
            return Facts(None, None, 0, 0)
        if self.is_complete:
            return Facts(min(1, n - 1), n - 1, n * (n - 1) // 2, 1)
        import networkx as nx

        graph = nx.empty_graph(n)
        graph.add_edges_from((peer, agent) for agent, peers in enumerate(self.neighbors) for peer in peers)
        parts = nx.number_connected_components(graph)
        diameter = nx.diameter(graph) if parts == 1 else None
        return Facts(diameter, nx.node_connectivity(graph), graph.number_of_edges(), parts)

    def layers(self, agent: int) -> Iterator[set[int]]:
        """Yield the agents at distance 0, 1, 2, ... from one."""
        reached, layer = {agent}, {agent}
        while layer:
            yield layer
            layer = {peer for each in layer for peer in self.neighbors[each]} - reached
            reached |= layer


# Of the whole network, and of the part of it that links honest agents.
FACTS = tuple(
    Column(f"{of}{name}", "int64", text, unit)
    for of in ("", "honest_")
    for name, text, unit in (
        ("diameter", "longest shortest path of the network (of honest agents); missing if not connected", "links"),
        ("connectivity", "fewest agents whose loss cuts the network (of honest agents) apart", "agents"),
        ("edges", "links of the network (of honest agents)", "links"),
        ("components", "connected parts of the network (of honest agents)", ""),
    )
)


class Links:
    """Who sees whom; agent k of the network is the k-th of `names`."""

    def __init__(self, names: Sequence[str], network: Network) -> None:
        self._names = tuple(names)
        self._network = network
        self._neighbors = {
            name: tuple(self._names[peer] for peer in network.neighbors[place])
            for place, name in enumerate(self._names)
        }
        self._seen = {name: frozenset((name, *peers)) for name, peers in self._neighbors.items()}

    def neighbors(self, name: str) -> tuple[str, ...]:
        """Return whom an agent sees, in the agents' order; they see it."""
        return self._neighbors[name]

    def seen_by(self, name: str) -> frozenset[str]:
        """Return whom an agent sees, itself among them."""
        return self._seen[name]

    def facts(self, honest: Collection[str]) -> dict[str, int | None]:
        """Return the metrics of the network, and of the part of it that links honest agents."""
        whole = self._network.facts()
        places = [place for place, name in enumerate(self._names) if name in honest]
        part = whole if len(places) == len(self._names) else self._network.among(places).facts()
        return asdict(whole) | {f"honest_{name}": value for name, value in asdict(part).items()}

    def trace(self, number: int) -> dict[str, dict[str, list[str]]]:
        """Return the links for the trace of round 1; nothing later, nor where everyone sees everyone."""
        if number != 1 or self._network.is_complete:
            return {}
        return {"neighbors": {name: list(peers) for name, peers in self._neighbors.items()}}


# Topologies


_Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Number = Annotated[int, Field(ge=1, le=10_000)]


class _Topology(StrictModel):
    """What every topology has; the other fields of a kind are its parameters."""

    kind: str

    @property
    def label(self) -> str:
        """A readable name for paths and tables: the kind and its parameters."""
        parameters = [(name, getattr(self, name)) for name in type(self).model_fields if name != "kind"]
        return "-".join([self.kind, *(f"{name}-{value}" for name, value in parameters)])

    def __str__(self) -> str:
        return self.label


class Complete(_Topology):
    """Everyone hears everyone: the paper's."""

    kind: Literal["complete"] = "complete"


class Ring(_Topology):
    """Each agent has two neighbors, in a circle."""

    kind: Literal["ring"] = "ring"


class Star(_Topology):
    """One agent hears all others, who hear it alone."""

    kind: Literal["star"] = "star"


class PathGraph(_Topology):
    """A ring that is cut open."""

    kind: Literal["path"] = "path"


class GridGraph(_Topology):
    """Rows and columns, as nearly square as the number of agents allows: 12 stand in 3 rows of 4."""

    kind: Literal["grid"] = "grid"


def _rows(n: int) -> int:
    return next(rows for rows in range(isqrt(n), 0, -1) if n % rows == 0)


class RandomRegular(_Topology):
    """Every agent has `degree` neighbors, at random."""

    kind: Literal["random_regular"] = "random_regular"
    degree: _Number = Field(description="Neighbors of each agent.")


class WattsStrogatz(_Topology):
    """Small world: a ring of `k` nearest neighbors, each link of which is moved with probability `p`."""

    kind: Literal["watts_strogatz"] = "watts_strogatz"
    k: _Number = Field(multiple_of=2, description="Nearest neighbors in the ring, an even number.")
    p: _Probability = Field(description="Probability that a link is moved.")


class BarabasiAlbert(_Topology):
    """Scale-free: agents come one by one, each linked to `m` that are there, rather to those with many links."""

    kind: Literal["barabasi_albert"] = "barabasi_albert"
    m: _Number = Field(description="Links of each agent that comes.")


class ErdosRenyi(_Topology):
    """Each link is there with probability `p`; the network may fall apart."""

    kind: Literal["erdos_renyi"] = "erdos_renyi"
    p: _Probability = Field(description="Probability of each link.")


Topology = Annotated[
    Complete | Ring | Star | PathGraph | GridGraph | RandomRegular | WattsStrogatz | BarabasiAlbert | ErdosRenyi,
    ByModel("topology", alone=Literal["complete", "ring", "star", "path", "grid"]),
]


def check_topology(topology: Topology, n: int) -> None:
    """Raise UsageError, in one line with the remedy, if there is no such network of `n` agents."""
    problem = ""
    match topology:
        case Ring() if n < 3:
            problem = "a ring needs 3; use path"
        case GridGraph() if _rows(n) == 1:
            problem = "they make a single row; use path, or a number that is a product"
        case RandomRegular(degree=degree) if degree >= n:
            problem = f"nobody can have {degree} neighbors; lower degree"
        case RandomRegular(degree=degree) if degree * n % 2:
            problem = f"an odd number cannot have {degree} neighbors each; change one"
        case WattsStrogatz(k=k) if k >= n:
            problem = f"nobody can have {k} neighbors; lower k"
        case BarabasiAlbert(m=m) if m >= n:
            problem = f"nobody can come with {m} links; lower m"
    if problem:
        raise UsageError(f"topology: {topology.label}, {n} agents: {problem}")


def draw_network(topology: Topology, n: int, rng: "np.random.Generator") -> Network:
    """Return the network of `n` agents (at least one), drawn with `rng`; raises UsageError if there is none."""
    check_topology(topology, n)
    if isinstance(topology, Complete):
        return Network.complete(n)
    import networkx as nx

    seed = int(rng.integers(2**32))
    match topology:
        case Ring():
            graph = nx.cycle_graph(n)
        case Star():  # around node 0
            graph = nx.star_graph(n - 1)
        case PathGraph():
            graph = nx.path_graph(n)
        case GridGraph():  # its nodes are pairs, row by row
            graph = nx.grid_2d_graph(_rows(n), n // _rows(n))
        case RandomRegular(degree=degree):  # Steger and Wormald
            graph = nx.random_regular_graph(degree, n, seed=seed)
        case WattsStrogatz(k=k, p=p):
            graph = nx.watts_strogatz_graph(n, k, p, seed=seed)
        case BarabasiAlbert(m=m):
            graph = nx.barabasi_albert_graph(n, m, seed=seed)
        case ErdosRenyi(p=p):
            graph = nx.gnp_random_graph(n, p, seed=seed)
    place = {node: index for index, node in enumerate(sorted(graph))}
    return Network.of_edges(n, ((place[a], place[b]) for a, b in graph.edges))
