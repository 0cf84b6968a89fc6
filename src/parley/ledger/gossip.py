"""Dissemination in two phases: hashes first, data on request (section VII.2).

Whoever has new data announces its hash to all neighbors but the one it got the data from. A neighbor that lacks the
data asks the first announcer for it, once, and gets it. All links take the same time, so data moves on in steps.
Messages are counted, not sent: the counts follow from the network alone, the sizes from the messages' canonical JSON.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from parley.games.network.graph import Network
from parley.identity import canonical_json
from parley.ledger.block import SignedSession

_HASH_DIGITS = 2 * hashlib.sha256().digest_size
ANNOUNCE_BYTES = len(canonical_json({"announce": "0" * _HASH_DIGITS}))
REQUEST_BYTES = len(canonical_json({"request": "0" * _HASH_DIGITS}))
_AROUND_DATA = len(canonical_json({"data": None})) - len(canonical_json(None))


@dataclass(frozen=True)
class Spread:
    """How data spread from one agent: messages by kind, the steps until the last one had it, who never had it."""

    announces: int
    requests: int
    data: int
    hops: int
    unreached: int


def spread(network: Network, speaker: int) -> Spread:
    """Return how data spreads from `speaker`, in [0, n), over the network."""
    announces = reached = hops = 0
    for distance, layer in enumerate(network.layers(speaker)):
        hops = distance
        for agent in range(len(network.masks)):
            if layer >> agent & 1:
                reached += 1
                # To everyone but the one it came from; the speaker has it from nobody.
                announces += network.masks[agent].bit_count() - (distance > 0)
    asked = reached - 1
    return Spread(announces, asked, asked, hops, len(network.masks) - reached)


@dataclass(frozen=True)
class Traffic:
    """What the utterances of one session cost a network.

    `flood_bytes` is what they would cost if everyone sent the data where it now announces the hash. `hops` is the most
    that an utterance took; `unreached` counts, over all utterances, the agents that never got one.
    """

    announce_messages: int = 0
    announce_bytes: int = 0
    request_messages: int = 0
    request_bytes: int = 0
    data_messages: int = 0
    data_bytes: int = 0
    flood_bytes: int = 0
    hops: int = 0
    unreached: int = 0

    def and_one(self, found: Spread, size: int) -> "Traffic":
        """Return it with one more utterance, whose message with the data has `size` bytes."""
        return Traffic(
            announce_messages=self.announce_messages + found.announces,
            announce_bytes=self.announce_bytes + found.announces * ANNOUNCE_BYTES,
            request_messages=self.request_messages + found.requests,
            request_bytes=self.request_bytes + found.requests * REQUEST_BYTES,
            data_messages=self.data_messages + found.data,
            data_bytes=self.data_bytes + found.data * size,
            flood_bytes=self.flood_bytes + found.announces * size,
            hops=max(self.hops, found.hops),
            unreached=self.unreached + found.unreached,
        )


def traffic(network: Network, nodes: Sequence[str], signed: SignedSession) -> Traffic:
    """Return what it costs to bring every utterance of a session to all agents of the network.

    `nodes[k]` is the name of the network's agent k. Raises ValueError if somebody speaks who is not among them.
    """
    places = {name: node for node, name in enumerate(nodes)}
    spreads: dict[str, Spread] = {}
    total = Traffic()
    for said in signed.utterances:
        if said.agent not in places:
            raise ValueError(f"{said.agent} speaks and is not in the network")
        if said.agent not in spreads:
            spreads[said.agent] = spread(network, places[said.agent])
        size = _AROUND_DATA + len(said.sent(signed.simulation, signed.number))
        total = total.and_one(spreads[said.agent], size)
    return total
