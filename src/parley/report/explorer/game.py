"""The data behind the explorer's page of a game: its matrix and every attempt; in a file each text stands once.

`templates/explorer/game*.js` draws them.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from parley.errors import ParleyError
from parley.games.base import Game
from parley.games.evidence import State, Timeline, TimelineCell
from parley.play.forks import SILENCED
from parley.play.matrix import AGAIN, FAILED, NO_STATE, Replied, game_timeline, marks_of, rounds_of
from parley.play.record import Summary, read_trace
from parley.play.record_content import IMPOSSIBLE
from parley.play.record_store import of_no_game, require_own
from parley.report.explorer.attempts import (
    Attempt,
    models_of,
    recorded_attempts,
    running_attempts,
    simulation_of,
)
from parley.report.explorer.selection import Part, SimulationFile
from parley.study.condition import Simulation
from parley.text import one_line

FORMAT = 1
_LONGEST = 80  # characters of a reply in a cell
_MOST_EXACT = 2**53  # the integers that a browser tells apart
_WORD = 16  # characters of a value that is no free text


class _Texts:
    """Texts by number, each once; a prompt is the list of its lines, since prompts repeat each other line by line."""

    def __init__(self) -> None:
        self.all: list[str | list[int]] = []
        self._numbers: dict[str, int] = {}
        self._prompts: dict[str, int] = {}

    def number(self, text: str | None) -> int | None:
        """Return the number of a text; None for none, and for an empty one."""
        return self._number(text) if text else None

    def prompt(self, text: str) -> int | None:
        """Return the number of a text that is kept as its lines; None for an empty one."""
        if "\n" not in text:
            return self.number(text)
        number = self._prompts.get(text)
        if number is None:
            lines = text.split("\n")
            known = self._numbers
            for line in lines:
                if line not in known:  # most lines are: a call for each took as long as all else
                    self._number(line)
            number = self._prompts[text] = len(self.all)
            self.all.append([known[line] for line in lines])
        return number

    def _number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(text)
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
            why = str(error) if isinstance(error, ParleyError) else of_no_game(file.path, one_line(repr(error), 150))
            about = {"id": file.simulation.id, "seed": file.simulation.seed}
            simulations.append({**about, "damaged": one_line(why, 300)})
    return {
        "format": FORMAT,
        "condition": f"{part.number:04d}",
        "part": part.name,
        "texts": texts.all,
        "states": [{"name": s.name, "label": s.label, "color": s.color} for s in states.values()],
        "simulations": simulations,
    }


def _simulation(file: SimulationFile, texts: _Texts, states: dict[str, State]) -> dict[str, Any]:
    summary, until = None, None
    outcome: Mapping[str, Any] | None
    if file.running:
        simulation = file.simulation
        game = simulation.game()
        attempts, until, outcome = running_attempts(file, game)
        trace = outcome["trace"] if outcome else []
    else:
        summary, attempts = recorded_attempts(file)
        require_own(file.path, file.simulation, summary)
        simulation = simulation_of(file, summary)
        game = simulation.game()
        outcome, trace = summary.outcome, read_trace(file.path)
    timeline = game_timeline(game, outcome, trace, replies_of(attempts), until)
    for state in timeline.states:
        states.setdefault(state.name, state)
    rounds, marks = rounds_of(timeline), marks_of(timeline)
    names = {name: place for place, name in enumerate(timeline.agents)}
    models = models_of(simulation)
    cells = []
    for agent, number in dict.fromkeys([*timeline.cells, *marks]):
        cell = timeline.cells.get((agent, number), TimelineCell(NO_STATE))
        cells.append(
            [names[agent], number, cell.state or None, texts.number(cell.text), marks.get((agent, number), [])]
        )
    return {
        "id": simulation.id,
        "seed": simulation.seed,
        **_outcome(simulation.condition.game, summary),
        "rounds": sorted({*rounds, *(attempt.entry.round for attempt in attempts)}),
        "round_name": game.evidence.round_name,
        "agents": _agents(simulation, game, timeline),
        "cells": cells,
        "results": {str(number): text for number, text in timeline.results.items()},
        "results_label": timeline.results_label,
        "framed_label": timeline.framed_label,
        "unheard": [
            [names[agent], number, [[texts.number(part) for part in pair] for pair in pairs]]
            for (agent, number), pairs in timeline.unheard.items()
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
        entry = attempt.entry
        last[entry.agent, entry.round][entry.phase] = attempt
    several = len({attempt.entry.phase for attempt in attempts}) > 1
    replies = {}
    for place, phases in last.items():
        texts = [f"{phase}: {reply_text(one)}" if several else reply_text(one) for phase, one in phases.items()]
        failed = any(attempt.failure not in (None, SILENCED) for attempt in phases.values())
        again = any(attempt.entry.attempt for attempt in phases.values())
        replies[place] = Replied("; ".join(texts), [FAILED] * failed + [AGAIN] * again)
    return replies


def reply_text(attempt: Attempt) -> str:
    """Return a reply as a few words, in one line: free text only where there is nothing shorter."""
    if attempt.failure is not None:
        return SILENCED if attempt.failure == SILENCED else ""
    if isinstance(attempt.parsed, Mapping):
        short = {name: value for name, value in attempt.parsed.items() if 0 < len(str(value)) <= _LONGEST}
        short = {name: value for name, value in short.items() if len(str(value)) <= _WORD} or short
        words = [str(value) if len(short) == 1 else f"{name} {value}" for name, value in short.items()]
        return one_line(", ".join(words), _LONGEST)
    return one_line(attempt.entry.text, _LONGEST)


def _outcome(game: type[Game], summary: Summary | None) -> dict[str, Any]:
    if summary is None:
        return {"outcome": None, "diagnosis": None, "metrics": {}, "running": True}
    outcome = summary.outcome
    return {
        "outcome": game.class_of(outcome["name"], outcome["detail"]),
        "diagnosis": outcome["diagnosis"] or outcome["detail"],
        "metrics": exact(outcome["metrics"]),
    }


def _agents(simulation: Simulation, game: Game, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the agents in the order of the matrix; `hears` is None where everyone hears everyone."""
    seats = {seat.name: (place, seat) for place, seat in enumerate(game.seats)}
    players = simulation.players
    order: Sequence[str] = list(seats)
    complete = game.network.is_complete
    found = []
    for name, label in timeline.agents.items():
        place, seat = seats.get(name, (None, None))
        hears = None if complete or place is None else [order[peer] for peer in game.network.neighbors(place)]
        found.append(
            {
                "name": name,
                "label": label,
                "role": seat.role if seat else None,
                "player": players[name].label if name in players else None,
                "framed": name in timeline.framed,
                "hears": hears,
            }
        )
    return found


def _attempt(attempt: Attempt, names: dict[str, int], texts: _Texts, by_model: bool) -> list[Any]:
    """Return an attempt in the order of the page's columns; what it was taken for is True where it is its text."""
    entry = attempt.entry
    return [
        *(entry.round, entry.phase, names[entry.agent], entry.attempt),
        *(texts.prompt(attempt.system), texts.prompt(attempt.user), texts.number(entry.text)),
        *(True if attempt.as_written else exact(attempt.parsed), attempt.failure, attempt.failure_detail),
        *(entry.prompt_tokens, entry.completion_tokens, entry.seconds, exact(entry.seed)),
        *(attempt.temperature if by_model else None, entry.finish_reason, texts.number(entry.reasoning)),
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
