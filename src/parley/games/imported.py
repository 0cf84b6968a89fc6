"""Who sat where, and who saw whom, in a game that was played elsewhere: the record keeps it as its material."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parley.games.network.graph import Network
from parley.text import by_number

_KEY = "imported"


@dataclass(frozen=True)
class Seating:
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


def split_material(material: Any) -> tuple[Seating | None, Any]:
    """Return the seating of an imported game, None of one that Parley played, and the game's own material."""
    if not isinstance(material, Mapping) or _KEY not in material:
        return None, material
    found = material[_KEY]
    links = None if found["links"] is None else [(str(a), str(b)) for a, b in found["links"]]
    return Seating(dict(found["roles"]), dict(found["players"]), links), material["material"]
