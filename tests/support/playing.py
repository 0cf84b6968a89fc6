"""Small games and the policies that play them; `support.playthrough` plays games by hand."""

from collections.abc import Mapping
from typing import Any

from parley.games.base import Game, Group, Seat
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.policies import SCRIPTED
from parley.identity import stream
from parley.play.runner import Play, play
from parley.policies import Ask, Completion, Policy
from parley.policies.kinds import Rule, ScriptedPolicy
from parley.study.condition import Player, Simulation

INITIAL = [20, 42, 18, 16, 5, 32, 25, 47]  # what seed 0 deals to the first eight honest agents
ROLES = {"h": "honest", "b": "byzantine"}
# The scripted policies of the consensus game that need no parameters, as rules.
RULES: Mapping[str, Rule] = {
    name: kind.rule(kind.Parameters())
    for name, kind in SCRIPTED.items()
    if kind.rule and not any(field.is_required() for field in kind.Parameters.model_fields.values())
}


def groups(**counts: int) -> list[Group]:
    """Return a group per role, which is played by the model of nobody."""
    return [Group(role, count) for role, count in counts.items()]


def scripted(player: Player) -> ScriptedPolicy:
    """Return the scripted policy of a player."""
    assert player.policy.kind.rule is not None
    return ScriptedPolicy(player.policy.kind.rule(player.policy.parameters))


def scripted_policies(simulation: Simulation, game: Game) -> dict[str, Policy]:
    """Return what the study names for each agent; all of it is scripted."""
    return {name: scripted(player) for name, player in simulation.players(game).items()}


def new_consensus(roles: str = "hhh", seed: int = 0, prompt: str = "may_exist", **parameters: Any) -> ConsensusGame:
    """Return a game with one agent per letter, named in order; honest ones hold INITIAL for seed 0."""
    seats = tuple(Seat(f"agent_{i + 1}", ROLES[letter]) for i, letter in enumerate(roles))
    return ConsensusGame(ConsensusParameters(**parameters), seats, prompt, stream("game", "consensus", seed))


class CountingPolicy:
    """A scripted policy that remembers what it was asked."""

    def __init__(self, rule: Rule) -> None:
        self._policy = ScriptedPolicy(rule)
        self.asked: list[tuple[int, str, str, int]] = []
        self.seeds: list[int] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self.asked.append((ask.round, ask.phase, ask.agent, attempt))
        self.seeds.append(seed)
        return await self._policy.answer(ask, seed, attempt)


class ListPolicy:
    """Answers every attempt at an ask with the next text of a list, the last one again and again."""

    def __init__(self, *texts: str, finish_reason: str = "stop") -> None:
        self.texts = texts
        self.finish_reason = finish_reason
        self.seeds: list[int] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self.seeds.append(seed)
        return Completion(self.texts[min(attempt, len(self.texts) - 1)], self.finish_reason, 100, 7, 40)


def play_of(simulation: Simulation, failing: Policy | None = None) -> Play:
    """Play by the study's scripted policies; agent_1 by `failing`."""
    game = simulation.game()
    policies = scripted_policies(simulation, game)
    if failing is not None:
        policies["agent_1"] = failing
    return play(simulation.id, game, policies)
