"""The runner: plays one simulation of any game.

It takes the asks of a phase, answers all of them at once, hands the replies back in the order of the asks, and keeps
what was said. It asks nothing that the journal already answers.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from parley.errors import BudgetError, JournalError, PausedError
from parley.games.base import Game, Outcome
from parley.games.playing import playing, readings
from parley.identity import digest, request_seed
from parley.play.journal import Entry, Journal, off_loop, requests_json
from parley.policies import CHANGED, Ask, Policy, Reply, Request, requests_made, said_name, token_count
from parley.policies.kinds import ScriptedPolicy
from parley.policies.reply_text import Reading, read_reply
from parley.study.condition import Player
from parley.text import one_line, valid_unicode

Result = TypeVar("Result")
_MAX_REASONING = 250_000  # characters; more than a record has room for in a row would make it unreadable
_KEPT = 20  # pairs of names in a record: a service may send another one each time


@dataclass(frozen=True)
class Exchange:
    """One attempt at one ask: what was asked, what came back, and what it was taken for."""

    ask: Ask
    entry: Entry
    reply: Reply

    @property
    def failed(self) -> bool:
        """Whether somebody was asked in vain; what a change left out nobody was asked for."""
        return self.reply.failure is not None and self.entry.given != CHANGED

    @property
    def lacking(self) -> str:
        """Why there is no reply, in words for people."""
        return f"unusable reply ({self.reply.failure})" if self.failed else "silenced"


@dataclass(frozen=True)
class Play:
    """A finished simulation: every attempt, in order, and the outcome."""

    simulation_id: str
    exchanges: tuple[Exchange, ...]
    outcome: Outcome

    @property
    def digest(self) -> str:
        """SHA-256 of what the game saw and decided: no times, no token counts."""
        said = [
            [*x.entry.key, x.entry.seed, x.entry.ask, x.entry.text, x.entry.finish_reason, x.reply.failure]
            for x in self.exchanges
        ]
        return digest([self.simulation_id, said, self.outcome.as_json()])


class Watcher:
    """Is told how a game goes while it is played; by default it does nothing."""

    def asking(self, asks: Sequence[Ask]) -> None:
        """Be told what is asked in the phase that begins."""

    def requesting(self, ask: Ask) -> None:
        """Be told of a request before it is made; a PausedError ends the game when those in flight are answered."""

    def answered(self, exchange: Exchange) -> None:
        """Be told of one attempt, as soon as it is there."""

    def phase_over(self, exchanges: Sequence[Exchange]) -> None:
        """Be told of all attempts of a phase, in the order of its asks."""

    def over(self, outcome: Outcome) -> None:
        """Be told how the game ended."""


def play(
    simulation_id: str, game: Game, policies: Mapping[str, Policy], journal: Journal | None = None, **more: Any
) -> Play:
    """Play as `play_async` does, to the end; where an event loop runs, in a thread with a loop of its own."""
    playing = play_async(simulation_id, game, policies, journal, **more)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(playing)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, playing).result()


async def play_async(
    simulation_id: str,
    game: Game,
    policies: Mapping[str, Policy],
    journal: Journal | None = None,
    watchers: Sequence[Watcher] = (),
) -> Play:
    """Play `game` to its end and return what happened; `policies` maps each agent's name to what answers for it."""
    generator = playing(game)
    exchanges: list[Exchange] = []
    answers = _Answers(simulation_id, policies, game.parameters.retries, readings(game), journal, watchers)
    asks = next(generator)
    while True:
        for watcher in watchers:
            watcher.asking(asks)
        answered = await answers.of_phase(asks)
        phase = [exchange for attempts in answered for exchange in attempts]
        exchanges.extend(phase)
        for watcher in watchers:
            watcher.phase_over(phase)
        replies = [attempts[-1].reply for attempts in answered]
        try:
            asks = generator.send(replies)
        except StopIteration as end:
            for watcher in watchers:
                watcher.over(end.value)
            return Play(simulation_id, tuple(exchanges), end.value)


async def all_of(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return the results of what is done at once, in order; the first error of any ends all, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


@dataclass(frozen=True)
class _Answers:
    """What answers the asks of one simulation, and how the replies of each agent are read."""

    simulation_id: str
    policies: Mapping[str, Policy]
    retries: int
    readings: Mapping[str, Reading]
    journal: Journal | None
    watchers: Sequence[Watcher]

    async def of_phase(self, asks: list[Ask]) -> list[list[Exchange]]:
        """Have all asks of a phase in flight at once, unless rules answer them; the first error of any ends all.

        Only a spent budget or a pause lets those in flight finish first: they are paid, and the journal keeps them.
        """
        refused: list[BudgetError | PausedError] = []

        async def answer(ask: Ask) -> list[Exchange]:
            try:
                return await self._of(ask)
            except (BudgetError, PausedError) as error:
                refused.append(error)
                return []

        if all(isinstance(self.policies[ask.agent], ScriptedPolicy) for ask in asks):
            answered = [await answer(ask) for ask in asks]
        else:
            answered = await all_of(map(answer, asks))
        if self.journal is not None:
            await off_loop(self.journal.sync)
        if refused:
            raise refused[-1]
        return answered

    async def _of(self, ask: Ask) -> list[Exchange]:
        """Ask until a reply can be used or the retries are spent; return every attempt."""
        attempts = []
        took = 0
        for attempt in range(self.retries + 1):
            entry = _journaled(ask, attempt, self.journal)
            if entry is None:
                for watcher in self.watchers:
                    watcher.requesting(ask)
                entry = await request(self.simulation_id, ask, self.policies[ask.agent], attempt)
                if self.journal is not None:
                    self.journal.append(entry)
            reply = read_reply(ask, entry.text, entry.finish_reason, self.readings[ask.agent])
            took += entry.milliseconds
            attempts.append(Exchange(ask, entry, replace(reply, milliseconds=took) if took else reply))
            for watcher in self.watchers:
                watcher.answered(attempts[-1])
            if reply.failure in (None, "prompt_too_long") or entry.given == CHANGED:  # it would be the same again
                break
        return attempts


def _journaled(ask: Ask, attempt: int, journal: Journal | None) -> Entry | None:
    if journal is None:
        return None
    entry = journal.entries.get((ask.round, ask.phase, ask.agent, attempt))
    if entry is not None and entry.ask != ask.digest:
        raise JournalError(
            f"{journal.path}: answers another question for {ask.agent} in round {ask.round}; it was written by "
            "another version of the game: move it away"
        )
    return entry


async def request(simulation_id: str, ask: Ask, policy: Policy, attempt: int) -> Entry:
    """Ask once, with the seed of this attempt, and return what came back."""
    seed = request_seed(simulation_id, ask.round, ask.phase, ask.agent, attempt)
    made: list[Request] = []
    started = time.time()
    clock = time.perf_counter()
    here = requests_made.set(made)
    try:
        completion = await policy.answer(ask, seed, attempt)
    finally:
        requests_made.reset(here)
    seconds = time.perf_counter() - clock if completion.seconds is None else completion.seconds

    def tokens(name: str) -> int | None:
        counted = [count for each in made if (count := token_count(getattr(each.reply, name, None))) is not None]
        return token_count(sum(counted) if counted else getattr(completion, name))

    return Entry(
        round=ask.round,
        phase=ask.phase,
        agent=ask.agent,
        attempt=attempt,
        seed=seed,
        ask=ask.digest,
        text=valid_unicode(completion.text),
        finish_reason=one_line(completion.finish_reason, 40),
        prompt_tokens=tokens("prompt_tokens"),
        completion_tokens=tokens("completion_tokens"),
        cached_tokens=tokens("cached_tokens"),
        started=round(started, 3),
        seconds=round(seconds, 3),
        served_model=said_name(completion.served_model),
        system_fingerprint=said_name(completion.system_fingerprint),
        reasoning=None if completion.reasoning is None else valid_unicode(completion.reasoning)[:_MAX_REASONING],
        reasoning_tokens=tokens("reasoning_tokens"),
        given=completion.given,
        sent=requests_json(ask, made),
    )


def count_answered(exchanges: Iterable[Exchange], players: Mapping[str, Player]) -> dict[str, list[list[Any]]]:
    """Return for each model of a study the names and fingerprints that answered, each with its number of replies.

    The most frequent ones come first, and only those are kept. Names are None where a reply did not say.
    """
    counts: dict[str, Counter[tuple[str | None, str | None]]] = defaultdict(Counter)
    for x in exchanges:
        counts[players[x.ask.agent].model or ""][x.entry.served_model, x.entry.system_fingerprint] += 1
    return {
        name: [[*pair, number] for pair, number in found.most_common(_KEPT)] for name, found in sorted(counts.items())
    }
