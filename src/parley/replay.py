"""Replay: play a simulation again from its record, with no engine, and compare the content digests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.errors import RecordError
from parley.games import game_class
from parley.games.base import Ask, Game, new_game
from parley.journal import Entry
from parley.policies import Completion
from parley.record import Summary, read_record
from parley.runner import Play, play


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
        return Completion(
            entry.text, entry.finish_reason, entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens
        )


@dataclass(frozen=True)
class Replayed:
    """What a replay of one record gave; `difference` is None if the digests are equal."""

    path: Path
    summary: Summary
    play: Play | None
    difference: str | None


def replay(path: Path) -> Replayed:
    """Play a record again; raises RecordError if it cannot be read or its game is not known."""
    summary, entries = read_record(path)
    game = rebuild_game(summary)
    recorded = RecordedPolicy(entries)
    policies = {seat.name: recorded for seat in game.seats}
    try:
        again = play(summary.simulation["id"], game, policies)
    except RecordError as error:
        return Replayed(path, summary, None, str(error))
    if len(again.exchanges) != len(entries):
        return Replayed(path, summary, again, f"{len(entries)} replies recorded, {len(again.exchanges)} asked for")
    difference = None if again.digest == summary.digest else "the content digests differ"
    return Replayed(path, summary, again, difference)


def rebuild_game(summary: Summary) -> Game:
    """Return a fresh game as the record describes it."""
    simulation: Any = summary.simulation
    game = game_class(simulation["game"])
    if simulation["protocol_version"] != game.protocol_version:
        raise RecordError(
            f"recorded with version {simulation['protocol_version']} of the {game.name} game, this is "
            f"{game.protocol_version}; use the release that made it"
        )
    parameters = game.Parameters.model_validate(simulation["parameters"])
    return new_game(game, parameters, simulation["counts"], simulation["prompt"], simulation["seed"])
