"""`parley play`: one simulation, live in the terminal."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parley.engine.client import json_schema
from parley.engine.service import Service
from parley.engine.temporary import temporary_engine
from parley.errors import UsageError
from parley.runner import Exchange
from parley.simulate import engine_place_of, play_simulation, purse_for
from parley.study import Condition, Simulation, Study
from parley.text import one_line


def play(
    study: Study,
    axes: Mapping[str, Any],
    seed: int,
    endpoint: Path | None,
    engine_timeout: float,
    reasoning: bool,
    show: Callable[[str], None],
) -> None:
    """Play the study's first condition that has the given `axes`, and show each phase when it is over.

    Starts an engine of its own where one is needed and no `endpoint` is given. Raises UsageError if no condition fits,
    or if the endpoint, or the key of a service, is missing or not wanted.
    """
    condition = _choose(study, axes)
    show(f"{condition.path}, seed {seed}")

    def on_phase(exchanges: list[Exchange]) -> None:
        first = exchanges[0].entry
        show(f"Round {first.round}, {first.phase}")
        for exchange in exchanges:
            for line in _reply_lines(exchange, reasoning):
                show(line)

    with _engine(study, condition, endpoint, show) as place:
        simulation = Simulation(condition, seed)
        purse = purse_for(study, simulation, show)
        played, _ = asyncio.run(play_simulation(simulation, place, engine_timeout, None, show, on_phase, purse))
    outcome = played.outcome
    parts = [outcome.name, outcome.detail, outcome.diagnosis]
    show(f"Outcome: {', '.join(part for part in parts if part)}, after {outcome.rounds} rounds")


def _choose(study: Study, axes: Mapping[str, Any]) -> Condition:
    for condition in study.conditions:
        if all(condition.axes.get(axis) == value for axis, value in axes.items()):
            return condition
    asked = ", ".join(f"{axis}={value}" for axis, value in axes.items())
    raise UsageError(f"{study.file}: no condition has {asked}; `parley expand {study.file}` lists them")


def _reply_lines(exchange: Exchange, reasoning: bool) -> Iterator[str]:
    """Yield one line with what was decided, and one per text if `reasoning`."""
    head = f"  {exchange.entry.agent:<9} {exchange.ask.role:<10}"
    if exchange.reply.value is None:
        yield f"{head} unusable reply ({exchange.reply.failure})"
        return
    properties = json_schema(exchange.ask.reply_model)["properties"]
    fields = exchange.reply.value.model_dump()
    texts = {key for key in fields if "maxLength" in properties[key]}
    yield " ".join([head, *(one_line(str(value)) for key, value in fields.items() if key not in texts)])
    if reasoning:
        for key in fields:
            if key in texts and (text := one_line(fields[key], 300)):
                yield f"      {key}: {text}"


@contextmanager
def _engine(
    study: Study, condition: Condition, endpoint: Path | None, show: Callable[[str], None]
) -> Iterator[Path | Service | None]:
    """Provide the engine that the condition needs, starting one if it is no service and none is given."""
    place = engine_place_of(condition, endpoint)
    if not condition.models or place is not None:
        yield place
        return
    with temporary_engine(condition.models[0], study.models_file, show) as path:
        yield path
