"""How a game is played: asks that have two steps become two, and one may go on otherwise from a point.

With `two_steps` an agent is first asked for free text, then, in the same chat, for JSON with the other fields. Each
step is an ask of its own with its own retries, so journal, record and replay know nothing of it. What was written
freely becomes the free field of the reply, cut to its length. A first step that is cut off at max_tokens counts as far
as it came. One that is refused or empty fails: the reply has its failure, and there is no second step.

With `memory: chat` what an agent was asked before stands before each question, with its replies as they came. What
could not be used is left out, question and all: so is a reply that was silenced.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import cache

from pydantic import BaseModel, ValidationError, create_model

from parley.errors import UsageError
from parley.games.base import Game, Outcome, Point
from parley.games.own_game import checked_play
from parley.games.parameters import Chat, Seat
from parley.identity import stream
from parley.policies import FIRST_STEP, Ask, Reply, estimated_tokens
from parley.policies.reply_text import FreeText, Reading, ReplyModel, free_field, schema_of

Playing = Generator[list[Ask], list[Reply], Outcome]
Answering = Generator[list[Ask], list[Reply], list[Reply]]  # of one phase


def readings(game: Game) -> dict[str, Reading]:
    """Return how the replies of each agent are read, by the agent's name."""
    return {seat.name: seat.reading for seat in game.seats}


def playing(game: Game) -> Playing:
    """Play a game like `Game.play`: asks that have two steps one after the other, and all with their chat if any."""
    steps, memory = _answering(_begun(game), _in_steps), game.parameters.memory
    return _answering(steps, _with_chats(game, memory.tokens)) if isinstance(memory, Chat) else steps


def _answering(game: Playing, answer: Callable[[list[Ask]], Answering], asks: list[Ask] | None = None) -> Playing:
    """Play a game each phase of which is answered by `answer`; `asks` are those of its first one if it has begun."""
    asks = asks or next(game)
    while True:
        replies = yield from answer(asks)
        try:
            asks = game.send(replies)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def _begun(game: Game) -> Playing:
    """Play a game as its rules say; one that goes on in another one begins as that."""
    inner = checked_play(game) if game.code_sha256 else game.play()
    return inner if game.begun is None else going_on(_begun(game.begun[0]), inner, game.begun[1])


def _in_steps(asks: list[Ask]) -> Answering:
    """Yield the asks of one phase of a game, in two steps where they have two; return the replies to all."""
    stepped = [place for place, ask in enumerate(asks) if ask.reply_format == "two_steps"]
    if not stepped:
        return (yield asks)
    firsts = yield [
        replace(ask, phase=ask.phase + FIRST_STEP, reply_format="free", reply_model=FreeText, follow_up="")
        for ask in (asks[place] for place in stepped)
    ]
    thoughts = dict(zip(stepped, firsts, strict=True))
    replies = {place: thought for place, thought in thoughts.items() if thought.value is None}
    rest = [place for place in range(len(asks)) if place not in replies]
    if rest:
        seconds = yield [_second_step(asks[p], thoughts[p]) if p in thoughts else asks[p] for p in rest]
        for place, reply in zip(rest, seconds, strict=True):
            replies[place] = _whole(asks[place], thoughts[place], reply) if place in thoughts else reply
    return [replies[place] for place in range(len(asks))]


def _second_step(ask: Ask, thought: Reply) -> Ask:
    return replace(
        ask,
        reply_format="json",
        reply_model=_without_free(ask.reply_model),
        user=ask.follow_up,
        follow_up="",
        earlier=(("user", ask.user), ("assistant", _text(thought))),
    )


def _text(thought: Reply) -> str:
    return thought.value.text if isinstance(thought.value, FreeText) else ""


def _whole(ask: Ask, thought: Reply, reply: Reply) -> Reply:
    """Return the reply to an ask in two steps: the fields of the second, and the text of the first."""
    took = thought.milliseconds + reply.milliseconds
    free = free_field(ask.reply_model)
    if reply.value is None or not free:
        return replace(reply, milliseconds=took)
    text = _text(thought).strip()[: schema_of(ask.reply_model)[free].get("maxLength")]
    fields = reply.value.model_dump(exclude_unset=True)
    return replace(reply, value=ask.reply_model.model_validate({**fields, free: text}), milliseconds=took)


@cache
def _without_free(model: type[BaseModel]) -> type[BaseModel]:
    """Return the model of a reply without its free field."""
    free = free_field(model)
    if not free:
        return model
    fields = {name: (field.annotation, field) for name, field in model.model_fields.items() if name != free}
    return create_model(model.__name__, __base__=ReplyModel, **fields)  # type: ignore[call-overload, no-any-return]


# Agents that remember the chat (`memory: chat`)


def _with_chats(game: Game, tokens: int) -> Callable[[list[Ask]], Answering]:
    """Return what yields the asks of a phase with the chat of each agent before them; rules read none.

    Of a game that goes on from a point it is what was asked and said in the seat before, whoever sat there.
    """
    sitting, point = game.begun or (game, None)
    chats = defaultdict[str, list[tuple[str, str]]](list)  # by role: a question ("user"), then its reply

    def answer(asks: list[Ask]) -> Answering:
        nonlocal sitting, point
        if point and any(point.is_of(ask.round, ask.phase) for ask in asks):
            sitting, point = game, None
        reading = {seat.name for seat in sitting.seats if seat.policy.rule is None}
        replies = yield [_reminded(ask, chats[ask.agent], tokens) if ask.agent in reading else ask for ask in asks]
        for ask, reply in zip(asks, replies, strict=True):
            if reply.value is not None:
                chats[ask.agent] += [("user", ask.user), ("assistant", reply.text)]
        return replies

    return answer


def _reminded(ask: Ask, chat: Sequence[tuple[str, str]], tokens: int) -> Ask:
    """Return a question after the latest turns of a chat that have so many tokens together, at most."""
    # A first step, which its second always follows, is the chat's end.
    is_second = len(ask.earlier) == 2 and [*chat[-2:-1]] == [ask.earlier[0]]
    first = end = len(chat) - 2 * is_second
    size = 0
    while first:
        size += sum(len(text.encode(errors="replace")) for _, text in chat[first - 2 : first])
        if estimated_tokens(size, 0) > tokens:
            break
        first -= 2
    return replace(ask, earlier=(*chat[first:end], *ask.earlier))


# Games that go on otherwise from a point: the same rules and replies up to it, other seats from there
#
# Two games of the same seed are played side by side with the same replies until the point is reached; then the second
# one goes on alone. Since games are pure, that needs nothing of any game but its generator.


def recast(begun: Game, seats: tuple[Seat, ...], seed: int, point: Point) -> Game:
    """Return the game of a seed whose agents sit as `begun` has them up to the point, and as in `seats` from there."""
    rng = stream("game", begun.name, seed)
    game = type(begun)(begun.parameters, seats, seats[0].prompt, rng, begun.network, begun.material)
    game.begun = begun, point
    return game


def going_on(first: Playing, second: Playing, point: Point) -> Playing:
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
    return (yield from _answering(second, _asked, others))


def _asked(asks: list[Ask]) -> Answering:
    return (yield asks)


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
