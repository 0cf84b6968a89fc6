"""Topologies and equivocation in the consensus game; who is shown what is in test_asks.py."""

import json
from collections.abc import Mapping
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Group, new_game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.policies import SCRIPTED
from parley.games.network.topology import build
from parley.identity import stream
from parley.play.runner import Play
from parley.policies.kinds import BY_MODEL, ChosenPolicy, PolicyKind, PolicyParameters
from parley.policies.parsing import parse_reply
from support.playthrough import by_hand


def scripted(name: str) -> ChosenPolicy:
    return ChosenPolicy(SCRIPTED[name], SCRIPTED[name].Parameters())


def agents(honest: int, byzantine: int = 0, policy: str = "majority") -> list[Group]:
    """Return a group of honest agents and one of Byzantine ones, both scripted."""
    found = [Group("honest", honest, scripted(policy)), Group("byzantine", byzantine, scripted("random"))]
    return [group for group in found if group.count]


def consensus(*seated: Group, seed: int = 0, prompt: str = "may_exist", **parameters: Any) -> ConsensusGame:
    game = new_game(ConsensusGame, ConsensusGame.Parameters.model_validate(parameters), seated, prompt, seed)
    assert isinstance(game, ConsensusGame)
    return game


def graph_of(game: ConsensusGame) -> "networkx.Graph[str]":
    """Return the network by name, straight from the game: agent k is agent_{k + 1}."""
    graph = networkx.empty_graph(len(game.seats))
    graph.add_edges_from((k, peer) for k in graph for peer in game.network.neighbors(k))
    return networkx.relabel_nodes(graph, {k: f"agent_{k + 1}" for k in graph})


def played(*seated: Group, **parameters: Any) -> tuple[ConsensusGame, Play]:
    game = consensus(*seated, **parameters)
    return game, by_hand(game)


# The network of a simulation


def test_the_network_follows_from_seed_and_size_and_changes_neither_names_nor_values() -> None:
    random = {"kind": "erdos_renyi", "p": 0.5}
    games = [consensus(*agents(8 - b, b), seed=4, topology=random) for b in (0, 1, 4)]
    assert len({game.network for game in games}) == 1
    topology = ConsensusGame.Parameters.model_validate({"topology": random}).topology
    assert games[0].network == build(topology, 8, stream("topology", 4, 8))
    assert consensus(*agents(8), seed=5, topology=random).network != games[0].network
    shapes = [consensus(*agents(6, 2), seed=4, topology=topology) for topology in ("complete", "ring", "star")]
    assert len({game.seats for game in shapes}) == 1
    assert len({tuple(agent.initial_value for agent in game.agents) for game in shapes}) == 1


def test_a_byzantine_agent_is_in_the_middle_of_a_star_as_often_as_anywhere() -> None:
    games = [consensus(*agents(3, 1), seed=seed, topology="star") for seed in range(400)]
    middle = sum(not game.agents[0].honest for game in games)
    assert abs(middle - 100) < 4 * (400 * 0.25 * 0.75) ** 0.5


@settings(max_examples=10)
@given(st.integers(0, 100))
def test_the_facts_are_metrics_of_the_whole_and_of_the_honest_part(seed: int) -> None:
    topology = {"kind": "watts_strogatz", "k": 4, "p": 0.2}
    game, play = played(*agents(6, 2), seed=seed, topology=topology, max_rounds=1)
    graph, metrics = graph_of(game), play.outcome.metrics
    for prefix, part in (("", graph), ("honest_", graph.subgraph(agent.name for agent in game.honest))):
        connected = networkx.is_connected(part)
        assert metrics[f"{prefix}diameter"] == (networkx.diameter(part) if connected else None)
        assert metrics[f"{prefix}connectivity"] == networkx.node_connectivity(part)
        assert metrics[f"{prefix}edges"] == part.number_of_edges()
        assert metrics[f"{prefix}components"] == networkx.number_connected_components(part)


def test_the_text_of_the_network_is_part_of_the_identity_where_it_is_told() -> None:
    silent, told = (ConsensusGame.Parameters(disclose_topology=disclosed) for disclosed in (False, True))
    without = ConsensusGame.prompts.digests("may_exist", ["honest"], silent)
    with_it = ConsensusGame.prompts.digests("may_exist", ["honest"], told)
    assert set(with_it) - set(without) == {"honest_network"}
    assert {name: with_it[name] for name in without} == without


def test_a_network_that_cannot_be_is_refused_before_a_game_is_made() -> None:
    rows: list[tuple[Any, int]] = [("ring", 2), ({"kind": "edges", "edges": [[1, 9]]}, 8)]
    for topology, n in rows:
        parameters = ConsensusGame.Parameters.model_validate({"topology": topology})
        with pytest.raises(UsageError, match=f"{n} agents: "):
            ConsensusGame.check(parameters, agents(n))


# Equivocation


def test_only_byzantine_agents_that_may_equivocate_have_a_field_for_it() -> None:
    plain = {"internal_strategy", "value", "public_reasoning"}
    strategist = ChosenPolicy(PolicyKind("strategist", "", needs="equivocation"), PolicyParameters())
    rows = [(scripted("random"), {"peer_values"}), (strategist, {"peer_values"}), (BY_MODEL, set())]
    for policy, more in rows:
        for equivocation in (False, True):
            game = consensus(Group("honest", 2, policy), Group("byzantine", 1, policy), equivocation=equivocation)
            offered = {ask.role: set(ask.reply_model.model_fields) for ask in next(game.play())}
            assert offered == {"honest": plain, "byzantine": plain | (more if equivocation else set())}


def test_a_policy_that_needs_equivocation_is_refused_without_it() -> None:
    needy = ChosenPolicy(PolicyKind("needy", "", needs="equivocation"), PolicyParameters())
    with pytest.raises(UsageError, match=r"byzantine: needy: .*equivocation: true"):
        ConsensusGame.check(ConsensusGame.Parameters(), [*agents(3), Group("byzantine", 1, needy)])
    ConsensusGame.check(ConsensusGame.Parameters(equivocation=True), [*agents(3), Group("byzantine", 1, needy)])
    ConsensusGame.check(ConsensusGame.Parameters(), [*agents(3), Group("byzantine", 0, needy)])


def test_values_for_peers_are_parsed_strictly() -> None:
    game = consensus(*agents(3, 1), equivocation=True, topology="ring", seed=1)
    ask = next(ask for ask in next(game.play()) if ask.role == "byzantine")
    [stranger] = {agent.name for agent in game.agents} - {ask.agent, *ask.view.neighbors}
    peer = ask.view.neighbors[0]
    rows: list[tuple[Any, str | None]] = [
        ({"agent_9": 3}, "invalid_json"),
        ({ask.agent: 3}, "invalid_json"),
        ({stranger: 3}, "invalid_json"),
        ({peer: 51}, "out_of_range"),
        ({peer: -1}, "out_of_range"),
        *(({peer: wrong}, "invalid_json") for wrong in ("3", "stop", 3.0, None)),
        ([3], "invalid_json"),
        (None, "invalid_json"),
        *((told, None) for told in ({peer: 3}, {peer: "abstain"}, {})),
    ]
    for told, failure in rows:
        reply = {"internal_strategy": "", "value": 7, "public_reasoning": "", "peer_values": told}
        assert parse_reply(json.dumps(reply), "stop", ask.reply_model).failure == failure, told
    schema = ask.reply_model.model_json_schema()
    assert tuple(schema["properties"]["peer_values"]["properties"]) == ask.view.neighbors
    assert schema["required"] == ["internal_strategy", "value", "public_reasoning"]


# Information travels one link a round


@st.composite
def connected(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    """A connected network as a study lists it: a random tree and some more links; agents are numbered from 1."""
    n = draw(st.integers(2, 12))
    links = {(draw(st.integers(1, b - 1)), b) for b in range(2, n + 1)}
    pairs = [(a, b) for b in range(2, n + 1) for a in range(1, b)]
    links |= set(draw(st.lists(st.sampled_from(pairs), max_size=n)))
    return n, [list(link) for link in sorted(links)]


@settings(max_examples=30)
@given(connected(), st.integers(0, 1000))
def test_a_value_floods_a_connected_network_in_as_many_rounds_as_it_is_wide(
    network: tuple[int, list[list[int]]], seed: int
) -> None:
    n, links = network
    topology = {"kind": "edges", "edges": links}
    game, play = played(*agents(n, policy="minimum"), topology=topology, seed=seed, max_rounds=n + 2, stop_threshold=1)
    outcome, graph = play.outcome, graph_of(game)
    initial: Mapping[str, int] = outcome.metrics["initial_values"]
    sources = [name for name, value in initial.items() if value == min(initial.values())]
    away = networkx.multi_source_dijkstra_path_length(graph, set(sources))
    # What is proposed in round r + 1 is what r rounds of exchange have brought.
    assert outcome.metrics["first_unanimity_round"] == max(away.values()) + 1
    assert outcome.metrics["first_unanimity_round"] <= outcome.metrics["diameter"] + 1
    assert (outcome.name, outcome.metrics["consensus_value"]) == ("valid_consensus", min(initial.values()))
