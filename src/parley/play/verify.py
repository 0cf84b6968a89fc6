"""Verify: ask the model again for what a record holds, and compare the replies (level 3 of reproduction).

The asks come from a replay of the record, so the model is asked exactly what it was asked then: messages, sampling,
seed, and what the reply is held to. A reply is equal if its text and its finish reason are.
"""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from parley.engine.client import Engine
from parley.engine.endpoint import read_endpoint
from parley.engine.grammar import grammar_version
from parley.engine.models import ModelEntry, recorded_entry
from parley.engine.supervisor import temporary_engine
from parley.errors import RecordError, UsageError
from parley.identity import canonical_json, digest
from parley.play.record import read_record
from parley.play.replay import play_recorded, rebuild_game
from parley.play.runner import Exchange, all_of
from parley.policies import Completion
from parley.text import one_line, valid_unicode

_log = logging.getLogger(__name__)
# What of an engine may change replies.
_FACTS = (
    *("engine", "served", "device", "compute_capability", "cuda"),
    *("versions", "weights_sha256", "deterministic"),
)
_AROUND = 24  # characters that an excerpt shows before and after a difference


@dataclass(frozen=True)
class RecordedAttempts:
    """What a record says of one model: the attempts that it answered, and the engine that served it."""

    path: Path
    model: str
    entry: ModelEntry  # by its identity
    engine: Mapping[str, str]  # `engine_facts` of its provenance; empty if the record has none
    attempts: tuple[Exchange, ...]


def read_recorded(path: Path, sample: int | None = None) -> list[RecordedAttempts]:
    """Replay a record and return what its models on servers of Parley's own were asked, model by model.

    Requests of code of the user's own are not among them. Raises RecordError if it does not replay, UsageError if no
    such model answered in it.
    """
    summary, entries = read_record(path)
    game = rebuild_game(path, summary)
    try:
        played = play_recorded(summary, game, entries)
    except RecordError as error:
        raise RecordError(f"{path}: does not replay, so what was asked is unknown: {error}") from None
    attempts: dict[str, list[Exchange]] = defaultdict(list)  # by the name of the model
    entry_of: dict[str, ModelEntry] = {}
    try:
        groups = [dict(group) for group in summary.simulation["groups"]]
        seats = {seat.name: groups[seat.group] for seat in game.seats if not seat.policy.kind.is_plugin}
        for x in played.exchanges:
            group = seats.get(x.ask.agent, {})
            if x.entry.given is None and "model" in group and set(group["model"]["source"]) != {"served"}:
                attempts[group["model_name"]].append(x)
                entry_of[group["model_name"]] = _entry(path, group)
        engines = summary.provenance.get("engines", {})
        facts = {name: engine_facts(engines.get(name, {})) for name in attempts}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RecordError(f"{path}: does not say what played it; move it away") from None
    if not attempts:
        raise UsageError(f"{path}: no request to a server of Parley's own is in it; there is nothing to ask again")
    identity = summary.simulation["id"]
    return [
        RecordedAttempts(path, name, entry_of[name], facts[name], sampled(identity, attempts[name], sample))
        for name in sorted(attempts)
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
        one_line(f"{name} {recorded.get(name, 'not set')}, now {now.get(name, 'not set')}", 600)
        for name in {**recorded, **now}
        if recorded.get(name) != now.get(name)
    )


def engine_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return what in an engine's provenance may change replies, as JSON by name."""
    facts = {**provenance, "deterministic": dict(provenance.get("deterministic") or {}).get("by")}
    told, option = {name: canonical_json(facts[name]) for name in _FACTS if facts.get(name)}, ""
    for argument in map(str, provenance.get("arguments") or []):
        if argument.startswith("--"):
            option, told[argument] = argument, "set"
        else:
            told[option] = argument
    return told


@dataclass(frozen=True)
class Difference:
    """A reply that is another one; `at` is the character where the texts part."""

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
    def row(self) -> dict[str, str | int | float]:
        """The pass as a row for people; `cached` is the share of the prompt tokens that the engine had cached."""
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
            "cached": f"{cached / total:.0%}" if total else "-",
            "seconds": self.seconds,
            "first difference": self.different[0].where if different else "-",
            "record": str(self.recorded.path),
        }


def difference_lines(result: Verified) -> Iterator[str]:
    """Yield lines that show both texts around the first difference of a pass; none if there is none."""
    for first in result.different[:1]:
        where = f"{result.recorded.path}, {result.recorded.model}, batch {result.batch}, {result.cache} cache"
        yield one_line(f"{where}: {first.where}")
        around = slice(max(0, (first.at or 0) - _AROUND), (first.at or 0) + _AROUND)
        for name, reply in (("recorded", first.attempt.entry), ("now", first.now)):
            yield one_line(
                f"{name}: {reply.text[around]!a} ({reply.finish_reason})"
            )  # escapes show what prints nothing


def verify(
    records: Sequence[Path],
    endpoints: Sequence[Path],
    models_file: Path,
    batch: int,
    sample: int | None,
    engine_timeout: float,
) -> Iterator[Verified]:
    """Ask again for the replies of `records`, and yield what each pass over each model found, record by record.

    A pass asks the attempts of all records of a model, `batch` at once. `endpoints` are endpoint files of running
    engines; for every other model that is needed one is started. `sample` limits the attempts per record and model
    (see `sampled`). Everything is read and checked before the first request. Raises RecordError for a record that
    cannot be replayed, UsageError if there is nothing to ask or an engine serves another model, EngineError if the
    engine fails.
    """
    recorded = sorted((one for path in records for one in read_recorded(path, sample)), key=attrgetter("model"))
    running = {read_endpoint(path).model: path for path in endpoints}
    for model, path in running.items():
        if model not in {one.model for one in recorded}:
            raise UsageError(f"{path}: serves {model}, not {' or '.join(sorted({one.model for one in recorded}))}")
    for model, group in groupby(recorded, key=attrgetter("model")):
        known, its_records = running.get(model), list(group)
        with temporary_engine(model, models_file) if known is None else nullcontext(known) as place:
            now = engine_facts(read_endpoint(place).engine)
            for one in its_records:
                if other := engine_differences(one.engine, now):
                    other = f"the engine is not the recorded one, so different replies prove nothing: {other}"
                    _log.warning("%s: %s", one.path, other)
            for size in (1, batch):
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
    salt = uuid.uuid4().hex  # requests of one salt share what is cached
    turn = asyncio.Semaphore(batch)

    async def again(one: RecordedAttempts, attempt: Exchange) -> Completion:
        ask, seed, own = attempt.ask, attempt.entry.seed, salt if warm else uuid.uuid4().hex
        async with turn:
            if warm:  # right before, so that nothing evicts it
                brief = replace(ask, sampling=ask.sampling.model_copy(update={"max_tokens": 1}))
                await engine.chat(brief, seed, one.entry, own)
            reply = await engine.chat(ask, seed, one.entry, own)
        return replace(reply, text=valid_unicode(reply.text))  # as it is recorded

    async with Engine(place) as engine:
        await engine.wait_ready(engine_timeout)
        start = time.perf_counter()
        replies = iter(await all_of(again(one, attempt) for one in records for attempt in one.attempts))
        seconds = time.perf_counter() - start
    cache = "warm" if warm else "cold"
    results = [Verified(one, batch, cache, list(islice(replies, len(one.attempts))), seconds) for one in records]
    different = sum(len(result.different) for result in results)
    _log.info("%s, batch %d, %s cache: %d different, %.1f s", records[0].model, batch, cache, different, seconds)
    return results


def compare(attempt: Exchange, now: Completion) -> Difference | None:
    """Return how a reply differs from the recorded one; None if text and finish reason are equal."""
    before = attempt.entry.text
    if now.text == before:
        same = now.finish_reason == attempt.entry.finish_reason
        return None if same else Difference(attempt, now, None)
    pairs = enumerate(zip(before, now.text, strict=False))
    at = next((place for place, (old, new) in pairs if old != new), min(len(before), len(now.text)))
    return Difference(attempt, now, at)
