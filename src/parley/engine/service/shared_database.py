"""What processes of one machine share, whatever ends them: a SQLite database in a file, with short transactions.

SQLite's locks hold among machines on some file systems only. So no two machines share a database: on a cluster each
job of a run has its part of a limit or a budget, and a file of its own.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from parley.errors import JournalError
from parley.files import make_folder
from parley.identity import machine

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

    def __init__(self, path: Path, schema: str, can_be_lost: bool = False) -> None:
        """`schema` makes the tables where they are missing. A damaged file that `can_be_lost` is made anew."""
        self.owner = _name_of(os.getpid())
        self._path, self._schema, self._can_be_lost = path, schema, can_be_lost
        self._looked = float("-inf")

    def __enter__(self) -> Self:
        with _named_errors(self._path):
            make_folder(self._path.parent)
            try:
                self._connection = self._connected()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) or not self._can_be_lost:
                    raise
                self._path.unlink(missing_ok=True)
                self._connection = self._connected()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Keep all other processes out while the context lasts, which is never awaited in."""
        with _named_errors(self._path), self._connection:  # commits, or rolls back
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def dead_owners(self, table: str) -> list[str]:
        """Return the owners of rows of `table` that are gone, or of another machine, which has no part in it.

        It looks every two seconds, and returns none in between.
        """
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return []
        self._looked = time.monotonic()
        owners = [owner for [owner] in self._connection.execute(f"SELECT DISTINCT owner FROM {table}")]
        return [owner for owner in owners if owner != _name_of(int(owner.split("-")[1]))]

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
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise JournalError(f"{path}: cannot be used: {error}; look at its disk") from error
    except sqlite3.DatabaseError as error:
        raise JournalError(f"{path}: damaged ({error}); delete it: what it counted is counted again") from error
    except OSError as error:
        raise JournalError(f"{path}: cannot be used: {error.strerror}; look at its disk") from error
