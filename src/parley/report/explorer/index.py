"""The index of the explorer: a study's conditions, and a line for each simulation, in columns."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from parley import __version__
from parley.errors import ParleyError
from parley.games.base import Game
from parley.play.record_store import read_own
from parley.policies.kinds import IMPORTED
from parley.report.explorer.selection import Part, Selection, ShownFile
from parley.study.condition import Condition, axes_text
from parley.study.expand import telling_axes
from parley.text import one_line

Row = dict[str, Any]  # a line of the index


def part_rows(part: Part) -> list[Row]:
    """Return a row for each simulation of a part. A record that cannot be read is named in its place."""
    return [_row(part.condition.game, file) for file in part.simulations]


def index_content(selection: Selection, rows: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Return the index, as JSON values, with the rows of `selection.parts`; of the same records the same bytes."""
    study, game = selection.study, selection.study.game
    values = _axis_values(selection.conditions)
    parts = [list(alike) for _, alike in groupby(selection.parts, key=lambda part: part.number)]
    places = [(place, number) for place, alike in enumerate(parts) for number in range(len(alike))]
    flat = [
        {"condition": place, "part": number, **row}
        for (place, number), own in zip(places, rows, strict=True)
        for row in own
    ]
    simulations = [file.simulation for part in selection.parts for file in part.simulations]
    at = {simulation.id: place for place, simulation in enumerate(simulations)}
    for row, simulation in zip(flat, simulations, strict=True):
        row["parent"] = at.get(simulation.before.id) if simulation.parent else None
    return {
        "study": study.name,
        "game": game.name,
        "title": study.title,
        "version": __version__,
        "imported": any(g.player.policy.kind is IMPORTED for c in study.conditions for g in c.groups),
        "written": max((row["ended"] for row in flat), default=""),
        "unfinished": selection.unfinished,
        "left_out": selection.left_out,
        "axes": [{"name": name, "label": name.replace("_", " "), "values": found} for name, found in values.items()],
        "outcomes": [{"name": o.name, "label": o.label, "color": o.color} for o in game.outcomes],
        "conditions": [_condition(alike, values) for alike in parts],
        "simulations": {name: [row[name] for row in flat] for name in _COLUMNS},
    }


_COLUMNS = (
    *("id", "condition", "part", "seed", "repeat", "outcome", "diagnosis", "rounds", "replies", "failed"),
    *("damaged", "parent", "pair"),
)


def _axis_values(conditions: Sequence[Condition]) -> dict[str, list[Any]]:
    """Return the values of each axis, those that vary first."""
    found: dict[str, list[Any]] = {}
    for condition in conditions:
        for axis, value in _axes(condition).items():
            found.setdefault(axis, []).append(value)
    unique = {axis: list(dict.fromkeys(values)) for axis, values in found.items()}
    return dict(sorted(unique.items(), key=lambda item: len(item[1]) < 2))


def _axes(condition: Condition) -> dict[str, Any]:
    """Return the axes; fractional numbers as text, because links name them as Python does: 1.0 and not 1."""
    return {axis: str(value) if isinstance(value, float) else value for axis, value in condition.all_axes.items()}


def _condition(parts: Sequence[Part], values: dict[str, list[Any]]) -> dict[str, Any]:
    axes = _axes(parts[0].condition)
    varying = {axis: axes[axis] for axis, found in values.items() if len(found) > 1 and axis in axes}
    return {
        "label": axes_text(telling_axes(varying or axes)),
        "axes": axes,
        "parts": [part.file for part in parts],
    }


def _row(game: type[Game], file: ShownFile) -> Row:
    simulation = file.simulation
    row: Row = {
        "id": simulation.id,
        "seed": simulation.seed,
        "repeat": simulation.condition.repeat or 0,
        **dict.fromkeys(("outcome", "diagnosis", "rounds", "replies", "failed", "damaged")),
        "pair": str(simulation.seed),
        "ended": "",
    }
    try:
        summary = read_own(file.path, simulation)
        outcome, telemetry = summary.outcome, summary.telemetry
        ended_as = game.class_of(outcome["name"], outcome["detail"])
    except ParleyError as error:
        return row | {"damaged": one_line(str(error), 300)}
    shared = [str(outcome["metrics"].get(name)) for name in game.evidence.paired_by]
    return row | {
        "outcome": ended_as,
        "diagnosis": outcome["diagnosis"] or outcome["detail"],
        "rounds": outcome["rounds"],
        "replies": telemetry["calls"],
        "failed": telemetry["failed_replies"],
        "pair": " ".join([row["pair"], *shared]),
        "ended": str(summary.provenance.get("ended", "")),
    }
