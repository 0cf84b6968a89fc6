"""A simulation that is being played, as its journal tells: its replies so far, and the rounds that are whole."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.errors import JournalError, ParleyError
from parley.games.base import Game, Outcome
from parley.games.replies import cutting, playing, read_reply
from parley.play.journal import Entry, journal_id, journaled
from parley.play.record import Summary
from parley.play.runner import Exchange
from parley.policies import Reply
from parley.report.view.attempts import Attempt, models_of, taken
from parley.report.view.chosen import Found
from parley.report.view.matrix import Matrix, matrix

_MOST_PHASES = 5_000  # of a game that is played on without replies
_NOTHING = Reply(None, "refused", "not there yet")


@dataclass(frozen=True)
class Shown:
    """A game that was played, or is: what it is made of, each attempt, its matrix; no `summary` before its end."""

    game: Game
    attempts: list[Attempt]
    table: Matrix
    summary: Summary | None


def running_game(found: Found) -> Shown:
    """Return a simulation as far as it came; raises ParleyError for a journal of another one, or of another version.

    Nobody but the game knows what its rounds came to, and it says so at its end. So it is played on with replies that
    cannot be used, and what it says of the rounds that were whole before is shown: no later reply can change those.
    """
    simulation = found.simulation
    if journal_id(found.file) != simulation.id:
        raise JournalError(f"{found.file}: belongs to another simulation; move it away")
    entries: dict[tuple[int, str, str], list[Entry]] = defaultdict(list)
    for entry in journaled(found.file):
        entries[entry.round, entry.phase, entry.agent].append(entry)
    game = simulation.game()
    attempts, until, outcome = _played_on(found, game, entries)
    trace = [] if outcome is None else outcome["trace"]
    roles = {seat.name: seat.role for seat in game.seats}
    table = matrix(simulation.condition.game.evidence, outcome, trace, roles, attempts, until)
    return Shown(game, attempts, table, None)


def _played_on(
    found: Found, game: Game, entries: Mapping[tuple[int, str, str], list[Entry]]
) -> tuple[list[Attempt], int | None, dict[str, Any] | None]:
    """Return the attempts, the first round that is not whole, and the outcome of the game if it has one."""
    attempts: list[Attempt] = []
    until: int | None = None
    asked = models_of(found.simulation, game)
    cut = cutting(game)
    generator = playing(game)
    asks = next(generator)
    for _ in range(_MOST_PHASES):
        replies = []
        for ask in [] if until is not None else asks:
            reply = None
            for entry in entries.get((ask.round, ask.phase, ask.agent), ()):
                if entry.ask != ask.digest:
                    raise JournalError(f"{found.file}: answers another question; another version wrote it")
                reply = read_reply(ask, entry.text, entry.finish_reason, cut)
                attempts.append(taken(Exchange(ask, entry, reply), ask.agent in asked))
            again = reply is not None and reply.failure and attempts[-1].attempt < game.parameters.retries
            replies.append(None if again else reply)
        if not replies or None in replies:
            until = asks[0].round if until is None else until
        try:
            asks = generator.send([reply or _NOTHING for reply in replies or [None] * len(asks)])
        except StopIteration as end:
            outcome: Outcome = end.value
            return attempts, until, outcome.as_json()
        except ParleyError:  # a game of the user's own may expect other replies
            break
    return attempts, until, None
