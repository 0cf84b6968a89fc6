"""The index of the explorer: a study's conditions, and a line for each simulation, in columns."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from parley import __version__
from parley.errors import ParleyError
from parley.games.base import Game
from parley.play.journal import journaled
from parley.play.record import Summary
from parley.play.usable import read_own
from parley.policies.kinds import IMPORTED
from parley.report.view.chosen import Chosen, Found, Part
from parley.report.view.content import FORMAT
from parley.report.view.packing import exact
from parley.study import Study
from parley.study.axes import axes_text
from parley.study.condition import Condition
from parley.text import one_line
from parley.text.logs import every, limited_logger

# What is known of simulations, by the state of their files.
Rows = dict[tuple[str, int, int], dict[str, Any]]

_log = limited_logger(__name__)


def index_content(chosen: Chosen, served: bool = False, known: Rows | None = None) -> dict[str, Any]:
    """Return the index, as JSON values. A record that cannot be read is named in its place.

    What is `known` of files is not read again, and is added to.
    """
    known = {} if known is None else known
    study = chosen.study
    game = study.game
    values = _axis_values(study)
    numbers = list(dict.fromkeys(part.number for part in chosen.parts))
    places = {number: place for place, number in enumerate(numbers)}
    parts: dict[int, list[Part]] = {number: [p for p in chosen.parts if p.number == number] for number in numbers}
    columns: dict[str, list[Any]] = {}
    done, began = 0, monotonic()
    for part in chosen.parts:
        for found in part.simulations:
            key = (str(found.file), found.size, found.modified)
            if key not in known:
                known[key] = _row(game, found)
            row = {"condition": places[part.number], "part": parts[part.number].index(part), **known[key]}
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
            done += 1
            if done % 100 == 0:
                _log.info(
                    "index: %s of %s simulations", f"{done:,}", f"{chosen.simulations:,}", extra=every(5, since=began)
                )
    indicators = {each.name: [row.get(each.name) for row in columns["metrics"]] for each in game.evidence.indicators}
    del columns["metrics"]
    return {
        "format": FORMAT,
        "study": study.name,
        "game": game.name,
        "title": study.title,
        "version": __version__,
        "imported": any(g.player.policy.kind is IMPORTED for c in study.conditions for g in c.groups),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "served": served,
        "running": any(columns["running"]),
        "unfinished": chosen.unfinished,
        "left_out": chosen.left_out,
        "axes": [{"name": name, "label": name.replace("_", " "), "values": found} for name, found in values.items()],
        "outcomes": [{"name": o.name, "label": o.label, "color": o.color} for o in game.outcomes],
        "indicators": [
            {"name": i.name, "label": i.label, "values": exact(indicators[i.name])} for i in game.evidence.indicators
        ],
        "conditions": [_condition(parts[number], values) for number in numbers],
        "simulations": columns,
        "pairs": {"key": columns.pop("key")},
    }


def _axis_values(study: Study) -> dict[str, list[Any]]:
    """Return the values of each axis, those that vary first; which repeat it is counts as one."""
    found: dict[str, list[Any]] = {}
    for condition in study.conditions:
        for axis, value in _axes(condition).items():
            found.setdefault(axis, []).append(value)
    unique = {axis: list(dict.fromkeys(values)) for axis, values in found.items()}
    return dict(sorted(unique.items(), key=lambda item: len(item[1]) < 2))


def _axes(condition: Condition) -> dict[str, Any]:
    return {**condition.axes, **({} if condition.repeat is None else {"repeat": condition.repeat})}


def _condition(parts: Sequence[Part], values: dict[str, list[Any]]) -> dict[str, Any]:
    axes = _axes(parts[0].condition)
    varying = {axis: axes[axis] for axis, found in values.items() if len(found) > 1}
    return {
        "id": f"{parts[0].number:04d}",
        "label": axes_text(varying or axes),
        "axes": axes,
        "parts": [part.file for part in parts],
        "n": sum(len(part.simulations) for part in parts),
    }


def _row(game: type[Game], found: Found) -> dict[str, Any]:
    simulation = found.simulation
    row: dict[str, Any] = {
        "id": simulation.id,
        "seed": simulation.seed,
        "repeat": simulation.condition.repeat or 0,
        "outcome": None,
        "diagnosis": None,
        "rounds": None,
        "replies": None,
        "failed": None,
        "running": found.running,
        "damaged": None,
        "key": str(simulation.seed),
        "metrics": {},
    }
    try:
        row.update(_of_journal(found) if found.running else _of_record(game, read_own(found.file, simulation)))
    except ParleyError as error:
        row["damaged"] = one_line(str(error), 300)
    return row


def _of_record(game: type[Game], summary: Summary) -> dict[str, Any]:
    outcome, telemetry = summary.outcome, summary.telemetry
    shared = [str(outcome["metrics"].get(name)) for name in game.evidence.paired_by]
    return {
        "outcome": game.class_of(outcome["name"], outcome["detail"]),
        "diagnosis": outcome["diagnosis"] or outcome["detail"],
        "rounds": outcome["rounds"],
        "replies": telemetry["calls"],
        "failed": telemetry["failed_replies"],
        "key": " ".join([str(summary.simulation["seed"]), *shared]),
        "metrics": {**outcome["metrics"], **_derived(game, outcome["metrics"])},
    }


def _derived(game: type[Game], metrics: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(game.evidence.derived(metrics))
    except (LookupError, TypeError, ValueError, AttributeError):
        return {}  # of a record of another version


def _of_journal(found: Found) -> dict[str, Any]:
    entries = journaled(found.file)
    return {"rounds": max((entry.round for entry in entries), default=0), "replies": len(entries)}
