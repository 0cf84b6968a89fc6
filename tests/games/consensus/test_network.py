"""Who sees what: topologies and equivocation in the consensus game."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Group, Outcome
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.state import ConsensusView
from parley.games.network.topology import build
from parley.identity import digest, stream
from parley.policies import Ask
from parley.policies.kinds import BY_MODEL, ChosenPolicy, PolicyKind, PolicyParameters
from parley.policies.parsing import parse_reply
from support.networked import agents, consensus, made_up, play_scripted, scripted

PATH_OF_4 = {"kind": "edges", "edges": [[1, 2], [2, 3], [3, 4]]}
TOPOLOGIES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["complete", "path", "star"]),
    st.builds(lambda p: {"kind": "erdos_renyi", "p": p}, st.sampled_from([0.1, 0.3, 0.6])),
)


def neighbors_of(game: ConsensusGame) -> dict[str, set[str]]:
    """Return the neighbors by name, straight from the network: agent k is agent_{k + 1}."""
    n = len(game.seats)
    return {f"agent_{k + 1}": {f"agent_{peer + 1}" for peer in game.network.neighbors(k)} for k in range(n)}


def telltale(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Propose anything, with a reason that nobody else gives and that differs each round."""
    if view.phase == "vote":
        return {"decision": "continue"}
    value = int(rng.integers(view.value_min, view.value_max + 1))
    return {"internal_strategy": "note", "value": value, "public_reasoning": f"because <{view.agent}/{view.round}>"}


def two_faced(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Tell every neighbor a value of its own (1000 and what follows), and officially 7."""
    if view.phase == "vote":
        return {"decision": "continue"}
    told = {name: 1000 + place for place, name in enumerate(view.neighbors)}
    return {"internal_strategy": "", "value": 7, "public_reasoning": "seven", "peer_values": told}


def played(*groups: Group, **parameters: Any) -> tuple[ConsensusGame, list[Ask], Outcome]:
    game = consensus(*groups, **parameters)
    return (game, *play_scripted(game))


# Nothing of a stranger is ever seen


@given(st.integers(1, 7), st.integers(0, 2), TOPOLOGIES, st.integers(0, 50), st.integers(0, 3), st.booleans())
@pytest.mark.slow
def test_nothing_of_an_agent_that_is_no_neighbor_is_ever_in_an_ask(
    honest: int, byzantine: int, topology: Any, seed: int, history: int, disclosed: bool
) -> None:
    groups = [Group("honest", honest, made_up(telltale)), Group("byzantine", byzantine, made_up(telltale))]
    game, asked, _ = played(
        *(group for group in groups if group.count),
        topology=topology,
        seed=seed,
        history_rounds=history,
        max_rounds=4,
        value_max=1_000_000,
        value_min=100_000,
        disclose_topology=disclosed,
    )
    heard = neighbors_of(game)
    said = {ask.agent: ask.view.current_value for ask in asked if ask.phase == "vote"}
    assert len(said) == honest + byzantine
    seen: dict[str, set[str]] = {name: set() for name in heard}
    for ask in asked:
        text = ask.system + ask.user
        allowed = {ask.agent, *heard[ask.agent]}
        for name in heard:
            if f"<{name}/" in text or name in words(text):
                seen[ask.agent].add(name)
        assert seen[ask.agent] <= allowed
        assert set(ask.view.last_round) <= allowed
        assert set(ask.view.this_round) <= allowed
        assert set(ask.view.neighbors) == heard[ask.agent]
        if ask.phase == "vote":  # and all that it may see is there
            assert set(ask.view.this_round) == allowed
            assert all(f"<{name}/{ask.round}>" in ask.user for name in allowed)
            if history and ask.round > 1:
                assert all(f"<{name}/{ask.round - 1}>" in ask.user for name in allowed)
                assert set(ask.view.last_round) == allowed


def words(text: str) -> set[str]:
    """Return the words of a text: agent_1 is not in agent_10."""
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


@given(TOPOLOGIES, st.integers(0, 50))
def test_values_of_strangers_are_in_no_ask(topology: Any, seed: int) -> None:
    def own_number(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        """Propose a number that says whose it is."""
        if view.phase == "vote":
            return {"decision": "continue"}
        value = 10_000 * int(view.agent.removeprefix("agent_")) + view.round
        return {"internal_strategy": "", "value": value, "public_reasoning": "mine"}

    groups = [Group("honest", 6, made_up(own_number))]
    game, asked, _ = played(*groups, topology=topology, seed=seed, max_rounds=4, history_rounds=2, value_max=99_999)
    heard = neighbors_of(game)
    whose = {10_000 * place + number: f"agent_{place}" for place in range(1, 7) for number in range(1, 5)}
    shown = 0
    for ask in asked:
        numbers = {int(word) for word in words(ask.user) if word.isdigit()} - {ask.view.initial_value}
        owners = {whose[number] for number in numbers if number in whose}
        assert owners <= {ask.agent, *heard[ask.agent]}
        shown += len(owners)
    assert shown > 0


# The complete topology is the paper's game

FROZEN = [
    (
        {"prompt": "may_exist", "b": 2, "history_rounds": 1},
        "0b11a77c6cc51862352f9bef5b7d11ee9e6a4e2dc9ad554730cb00f91bef3a4b",
    ),
    (
        {"prompt": "none_exist", "b": 0, "history_rounds": 3},
        "4eae73697c3ae96235deda4d046bb7896d671d3e27824fec7b531e09bda3a195",
    ),
    (
        {"prompt": "may_exist", "b": 1, "history_rounds": 0},
        "23338e5521003dd6ca5f6556790d97803241033097966cd572cd440aa77c29dc",
    ),
]


@pytest.mark.parametrize("spelled", [{}, {"topology": "complete"}, {"topology": {"kind": "erdos_renyi", "p": 1}}])
@pytest.mark.parametrize(("given", "frozen"), FROZEN)
def test_a_complete_topology_asks_what_was_asked_before_there_were_topologies(
    spelled: dict[str, Any], given: dict[str, Any], frozen: str
) -> None:
    """The digests are those of the last version without topologies, which said 66% whatever was played."""
    parameters = {key: value for key, value in given.items() if key != "b"}
    _, asked, outcome = played(*agents(5, given["b"]), seed=3, max_rounds=4, stop_threshold=1, **parameters, **spelled)
    asked = [replace(ask, system=ask.system.replace("100%", "66%+")) for ask in asked]
    assert digest([[ask.agent, ask.round, ask.phase, ask.digest] for ask in asked]) == frozen
    assert all(set(entry) & {"neighbors", "sent"} == set() for entry in outcome.trace)


def test_silent_topologies_change_no_system_prompt() -> None:
    _, complete, _ = played(*agents(4), seed=1, max_rounds=2, stop_threshold=1)
    _, ring, _ = played(*agents(4), seed=1, max_rounds=2, stop_threshold=1, topology="ring")
    assert {ask.system for ask in ring} == {ask.system for ask in complete}


# Disclosure


def test_disclosed_neighbors_follow_both_system_prompts_and_nothing_else_changes() -> None:
    groups = agents(4, 1)
    _, silent, _ = played(*groups, seed=1, max_rounds=2, topology="ring")
    game, told, _ = played(*groups, seed=1, max_rounds=2, topology="ring", disclose_topology=True)
    heard = neighbors_of(game)
    assert {ask.phase for ask in told} == {"propose", "vote"}
    for without, ask in zip(silent, told, strict=True):
        assert ask.user == without.user
        assert ask.system.startswith(without.system + "\n=== NETWORK ===\n")
        section = ask.system.removeprefix(without.system)
        assert words(section) & set(heard) == heard[ask.agent]
        assert "Number of agents in all: 5" in section
        assert "{" not in section


def test_an_agent_without_neighbors_is_told_so() -> None:
    _, told, _ = played(*agents(2), topology={"kind": "edges", "edges": []}, disclose_topology=True, max_rounds=1)
    assert all("Your neighbors: none\n" in ask.system for ask in told)


def test_the_text_of_the_network_is_part_of_the_identity_where_it_is_told() -> None:
    silent, told = (ConsensusGame.Parameters(disclose_topology=disclosed) for disclosed in (False, True))
    without = ConsensusGame.prompts.digests("may_exist", ["honest"], silent)
    with_it = ConsensusGame.prompts.digests("may_exist", ["honest"], told)
    assert set(with_it) - set(without) == {"honest_network"}
    assert {name: with_it[name] for name in without} == without


# The network of a simulation


def test_the_network_follows_from_seed_and_size_and_not_from_roles() -> None:
    random = {"kind": "erdos_renyi", "p": 0.5}
    networks = [consensus(*agents(8 - b, b), seed=4, topology=random).network for b in (0, 1, 4)]
    assert len(set(networks)) == 1
    topology = ConsensusGame.Parameters(topology=random).topology
    assert networks[0] == build(topology, 8, stream("topology", 4, 8))
    assert consensus(*agents(8), seed=5, topology=random).network not in networks


def test_a_topology_changes_neither_names_nor_initial_values() -> None:
    games = [consensus(*agents(6, 2), seed=4, topology=topology) for topology in ("complete", "ring", "star")]
    assert len({game.seats for game in games}) == 1
    assert len({tuple(agent.initial_value for agent in game.agents) for game in games}) == 1


def test_a_byzantine_agent_is_in_the_middle_of_a_star_as_often_as_anywhere() -> None:
    games = [consensus(*agents(3, 1), seed=seed, topology="star") for seed in range(400)]
    middle = sum(not game.agents[0].honest for game in games)
    assert abs(middle - 100) < 4 * (400 * 0.25 * 0.75) ** 0.5


def test_the_facts_are_metrics_of_the_whole_and_of_the_honest_part() -> None:
    game, _, outcome = played(
        *agents(6, 2), seed=2, topology={"kind": "watts_strogatz", "k": 4, "p": 0.2}, max_rounds=1
    )
    graph = networkx.Graph([(name, peer) for name, peers in neighbors_of(game).items() for peer in peers])
    honest = graph.subgraph(agent.name for agent in game.honest)
    for prefix, part in (("", graph), ("honest_", honest)):
        connected = networkx.is_connected(part)
        assert outcome.metrics[f"{prefix}diameter"] == (networkx.diameter(part) if connected else None)
        assert outcome.metrics[f"{prefix}connectivity"] == networkx.node_connectivity(part)
        assert outcome.metrics[f"{prefix}edges"] == part.number_of_edges()
        assert outcome.metrics[f"{prefix}components"] == networkx.number_connected_components(part)


def test_a_complete_network_has_its_facts_too_and_no_list_of_neighbors() -> None:
    _, _, outcome = played(*agents(3, 1), max_rounds=1)
    found = [outcome.metrics[name] for name in ("diameter", "connectivity", "edges", "components", "honest_edges")]
    assert found == [1, 3, 6, 1, 3]
    assert "neighbors" not in outcome.trace[0]


def test_the_trace_begins_with_the_neighbors() -> None:
    _, _, outcome = played(*agents(4), topology=PATH_OF_4, max_rounds=2, stop_threshold=1)
    neighbors = {"agent_1": ["agent_2"], "agent_2": ["agent_1", "agent_3"], "agent_3": ["agent_2", "agent_4"]}
    assert outcome.trace[0]["neighbors"] == {**neighbors, "agent_4": ["agent_3"]}
    assert "neighbors" not in outcome.trace[1]


@pytest.mark.parametrize(("topology", "n"), [("ring", 2), ({"kind": "edges", "edges": [[1, 9]]}, 8)])
def test_a_network_that_cannot_be_is_refused_before_a_game_is_made(topology: Any, n: int) -> None:
    parameters = ConsensusGame.Parameters(topology=topology)
    with pytest.raises(UsageError, match=f"{n} agents: "):
        ConsensusGame.check(parameters, agents(n))


# Equivocation


def both(rule: Any, honest: int = 3, **parameters: Any) -> tuple[ConsensusGame, list[Ask], Outcome]:
    """Play `telltale` agents and one Byzantine agent that answers by `rule`, which may equivocate."""
    return played(
        Group("honest", honest, made_up(telltale)),
        Group("byzantine", 1, made_up(rule, needs="equivocation")),
        **{"equivocation": True, "max_rounds": 3, "value_max": 2000, "history_rounds": 2, **parameters},
    )


@pytest.mark.parametrize("topology", ["complete", "ring", "star"])
def test_each_recipient_sees_its_own_version_everywhere(topology: str) -> None:
    game, asked, _ = both(two_faced, topology=topology)
    [liar] = [agent.name for agent in game.agents if not agent.honest]
    peers = [f"agent_{place}" for place in range(1, 5) if f"agent_{place}" in neighbors_of(game)[liar]]
    for ask in asked:
        lines = [line for line in ask.user.splitlines() if line.startswith(f"  {liar}")]
        rounds_shown = min(2, ask.round - 1) + (ask.phase == "vote")
        if ask.agent == liar:
            assert lines == [f'  {liar} (you): 7 | Reasoning: "seven"'] * rounds_shown
            assert ask.view.neighbors == tuple(peers)
            expected: int | None = 7
        elif ask.agent in peers:
            expected = 1000 + peers.index(ask.agent)
            assert lines == [f'  {liar}: {expected} | Reasoning: "seven"'] * rounds_shown
        else:
            assert lines == []
            expected = None
        assert ask.view.last_round.get(liar) == (expected if ask.round > 1 else None)
        assert ask.view.this_round.get(liar) == (expected if ask.phase == "vote" else None)


def test_a_peer_that_is_left_out_is_told_the_value_for_all() -> None:
    def rule(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        reply = dict(two_faced(view, rng))
        if "peer_values" in reply:
            first, second, *_ = view.neighbors
            reply["peer_values"] = {first: 3, second: 7}
        return reply

    game, asked, outcome = both(rule)
    [liar] = [agent.name for agent in game.agents if not agent.honest]
    first, *others = [agent.name for agent in game.agents if agent.honest]
    seen = {ask.agent: ask.view.this_round[liar] for ask in asked if ask.phase == "vote"}
    assert seen == {liar: 7, first: 3, **dict.fromkeys(others, 7)}
    assert [entry["sent"] for entry in outcome.trace] == [{liar: {first: 3}}] * 3
    assert all(entry["proposals"][liar] == 7 for entry in outcome.trace)


def test_silence_towards_some_and_a_value_for_others() -> None:
    def rule(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        if view.phase == "vote":
            return {"decision": "abstain"}
        value = "abstain" if view.round == 1 else 7
        told = {view.neighbors[0]: 5 if view.round == 1 else "abstain"}
        return {"internal_strategy": "", "value": value, "public_reasoning": "pssst", "peer_values": told}

    game, asked, outcome = both(rule, max_rounds=2)
    [liar] = [agent.name for agent in game.agents if not agent.honest]
    first = next(agent.name for agent in game.agents if agent.honest)
    for ask in (ask for ask in asked if ask.phase == "vote" and ask.agent != liar):
        value = 5 if ask.round == 1 else 7
        told = (ask.round == 1) == (ask.agent == first)
        assert ask.view.this_round[liar] == (value if told else None)
        line = f'  {liar}: {value} | Reasoning: "pssst"' if told else f"  {liar}: (no proposal)"
        assert line in ask.user.splitlines()
    assert [entry["sent"] for entry in outcome.trace] == [{liar: {first: 5}}, {liar: {first: None}}]
    assert [entry["values"][liar] for entry in outcome.trace] == [None, 7]


def test_what_all_are_told_alike_is_no_equivocation() -> None:
    def rule(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        return {k: v for k, v in two_faced(view, rng).items() if k != "peer_values"}

    _, _, outcome = both(rule)
    assert not any("sent" in entry for entry in outcome.trace)


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        ({"agent_9": 3}, "invalid_json"),
        ({"me": 3}, "invalid_json"),
        ({"stranger": 3}, "invalid_json"),
        ({"peer": 2001}, "out_of_range"),
        ({"peer": -1}, "out_of_range"),
        ({"peer": "3"}, "invalid_json"),
        ({"peer": "stop"}, "invalid_json"),
        ({"peer": 3.0}, "invalid_json"),
        ({"peer": None}, "invalid_json"),
        ([3], "invalid_json"),
        (None, "invalid_json"),
        ({"peer": 3}, None),
        ({"peer": "abstain"}, None),
        ({}, None),
    ],
)
def test_values_for_peers_are_parsed_strictly(told: Any, failure: str | None) -> None:
    game, asked, _ = both(two_faced, topology="ring")
    ask = next(ask for ask in asked if ask.role == "byzantine" and ask.phase == "propose")
    stranger = next(iter({agent.name for agent in game.agents} - {ask.agent, *ask.view.neighbors}))
    names = {"peer": ask.view.neighbors[0], "me": ask.agent, "stranger": stranger}
    if isinstance(told, dict):
        told = {names.get(name, name): value for name, value in told.items()}
    reply = {"internal_strategy": "", "value": 7, "public_reasoning": "", "peer_values": told}
    assert parse_reply(json.dumps(reply), "stop", ask.reply_model).failure == failure


def fields_offered(policy: ChosenPolicy, **parameters: Any) -> dict[str, set[str]]:
    """Return the keys of a proposal by role."""
    game = consensus(Group("honest", 2, policy), Group("byzantine", 1, policy), **parameters)
    return {ask.role: set(ask.reply_model.model_fields) for ask in next(game.play())}


def test_only_byzantine_agents_that_may_equivocate_have_a_field_for_it() -> None:
    plain = {"internal_strategy", "value", "public_reasoning"}
    strategist = ChosenPolicy(PolicyKind("strategist", "", needs="equivocation"), PolicyParameters())
    for policy in (scripted("random"), strategist):
        assert fields_offered(policy) == {"honest": plain, "byzantine": plain}
        assert fields_offered(policy, equivocation=True) == {"honest": plain, "byzantine": {*plain, "peer_values"}}
    assert fields_offered(BY_MODEL, equivocation=True) == {"honest": plain, "byzantine": plain}


def test_the_schema_lists_the_peers_by_name() -> None:
    _, asked, _ = both(two_faced, topology="ring")
    ask = next(ask for ask in asked if ask.role == "byzantine" and ask.phase == "propose")
    schema = ask.reply_model.model_json_schema()
    offered = schema["properties"]["peer_values"]
    assert tuple(offered["properties"]) == ask.view.neighbors
    assert offered["additionalProperties"] is False
    bounds = {"maximum": 2000, "minimum": 0, "type": "integer"}
    assert offered["properties"][ask.view.neighbors[0]]["anyOf"] == [bounds, {"const": "abstain", "type": "string"}]
    assert schema["required"] == ["internal_strategy", "value", "public_reasoning"]


def test_a_policy_that_needs_equivocation_is_refused_without_it() -> None:
    groups = [
        Group("honest", 3, scripted("majority")),
        Group("byzantine", 1, made_up(two_faced, needs="equivocation")),
    ]
    with pytest.raises(UsageError, match="byzantine: made_up: plays only with equivocation: true among"):
        ConsensusGame.check(ConsensusGame.Parameters(), groups)
    ConsensusGame.check(ConsensusGame.Parameters(equivocation=True), groups)
    ConsensusGame.check(ConsensusGame.Parameters(), [groups[0], Group("byzantine", 0, groups[1].policy)])


# Information travels one link a round


@st.composite
def connected(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    """A connected network as a study lists it: a random tree and some more links; agents are numbered from 1."""
    n = draw(st.integers(2, 12))
    links = {(draw(st.integers(1, b - 1)), b) for b in range(2, n + 1)}
    pairs = [(a, b) for b in range(2, n + 1) for a in range(1, b)]
    links |= set(draw(st.lists(st.sampled_from(pairs), max_size=n)))
    return n, [list(link) for link in sorted(links)]


def flooded(n: int, topology: Any, seed: int) -> tuple[ConsensusGame, Outcome, set[str]]:
    """Play `minimum` to its end; return who started with the smallest value, too."""
    rounds = {"max_rounds": n + 2, "stop_threshold": 1}
    game, _, outcome = played(*agents(n, policy="minimum"), topology=topology, seed=seed, **rounds)
    initial: Mapping[str, int] = outcome.metrics["initial_values"]
    return game, outcome, {name for name, value in initial.items() if value == min(initial.values())}


def farthest(game: ConsensusGame, sources: set[str]) -> int:
    """Return how many links the agent farthest from all of `sources` is away from the nearest of them."""
    graph = networkx.Graph([(name, peer) for name, peers in neighbors_of(game).items() for peer in peers])
    return max(min(networkx.shortest_path_length(graph, name, source) for source in sources) for name in graph)


@given(connected(), st.integers(0, 1000))
def test_a_value_floods_a_connected_network_in_as_many_rounds_as_it_is_wide(
    network: tuple[int, list[list[int]]], seed: int
) -> None:
    n, links = network
    game, outcome, sources = flooded(n, {"kind": "edges", "edges": links}, seed)
    smallest = min(outcome.metrics["initial_values"].values())
    # What is proposed in round r + 1 is what r rounds of exchange have brought.
    assert outcome.metrics["first_unanimity_round"] == farthest(game, sources) + 1
    assert outcome.metrics["first_unanimity_round"] <= outcome.metrics["diameter"] + 1
    assert (outcome.name, outcome.metrics["consensus_value"]) == ("valid_consensus", smallest)
    for entry in outcome.trace[outcome.metrics["diameter"] :]:
        assert set(entry["values"].values()) == {smallest}


def test_a_path_needs_its_whole_length_when_the_value_starts_at_its_end() -> None:
    found = 0
    for seed in range(60):
        _, outcome, sources = flooded(5, "path", seed)
        if sources in ({"agent_1"}, {"agent_5"}):
            found += 1
            assert outcome.metrics["first_unanimity_round"] == 4 + 1 == outcome.metrics["diameter"] + 1
    assert found > 5


def test_parts_of_a_network_that_falls_apart_never_agree() -> None:
    topology = {"kind": "edges", "edges": [[1, 2], [3, 4]]}
    outcomes = [flooded(4, topology, seed)[1] for seed in range(10)]
    apart = [o for o in outcomes if len(set(o.trace[-1]["values"].values())) > 1]
    assert len(apart) > 5
    assert {o.metrics["diameter"] for o in outcomes} == {None}
    # Each part sees itself agree and votes to stop: premature, and the price of hearing neighbors alone.
    assert {(o.name, o.detail) for o in apart} == {("invalid_consensus", "premature_stop")}
