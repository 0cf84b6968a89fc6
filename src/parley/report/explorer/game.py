"""The data behind the explorer's page of a game: its matrix, and every attempt of its record.

`templates/explorer/game*.js` draws them. In a file each text stands once.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from parley.errors import ParleyError
from parley.games.base import Game
from parley.games.evidence import State, Timeline, TimelineCell
from parley.play.degenerate import MEANINGS, degenerate_class, degenerate_of
from parley.play.journal import Entry
from parley.play.matrix import AGAIN, FAILED, NO_STATE, Replied, game_timeline, marks_of, rounds_of
from parley.play.parquet import values
from parley.play.record import Summary, read_attempts, read_record, read_trace
from parley.play.record_content import IMPOSSIBLE
from parley.play.record_store import impossible_outcome_text, require_own
from parley.play.replay import replay_replies
from parley.policies import SILENCED
from parley.policies.reply_text import FreeText
from parley.report.explorer.selection import Part, ShownFile
from parley.study.condition import Simulation
from parley.text import one_line

_OTHERS = ("system", "user", "failure", "failure_detail", "temperature")


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
    degenerate: str = ""  # in words, what kind of nothing it says


def recorded_attempts(file: ShownFile) -> tuple[Summary, list[Attempt]]:
    """Return the summary and the attempts of a record; what was no JSON is read again by playing the game."""
    summary, entries = read_record(file.path)
    _, rows = read_attempts(file.path, _OTHERS)
    others = zip(*(values(rows.column(name)) for name in _OTHERS), strict=True)
    attempts = [Attempt(entry, *other) for entry, other in zip(entries, others, strict=True)]
    for attempt in attempts:
        if attempt.entry.finish_reason == SILENCED and attempt.entry.given:  # nobody failed
            attempt.failure, attempt.failure_detail = SILENCED, None
        if attempt.failure is None:
            attempt.parsed = _json_object(attempt.entry.text)
            attempt.as_written = attempt.parsed is not None
    unread = any(a.failure is None and a.parsed is None and a.entry.text for a in attempts)
    if unread or degenerate_of(summary.telemetry)[1]:
        _read_again(simulation_of(file, summary), attempts)
    return summary, attempts


def simulation_of(file: ShownFile, summary: Summary) -> Simulation:
    """Return the simulation of a record, with what the record kept of what it is about."""
    own = file.simulation
    return Simulation(own.condition, own.seed, summary.simulation.get("material"))


def models_of(simulation: Simulation) -> frozenset[str]:
    """Return the agents that models play."""
    return frozenset(name for name, player in simulation.players.items() if player.entry is not None)


def _read_again(simulation: Simulation, attempts: Sequence[Attempt]) -> None:
    """Add what replies were taken for, and which are degenerate, by playing the game again with them, if it can be."""
    try:
        play, _ = replay_replies(simulation.id, simulation.game(), (attempt.entry for attempt in attempts))
    except (ParleyError, LookupError, TypeError, ValueError, AttributeError):
        return  # of another version, perhaps: what was recorded stands there all the same
    asked = models_of(simulation)
    exchanges = {x.entry.key: x for x in play.exchanges}
    for attempt in attempts:
        entry, exchange = attempt.entry, exchanges.get(attempt.entry.key)
        if exchange is not None and exchange.reply.failure == attempt.failure:
            attempt.parsed = attempt.parsed or _plain(exchange.reply.value)
            ask = replace(exchange.ask, system=attempt.system, user=attempt.user)
            kind = degenerate_class(ask, entry.text, entry.finish_reason, exchange.reply.value)
            attempt.degenerate = MEANINGS[kind] if kind and entry.agent in asked else ""


def _plain(value: BaseModel | None) -> Any:
    """Return what a reply was taken for; None for nothing, and for free text, which is the reply itself."""
    return None if value is None or isinstance(value, FreeText) else value.model_dump(mode="json")


def _json_object(text: str) -> Any:
    """Return the content of a JSON object as browsers read it; None for anything else."""
    try:
        content = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _rounded(number: float) -> float:
    """Return a number that a record keeps in 32 bits, without the digits that this added."""
    return round(number, 4) if math.isfinite(number) else 0.0


_LONGEST = 80  # characters of a reply in a cell
_MOST_EXACT = 2**53  # the integers that a browser tells apart
_WORD = 16  # characters of a value that is no free text


class _Texts:
    """Texts by number, each once; a prompt is the list of its lines, since prompts repeat each other line by line."""

    def __init__(self) -> None:
        self.all: list[str | list[int]] = []
        self._numbers: dict[str | tuple[str], int] = {}

    def number(self, text: str | None) -> int | None:
        """Return the number of a text; None for none, and for an empty one."""
        return self._add(text, text) if text else None

    def prompt(self, text: str) -> int | None:
        """Return the number of a text that is kept as its lines; None for an empty one."""
        if "\n" not in text:
            return self.number(text)
        if (text,) not in self._numbers:
            self._add((text,), [self._add(line, line) for line in text.split("\n")])
        return self._numbers[text,]

    def _add(self, key: str | tuple[str], content: str | list[int]) -> int:
        number = self._numbers.setdefault(key, len(self.all))
        if number == len(self.all):
            self.all.append(content)
        return number


def part_content(part: Part) -> dict[str, Any]:
    """Return the content of a data file, as JSON values; a record that cannot be read is named in its place."""
    texts = _Texts()
    states: dict[str, State] = {}
    simulations = []
    for file in part.simulations:
        try:
            simulations.append(_simulation(file, texts, states))
        except (ParleyError, *IMPOSSIBLE) as error:
            is_own = isinstance(error, ParleyError)
            why = str(error) if is_own else impossible_outcome_text(file.path, one_line(repr(error), 150))
            simulations.append({"id": file.simulation.id, "damaged": one_line(why, 300)})
    return {
        "texts": texts.all,
        "states": [{"name": s.name, "label": s.label, "color": s.color} for s in states.values()],
        "simulations": simulations,
    }


def _simulation(file: ShownFile, texts: _Texts, states: dict[str, State]) -> dict[str, Any]:
    summary, attempts = recorded_attempts(file)
    require_own(file.path, file.simulation, summary)
    simulation = simulation_of(file, summary)
    game = simulation.game()
    timeline = game_timeline(game, summary.outcome, read_trace(file.path), replies_of(attempts))
    for state in timeline.states:
        states.setdefault(state.name, state)
    rounds, marks = rounds_of(timeline), marks_of(timeline)
    names = {name: place for place, name in enumerate(timeline.agents)}
    models = models_of(simulation)
    cells = []
    for place in dict.fromkeys([*timeline.cells, *marks]):
        cell = timeline.cells.get(place, TimelineCell(NO_STATE))
        cells.append([names[place[0]], place[1], cell.state or None, texts.number(cell.text), marks.get(place, [])])
    return {
        "id": simulation.id,
        "metrics": exact(summary.outcome["metrics"]),
        "rounds": sorted({*rounds, *(attempt.entry.round for attempt in attempts)}),
        "round_name": game.evidence.round_name,
        "agents": _agents(simulation, game, timeline),
        "cells": cells,
        "results": {str(number): text for number, text in timeline.results.items()},
        "results_label": timeline.results_label,
        "framed_label": timeline.framed_label,
        "unheard": [
            [names[agent], number, [texts.number(each) for each in said]]
            for (agent, number), said in timeline.unheard.items()
        ],
        "attempts": [
            _attempt(attempt, names, texts, attempt.entry.agent in models)
            for attempt in attempts
            if attempt.entry.agent in names
        ],
    }


def replies_of(attempts: Sequence[Attempt]) -> dict[tuple[str, int], Replied]:
    """Return what each agent last replied in each phase of a round, with marks where it was asked again or in vain."""
    last: dict[tuple[str, int], dict[str, Attempt]] = defaultdict(dict)
    for attempt in attempts:
        last[attempt.entry.agent, attempt.entry.round][attempt.entry.phase] = attempt
    replies = {}
    for place, phases in last.items():
        failed = any(attempt.failure not in (None, SILENCED) for attempt in phases.values())
        again = any(attempt.entry.attempt for attempt in phases.values())
        replies[place] = Replied("; ".join(map(reply_text, phases.values())), [FAILED] * failed + [AGAIN] * again)
    return replies


def reply_text(attempt: Attempt) -> str:
    """Return a reply as a few words, in one line: free text only where there is nothing shorter."""
    if attempt.failure is not None:
        return SILENCED if attempt.failure == SILENCED else ""
    parsed = attempt.parsed.values() if isinstance(attempt.parsed, Mapping) else ()
    words = [str(value) for value in parsed if 0 < len(str(value)) <= _WORD]
    return one_line(", ".join(words) or attempt.entry.text, _LONGEST)


def _agents(simulation: Simulation, game: Game, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the agents in the order of the matrix; `hears` is None where everyone hears everyone."""
    seats = {seat.name: seat for seat in game.seats}
    neighbors = dict(zip(seats, game.network.neighbors, strict=True))
    order, players = list(seats), simulation.players
    heard = {} if game.network.is_complete else {name: [order[peer] for peer in of] for name, of in neighbors.items()}
    return [
        {
            "name": name,
            "label": label,
            "role": seats[name].role if name in seats else None,
            "player": players[name].label if name in players else None,
            "framed": name in timeline.framed,
            "hears": heard.get(name),
        }
        for name, label in timeline.agents.items()
    ]


def _attempt(attempt: Attempt, names: dict[str, int], texts: _Texts, by_model: bool) -> list[Any]:
    """Return an attempt in the order of the page's columns; what it was taken for is True where it is its text."""
    entry = attempt.entry
    return [
        *(entry.round, entry.phase, names[entry.agent], entry.attempt),
        *(texts.prompt(attempt.system), texts.prompt(attempt.user), texts.number(entry.text)),
        *(True if attempt.as_written else exact(attempt.parsed), attempt.failure, attempt.failure_detail),
        *(entry.prompt_tokens, entry.completion_tokens, _rounded(entry.seconds), exact(entry.seed)),
        *(_rounded(attempt.temperature) if by_model else None, entry.finish_reason, texts.number(entry.reasoning)),
        *(attempt.degenerate, texts.number(entry.sent)),
    ]


def exact(value: Any) -> Any:
    """Return JSON values as a browser has them: integers that it would round are texts, and NaN is nothing."""
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, int) and abs(value) >= _MOST_EXACT else value
