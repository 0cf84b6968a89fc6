"""Driving stag hunts by hand: plain words and actions play a game."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parley.games.base import Outcome, Seat
from parley.games.network.graph import Network
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.identity import stream
from parley.play.runner import Play
from parley.policies import Ask, Reply
from parley.policies.kinds import BY_MODEL, ChosenPolicy
from parley.policies.parsing import parse_reply

HUNTERS: dict[str, Any] = {
    "model": ["grim_trigger", "always_stag"],
    "n": 3,
    "b": [0, 1],
    "byzantine": {"name": "betray", "from_round": 2},
    "prompt": "plain",
}  # a grid of scripted players
ROLES = {"h": "honest", "b": "byzantine"}
ACTIONS = {"s": "Hunt Stag", "h": "Hunt Hare"}


@dataclass(frozen=True)
class Hunted:
    """What was asked, phase by phase, and how it ended."""

    phases: list[list[Ask]]
    outcome: Outcome

    @property
    def of(self) -> Mapping[str, Any]:
        """The metrics."""
        return self.outcome.metrics

    def ask(self, number: int, phase: str, player: int) -> Ask:
        """Return what `agent_<player>` was asked in a round and phase."""
        asks = [ask for asks in self.phases for ask in asks]
        [found] = [a for a in asks if (a.round, a.phase, a.agent) == (number, phase, f"agent_{player}")]
        return found


def new_hunt(
    roles: str = "hhhh",
    network: Network | None = None,
    policies: Mapping[str, ChosenPolicy] | None = None,
    seed: int = 0,
    **parameters: Any,
) -> StagHuntGame:
    """Return a game of agent_1, agent_2, ... with these roles; `policies` says by role what plays them."""
    seats = tuple(
        Seat(f"agent_{place + 1}", ROLES[letter], (policies or {}).get(ROLES[letter], BY_MODEL))
        for place, letter in enumerate(roles)
    )
    rng = stream("game", "stag_hunt", seed)
    return StagHuntGame(StagHuntParameters(**parameters), seats, "plain", rng, network)


def _reply(ask: Ask, field: str, said: str | None) -> Reply:
    if said is None:
        return Reply(None, "invalid_json", "no JSON")
    reply = parse_reply(json.dumps({"reasoning": "Because.", field: said}), "stop", ask.reply_model)
    assert reply.failure is None, reply.detail
    return reply


def hunt(roles: str, *actions: str, words: Sequence[Sequence[str | None]] | None = None, **given: Any) -> Hunted:
    """Play a game in which player k does `actions[r][k - 1]` in round r + 1: s(tag), h(are) or - (no usable reply).

    It broadcasts `words[r][k - 1]`, "stag" if there are no words, None for no usable reply.
    """
    game = new_hunt(roles, rounds=len(actions), **given)
    playing, phases = game.play(), []
    asks = next(playing)
    while True:
        phases.append(asks)
        number = asks[0].round - 1
        if asks[0].phase == "signal":
            said = ["stag"] * len(roles) if words is None else words[number]
            by_place = [(ask, "word", said[int(ask.agent[6:]) - 1]) for ask in asks]
        else:
            done = [actions[number][int(ask.agent[6:]) - 1] for ask in asks]
            by_place = [(ask, "action", ACTIONS.get(letter)) for ask, letter in zip(asks, done, strict=True)]
        try:
            asks = playing.send([_reply(*each) for each in by_place])
        except StopIteration as end:
            return Hunted(phases, end.value)


def letters(played: Play) -> list[str]:
    """Return the actions of a game, a text for each round, in the order of the names."""
    short = {"Hunt Stag": "s", "Hunt Hare": "h", None: "-"}
    return ["".join(short[action] for action in entry["actions"].values()) for entry in played.outcome.trace]
