"""Games that go on otherwise from a point: the same rules and replies up to it, other seats from there.

Two games of the same seed are played side by side with the same replies until the point is reached; then the second
one goes on alone. Since games are pure, that needs nothing of any game but its generator.
"""

from collections.abc import Generator

from pydantic import ValidationError

from parley.errors import UsageError
from parley.games.base import Game, Outcome, Point
from parley.games.parameters import Seat
from parley.identity import stream
from parley.policies import Ask, Reply

_Playing = Generator[list[Ask], list[Reply], Outcome]


def recast(begun: Game, seats: tuple[Seat, ...], seed: int, point: Point) -> Game:
    """Return the game of a seed whose agents sit as `begun` has them up to the point, and as in `seats` from there."""
    rng = stream("game", begun.name, seed)
    game = type(begun)(begun.parameters, seats, seats[0].prompt, rng, begun.network, begun.material)
    game.begun = begun, point
    return game


def going_on(first: _Playing, second: _Playing, point: Point) -> _Playing:
    """Play `first`, and from the point on `second`, which was told the same replies.

    Raises UsageError if the second would have asked somebody else before that, or something of another kind.
    """
    asks, others = next(first), next(second)
    while not any(point.is_of(ask.round, ask.phase) for ask in asks):
        if [_key(ask) for ask in asks] != [_key(ask) for ask in others]:
            raise UsageError("the change makes another game from its start, so it cannot begin in its middle")
        replies = yield asks
        try:
            asks = first.send(replies)
            others = second.send([_read_as(ask, reply) for ask, reply in zip(others, replies, strict=True)])
        except StopIteration:
            raise UsageError(f"the game ends before round {point.round}; choose an earlier one") from None
    while True:
        replies = yield others
        try:
            others = second.send(replies)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def _key(ask: Ask) -> tuple[int, str, str]:
    return ask.round, ask.phase, ask.agent


def _read_as(ask: Ask, reply: Reply) -> Reply:
    """Return a reply as the rules would have taken it from this agent: what another role may say may be unusable."""
    if reply.value is None or isinstance(reply.value, ask.reply_model):
        return reply
    try:
        return Reply(ask.reply_model.model_validate(reply.value.model_dump()), milliseconds=reply.milliseconds)
    except ValidationError as error:
        return Reply(None, "out_of_range", str(error.errors()[0]["msg"]), reply.milliseconds)
