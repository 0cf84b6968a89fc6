"""`parley play`: one simulation, live in the terminal."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from parley.engine.service.service import Service
from parley.engine.supervisor import temporary_engine
from parley.games.base import Game, Outcome
from parley.play.live_screen import LiveScreen, can_draw
from parley.play.matrix import decided
from parley.play.runner import Exchange, Play
from parley.play.simulate import budget_for, engine_places, play_simulation
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import one_line

_LONGEST_TEXT = 300  # characters of a text


def play(
    study: Study,
    axes: Mapping[str, Any],
    seed: int,
    endpoints: Sequence[Path],
    engine_timeout: float,
    reasoning: bool,
    show: Callable[[str], None],
    terminal: TextIO | None = None,
    record: Path | None = None,
) -> None:
    """Play the study's first condition that has the given `axes`, and show it.

    As a matrix on `terminal`, if it is one that has room and colors; else a line for each reply goes to `show`, when
    its phase is over. With `reasoning` the lines have the texts, and come below the matrix, too. `record` is a file
    to make: .svg, the last matrix, or .cast, the whole game.

    Starts an engine of its own where one is needed and none of `endpoints` is for its model. Raises UsageError if no
    condition fits, if an endpoint is not wanted, if the key of a service is missing, or if `record` cannot be written.
    """
    condition = study.fitting(axes)[0]
    simulation = Simulation(condition, seed)
    heading = [f"{study.name}: {condition.name.replace('/', ' ')}, seed {seed}"]
    if about := simulation.game().about:
        heading.append(one_line(about))
    drawn = terminal if terminal is not None and can_draw(terminal) else None
    of_phase, decisive = "", condition.game.read_texts

    def show_phase(exchanges: list[Exchange]) -> None:
        nonlocal of_phase
        for line in transcript_lines(exchanges, reasoning, decisive, of_phase):
            show(line)
        of_phase = _heading(exchanges[-1])

    said: list[Exchange] = []
    on_phase = show_phase if drawn is None else said.extend
    screen = LiveScreen(simulation, heading, record, drawn) if drawn is not None or record is not None else None
    if drawn is None:
        for line in (f"{condition.name}, seed {seed}", *heading[1:]):
            show(line)
    with screen.shown() if screen is not None else nullcontext():
        outcome = asyncio.run(play_once(study, simulation, endpoints, engine_timeout, on_phase, screen)).outcome
        if screen is not None:
            screen.end(outcome)
    if drawn is None:
        show(outcome_line(condition.game, outcome))
    elif reasoning:
        for line in transcript_lines(said, reasoning, decisive):
            show(line)


async def play_once(
    study: Study,
    simulation: Simulation,
    endpoints: Sequence[Path],
    engine_timeout: float,
    on_phase: Callable[[list[Exchange]], object],
    screen: LiveScreen | None = None,
) -> Play:
    """Play a simulation with the engines that it needs, and record nothing.

    Those that are no services and not among `endpoints` are started, and stopped at the end.
    """
    engines = ExitStack()
    try:
        condition = simulation.condition
        places = engines.enter_context(engines_for(study, condition, condition.models, endpoints))
        budget = budget_for(study, simulation)
        played, _ = await play_simulation(simulation, places, engine_timeout, None, on_phase, budget, screen)
    except BaseException:
        if screen is not None:  # before its engines end: that takes seconds, or is cut short
            screen.leave()
        raise
    finally:
        await asyncio.to_thread(engines.close)  # a server takes seconds to end, and others may play
    return played


def outcome_line(game: type[Game], outcome: Outcome) -> str:
    """Return in one line how a game ended."""
    parts = dict.fromkeys([game.class_of(outcome.name, outcome.detail), outcome.detail, outcome.diagnosis])
    return f"Outcome: {', '.join(part for part in parts if part)}, after {outcome.rounds} rounds"


def transcript_lines(
    exchanges: Iterable[Exchange],
    reasoning: bool,
    decisive: frozenset[str],
    heading: str = "",
    longest: int | None = _LONGEST_TEXT,
) -> Iterator[str]:
    """Yield the replies as lines for people, under a heading for each phase; `heading` is the one before.

    Of texts only the `decisive` ones are there, or all with `reasoning`, each cut to its `longest` characters.
    """
    for exchange in exchanges:
        before, heading = heading, _heading(exchange)
        if heading != before:  # where agents speak in turn, each is a phase of its own
            yield heading
        yield from _reply_lines(exchange, reasoning, decisive, longest)


def _heading(exchange: Exchange) -> str:
    return f"Round {exchange.entry.round}, {exchange.entry.phase}"


def _reply_lines(
    exchange: Exchange, reasoning: bool, decisive: frozenset[str], longest: int | None = _LONGEST_TEXT
) -> Iterator[str]:
    """Yield one line with what was decided, `decisive` texts among it, and one per other text if `reasoning`."""
    head = f"  {exchange.entry.agent:<9} {exchange.ask.role:<10}"
    if exchange.reply.value is None:
        yield f"{head} {exchange.lacking}"
        texts = {"written": exchange.entry.text}
    else:
        values, texts = decided(exchange, decisive)
        yield " ".join([head, *(one_line(str(value)) for value in values)])
    if reasoning:
        for key, value in {"thought": exchange.entry.reasoning or "", **texts}.items():
            if text := one_line(value, longest):
                yield f"      {key}: {text}"


@contextmanager
def engines_for(
    study: Study, condition: Condition, models: Sequence[str], endpoints: Sequence[Path]
) -> Iterator[Mapping[str, Path | Service]]:
    """Provide the engines of some models of a condition, starting those that are no services and not given."""
    places = engine_places(condition, endpoints)
    with ExitStack() as stack:
        for model in models:
            if model not in places:
                places[model] = stack.enter_context(temporary_engine(model, study.models_file))
        yield places
