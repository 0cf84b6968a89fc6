"""What a data file of the explorer holds: some simulations of one condition, and each text once."""

from collections.abc import Sequence
from typing import Any

from parley.errors import ParleyError
from parley.games.base import Game
from parley.games.evidence import State
from parley.play.record import Summary, read_trace
from parley.report.view.attempts import Attempt, models_of, recorded_attempts, simulation_of
from parley.report.view.chosen import Found, Part
from parley.report.view.matrix import Matrix, matrix
from parley.report.view.packing import exact
from parley.report.view.running import Shown, running_game
from parley.study.condition import Simulation
from parley.text import one_line

FORMAT = 1


class _Texts:
    """Texts by number, each once; a prompt is the list of its lines, since prompts repeat each other line by line.

    Lines stand among the texts: next to the replies that they quote, they pack to almost nothing.
    """

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
            lines = list(map(self._number, text.split("\n")))
            number = self._prompts[text] = len(self.all)
            self.all.append(lines)
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
    for found in part.simulations:
        try:
            simulations.append(_simulation(found, texts, states))
        except ParleyError as error:
            about = {"id": found.simulation.id, "seed": found.simulation.seed}
            simulations.append({**about, "damaged": one_line(str(error), 300)})
    return {
        "format": FORMAT,
        "condition": f"{part.number:04d}",
        "part": part.name,
        "texts": texts.all,
        "states": [{"name": s.name, "label": s.label, "color": s.color} for s in states.values()],
        "simulations": simulations,
    }


def _simulation(found: Found, texts: _Texts, states: dict[str, State]) -> dict[str, Any]:
    if found.running:
        return _as_json(found.simulation, running_game(found), texts, states)
    summary, attempts = recorded_attempts(found)
    simulation = simulation_of(found, summary)
    trace = read_trace(found.file)
    game = simulation.game()
    roles = {seat.name: seat.role for seat in game.seats}
    kind = simulation.condition.game
    table = matrix(kind.evidence, summary.outcome, trace, roles, attempts)
    return _as_json(simulation, Shown(game, attempts, table, summary), texts, states)


def _as_json(simulation: Simulation, played: Shown, texts: _Texts, states: dict[str, State]) -> dict[str, Any]:
    table, kind, summary = played.table, simulation.condition.game, played.summary
    for state in table.states:
        states.setdefault(state.name, state)
    names = {name: place for place, name in enumerate(table.agents)}
    models = models_of(simulation, played.game)
    return {
        "id": simulation.id,
        "seed": simulation.seed,
        **_outcome(kind, summary),
        "rounds": list(table.rounds),
        "round_name": kind.evidence.round_name,
        "agents": _agents(simulation, played.game, table),
        "cells": [
            [names[agent], number, cell.state, texts.number(cell.text), list(cell.marks)]
            for (agent, number), cell in table.cells.items()
        ],
        "results": {str(number): text for number, text in table.results.items()},
        "results_label": table.results_label,
        "framed_label": table.framed_label,
        "attempts": [
            _attempt(attempt, names, texts, attempt.agent in models)
            for attempt in played.attempts
            if attempt.agent in names
        ],
    }


def _outcome(game: type[Game], summary: Summary | None) -> dict[str, Any]:
    if summary is None:
        return {"outcome": None, "diagnosis": None, "metrics": {}, "running": True}
    outcome = summary.outcome
    return {
        "outcome": game.class_of(outcome["name"], outcome["detail"]),
        "diagnosis": outcome["diagnosis"] or outcome["detail"],
        "metrics": exact(outcome["metrics"]),
    }


def _agents(simulation: Simulation, game: Game, table: Matrix) -> list[dict[str, Any]]:
    """Return the agents in the order of the matrix; `hears` is None where everyone hears everyone."""
    seats = {seat.name: (place, seat) for place, seat in enumerate(game.seats)}
    players = simulation.players(game)
    order: Sequence[str] = list(seats)
    complete = game.network.is_complete
    found = []
    for name, label in table.agents.items():
        place, seat = seats.get(name, (None, None))
        hears = None if complete or place is None else [order[peer] for peer in game.network.neighbors(place)]
        found.append(
            {
                "name": name,
                "label": label,
                "role": seat.role if seat else None,
                "player": players[name].label if name in players else None,
                "framed": name in table.framed,
                "hears": hears,
            }
        )
    return found


def _attempt(attempt: Attempt, names: dict[str, int], texts: _Texts, by_model: bool) -> list[Any]:
    """Return an attempt in the order of the columns that the page knows.

    What it was taken for is True where it is the JSON of the text itself. Who is no model has no temperature.
    """
    return [
        *(attempt.round, attempt.phase, names[attempt.agent], attempt.attempt),
        *(texts.prompt(attempt.system), texts.prompt(attempt.user)),
        texts.number(attempt.text),
        *(True if attempt.as_written else exact(attempt.parsed), attempt.failure, attempt.failure_detail),
        *(attempt.prompt_tokens, attempt.completion_tokens, attempt.seconds, exact(attempt.request_seed)),
        *(
            attempt.temperature if by_model else None,
            attempt.finish_reason,
            texts.number(attempt.reasoning),
            attempt.degenerate,
        ),
    ]
