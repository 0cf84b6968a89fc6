"""How far a game is while it is played: kept from what the runner says, looked at from another thread."""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from parley.engine.grammar import json_schema
from parley.games.base import Game, Outcome
from parley.games.evidence import Timeline
from parley.play.matrix import AGAIN, FAILED, WAITING, Replied, game_timeline
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask

_RECENT = 60  # replies that may be shown below the matrix


@dataclass(frozen=True)
class Snapshot:
    """How far a game is, at one moment; `asks` are those of the phase that is asked, `waiting` who is to answer.

    Before its end the game has said nothing of its rounds: the timeline has replies.
    """

    timeline: Timeline
    asks: tuple[Ask, ...]
    waiting: frozenset[str]
    recent: tuple[Exchange, ...]
    attempts: int
    unusable: int
    tokens: int
    seconds: float
    outcome: Outcome | None


class WatchedGame(Watcher):
    """A game as it is played, to be looked at."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._lock = threading.Lock()
        self._began, self._ended = time.monotonic(), 0.0
        self._asks: tuple[Ask, ...] = ()
        self._said: dict[tuple[str, int], dict[str, Exchange]] = {}  # by agent and round: the last try of each phase
        self._recent: deque[Exchange] = deque(maxlen=_RECENT)
        self._attempts = self._unusable = self._tokens = 0
        self._outcome: Outcome | None = None

    def asking(self, asks: Sequence[Ask]) -> None:
        """Note the asks of the phase that begins."""
        with self._lock:
            self._asks = tuple(asks)

    def answered(self, exchange: Exchange) -> None:
        """Note one attempt."""
        ask, entry = exchange.ask, exchange.entry
        with self._lock:
            self._said.setdefault((ask.agent, ask.round), {})[ask.phase] = exchange
            self._recent.append(exchange)
            self._attempts += 1
            self._unusable += exchange.reply.failure is not None
            self._tokens += entry.completion_tokens or 0

    def end(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        with self._lock:
            self._outcome, self._asks, self._ended = outcome, (), time.monotonic()

    def see(self) -> Snapshot:
        """Return how far the game is."""
        with self._lock:
            waiting = frozenset(ask.agent for ask in self._asks if not self._is_answered(ask))
            replies = {place: self._replied(list(phases.values())) for place, phases in self._said.items()}
            for ask in self._asks:
                if ask.agent in waiting:
                    place = (ask.agent, ask.round)
                    known = replies.get(place, Replied(""))
                    replies[place] = Replied(known.text, (*known.marks, WAITING))
            outcome = None if self._outcome is None else self._outcome.as_json()
            trace = outcome.pop("trace") if outcome else ()
            return Snapshot(
                timeline=game_timeline(self.game, outcome, trace, replies),
                asks=self._asks,
                waiting=waiting,
                recent=tuple(self._recent),
                attempts=self._attempts,
                unusable=self._unusable,
                tokens=self._tokens,
                seconds=(self._ended or time.monotonic()) - self._began,
                outcome=self._outcome,
            )

    def _replied(self, phases: Sequence[Exchange]) -> Replied:
        values = [value for exchange in phases for value in decided(exchange, self.game.read_texts)[0]]
        words = [_short(value) for value in values if value is not None]
        failed = any(exchange.reply.failure is not None for exchange in phases)
        again = any(exchange.entry.attempt for exchange in phases)
        return Replied(" ".join(word for word, _ in groupby(words) if word), [FAILED] * failed + [AGAIN] * again)

    def _is_answered(self, ask: Ask) -> bool:
        last = self._said.get((ask.agent, ask.round), {}).get(ask.phase)
        return last is not None and (last.reply.failure is None or last.entry.attempt >= self.game.parameters.retries)


def decided(exchange: Exchange, decisive: frozenset[str]) -> tuple[list[Any], dict[str, str]]:
    """Return what a reply that could be read decides, the `decisive` texts among it, and its other texts by name."""
    if exchange.reply.value is None:
        return [], {}
    properties = json_schema(exchange.ask.reply_model)["properties"]
    fields = exchange.reply.value.model_dump(exclude_unset=True)
    texts = {key: value for key, value in fields.items() if "maxLength" in properties[key] and key not in decisive}
    return [value for key, value in fields.items() if key not in texts], texts


def _short(value: Any) -> str:
    """Return what was decided in a word or two; what was told to each of many stands in the reply."""
    if isinstance(value, Mapping):
        return f"+{len(value)}" if value else ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
