"""Who sits where, where a study says it (`seat`): the agents of the last role, and the hub of a star.

With `seat`, agents sit in the order in which the study lists them, around the adversaries, whose seats are drawn for
each seed among those that `seat` allows. So is who stands where in the network, if its places differ in their links: a
ring keeps the order of the agents, and a list of edges names agents by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parley.errors import UsageError
from parley.games.network import Edges, Network, Star, draw_network
from parley.games.parameters import GameParameters, Group
from parley.identity import stream
from parley.text import by_number

_MOST = "degree-most"
_FEWEST = "degree-fewest"


def players_of(parameters: GameParameters, groups: Sequence[Group], last_role: str) -> list[Group]:
    """Return the groups with as many agents as play: those who are replaced are taken from the last groups."""
    found = list(groups)
    if not parameters.replaces_honest:
        return found
    left = sum(group.count for group in groups if group.role == last_role)
    for place in reversed(range(len(found))):
        if found[place].role != last_role:
            gone = min(left, found[place].count)
            found[place] = replace(found[place], count=found[place].count - gone)
            left -= gone
    return found


def check_seat(parameters: GameParameters, groups: Sequence[Group], last_role: str) -> None:
    """Raise UsageError, in one line with the remedy, if the agents of the last role cannot sit as `seat` says.

    `groups` are those that play (`players_of`).
    """
    seat, topology = parameters.seat, parameters.topology
    if parameters.replaces_honest and seat is None:
        raise UsageError("replaces_honest: needs to know whose seats may be taken; set seat: any")
    if seat is None:
        return
    adversaries = sum(group.count for group in groups if group.role == last_role)
    n = sum(group.count for group in groups)
    if seat in ("hub", "spoke") and not isinstance(topology, Star):
        raise UsageError(f"seat: {seat}: topology {topology} has none; use star, or seat: {{degree: most}}")
    places = n - 1 if seat == "spoke" else 1 if seat == "hub" or seat.startswith("agent_") else n
    if adversaries > places:
        raise UsageError(
            f"seat: {seat}: has room for {places}, and there are {adversaries} {last_role} agents; lower b"
        )
    if seat.startswith("agent_") and by_number(seat)[1] > n:
        raise UsageError(f"seat: {seat}: there are {n} agents; name agent_1 to agent_{n}")


def seated(
    parameters: GameParameters, roles: Sequence[str], names: Sequence[str], seed: int, last_role: str
) -> tuple[list[tuple[str, int]], Network]:
    """Return the name of each agent that plays with its place in `roles`, and the network.

    `roles` are those of all who are listed, `names` the neutral names of those who play, as they were drawn. Draws of
    two values of `seat` agree as far as they can, so that conditions are paired.
    """
    n = len(names)
    rng = stream("topology", seed, n)
    network = draw_network(parameters.topology, n, rng)
    at: Sequence[int] = range(n)  # the agent that stands at each node, counted from 0
    if not isinstance(parameters.topology, Edges) and len({mask.bit_count() for mask in network.masks}) > 1:
        at = [int(place) for place in stream("seats", seed, n).permutation(n)]
        network = _moved(network, at)
    adversaries = [place for place, role in enumerate(roles) if role == last_role]
    in_turn = [by_number(name)[1] - 1 for name in reversed(names)]  # as they would sit without `seat`, the last first
    allowed = _allowed(parameters.seat or "any", network, at[0], in_turn)
    taken = allowed[: len(adversaries)]
    listed = [place for place, role in enumerate(roles) if role != last_role]
    free = [agent for agent in range(n) if agent not in taken]
    # Who is replaced does not play; else the listed ones fill the free seats in their order.
    honest = (
        [(agent, listed[agent]) for agent in free]
        if parameters.replaces_honest
        else list(zip(free, listed, strict=True))
    )
    pairs = sorted([*honest, *zip(taken, adversaries, strict=True)], key=lambda pair: pair[1])
    return [(f"agent_{agent + 1}", place) for agent, place in pairs], network


def _allowed(seat: str, network: Network, hub: int, in_turn: Sequence[int]) -> list[int]:
    """Return the seats of which the adversaries take the first."""
    if seat == "hub":
        return [hub]
    if seat == "spoke":
        return [agent for agent in in_turn if agent != hub]
    if seat in (_MOST, _FEWEST):
        sign = -1 if seat == _MOST else 1
        return sorted(in_turn, key=lambda agent: sign * network.masks[agent].bit_count())  # ties as they were drawn
    return list(in_turn) if seat == "any" else [by_number(seat)[1] - 1]


def _moved(network: Network, at: Sequence[int]) -> Network:
    """Return the network with agent `at[node]` at each node."""
    n = len(network.masks)
    pairs = [(at[node], at[peer]) for node in range(n) for peer in network.neighbors(node)]
    return Network.of_edges(n, pairs)


# Games that were played elsewhere: the record keeps who sat where as its material


_KEY = "imported"


@dataclass(frozen=True)
class ImportedSeating:
    """The agents of an imported game by name, with their roles; what played each, where that is known.

    `links` are pairs of agents who see each other; None is everyone. Agent k of the network is the k-th by name.
    """

    roles: Mapping[str, str]
    players: Mapping[str, str]
    links: Sequence[tuple[str, str]] | None

    def names(self, roles: Sequence[str]) -> list[str]:
        """Return the agents in the order of these `roles`; raises ValueError if they are others."""
        by_role = {role: [name for name, own in self.roles.items() if own == role] for role in {*roles}}
        if sorted(roles) != sorted(self.roles.values()):
            raise ValueError("its agents have other roles than its groups")
        return [by_role[role].pop(0) for role in roles]

    def network(self) -> Network:
        """Return who sees whom."""
        place = {name: index for index, name in enumerate(sorted(self.roles, key=by_number))}
        return Network.of_edges(len(place), ((place[a], place[b]) for a, b in self.links or ()))

    def as_material(self, own: Any) -> dict[str, Any]:
        """Return it as JSON, with the material that the game itself has."""
        links = None if self.links is None else [list(link) for link in self.links]
        return {_KEY: {"roles": dict(self.roles), "players": dict(self.players), "links": links}, "material": own}


def split_material(material: Any) -> tuple[ImportedSeating | None, Any]:
    """Return the seating of an imported game, None of one that Parley played, and the game's own material."""
    if not isinstance(material, Mapping) or _KEY not in material:
        return None, material
    found = material[_KEY]
    links = None if found["links"] is None else [(str(a), str(b)) for a, b in found["links"]]
    return ImportedSeating(dict(found["roles"]), dict(found["players"]), links), material["material"]
