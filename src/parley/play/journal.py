"""The journal: the append-only record of every reply of one simulation, written as it arrives.

One line per reply (`files.checked_line`). Lines are written at once and synced per phase. Whatever
kind of death comes, the next start reads the lines that are whole, cuts off what is not, and goes on.
"""

import asyncio
import json
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from parley import paths
from parley.engine.grammar import json_schema
from parley.errors import JournalError
from parley.files import (
    checked_line,
    failed,
    open_regular,
    open_to_append,
    parse_line,
    read_at_most,
    read_regular,
    remove,
    remove_leftovers,
    sync_folder,
    try_lock,
)
from parley.policies import Ask, Request, Sampling
from parley.text import valid_unicode

FORMAT = 1
_MAX_FIRST_LINE = 1000  # bytes; it has an id and a format
_log = logging.getLogger(__name__)


_Count = Annotated[int, Field(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One reply as it came: the key of the request, what was asked (as a hash), and what came back.

    Bounds hold for what is read from a journal: a line with other values is no line.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    round: _Count
    phase: str
    agent: str
    attempt: Annotated[int, Field(ge=0, lt=2**7)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    ask: str
    text: str
    finish_reason: str
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    cached_tokens: _Count | None
    started: Annotated[float, Field(ge=0, le=1e11)]  # seconds since the epoch
    seconds: Annotated[float, Field(ge=0, le=1e9)]
    served_model: str | None = None
    system_fingerprint: str | None = None
    reasoning: str | None = None
    reasoning_tokens: _Count | None = None
    given: str | None = None  # "parent" or "change", whose reply it is; None of what was asked for
    sent: str | None = None  # what left in place of the game's question, as JSON (`requests_json`)

    @property
    def key(self) -> tuple[int, str, str, int]:
        """Round, phase, agent and attempt: what a reply answers."""
        return (self.round, self.phase, self.agent, self.attempt)

    @property
    def milliseconds(self) -> int:
        """How long it took; the same number whether `seconds` was kept in 64 bits or, in a record, in 32."""
        return round(self.seconds * 1000) if math.isfinite(self.seconds) else 0


ENTRY_FIELDS = tuple(field.name for field in fields(Entry))
_ENTRY = TypeAdapter(Entry)


class Journal:
    """The journal of one simulation, locked for this process; a context manager."""

    def __init__(self, path: Path, simulation_id: str, patience: float = 0.0) -> None:
        """Open or create the journal, and read what an earlier process left.

        Raises JournalError if another process still has it open after `patience` seconds (those of a killed workflow
        take a moment to end), or if it is no journal of this simulation.
        """
        self.path = path
        self.entries: dict[tuple[int, str, str, int], Entry] = {}
        self._fd = open_to_append(path)
        try:
            if not try_lock(self._fd, path, patience):
                raise JournalError(f"{path}: another process is playing this simulation; wait for it or stop it")
            self._read(simulation_id)
            sync_folder(path.parent)  # else a new journal could be gone with the machine, however often it is synced
        except OSError as error:
            os.close(self._fd)
            raise failed(self.path, "read", error) from error
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def append(self, entry: Entry) -> None:
        """Write one reply. It survives the death of this process at once, that of the machine after `sync`."""
        # Not dataclasses.asdict: its deep copies were a fifth of the time of a scripted simulation.
        self._write({name: getattr(entry, name) for name in ENTRY_FIELDS})
        self.entries[entry.key] = entry

    def sync(self) -> None:
        """Force what was appended onto the disk; raises JournalError if it cannot."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise failed(self.path, "written", error) from error

    def _read(self, simulation_id: str) -> None:
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            content = read_at_most(file)
        head, entries = _whole_lines(content)
        first_line = {"simulation": simulation_id, "format": FORMAT}
        if head is None and not checked_line(first_line).startswith(content):  # else a death cut it off
            raise JournalError(f"{self.path}: is no journal, or its first line is damaged; move it away")
        if head and (head.get("simulation"), head.get("format")) != (simulation_id, FORMAT):
            raise JournalError(f"{self.path}: belongs to another simulation or version of Parley; move it away")
        self.entries = {entry.key: entry for entry in entries}
        # The last write may have been cut off by a death. Lines that a disk damaged stay, and are asked again.
        os.ftruncate(self._fd, 0 if head is None else content.rfind(b"\n") + 1)
        if head is None:
            self._write(first_line)

    def _write(self, data: Mapping[str, Any]) -> None:
        line = checked_line(data)
        start = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, start)
            raise failed(self.path, "written", error) from error


async def off_loop(write: Callable[..., object], *arguments: object) -> None:
    """Call what waits for the disk in a thread: other games go on. It is over when this returns, also if canceled."""
    writing = asyncio.ensure_future(asyncio.to_thread(write, *arguments))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        while not writing.done():  # before the journal is closed, which gives up its lock
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        writing.exception()  # asyncio complains of those that nobody looks at
        raise


def _whole_lines(content: bytes) -> tuple[dict[str, Any] | None, list[Entry]]:
    """Return the first line of a journal, None if it is not whole, and the replies of all whole lines after it."""
    first, *others = [parse_line(line + b"\n") for line in content.split(b"\n")[:-1]] or [None]
    entries = []
    for data in filter(None, others):
        with suppress(ValidationError):
            entries.append(_ENTRY.validate_python(data))
    return first, entries


def journaled(path: Path) -> list[Entry]:
    """Return the replies in a journal that another process may be writing: its whole lines. Changes nothing.

    Raises JournalError if it cannot be read.
    """
    try:
        return _whole_lines(read_regular(path, follow=False))[1]
    except OSError as error:
        raise failed(path, "read", error) from error


def journal_id(path: Path) -> str | None:
    """Return the id of the simulation that a journal is of; None if it is no journal. Changes nothing."""
    try:
        with open_regular(path, follow=False) as file:
            head, _ = _whole_lines(file.readline(_MAX_FIRST_LINE))
    except OSError:
        return None
    identity = head.get("simulation") if head else None
    return identity if isinstance(identity, str) and head and "format" in head else None


def delete_journal(record: Path, simulation_id: str) -> None:
    """Delete the journal of a simulation whose record is there, and what killed processes left of the record."""
    remove_leftovers(record)
    if journal_id(paths.journal(record)) == simulation_id:  # another file of that name is not Parley's to delete
        remove(paths.journal(record))


# `Entry.sent`: the requests behind a reply, where they are other ones than the game's question. Code of the user's own
# may ask its model something else, and more than once; the second of two steps has the first before it


def requests_json(ask: Ask, requests: Sequence[Request]) -> str | None:
    """Return requests that left while `ask` was answered, and what came back, as JSON; None if `ask` says it all.

    The schema is there where it is not the game's. A request without a reply failed; of the game's own question with
    messages before it, seed and reply stand in the row.
    """
    sent = requests or ([Request(ask, None)] if ask.earlier else [])
    described = [
        {
            "messages": [[message["role"], message["content"]] for message in each.ask.messages],
            **each.ask.sampling.model_dump(),
            "format": each.ask.reply_format,
            "schema": None if each.ask.reply_model is ask.reply_model else json_schema(each.ask.reply_model),
            "seed": each.seed,
            "text": each.reply and each.reply.text,
            "finish_reason": each.reply and each.reply.finish_reason,
        }
        for each in sent
    ]
    return valid_unicode(json.dumps(described, ensure_ascii=False)) if sent else None


def last_sent(ask: Ask, entry: Entry) -> Ask:
    """Return what was sent last for a reply: the game's question, unless the entry has others."""
    if not entry.sent:
        return ask
    last = json.loads(entry.sent)[-1]
    (_, system), *_, (_, user) = last["messages"]
    sampling = Sampling(temperature=last["temperature"], max_tokens=last["max_tokens"])
    return replace(ask, system=system, user=user, sampling=sampling)
