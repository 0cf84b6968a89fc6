"""Plays a game with replies that are there already: those of a game that was played elsewhere, or of its record.

The rules decide what the replies come to; what was asked then is kept as it was, for it is not what Parley asks.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from parley.games.base import Game
from parley.games.two_steps import playing
from parley.play.journal import Entry
from parley.play.runner import Exchange, Play
from parley.policies import Ask
from parley.policies.reply_text import read_reply

MISSING = "missing"  # the finish reason of a reply that is not there
Key = tuple[int, str, str]  # round, phase, agent


@dataclass(frozen=True)
class GivenReply:
    """One attempt as it came, with what was asked; the prompts are "" where nobody kept them."""

    entry: Entry
    system: str = ""
    user: str = ""


def play_given(simulation_id: str, game: Game, replies: Iterable[GivenReply]) -> tuple[Play, list[Key]]:
    """Play a fresh game with these replies; return what happened, and which replies are missing.

    The last attempt at an ask counts. A missing reply counts as one that cannot be used.
    """
    attempts: dict[Key, list[GivenReply]] = defaultdict(list)
    for given in sorted(replies, key=lambda given: given.entry.attempt):
        attempts[given.entry.round, given.entry.phase, given.entry.agent].append(given)
    generator = playing(game)
    exchanges: list[Exchange] = []
    missing: list[Key] = []
    asks = next(generator)
    while True:
        answers = []
        for ask in asks:
            key = (ask.round, ask.phase, ask.agent)
            found = attempts.get(key) or [GivenReply(_nothing(ask))]
            if any(given.entry.finish_reason == MISSING for given in found):
                missing.append(key)
            exchanges += [_exchange(ask, given) for given in found]
            answers.append(exchanges[-1].reply)
        try:
            asks = generator.send(answers)
        except StopIteration as end:
            return Play(simulation_id, tuple(exchanges), end.value), missing


def _exchange(ask: Ask, given: GivenReply) -> Exchange:
    asked = replace(ask, system=given.system, user=given.user)
    entry = replace(given.entry, ask=asked.digest if given.user else "")
    return Exchange(asked, entry, read_reply(ask, entry.text, entry.finish_reason))


def _nothing(ask: Ask) -> Entry:
    return Entry(ask.round, ask.phase, ask.agent, 0, 0, "", "", MISSING, None, None, None, 0.0, 0.0)
