"""Limits of a service, kept by all processes of one machine or job: requests at once, requests and tokens a minute.

Requests queue in the order in which they come, one of each process at a time, and nobody overtakes: so none starves.
Whoever looks at the queue lets all those start that may. What a request will cost in tokens is estimated when it
starts and corrected when its reply is there. A process that dies leaves the queue and its place in flight.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from parley import paths
from parley.engine.service.dialect import ServiceLimits
from parley.engine.service.shared_database import SharedDatabase, parts
from parley.identity import digest
from parley.text import limited_logger, waiting

WINDOW_SECONDS = 60
_POLL_SECONDS = (0.05, 0.5)  # the first one and the longest
_TELL_SECONDS = 30.0
BYTES_PER_TOKEN = 4  # about what English prompts have; the estimate is corrected by the reply
# Requests that wait have not begun; those that ended are gone. The bounds are those of an entry: two may name one
# service. What began counts for a minute, in its second.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS open (
    number INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT, tokens INTEGER,
    concurrent INTEGER, requests_per_minute INTEGER, tokens_per_minute INTEGER, began INTEGER
);
CREATE TABLE IF NOT EXISTS begun (second INTEGER PRIMARY KEY, requests INTEGER, tokens INTEGER)"""
_ADD = """
INSERT INTO open (owner, tokens, concurrent, requests_per_minute, tokens_per_minute) VALUES (?, ?, ?, ?, ?)"""
_FIRST = """
SELECT number, tokens, concurrent, requests_per_minute, tokens_per_minute FROM open
WHERE began IS NULL ORDER BY number LIMIT 1"""
_FORGET = f"DELETE FROM begun WHERE second NOT BETWEEN :now - {WINDOW_SECONDS} AND :now + {WINDOW_SECONDS}"
_IN_USE = "SELECT (SELECT COUNT(began) FROM open), TOTAL(requests), TOTAL(tokens) FROM begun"
_CORRECT = """
UPDATE begun SET tokens = tokens + :tokens - (SELECT tokens FROM open WHERE number = :number)
WHERE second = (SELECT began FROM open WHERE number = :number)"""
_BEGIN = "UPDATE open SET began = :now WHERE number = :number"
_COUNT = """
INSERT INTO begun VALUES (:now, 1, :tokens)
ON CONFLICT DO UPDATE SET requests = requests + 1, tokens = tokens + :tokens"""

_log = limited_logger(__name__)


def estimated_tokens(prompt_bytes: int, max_tokens: int) -> int:
    """Return about how many tokens a request will use."""
    return prompt_bytes // BYTES_PER_TOKEN + max_tokens


@dataclass
class Turn:
    """A request that may be sent; `tokens` is what it is known, or estimated, to use."""

    tokens: int


class Limiter(SharedDatabase):
    """Lets requests to one service start within its limits; a context manager.

    In a run that is divided among jobs it keeps its job's part. What the job before it began within the last minute it
    cannot know, so limits by the minute let none of its requests start before a minute has passed.
    """

    def __init__(
        self,
        service: tuple[str | None, ...],
        limits: ServiceLimits,
        who: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`service` is what tells it from others (never kept but as a hash), `who` what messages call it.

        `clock` returns seconds that all processes agree on.
        """
        share = parts()
        self._bounds = list(limits.divided(share.at_once).bounds.values())
        by_the_minute = any(bound is not None for bound in self._bounds[1:])
        self._closed_until = clock() + WINDOW_SECONDS if by_the_minute and share.at_once > 1 else float("-inf")
        path = paths.service_use(f"{digest(['service', *service])[:16]}-{share.holder}")
        super().__init__(path, _SCHEMA, can_be_lost=True)
        self._who = who
        self._clock = clock
        self._head = asyncio.Lock()  # one request of this process queues at a time, in order
        self._freed = asyncio.Event()
        self._opened = time.monotonic()
        self.waited = 0.0  # seconds that requests of this process waited, added up

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Turn]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts."""
        began = time.monotonic()
        turn, number = Turn(tokens), 0
        try:
            async with self._head:
                with self.transaction() as database:
                    added = database.execute(_ADD, (self.owner, tokens, *self._bounds))
                    number = added.lastrowid or 0
                    reason = self._advance(database, number)
                if reason is not None:
                    await self._wait(number)
            self.waited += time.monotonic() - began
            yield turn
        finally:
            with self.transaction() as database:
                database.execute(_CORRECT, {"number": number, "tokens": max(turn.tokens, 0)})
                database.execute("DELETE FROM open WHERE number = ?", (number,))
            self._freed.set()

    async def _wait(self, number: int) -> None:
        """Return when a request of the queue has begun."""
        pause, longest = _POLL_SECONDS
        began = time.monotonic()
        while True:
            self._freed.clear()
            with self.transaction() as database:
                reason = self._advance(database, number)
            if reason is None:
                return
            waited = time.monotonic() - began
            if waited >= _TELL_SECONDS / 3:
                held = f"waiting for the limits of {self._who}: {reason}"
                seldom = waiting(held, _TELL_SECONDS, self, self._opened, serious=False)
                _log.info("waiting for the limits of %s, %.0f s: %s", self._who, waited, reason, extra=seldom)
            try:
                async with asyncio.timeout(pause):
                    await self._freed.wait()
            except TimeoutError:
                pause = min(1.5 * pause, longest)

    def _advance(self, database: sqlite3.Connection, number: int) -> str | None:
        """Let those at the head of the queue begin that may; return what keeps `number` waiting, None if it began."""
        now = int(self._clock())
        database.execute(_FORGET, {"now": now})
        while (first := database.execute(_FIRST).fetchone()) is not None:
            flying, begun, used = database.execute(_IN_USE).fetchone()
            if (reason := self._reason(first, flying, begun, used, now)) is None:
                values = {"now": now, "number": first[0], "tokens": first[1]}
                database.execute(_BEGIN, values)
                database.execute(_COUNT, values)
            elif dead := self.dead_owners("open"):
                database.executemany("DELETE FROM open WHERE owner = ?", [(owner,) for owner in dead])
            else:
                return reason if first[0] <= number else None
        return None

    def _reason(self, first: tuple[Any, ...], flying: int, begun: int, used: int, now: int) -> str | None:
        _, tokens, concurrent, requests, most_tokens = first
        if now < self._closed_until:
            return "the first minute of a job that has a part of them"
        if concurrent is not None and flying >= concurrent:
            return f"{concurrent} requests at once"
        if requests is not None and begun >= requests:
            return f"{requests} requests per minute"
        if most_tokens is not None and used > 0 and used + tokens > most_tokens:
            # One that is larger than the limit goes alone: it would wait for ever.
            return f"{most_tokens} tokens per minute"
        return None
