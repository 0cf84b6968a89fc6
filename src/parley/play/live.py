"""`parley play`: one simulation, live in the terminal."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from parley.engine.grammar import json_schema
from parley.engine.service.service import Service
from parley.engine.temporary import temporary_engine
from parley.games.base import Game, Outcome
from parley.play.runner import Exchange, Play
from parley.play.simulate import engine_places, play_simulation, purse_for
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import one_line


def play(
    study: Study,
    axes: Mapping[str, Any],
    seed: int,
    endpoints: Sequence[Path],
    engine_timeout: float,
    reasoning: bool,
    show: Callable[[str], None],
) -> None:
    """Play the study's first condition that has the given `axes`, and show each phase when it is over.

    Starts an engine of its own where one is needed and none of `endpoints` is for its model. Raises UsageError if no
    condition fits, if an endpoint is not wanted, or if the key of a service is missing.
    """
    condition = study.fitting(axes)[0]
    show(f"{condition.path}, seed {seed}")

    heading = ""

    def on_phase(exchanges: list[Exchange]) -> None:
        nonlocal heading
        for line in transcript_lines(exchanges, reasoning, condition.game.read_texts, heading):
            show(line)
        heading = _heading(exchanges[-1])

    simulation = Simulation(condition, seed)
    if about := simulation.game().about:
        show(one_line(about))
    outcome = asyncio.run(play_once(study, simulation, endpoints, engine_timeout, on_phase)).outcome
    show(outcome_line(condition.game, outcome))


async def play_once(
    study: Study,
    simulation: Simulation,
    endpoints: Sequence[Path],
    engine_timeout: float,
    on_phase: Callable[[list[Exchange]], None],
) -> Play:
    """Play a simulation with the engines that it needs, and record nothing.

    Those that are no services and not among `endpoints` are started, and stopped at the end.
    """
    engines = ExitStack()
    try:
        places = engines.enter_context(_engines(study, simulation.condition, endpoints))
        purse = purse_for(study, simulation)
        played, _ = await play_simulation(simulation, places, engine_timeout, None, on_phase, purse)
    finally:
        await asyncio.to_thread(engines.close)  # a server takes seconds to end, and others may play
    return played


def outcome_line(game: type[Game], outcome: Outcome) -> str:
    """Return in one line how a game ended."""
    parts = dict.fromkeys([game.class_of(outcome.name, outcome.detail), outcome.detail, outcome.diagnosis])
    return f"Outcome: {', '.join(part for part in parts if part)}, after {outcome.rounds} rounds"


def transcript_lines(
    exchanges: Iterable[Exchange], reasoning: bool, decisive: frozenset[str], heading: str = ""
) -> Iterator[str]:
    """Yield the replies as lines for people, under a heading for each phase; `heading` is the one before.

    Of texts only the `decisive` ones are there, or all with `reasoning`.
    """
    for exchange in exchanges:
        before, heading = heading, _heading(exchange)
        if heading != before:  # where agents speak in turn, each is a phase of its own
            yield heading
        yield from _reply_lines(exchange, reasoning, decisive)


def _heading(exchange: Exchange) -> str:
    return f"Round {exchange.entry.round}, {exchange.entry.phase}"


def _reply_lines(exchange: Exchange, reasoning: bool, decisive: frozenset[str]) -> Iterator[str]:
    """Yield one line with what was decided, `decisive` texts among it, and one per other text if `reasoning`."""
    head = f"  {exchange.entry.agent:<9} {exchange.ask.role:<10}"
    if exchange.reply.value is None:
        yield f"{head} unusable reply ({exchange.reply.failure})"
        return
    properties = json_schema(exchange.ask.reply_model)["properties"]
    fields = exchange.reply.value.model_dump(exclude_unset=True)
    texts = {key for key in fields if "maxLength" in properties[key] and key not in decisive}
    yield " ".join([head, *(one_line(str(value)) for key, value in fields.items() if key not in texts)])
    if reasoning:
        for key in fields:
            if key in texts and (text := one_line(fields[key], 300)):
                yield f"      {key}: {text}"


@contextmanager
def _engines(study: Study, condition: Condition, endpoints: Sequence[Path]) -> Iterator[Mapping[str, Path | Service]]:
    """Provide the engines that the condition needs, starting those that are no services and not given."""
    places = engine_places(condition, endpoints)
    with ExitStack() as stack:
        for model in condition.models:
            if model not in places:
                places[model] = stack.enter_context(temporary_engine(model, study.models_file))
        yield places
