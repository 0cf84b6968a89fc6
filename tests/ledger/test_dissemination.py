"""The counts are those of a simulation that sends the messages one by one, and bytes those of documented messages."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.games.network import Network
from parley.identity import canonical_json
from parley.ledger.block import sign_session
from parley.ledger.build import ANNOUNCE_BYTES, REQUEST_BYTES, Spread, spread, traffic
from support.records import GAME, SIMULATIONS, session

pytestmark = pytest.mark.promise("Messages of dissemination are those of a simulation that sends them one by one.")

PATH4 = Network.of_edges(4, [(0, 1), (1, 2), (2, 3)])


def sent_one_by_one(network: Network, speaker: int) -> Spread:
    """Send every message, step by step, and count."""
    n = len(network.neighbors)
    has = {speaker}
    announces = requests = step = last = 0
    fresh = deque([(speaker, -1)])
    while fresh:
        step += 1
        heard: dict[int, int] = {}  # who lacks the data -> whom it asks
        for agent, source in sorted(fresh):
            for peer in network.neighbors[agent]:
                if peer != source:
                    announces += 1
                    if peer not in has:
                        heard.setdefault(peer, agent)
        fresh.clear()
        for peer, source in heard.items():
            requests += 1
            has.add(peer)
            fresh.append((peer, source))
            last = step
    return Spread(announces, requests, last, n - len(has))


EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1]), max_size=15)


@settings(max_examples=60)
@given(EDGES, st.integers(0, 6))
def test_messages_are_those_of_a_simulation_that_sends_them(edges: list[tuple[int, int]], speaker: int) -> None:
    network = Network.of_edges(7, edges)
    assert spread(network, speaker) == sent_one_by_one(network, speaker)


def test_bytes_are_the_sizes_of_the_documented_messages() -> None:
    signed = sign_session(GAME, SIMULATIONS[0], 0, session((1,), agents=("agent_1",)))
    [said] = signed.utterances
    data = {"data": {**said.model_dump(), "simulation": SIMULATIONS[0], "session": 0}}
    size = len(canonical_json(data))
    assert traffic(PATH4, ["agent_2", "agent_1", "agent_3", "agent_4"], signed) == {
        "announce_messages": 3,
        "announce_bytes": 3 * len('{"announce":"' + "0" * 64 + '"}'),
        "request_messages": 3,
        "request_bytes": 3 * len('{"request":"' + "0" * 64 + '"}'),
        "data_messages": 3,
        "data_bytes": 3 * size,
        "flood_bytes": 3 * size,
        "hops": 2,
        "unreached": 0,
    }
    assert (ANNOUNCE_BYTES, REQUEST_BYTES) == (79, 78)
