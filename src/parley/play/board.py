"""What is to be seen of a game while it is played: kept from what the runner tells, looked at from another thread.

What a game says of its rounds it says when it is over. A game is pure, so a copy of it that is sent the replies so
far, and then none until it ends, has the same rounds as far as the game was played: what it says of them holds.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from parley.games.base import Game, Outcome
from parley.games.replies import playing
from parley.play.matrix import Cell, Matrix, Row, Told, matrix, parts, told_of
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask, Reply
from parley.text import by_number

_RECENT = 60  # replies that may be shown below the matrix
_SHARE = 0.1  # of the time, at most, is spent on asking a copy
_LONGEST = 0.5  # seconds; what takes longer is not asked again
_SILENCE = Reply(None, "invalid_json", "not asked yet")


@dataclass(frozen=True)
class Seen:
    """How far a game is, at one moment; `asks` are those of the phase that is asked, `waiting` who is to answer.

    `longest` is how many letters the replies of one agent in one round had, at most.
    """

    matrix: Matrix
    longest: int
    asks: tuple[Ask, ...]
    waiting: frozenset[str]
    recent: tuple[Exchange, ...]
    attempts: int
    unusable: int
    tokens: int
    seconds: float
    outcome: Outcome | None


class Board(Watcher):
    """A game as it is played, to be looked at."""

    def __init__(self, new_game: Callable[[], Game]) -> None:
        """`new_game` makes the game that is played, each time a fresh one."""
        self._new_game = new_game
        self.game = game = new_game()
        byzantine = game.roles[-1] if len(game.roles) > 1 else None
        seats = sorted(game.seats, key=lambda seat: (seat.role == byzantine, by_number(seat.name)))
        self._rows = [Row(seat.name, seat.name, seat.role == byzantine) for seat in seats]
        self._framed_label = (byzantine or "").capitalize()
        self._lock = threading.Lock()
        self._began, self._ended = time.monotonic(), 0.0
        self._asks: tuple[Ask, ...] = ()
        self._said: dict[tuple[str, int], dict[str, Exchange]] = {}  # by agent and round: the last try of each phase
        self._recent: deque[Exchange] = deque(maxlen=_RECENT)
        self._attempts = self._unusable = self._tokens = 0
        self._phases: list[list[Reply]] = []
        self._told: Told | None = None
        self._until = float("-inf")  # asked rounds before it are told
        self._looked, self._took = 0.0, 0.0
        self._outcome: Outcome | None = None

    def asking(self, asks: Sequence[Ask]) -> None:
        """Note the asks of the phase that begins."""
        new_round = not self._asks or asks[0].round != self._asks[0].round
        with self._lock:
            self._asks = tuple(asks)
        if new_round:
            self._look(asks[0].round)

    def answered(self, exchange: Exchange) -> None:
        """Note one attempt."""
        ask, entry = exchange.ask, exchange.entry
        with self._lock:
            self._said.setdefault((ask.agent, ask.round), {})[ask.phase] = exchange
            self._recent.append(exchange)
            self._attempts += 1
            self._unusable += exchange.reply.failure is not None
            self._tokens += entry.completion_tokens or 0

    def phase_over(self, replies: Sequence[Reply]) -> None:
        """Note what the game is sent."""
        self._phases.append(list(replies))

    def end(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        told = told_of(self.game, outcome, max(number for _, number in self._said))
        with self._lock:
            self._told, self._until, self._outcome = told, float("inf"), outcome
            self._asks, self._ended = (), time.monotonic()

    def see(self) -> Seen:
        """Return how far the game is."""
        with self._lock:
            waiting = frozenset(ask.agent for ask in self._asks if not self._is_answered(ask))
            cells = {key: self._cell(list(phases.values())) for key, phases in self._said.items()}
            longest = max((len(cell.text) for cell in cells.values()), default=0)
            for ask in self._asks:
                if ask.agent in waiting:
                    key = (ask.agent, ask.round)
                    cells[key] = replace(cells.get(key, Cell()), open=True)
            return Seen(
                matrix=matrix(self._rows, self._framed_label, cells, self._told, self._until),
                longest=longest,
                asks=self._asks,
                waiting=waiting,
                recent=tuple(self._recent),
                attempts=self._attempts,
                unusable=self._unusable,
                tokens=self._tokens,
                seconds=(self._ended or time.monotonic()) - self._began,
                outcome=self._outcome,
            )

    def _cell(self, said: Sequence[Exchange]) -> Cell:
        found = [value for exchange in said for value in parts(exchange, self.game.read_texts)[0]]
        words = [_short(value) for value in found if value is not None]
        return Cell(
            text=" ".join(word for word, _ in groupby(words) if word),
            failed=any(exchange.reply.failure is not None for exchange in said),
            again=any(exchange.entry.attempt for exchange in said),
        )

    def _is_answered(self, ask: Ask) -> bool:
        last = self._said.get((ask.agent, ask.round), {}).get(ask.phase)
        return last is not None and (last.reply.failure is None or last.entry.attempt >= self.game.parameters.retries)

    def _look(self, until: int) -> None:
        """Have a copy tell of the rounds before `until`, if there was time enough since the last time."""
        began = time.monotonic()
        if self._took > _LONGEST or began - self._looked < self._took / _SHARE:
            return
        try:
            told = self._foreseen(began)
        except Exception:  # noqa: BLE001 (a game of the user's own may not expect silence; at its end it is asked itself)
            told = None
        self._looked = time.monotonic()
        self._took = float("inf") if told is None else self._looked - began
        with self._lock:
            if told is not None:
                self._told, self._until = told, until

    def _foreseen(self, began: float) -> Told | None:
        """Return what a copy of the game tells that hears nothing from now on; None if that takes too long."""
        game = self._new_game()
        play, phases = playing(game), list(reversed(self._phases))
        asks = next(play)
        while time.monotonic() - began < _LONGEST:
            last = asks[0].round
            try:
                asks = play.send(phases.pop() if phases else [_SILENCE] * len(asks))
            except StopIteration as end:
                return told_of(game, end.value, last)
        return None


def _short(value: Any) -> str:
    """Return what was decided in a word or two; what was told to each of many stands in the reply."""
    if isinstance(value, Mapping):
        return f"+{len(value)}" if value else ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
