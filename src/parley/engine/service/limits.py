"""Limits of a service, kept by all processes of one machine or job: requests at once, requests and tokens a minute.

Requests queue in the order in which they come, one of each process at a time, and nobody overtakes: so none starves.
Whoever looks at the queue lets all those start that may. What a request will cost in tokens is estimated when it
starts and corrected when its reply is there. A process that dies leaves the queue and its place in flight.
"""

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from parley import paths
from parley.engine.service.limits_config import ServiceLimits
from parley.engine.service.shared_database import SharedDatabase, gone, parts
from parley.identity import digest
from parley.text.logs import limited_logger, waiting

WINDOW_SECONDS = 60
_POLL_SECONDS = (0.05, 0.5)  # the first one and the longest
_REAP_SECONDS = 2
_TELL_SECONDS = 30.0
_BYTES_PER_TOKEN = 4  # about what English prompts have; the estimate is corrected by the reply
# A request that waits has not begun; one that ended counts for as long as the minute in which it began. The bounds are
# those of its entry: two entries may name one service.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, name TEXT UNIQUE, owner TEXT, tokens INTEGER, began REAL, ended INTEGER DEFAULT 0,
    concurrent INTEGER, requests_per_minute INTEGER, tokens_per_minute INTEGER
)"""
_QUEUE = "SELECT * FROM requests WHERE began IS NULL ORDER BY number LIMIT 1"
_IN_USE = """
SELECT COALESCE(SUM(NOT ended), 0),
    COALESCE(SUM(began BETWEEN :now - :window AND :now + :window), 0),
    COALESCE(SUM(tokens * (began BETWEEN :now - :window AND :now + :window)), 0)
FROM requests WHERE began IS NOT NULL"""
_FORGET = "DELETE FROM requests WHERE ended AND began NOT BETWEEN :now - :window AND :now + :window"

_log = limited_logger(__name__)


def estimated_tokens(prompt_bytes: int, max_tokens: int) -> int:
    """Return about how many tokens a request will use."""
    return prompt_bytes // _BYTES_PER_TOKEN + max_tokens


@dataclass
class Turn:
    """A request that may be sent; `tokens` is what it is known, or estimated, to use."""

    tokens: int


class Limiter:
    """Lets requests to one service start within its limits; an async context manager.

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
        self._database = SharedDatabase(path, _SCHEMA, can_be_lost=True)
        self._who = who
        self._clock = clock
        self._head = asyncio.Lock()  # one request of this process queues at a time, in order
        self._freed = asyncio.Event()
        self._reaped = float("-inf")
        self._opened = time.monotonic()
        self.waited = 0.0  # seconds that requests of this process waited, added up

    async def __aenter__(self) -> "Limiter":
        await self._database.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.__aexit__()

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Turn]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts."""
        began = time.monotonic()
        name, turn = uuid.uuid4().hex, Turn(tokens)
        try:
            async with self._head:
                await self._queue(name, tokens)
            self.waited += time.monotonic() - began
            yield turn
        finally:
            await self._database.change(lambda database: _end(database, name, turn.tokens))
            self._freed.set()

    async def _queue(self, name: str, tokens: int) -> None:
        """Wait for a turn."""
        pause, longest = _POLL_SECONDS
        began = time.monotonic()
        values = (name, self._database.owner, tokens, *self._bounds)
        columns = "name, owner, tokens, concurrent, requests_per_minute, tokens_per_minute"

        def begin(database: sqlite3.Connection) -> tuple[bool, str]:
            database.execute(f"INSERT OR IGNORE INTO requests ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
            reason = self._advance(database)
            [[waits]] = database.execute("SELECT began IS NULL FROM requests WHERE name = ?", (name,))
            return bool(waits), reason

        while True:
            self._freed.clear()
            waits, reason = await self._database.change(begin)
            if not waits:
                return
            waited = time.monotonic() - began
            if reason and waited >= _TELL_SECONDS / 3:
                held = f"waiting for the limits of {self._who}: {reason}"
                seldom = waiting(held, _TELL_SECONDS, self, self._opened, serious=False)
                _log.info("waiting for the limits of %s, %.0f s: %s", self._who, waited, reason, extra=seldom)
            try:
                async with asyncio.timeout(pause):
                    await self._freed.wait()
            except TimeoutError:
                pause = min(1.5 * pause, longest)

    def _advance(self, database: sqlite3.Connection) -> str:
        """Let those at the head of the queue start that may; return what the next one waits for."""
        now = {"now": self._clock(), "window": WINDOW_SECONDS}
        database.execute(_FORGET, now)
        while (first := database.execute(_QUEUE).fetchone()) is not None:
            number, _, _, tokens, _, _, concurrent, requests, most_tokens = first
            flying, begun, used = database.execute(_IN_USE, now).fetchone()
            if now["now"] < self._closed_until:
                reason = "the first minute of a job that has a part of them"
            elif concurrent is not None and flying >= concurrent:
                reason = f"{concurrent} requests at once"
            elif requests is not None and begun >= requests:
                reason = f"{requests} requests per minute"
            elif most_tokens is not None and used > 0 and used + tokens > most_tokens:
                # One that is larger than the limit goes alone: it would wait for ever.
                reason = f"{most_tokens} tokens per minute"
            else:
                database.execute("UPDATE requests SET began = ? WHERE number = ?", (now["now"], number))
                continue
            if not self._reap_dead_owners(database):
                return reason
        return ""

    def _reap_dead_owners(self, database: sqlite3.Connection) -> bool:
        """Take the dead out of the queue and out of flight; whether there were any. Looks every two seconds."""
        if time.monotonic() - self._reaped < _REAP_SECONDS:
            return False
        self._reaped = time.monotonic()
        owners = [owner for [owner] in database.execute("SELECT DISTINCT owner FROM requests WHERE NOT ended")]
        dead = gone(owners)
        for owner in dead:
            database.execute("DELETE FROM requests WHERE owner = ? AND began IS NULL", (owner,))
            database.execute("UPDATE requests SET ended = 1 WHERE owner = ?", (owner,))
        return bool(dead)


def _end(database: sqlite3.Connection, name: str, tokens: int) -> None:
    """Take a request out of flight, or out of the queue, and correct its tokens."""
    database.execute("DELETE FROM requests WHERE name = ? AND began IS NULL", (name,))
    database.execute("UPDATE requests SET ended = 1, tokens = ? WHERE name = ?", (max(tokens, 0), name))
