"""Limits of a service, kept by all processes of one machine or job: requests at once, requests and tokens a minute.

Requests queue in the order in which they come, one of each process at a time, and nobody overtakes: so none starves.
Whoever looks at the queue lets all those start that may. What a request will cost in tokens is estimated when it
starts and corrected when its reply is there. A process that dies leaves the queue and its place in flight.

What processes of one machine share, whatever ends them, is a SQLite database in a file, with short transactions.
SQLite's locks hold among machines on some file systems only. So no two machines share a database: on a cluster each
job of a run has its part of a limit or a budget, and a file of its own.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from parley import paths
from parley.engine.service.dialect import ServiceLimits
from parley.errors import JournalError
from parley.files import make_folder
from parley.identity import digest, machine
from parley.text import limited_logger, waiting

_LOCK_SECONDS = 60.0  # a transaction takes less than a millisecond
_LOOK_SECONDS = 2.0
_PARTS = "PARLEY_PARTS"


@dataclass(frozen=True)
class Parts:
    """Into how many parts the jobs of a run divide what they share; into one where all play on one machine.

    Limits are divided by the jobs that may run `at_once`, a budget by all `jobs`: what one leaves no other gets.
    """

    run: str = ""
    at_once: int = 1
    jobs: int = 1

    def give_to_jobs(self) -> None:
        """Have the jobs that this process submits take their part."""
        os.environ[_PARTS] = f"{self.run}/{self.at_once}/{self.jobs}"

    @property
    def holder(self) -> str:
        """What tells a machine, or a job of a divided run, from others: the same for all its processes."""
        job = os.environ.get("SLURM_JOB_ID") if self.run else None
        return f"{self.run}-{job}" if job else machine()


def parts() -> Parts:
    """Return the parts that this process is to divide by: those that the run gave to its jobs."""
    run, at_once, jobs = os.environ.get(_PARTS, "/1/1").rsplit("/", 2)
    return Parts(run, int(at_once), int(jobs))


class SharedDatabase:
    """A database that processes share, for one thread of each; a context manager.

    Raises JournalError wherever its file cannot be used.
    """

    def __init__(self, path: Path, schema: str) -> None:
        """`schema` makes the tables where they are missing."""
        self.owner = _name_of(os.getpid())
        self._path, self._schema = path, schema
        self._looked = float("-inf")

    def __enter__(self) -> Self:
        with named_errors(self._path):
            make_folder(self._path.parent)
            self._connection = self._connected()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Keep all other processes out while the context lasts, which is never awaited in."""
        with named_errors(self._path), self._connection:  # commits, or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def dead_owners(self, table: str) -> list[str]:
        """Return the owners of rows of `table` that are gone, or of another machine, which has no part in it.

        Rows without an owner belong to no process. It looks every two seconds, and returns none in between.
        """
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return []
        self._looked = time.monotonic()
        owners = [owner for [owner] in self._connection.execute(f"SELECT DISTINCT owner FROM {table}")]
        return [owner for owner in owners if owner and owner != _name_of(int(owner.split("-")[1]))]

    def _connected(self) -> sqlite3.Connection:
        # Only a new file: to close any other would give up the locks that this process has on it.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, isolation_level=None)
        try:
            # A process that dies leaves it whole; the death of the machine may not.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = PERSIST")
            if (said := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(said)
            connection.executescript(self._schema)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection


def _name_of(process: int) -> str:
    """Return a name that no other process has had on this machine, or will have."""
    try:
        state, *numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        state, numbers = "X", []
    began = "" if state in "XZ" else numbers[18]
    return f"{machine()}-{process}-{began}"


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Raise JournalError, which names the file of a database, for any error in the context."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(
            f"{path}: cannot be used: {error}; look at its disk; if it is damaged, delete it: it is counted again"
        ) from error


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
class Permit:
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
        super().__init__(path, _SCHEMA)
        self._who = who
        self._clock = clock
        self._head = asyncio.Lock()  # one request of this process queues at a time, in order
        self._freed = asyncio.Event()
        self._opened = time.monotonic()
        self.waited = 0.0  # seconds that requests of this process waited, added up

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Permit]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts."""
        began = time.monotonic()
        turn, number = Permit(tokens), 0
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
