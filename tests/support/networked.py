"""Games played by hand with scripted policies, through the same strict parser as a model's replies."""

import json
from collections.abc import Mapping
from typing import Any

from parley.games.base import Game, Group, Outcome, new_game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.policies import SCRIPTED
from parley.identity import request_seed, stream
from parley.policies import Ask
from parley.policies.kinds import ChosenPolicy, PolicyKind, Rule
from parley.policies.parsing import parse_reply


def scripted(name: str) -> ChosenPolicy:
    """Return a shipped policy without parameters."""
    kind = SCRIPTED[name]
    return ChosenPolicy(kind, kind.Parameters())


def made_up(rule: Rule, **fields: Any) -> ChosenPolicy:
    """Return a policy that answers by a test's own rule."""
    kind = PolicyKind("made_up", "of a test", rule=lambda parameters: rule, **fields)
    return ChosenPolicy(kind, kind.Parameters())


def consensus(*groups: Group, seed: int = 0, prompt: str = "may_exist", **parameters: Any) -> ConsensusGame:
    """Return a game of `groups`, made as a simulation makes it."""
    game = new_game(ConsensusGame, ConsensusGame.Parameters.model_validate(parameters), groups, prompt, seed)
    assert isinstance(game, ConsensusGame)
    return game


def agents(honest: int, byzantine: int = 0, policy: str = "majority", adversary: str = "random") -> list[Group]:
    """Return a group of honest agents and one of Byzantine ones, both scripted."""
    groups = [Group("honest", honest, scripted(policy)), Group("byzantine", byzantine, scripted(adversary))]
    return [group for group in groups if group.count]


def play_scripted(game: Game) -> tuple[list[Ask], Outcome]:
    """Play a game whose seats are all scripted; return every ask in order, and the outcome."""
    rules: Mapping[str, Rule] = {
        seat.name: seat.policy.kind.rule(seat.policy.parameters) for seat in game.seats if seat.policy.kind.rule
    }
    play = game.play()
    asked: list[Ask] = []
    asks = next(play)
    while True:
        asked += asks
        replies = []
        for ask in asks:
            seed = request_seed("made up", ask.round, ask.phase, ask.agent, 0)
            text = json.dumps(rules[ask.agent](ask.view, stream("answer", seed)))
            replies.append(parse_reply(text, "stop", ask.reply_model))
        try:
            asks = play.send(replies)
        except StopIteration as end:
            return asked, end.value
