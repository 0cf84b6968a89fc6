"""Replay: play a simulation again from its record, with no engine, and compare the content digests."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parley.errors import RecordError, UsageError
from parley.games.base import Game
from parley.games.playing import playing, readings
from parley.play.journal import Entry
from parley.play.record import Summary, read_record, read_trace
from parley.play.runner import Exchange, Play, Watcher, play
from parley.policies import Ask, Completion
from parley.policies.kinds import IMPORTED
from parley.policies.reply_text import read_reply
from parley.study.recorded import recorded_game, recorded_simulation
from parley.text import one_line

MISSING = "missing"  # the finish reason of a reply that is not there
_MOST_MISSING = 2_000  # besides ten for each reply that is there
Key = tuple[int, str, str]  # round, phase, agent


class RecordedPolicy:
    """Answers with what was recorded; the question must be the recorded one."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = {entry.key: entry for entry in entries}

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the recorded reply; raises RecordError if something else was asked then."""
        entry = self._entries.get((ask.round, ask.phase, ask.agent, attempt))
        where = f"round {ask.round}, {ask.phase}, {ask.agent}, attempt {attempt}"
        if entry is None:
            raise RecordError(f"{where}: the record has no such reply")
        if entry.ask != ask.digest or entry.seed != seed:
            raise RecordError(f"{where}: another question was recorded")
        tokens = (entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens)
        return Completion(entry.text, entry.finish_reason, *tokens, entry.seconds, given=entry.given)


def replay_replies(simulation_id: str, game: Game, replies: Iterable[Entry]) -> tuple[Play, list[Key]]:
    """Play a fresh game with replies that are there already; return what happened, and which of them are missing.

    The rules decide what the replies come to; what was asked then is unknown, for it is not what Parley asks.

    The last attempt at an ask counts. A missing reply counts as one that cannot be used. Raises RecordError if far
    more are missing than there are: a line of a file could ask for 10,000 rounds.
    """
    attempts: dict[Key, list[Entry]] = defaultdict(list)
    for entry in sorted(replies, key=lambda entry: entry.attempt):
        attempts[entry.key[:3]].append(entry)
    generator, read_as = playing(game), readings(game)
    exchanges: list[Exchange] = []
    missing: list[Key] = []
    asks = next(generator)
    while True:
        answers = []
        for ask in asks:
            key = (ask.round, ask.phase, ask.agent)
            if key not in attempts:
                missing.append(key)
            nothing = Entry(*key, 0, 0, "", "", MISSING, None, None, None, 0.0, 0.0)
            for entry in attempts.get(key, [nothing]):
                reply = read_reply(ask, entry.text, entry.finish_reason, read_as[ask.agent])
                exchanges.append(Exchange(replace(ask, system="", user=""), replace(entry, ask=""), reply))
            answers.append(exchanges[-1].reply)
        if len(missing) > _MOST_MISSING + 10 * len(attempts):
            raise RecordError(
                f"more than {len(missing) - len(asks):,} replies are missing; lower its number of rounds"
            )
        try:
            asks = generator.send(answers)
        except StopIteration as end:
            return Play(simulation_id, tuple(exchanges), end.value), missing


@dataclass(frozen=True)
class Replayed:
    """What a replay of one record gave; `difference` is None if the digests are equal."""

    path: Path
    summary: Summary
    difference: str | None
    play: Play | None = None  # None where it was asked something else

    @property
    def identical(self) -> bool:
        """Whether the replay gave what was recorded."""
        return self.difference is None


def replay(path: Path) -> Replayed:
    """Play a record again; raises RecordError naming a file that cannot be read or played."""
    summary, entries = read_record(path)
    game = rebuild_game(path, summary)
    if any(seat.policy.kind is IMPORTED for seat in game.seats):
        raise RecordError(
            f"{path}: imported without its prompts, so it cannot be replayed; its payoffs were checked against its "
            "actions when it was imported"
        )
    try:
        again = play_recorded(summary, game, entries)
    except RecordError as error:
        return Replayed(path, summary, str(error))
    return Replayed(path, summary, _difference(summary, entries, read_trace(path), again), again)


def play_recorded(summary: Summary, game: Game, entries: list[Entry], watchers: Sequence[Watcher] = ()) -> Play:
    """Play a fresh game with the recorded replies; raises RecordError where the game asks something else."""
    recorded = RecordedPolicy(entries)
    return play(summary.simulation["id"], game, {seat.name: recorded for seat in game.seats}, watchers=watchers)


def _difference(summary: Summary, entries: list[Entry], trace: list[dict[str, Any]], again: Play) -> str | None:
    if len(again.exchanges) != len(entries):
        return f"{len(entries)} replies recorded, {len(again.exchanges)} asked for"
    if again.digest != summary.digest:
        return "the content digests differ"
    if again.outcome.as_json() != {**summary.outcome, "trace": trace}:
        return "the recorded outcome is not that of its replies"
    return None


def rebuild_game(path: Path, summary: Summary) -> Game:
    """Return a fresh game as the record describes it; raises RecordError if it describes none of this version."""
    simulation: Any = summary.simulation
    try:
        game = recorded_game(path, simulation)
        if simulation["protocol_version"] != game.protocol_version:
            raise RecordError(
                f"{path}: recorded with version {simulation['protocol_version']} of the {game.name} game, this is "
                f"{game.protocol_version}; use the release that made it"
            )
        simulated = recorded_simulation(path, simulation)
        for name in simulated.condition.roles_by_prompt:
            game.prompts.files(name, simulated.condition.parameters)  # an unknown prompt is a LookupError
        return simulated.game()
    except (UsageError, ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path}: describes no simulation that can be played: {one_line(str(error), 150)}") from None
