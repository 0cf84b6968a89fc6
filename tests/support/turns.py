"""Driving the swarms protocol by hand: one reply per turn, given as plain moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from parley.games.base import Outcome
from parley.games.consensus.game import ConsensusGame
from parley.policies import Ask, Reply
from support.playing import SILENT, new_consensus

ALL = ["names", "missing_value", "early_vote"]


@dataclass(frozen=True)
class Turn:
    """One reply; `(value, vote)` stands for one without texts."""

    value: int | str
    vote: str
    why: str = ""
    note: str = ""


@dataclass(frozen=True)
class Played:
    """What was asked, turn by turn, and how it ended."""

    asks: list[Ask]
    outcome: Outcome

    def ask(self, round_number: int, agent: int) -> Ask:
        """Return one ask; agents are numbered from 1, as in their names."""
        return next(a for a in self.asks if a.round == round_number and a.agent == f"agent_{agent}")


def new_swarms(roles: str = "hhh", *leaks: str, prompt: str = "may_exist", **parameters: Any) -> ConsensusGame:
    """Return a game of the swarms protocol, otherwise like `playing.new_consensus`."""
    return new_consensus(roles, prompt=prompt, protocol="swarms", leaks=leaks, **parameters)


def reply_to(ask: Ask, move: Any) -> Reply:
    """Turn a move into the reply to `ask`, which has to be a usable one."""
    if move is SILENT:
        return Reply(None, "invalid_json", "made up by the test")
    said = move if isinstance(move, Turn) else Turn(*move)
    return Reply(
        ask.reply_model(internal_strategy=said.note, value=said.value, public_reasoning=said.why, vote=said.vote)
    )


def take_turns(game: ConsensusGame, *rounds: Sequence[Any]) -> Played:
    """Play `rounds`, each a move per agent in the order of speaking; the last one is repeated to the end."""
    asked = []
    play = game.play()
    asks = next(play)
    for moves in chain(rounds, repeat(rounds[-1])):
        for move in moves:
            [ask] = asks
            asked.append(ask)
            try:
                asks = play.send([reply_to(ask, move)])
            except StopIteration as end:
                return Played(asked, end.value)
    raise AssertionError("unreachable: rounds repeat until the game ends")
