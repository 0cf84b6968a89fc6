"""Verify: ask the model again for what a record holds, and compare the replies (level 3 of reproduction).

The asks come from a replay of the record, so the model is asked exactly what it was asked then: messages, sampling,
seed, and what the reply is held to. A reply is equal if its text and its finish reason are.
"""

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from parley.engine.client import Engine
from parley.engine.endpoint import read_endpoint
from parley.engine.grammar import grammar_version
from parley.engine.models import ModelEntry, recorded_entry
from parley.engine.supervisor import temporary_engine
from parley.errors import RecordError, UsageError
from parley.identity import digest
from parley.play.journal import requests_of
from parley.play.record import read_record
from parley.play.replay import play_recorded, rebuild_game
from parley.play.runner import Exchange, all_of
from parley.policies import Completion
from parley.text import every, limited_logger, one_line, valid_unicode

_log = limited_logger(__name__)
_MAX_AT_ONCE = 1024
_BATCH = 16  # requests at once where a record does not say how many its engine had
_AROUND = 24  # characters that an excerpt shows before and after a difference


@dataclass(frozen=True)
class RecordedAttempts:
    """What a record says of one model: the attempts that it answered, and the engine that served it."""

    path: Path
    model: str
    entry: ModelEntry  # by its identity
    engine: Mapping[str, str]  # `engine_facts` of its provenance; empty if the record has none
    at_once: int | None  # how many requests its engine may have had in flight; None if the record does not say
    attempts: tuple[Exchange, ...]


def read_recorded(path: Path, sample: int | None = None) -> list[RecordedAttempts]:
    """Replay a record and return what its models on servers of Parley's own were asked, model by model.

    Raises RecordError if it does not replay, UsageError if no such model answered in it.
    """
    summary, entries = read_record(path)
    game = rebuild_game(path, summary)
    try:
        played = play_recorded(summary, game, entries)
    except RecordError as error:
        raise RecordError(f"{path}: does not replay, so what was asked is unknown: {error}") from None
    attempts: dict[str, list[Exchange]] = defaultdict(list)  # by the name of the model
    described: dict[str, Mapping[str, Any]] = {}
    try:
        groups = [dict(group) for group in summary.simulation["groups"]]
        seats = {seat.name: (groups[seat.group], seat.policy.kind.is_plugin) for seat in game.seats}
        for x, entry in zip(played.exchanges, entries, strict=True):
            group, is_own_code = seats[x.ask.agent]
            if entry.given is None and "model" in group and set(group["model"]["source"]) != {"served"}:
                described[group["model_name"]] = group
                attempts[group["model_name"]] += _as_sent(x, entry.sent) if is_own_code else [x]
        asked_again = []
        for name in sorted(attempts):
            engine = summary.provenance.get("engines", {}).get(name, {})
            model = _entry(path, described[name])
            at_once = engine.get("requests_at_once")
            at_once = at_once if isinstance(at_once, int) and 2 <= at_once <= _MAX_AT_ONCE else None
            asked = sampled(summary.simulation["id"], attempts[name], sample)
            if asked:
                asked_again.append(RecordedAttempts(path, str(name), model, engine_facts(engine), at_once, asked))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RecordError(f"{path}: does not say what played it; move it away") from None
    if not asked_again:
        raise UsageError(f"{path}: no request to a server of Parley's own is in it; there is nothing to ask again")
    return asked_again


def _as_sent(x: Exchange, sent: str | None) -> list[Exchange]:
    """Return the requests that code of the user's own made for an attempt and that were answered, as attempts."""
    return [
        replace(
            x,
            ask=asked.ask,
            entry=replace(x.entry, seed=asked.seed, text=reply.text, finish_reason=reply.finish_reason),
        )
        for asked in requests_of(x.ask, sent)
        if (reply := asked.reply) is not None and asked.seed is not None
    ]


def _entry(path: Path, group: Mapping[str, Any]) -> ModelEntry:
    """Return the model's entry of a group; raises RecordError if no request of now is held to its grammar."""
    before = group["grammar"]
    if grammar_version(before) is None:
        raise RecordError(
            f"{path}: its replies were held to another grammar ({one_line(str(before), 80)}) than any of now; "
            "verify it with the release that made it"
        )
    return recorded_entry(dict(group["model"]), before)


def sampled(simulation_id: str, attempts: Sequence[Exchange], count: int | None) -> tuple[Exchange, ...]:
    """Return the `count` attempts whose SHA-256 of simulation and key is smallest, in their order; all for None.

    So a smaller sample is part of a larger one, and the same attempts are asked again every time.
    """
    if count is None:
        return tuple(attempts)
    chosen = {x.entry.key for x in sorted(attempts, key=lambda x: digest([simulation_id, *x.entry.key]))[:count]}
    return tuple(x for x in attempts if x.entry.key in chosen)


def engine_differences(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words how the facts of two engines differ; "" if they do not."""
    if not recorded:
        return "the record does not say what answered it"
    return "; ".join(
        one_line(f"{name} {recorded.get(name, 'not set')}, now {now.get(name, 'not set')}", 200)
        for name in dict.fromkeys([*recorded, *now])
        if recorded.get(name) != now.get(name)
    )


def engine_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return what in an engine's provenance may change replies, as names and values."""
    facts = {name: provenance.get(name) for name in ("engine", "served", "device", "compute_capability", "cuda")}
    for name in ("versions", "weights_sha256"):
        facts |= {f"{name} of {key}": value for key, value in dict(provenance.get(name) or {}).items()}
    facts["deterministic by"] = dict(provenance.get("deterministic") or {}).get("by")
    option = ""
    for argument in map(str, provenance.get("arguments") or []):
        if argument.startswith("--"):
            option = argument
            facts[option] = "set"
        else:
            facts[option] = argument
    return {name: str(value) for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class Difference:
    """The first reply of a pass that is another one; `at` is the character where the texts part."""

    attempt: Exchange
    now: Completion
    at: int | None  # None if only the finish reasons differ

    @property
    def where(self) -> str:
        """Round, phase, agent, attempt and character."""
        entry = self.attempt.entry
        place = "finish reason" if self.at is None else f"character {self.at}"
        return f"round {entry.round}, {entry.phase}, {entry.agent}, attempt {entry.attempt}, {place}"


@dataclass(frozen=True)
class Verified:
    """One pass over one record, the replies in the order of what was asked."""

    recorded: RecordedAttempts
    batch: int
    cache: str  # the state of the prefix cache: warm or cold
    replies: Sequence[Completion]
    seconds: float  # of the whole pass, over all records of the model

    @cached_property
    def different(self) -> list[Difference]:
        """The replies that are others."""
        compared = map(compare, self.recorded.attempts, self.replies)
        return [difference for difference in compared if difference is not None]

    @property
    def row(self) -> dict[str, str | int | float | None]:
        """The pass as a row of the table, by the names of its columns.

        `cached` is the share of the prompt tokens that the engine took from its cache, None if no reply tells.
        """
        asked, different = len(self.replies), len(self.different)
        counted = [reply for reply in self.replies if reply.prompt_tokens and reply.cached_tokens is not None]
        total = sum(reply.prompt_tokens or 0 for reply in counted)
        cached = sum(reply.cached_tokens or 0 for reply in counted)
        return {
            "model": self.recorded.model,
            "batch": self.batch,
            "cache": self.cache,
            "asked": asked,
            "identical": asked - different,
            "different": different,
            "cached": cached / total if total else None,
            "seconds": self.seconds,
            "first difference": self.different[0].where if different else None,
            "record": str(self.recorded.path),
        }


def as_shown(row: Mapping[str, str | int | float | None]) -> dict[str, str | int | float]:
    """Return a row for people: a share in percent, and a sign for what is missing."""
    cached = row["cached"]
    shown = {**row, "cached": f"{cached:.0%}" if isinstance(cached, float) else None}
    return {key: "-" if value is None else value for key, value in shown.items()}


def difference_lines(result: Verified) -> Iterator[str]:
    """Yield lines that show both texts around the first difference of a pass; none if there is none."""
    for first in result.different[:1]:
        where = f"{result.recorded.path}, {result.recorded.model}, batch {result.batch}, {result.cache} cache"
        yield one_line(f"{where}: {first.where}")
        entry, now = first.attempt.entry, first.now
        yield one_line(f"recorded: {_excerpt(entry.text, first.at)} ({entry.finish_reason})")
        yield one_line(f"now: {_excerpt(now.text, first.at)} ({now.finish_reason})")


def _excerpt(text: str, at: int | None) -> str:
    """Return the part of a text around a character as a Python string, whose escapes show what does not print."""
    start = max(0, (at or 0) - _AROUND)
    end = (at or 0) + _AROUND
    before, after = "..." if start else "", "..." if end < len(text) else ""
    return f"{before}{text[start:end]!a}{after}"


def verify(
    records: Sequence[Path],
    endpoints: Sequence[Path],
    models_file: Path,
    batch: int | None,
    sample: int | None,
    engine_timeout: float,
) -> Iterator[Verified]:
    """Ask again for the replies of `records`, and yield what each pass over each model found, record by record.

    A pass asks the attempts of all records of a model, `batch` at once: by default as many as its engine may have had
    in flight, if a record says so, else 16. `endpoints` are endpoint files of running engines; for every other model
    that is needed one is started. `sample` limits the attempts per record and model (see `sampled`). Everything is
    read and checked before the first request. Raises RecordError for a record that cannot be replayed, UsageError if
    there is nothing to ask or an engine serves another model, EngineError if the engine fails.
    """
    recorded = [one for path in records for one in read_recorded(path, sample)]
    running = {read_endpoint(path).model: path for path in endpoints}
    for model, path in running.items():
        if model not in {one.model for one in recorded}:
            raise UsageError(f"{path}: serves {model}, not {' or '.join(sorted({one.model for one in recorded}))}")
    for model, group in groupby(sorted(recorded, key=lambda one: one.model), key=lambda one: one.model):
        known = running.get(model)
        with temporary_engine(model, models_file) if known is None else nullcontext(known) as place:
            now = engine_facts(read_endpoint(place).engine)
            its_records = list(group)
            for one in its_records:
                if other := engine_differences(one.engine, now):
                    other = f"the engine is not the recorded one, so different replies prove nothing: {other}"
                    _log.warning("%s: %s", one.path, other)
            most = max(one.at_once or _BATCH for one in its_records) if batch is None else batch
            for size in (1, most):
                for warm in (False, True):
                    yield from asyncio.run(_ask_again(its_records, place, size, warm, engine_timeout))


async def _ask_again(
    records: Sequence[RecordedAttempts],
    place: Path,
    batch: int,
    warm: bool,
    engine_timeout: float,
) -> list[Verified]:
    """Ask every attempt of some records of one model again, `batch` at a time, in their order."""
    pass_name = f"{records[0].model}, batch {batch}, {'warm' if warm else 'cold'} cache"
    asked = [(one, attempt) for one in records for attempt in one.attempts]
    salt = uuid.uuid4().hex
    turn = asyncio.Semaphore(batch)
    began = time.monotonic()
    answered = 0

    async def again(one: RecordedAttempts, attempt: Exchange) -> Completion:
        nonlocal answered
        async with turn:
            reply = await _request(engine, one, attempt, salt if warm else uuid.uuid4().hex, primed=warm)
        answered += 1
        seldom = every(since=began)
        _log.info("%s: %d of %d", pass_name, answered, len(asked), extra=seldom)
        return reply

    async with Engine(place) as engine:
        await engine.wait_ready(engine_timeout)
        start = time.perf_counter()
        replies = iter(await all_of(again(one, attempt) for one, attempt in asked))
        seconds = time.perf_counter() - start
    results = [
        Verified(one, batch, "warm" if warm else "cold", list(islice(replies, len(one.attempts))), seconds)
        for one in records
    ]
    different = sum(len(result.different) for result in results)
    _log.info("%s: %d asked, %d different, %.1f s", pass_name, len(asked), different, seconds)
    return results


async def _request(
    engine: Engine, recorded: RecordedAttempts, attempt: Exchange, salt: str, primed: bool
) -> Completion:
    """Ask once; `primed` puts the prompt into the cache of this salt right before, so that nothing evicts it."""
    ask, seed = attempt.ask, attempt.entry.seed
    if primed:
        brief = replace(ask, sampling=ask.sampling.model_copy(update={"max_tokens": 1}))
        await engine.chat(brief, seed, recorded.entry, salt)
    reply = await engine.chat(ask, seed, recorded.entry, salt)
    return replace(reply, text=valid_unicode(reply.text))  # as it is recorded


def compare(attempt: Exchange, now: Completion) -> Difference | None:
    """Return how a reply differs from the recorded one; None if text and finish reason are equal."""
    before = attempt.entry.text
    if now.text == before:
        same = now.finish_reason == attempt.entry.finish_reason
        return None if same else Difference(attempt, now, None)
    pairs = enumerate(zip(before, now.text, strict=False))
    at = next((place for place, (old, new) in pairs if old != new), min(len(before), len(now.text)))
    return Difference(attempt, now, at)
