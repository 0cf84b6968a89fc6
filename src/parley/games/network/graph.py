"""Who hears whom: an undirected simple graph of agents, and its facts.

Neighbors are kept as the bits of integers, on which all-pairs facts of some hundred agents take milliseconds;
networkx needs seconds for the connectivity of 300 agents. The tests compare both.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations, pairwise

from parley.columns import Column


@dataclass(frozen=True, slots=True)
class Facts:
    """What is recorded of a network.

    `diameter` is the longest of all shortest paths, in links, None if not everyone reaches everyone. `connectivity` is
    the number of agents whose loss may cut it apart (the vertex connectivity; n - 1 for a complete network of n).
    Both are None without any agent.
    """

    diameter: int | None
    connectivity: int | None
    edges: int
    components: int


@dataclass(frozen=True)
class Network:
    """An undirected simple graph on the agents 0 ... n - 1; bit j of `masks[i]` says that i and j are neighbors."""

    masks: tuple[int, ...]

    @classmethod
    def complete(cls, n: int) -> "Network":
        """Return the network of `n` agents in which everyone hears everyone."""
        everyone = (1 << n) - 1
        return cls(tuple(everyone ^ (1 << agent) for agent in range(n)))

    @classmethod
    def of_edges(cls, n: int, edges: Iterable[tuple[int, int]]) -> "Network":
        """Return the network of `n` agents with these links, each a pair of two agents."""
        masks = [0] * n
        for a, b in edges:
            masks[a] |= 1 << b
            masks[b] |= 1 << a
        return cls(tuple(masks))

    @cached_property
    def is_complete(self) -> bool:
        """Whether everyone hears everyone."""
        return self == Network.complete(len(self.masks))

    def neighbors(self, agent: int) -> Iterator[int]:
        """Yield the neighbors of an agent, in order."""
        return _bits(self.masks[agent])

    def among(self, agents: Sequence[int]) -> "Network":
        """Return the part of the network that links `agents`, who are counted anew in the order given."""
        place = {agent: index for index, agent in enumerate(agents)}
        kept = _mask(agents)
        return Network(tuple(_mask(place[peer] for peer in _bits(self.masks[agent] & kept)) for agent in agents))

    def component(self, agent: int) -> Iterator[int]:
        """Yield the agents that an agent reaches over any number of links, itself among them, in order."""
        return _bits(sum(self.layers(agent)))

    def facts(self) -> Facts:
        """Return its facts; those of a complete network follow from its size."""
        n = len(self.masks)
        if self.is_complete:
            known = None if n == 0 else n - 1
            return Facts(None if n == 0 else min(1, n - 1), known, n * (n - 1) // 2, min(1, n))
        components = self._components()
        return Facts(
            diameter=max(sum(1 for _ in self.layers(agent)) for agent in range(n)) - 1 if components == 1 else None,
            connectivity=self._connectivity() if components == 1 else 0,
            edges=sum(mask.bit_count() for mask in self.masks) // 2,
            components=components,
        )

    def layers(self, agent: int) -> Iterator[int]:
        """Yield the agents at distance 0, 1, 2, ... from one, as the bits of an integer each."""
        layer = unseen = 1 << agent
        unseen = ((1 << len(self.masks)) - 1) ^ layer
        while layer:
            yield layer
            reached = 0
            for peer in _bits(layer):
                reached |= self.masks[peer]
            layer = reached & unseen
            unseen ^= layer

    def _components(self) -> int:
        left, count = (1 << len(self.masks)) - 1, 0
        while left:
            left &= ~sum(self.layers(next(_bits(left))))
            count += 1
        return count

    def _connectivity(self) -> int:
        """Return the vertex connectivity of a connected network that is not complete.

        A smallest cut either spares the agent with the fewest neighbors, and parts it from an agent that is none of
        them, or holds it, and parts two of its neighbors (Esfahanian and Hakimi 1984, algorithm 1).
        """
        first = min(range(len(self.masks)), key=lambda agent: self.masks[agent].bit_count())
        fewest = self.masks[first].bit_count()
        others = ((1 << len(self.masks)) - 1) ^ self.masks[first] ^ (1 << first)
        pairs = [(first, other) for other in _bits(others)]
        pairs += [(a, b) for a, b in combinations(_bits(self.masks[first]), 2) if not self.masks[a] >> b & 1]
        for a, b in pairs:
            fewest = self._paths(a, b, fewest)
        return fewest

    def _paths(self, a: int, b: int, enough: int) -> int:
        """Return how many paths without a common agent join two that are no neighbors, but at most `enough`."""
        short = self._short_paths(a, b)
        if len(short) >= enough:
            return enough
        # Maximum flow (Ford and Fulkerson): who has n agents has 2n nodes, one where paths come in and one, n later,
        # where they go out; between both there is room for one path.
        n = len(self.masks)
        free = [1 << agent + n for agent in range(n)] + list(self.masks)
        for peers in short:
            _add(free, [a + n, *(node for peer in peers for node in (peer, peer + n)), b])
        for found in range(len(short), enough):
            if not (path := _room(free, a + n, b)):
                return found
            _add(free, path)
        return enough

    def _short_paths(self, a: int, b: int) -> list[list[int]]:
        """Return paths without a common agent between two: all that lead over one peer, and some over two."""
        shared = self.masks[a] & self.masks[b]
        paths = [[peer] for peer in _bits(shared)]
        left = self.masks[b] ^ shared
        for peer in _bits(self.masks[a] ^ shared):
            if met := self.masks[peer] & left:
                other = next(_bits(met))
                left ^= 1 << other
                paths.append([peer, other])
        return paths


def _room(free: list[int], source: int, sink: int) -> list[int]:
    """Return a path along which one more unit can flow, or []; bit j of `free[i]` says that i has room to j."""
    came_from: dict[int, int] = {}
    unseen = ((1 << len(free)) - 1) ^ (1 << source)
    queue = [source]
    for node in queue:
        reached = free[node] & unseen
        if reached >> sink & 1:
            path = [sink, node]
            while path[-1] != source:
                path.append(came_from[path[-1]])
            return path[::-1]
        unseen ^= reached
        for peer in _bits(reached):
            came_from[peer] = node
            queue.append(peer)
    return []


def _add(free: list[int], path: list[int]) -> None:
    """Let one unit flow along a path: what had room has none, and has it in the other direction."""
    for node, following in pairwise(path):
        free[node] ^= 1 << following
        free[following] ^= 1 << node


def _mask(agents: Iterable[int]) -> int:
    return sum(1 << agent for agent in agents)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


# By name, for every game that is played on a network


# Of the whole network, and of the part of it that links honest agents.
FACTS = tuple(
    Column(f"{of}{name}", "int64", f"{whose}: {text}", unit)
    for of, whose in (("", "network"), ("honest_", "network of honest agents"))
    for name, text, unit in (
        ("diameter", "longest of all shortest paths; missing if not connected", "links"),
        ("connectivity", "fewest agents whose loss cuts it apart", "agents"),
        ("edges", "links", "links"),
        ("components", "connected parts", ""),
    )
)


class Links:
    """Who sees whom; agent k of the network is the k-th of `names`."""

    def __init__(self, names: Sequence[str], network: Network) -> None:
        self._names = tuple(names)
        self._network = network
        self._neighbors = {
            name: tuple(self._names[peer] for peer in network.neighbors(place))
            for place, name in enumerate(self._names)
        }
        self._seen = {name: frozenset((name, *peers)) for name, peers in self._neighbors.items()}

    def neighbors(self, name: str) -> tuple[str, ...]:
        """Return whom an agent sees, and who sees it, in the agents' order."""
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
