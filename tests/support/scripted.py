"""Playing any game whose agents are all scripted."""

from parley.games.base import Game
from parley.play.runner import Play, play
from parley.policies.kinds import ScriptedPolicy


def play_scripted(game: Game, identity: int = 0) -> Play:
    """Play a game whose agents are all scripted; their draws follow from `identity`."""
    answers = {}
    for seat in game.seats:
        assert seat.policy.kind.rule is not None
        answers[seat.name] = ScriptedPolicy(seat.policy.kind.rule(seat.policy.parameters))
    return play(f"simulation {identity}", game, answers)
