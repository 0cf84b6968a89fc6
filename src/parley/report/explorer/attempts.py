"""Every attempt at a question of one simulation: from its record, or from the journal of one that is played."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from pydantic import BaseModel

from parley.errors import JournalError, ParleyError
from parley.games.base import Game, Outcome
from parley.games.playing import cutting, playing
from parley.play.degenerate import degenerate_class, degenerate_of
from parley.play.forks import SILENCED
from parley.play.journal import ENTRY_FIELDS, Entry, journal_id, journaled, last_sent
from parley.play.parquet import values
from parley.play.record import Summary, read_attempts
from parley.play.replay import RecordedReply, replay_replies
from parley.play.runner import Exchange
from parley.policies import Reply
from parley.policies.reply_text import FreeText, read_reply
from parley.report.explorer.selection import SimulationFile
from parley.study.condition import Simulation

# What is read of a record for each entry, and what is not needed of it.
_UNREAD = {"ask": "", "cached_tokens": None, "started": 0.0, "served_model": None, "system_fingerprint": None}
_UNREAD |= {"reasoning_tokens": None}
_OF_ENTRY = {name: "request_seed" if name == "seed" else name for name in ENTRY_FIELDS if name not in _UNREAD}
_OTHERS = ("system", "user", "failure", "failure_detail", "temperature")
_MOST_PHASES = 5_000  # of a game that is played on without replies
_NOTHING = Reply(None, "refused", "not there yet")


@dataclass
class Attempt:
    """One question and its reply; `parsed` is what it was taken for, `as_written` says that this is its text."""

    entry: Entry
    system: str
    user: str
    failure: str | None
    failure_detail: str | None
    temperature: float
    parsed: Any = None
    as_written: bool = False
    degenerate: bool = False


def recorded_attempts(file: SimulationFile) -> tuple[Summary, list[Attempt]]:
    """Return the summary and the attempts of a record; what was no JSON is read again by playing the game."""
    summary, rows = read_attempts(file.path, [*_OF_ENTRY.values(), *_OTHERS])
    columns: dict[str, Iterable[Any]] = {name: values(rows.column(column)) for name, column in _OF_ENTRY.items()}
    columns |= {"seconds": map(_rounded, columns["seconds"]), **{name: repeat(none) for name, none in _UNREAD.items()}}
    entries = [Entry(*row) for row in zip(*(columns[name] for name in ENTRY_FIELDS), strict=False)]
    others = zip(*(values(rows.column(name)) for name in _OTHERS), strict=True)
    attempts = [Attempt(entry, *other) for entry, other in zip(entries, others, strict=True)]
    for attempt in attempts:
        attempt.temperature = _rounded(attempt.temperature)
        if attempt.entry.finish_reason == SILENCED and attempt.entry.given:  # by a fork: nobody failed
            attempt.failure, attempt.failure_detail = SILENCED, None
        if attempt.failure is None:
            attempt.parsed = _json_object(attempt.entry.text)
            attempt.as_written = attempt.parsed is not None
    unread = any(a.failure is None and a.parsed is None and a.entry.text for a in attempts)
    if unread or _has_degenerate(summary):
        _read_again(simulation_of(file, summary), attempts)
    return summary, attempts


def simulation_of(file: SimulationFile, summary: Summary) -> Simulation:
    """Return the simulation of a record, with what the record kept of what it is about."""
    own = file.simulation
    return Simulation(own.condition, own.seed, summary.simulation.get("material"))


def models_of(simulation: Simulation) -> frozenset[str]:
    """Return the agents that models play."""
    return frozenset(name for name, player in simulation.players.items() if player.entry is not None)


def _is_degenerate(exchange: Exchange) -> bool:
    """Whether a reply is one that says nothing, as `parley.play.degenerate` tells them."""
    ask, entry = exchange.ask, exchange.entry
    return degenerate_class(ask, entry.text, entry.finish_reason, exchange.reply.value) is not None


def _read_again(simulation: Simulation, attempts: Sequence[Attempt]) -> None:
    """Add what replies were taken for, and which are degenerate, by playing the game again with them, if it can be."""
    given = [RecordedReply(attempt.entry, attempt.system, attempt.user) for attempt in attempts]
    try:
        play, _ = replay_replies(simulation.id, simulation.game(), given)
    except (ParleyError, LookupError, TypeError, ValueError, AttributeError):
        return  # of another version, perhaps: what was recorded stands there all the same
    asked = models_of(simulation)
    found = {x.entry.key: x for x in play.exchanges}
    for attempt in attempts:
        exchange = found.get(attempt.entry.key)
        if exchange is not None and exchange.reply.failure == attempt.failure:
            attempt.parsed = attempt.parsed or _plain(exchange.reply.value)
            attempt.degenerate = attempt.entry.agent in asked and _is_degenerate(exchange)


def _has_degenerate(summary: Summary) -> bool:
    try:
        return degenerate_of(summary.telemetry)[1] > 0
    except (LookupError, TypeError, ValueError):
        return False


def _plain(value: BaseModel | None) -> Any:
    """Return what a reply was taken for; None for nothing, and for free text, which is the reply itself."""
    return None if value is None or isinstance(value, FreeText) else value.model_dump(mode="json")


def _json_object(text: str) -> Any:
    """Return the content of a JSON object as browsers read it; None for anything else."""
    try:
        found = _decoded(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_decoded = json.JSONDecoder(parse_constant=_refuse).decode  # made once: `json.loads` makes one for each text


def _rounded(number: float) -> float:
    """Return a number that a record keeps in 32 bits, without the digits that this added."""
    return round(number, 4) if math.isfinite(number) else 0.0


def running_attempts(file: SimulationFile, game: Game) -> tuple[list[Attempt], int | None, dict[str, Any] | None]:
    """Return the attempts of a simulation as far as it came, the first round that is not whole, and its outcome.

    Nobody but the game knows what its rounds came to, and it says so at its end. So it is played on with replies that
    cannot be used, and what it says of the rounds that were whole before holds: no later reply can change those.
    The outcome is None if it does not end so. Raises ParleyError for a journal of another simulation, or of another
    version.
    """
    if journal_id(file.path) != file.simulation.id:
        raise JournalError(f"{file.path}: belongs to another simulation; move it away")
    entries: dict[tuple[int, str, str], list[Entry]] = defaultdict(list)
    for entry in journaled(file.path):
        entries[entry.round, entry.phase, entry.agent].append(entry)
    attempts: list[Attempt] = []
    until: int | None = None
    asked, cut, generator = models_of(file.simulation), cutting(game), playing(game)
    asks = next(generator)
    for _ in range(_MOST_PHASES):
        replies = []
        for ask in [] if until is not None else asks:
            reply = None
            for entry in entries.get((ask.round, ask.phase, ask.agent), ()):
                if entry.ask != ask.digest:
                    raise JournalError(f"{file.path}: answers another question; another version wrote it")
                reply = read_reply(ask, entry.text, entry.finish_reason, cut)
                sent, degenerate = last_sent(ask, entry), _is_degenerate(Exchange(ask, entry, reply))
                about = (reply.failure, reply.detail, sent.sampling.temperature, _plain(reply.value), False)
                attempts.append(Attempt(entry, sent.system, sent.user, *about, ask.agent in asked and degenerate))
            again = reply is not None and reply.failure and attempts[-1].entry.attempt < game.parameters.retries
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
