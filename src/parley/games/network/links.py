"""Who sees whom by name, for every game that is played on a network."""

from collections.abc import Collection, Sequence
from dataclasses import asdict

from parley.columns import Column
from parley.games.network.graph import Network

# Of the whole network, and of the part of it that links honest agents.
FACTS = tuple(
    Column(f"{of}{name}", "int64", f"{text}, of {whose}", unit)
    for of, whose in (("", "the network"), ("honest_", "the part of it that links honest agents"))
    for name, text, unit in (
        ("diameter", "longest of all shortest paths; missing if not everyone reaches everyone", "links"),
        ("connectivity", "how many agents must be lost to cut it apart", "agents"),
        ("edges", "number of links", "links"),
        ("components", "number of parts that are not linked", ""),
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
