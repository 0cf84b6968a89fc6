"""The network of a consensus game and values for single peers; who is shown what is in test_asks.py."""

import json
from typing import Any

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.policies import POLICIES
from parley.games.network import draw_network
from parley.games.parameters import Group
from parley.identity import stream
from parley.policies.kinds import ChosenPolicy
from parley.policies.reply_text import parse_reply


def scripted(name: str) -> ChosenPolicy:
    return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters())


def agents(honest: int, byzantine: int = 0) -> list[Group]:
    """Return a group of honest agents and one of Byzantine ones, both scripted."""
    found = [Group("honest", honest, scripted("majority")), Group("byzantine", byzantine, scripted("random"))]
    return [group for group in found if group.count]


def consensus(*seated: Group, seed: int = 0, **parameters: Any) -> ConsensusGame:
    game = new_game(ConsensusGame, ConsensusGame.Parameters.model_validate(parameters), seated, "may_exist", seed)
    assert isinstance(game, ConsensusGame)
    return game


def test_the_network_follows_from_seed_and_size_and_changes_neither_names_nor_values() -> None:
    random = {"kind": "erdos_renyi", "p": 0.5}
    games = [consensus(*agents(8 - b, b), seed=4, topology=random) for b in (0, 1, 4)]
    assert len({game.network for game in games}) == 1
    topology = ConsensusGame.Parameters.model_validate({"topology": random}).topology
    assert games[0].network == draw_network(topology, 8, stream("topology", 4, 8))
    assert consensus(*agents(8), seed=5, topology=random).network != games[0].network
    shapes = [consensus(*agents(6, 2), seed=4, topology=topology) for topology in ("complete", "ring", "star")]
    assert len({game.seats for game in shapes}) == 1
    assert len({tuple(agent.initial_value for agent in game.agents) for game in shapes}) == 1


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
