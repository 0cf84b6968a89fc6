"""Driving deliberations by hand: plain lists of answers play a game."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parley.games.base import Outcome, Seat
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.network.graph import Network
from parley.games.problems.problem import Problem
from parley.identity import stream
from parley.policies import Ask, Reply
from parley.policies.kinds import BY_MODEL, ChosenPolicy
from parley.policies.parsing import parse_reply

ROLES = {"h": "honest", "b": "byzantine"}
EIGHTEEN = Problem("eighteen", "number", "What is nine times two?", "18")
CARDS = Problem("cards", "cards", "Which cards must be turned over?", "7,A", ("A", "K", "4", "7"))
CHOICES = Problem(
    "library", "policies", "What should the library do?", None, ("Open on Sundays", "Buy more books", "Lend tools")
)


@dataclass(frozen=True)
class Deliberated:
    """What was asked, turn by turn, and how it ended."""

    turns: list[list[Ask]]
    outcome: Outcome

    def ask(self, turn: int, agent: int) -> Ask:
        """Return what `agent_<agent>` was asked in a turn."""
        [found] = [ask for ask in self.turns[turn] if ask.agent == f"agent_{agent}"]
        return found


def new_deliberation(
    roles: str = "hhh",
    problem: Problem = EIGHTEEN,
    seed: int = 0,
    prompt: str = "improve",
    network: Network | None = None,
    policies: Mapping[str, ChosenPolicy] | None = None,
    **parameters: Any,
) -> DeliberationGame:
    """Return a game of agent_1, agent_2, ... with these roles; `policies` says by role what plays them."""
    seats = tuple(
        Seat(f"agent_{place + 1}", ROLES[letter], (policies or {}).get(ROLES[letter], BY_MODEL))
        for place, letter in enumerate(roles)
    )
    rng = stream("game", "deliberation", seed)
    return DeliberationGame(DeliberationParameters(**parameters), seats, prompt, rng, network, problem.as_json())


def answering(ask: Ask, said: Any, milliseconds: int = 0) -> Reply:
    """Return the reply to an ask; None for a silent agent, a list for policies, else the answer as text."""
    if said is None:
        return Reply(None, "invalid_json", "no JSON", milliseconds)
    key = "policies" if isinstance(said, list) else "answer"
    reply = parse_reply(json.dumps({"argument": f"Because of {said}.", key: said}), "stop", ask.reply_model)
    assert reply.failure is None, reply.detail
    return Reply(reply.value, milliseconds=milliseconds)


def deliberate(game: DeliberationGame, *turns: Sequence[Any], milliseconds: int = 0) -> Deliberated:
    """Play a game in which agent k says `turns[t][k - 1]` in turn t; what nobody asks for is an error."""
    playing, asked = game.play(), []
    asks = next(playing)
    for said in turns:
        asked.append(asks)
        by_name = {f"agent_{place + 1}": answer for place, answer in enumerate(said)}
        try:
            asks = playing.send([answering(ask, by_name[ask.agent], milliseconds) for ask in asks])
        except StopIteration as end:
            assert len(asked) == len(turns), "it ended before all was said"
            return Deliberated(asked, end.value)
    raise AssertionError(f"still going after {len(turns)} turns")
