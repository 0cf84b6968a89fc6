"""The `simulate` stage: plays one simulation of a study, from its journal if there is one, into its record."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley import paths
from parley.engine.endpoint import read_endpoint
from parley.errors import RecordError, UsageError
from parley.journal import Journal, restore, retire
from parley.policies import Policy
from parley.policies.scripted import ScriptedPolicy
from parley.provenance import provenance, warnings
from parley.record import read_summary, write_record
from parley.runner import Exchange, Play, play_async
from parley.study import Condition, Simulation, Study

if TYPE_CHECKING:
    from parley.engine.service import Service
    from parley.spending import Purse

_LOCK_PATIENCE = 30.0  # seconds that processes of a killed workflow are given to end


def simulate(
    study: Study, record: Path, endpoint: Path | None, engine_timeout: float, say: Callable[[str], None]
) -> None:
    """Make the record of one simulation of `study`; does nothing if it is there already.

    `endpoint` is the endpoint file of the engine, for simulations that need one. Raises EngineError if the engine
    does not start or dies (what was answered stays in the journal), JournalError if another process plays it,
    UsageError if the endpoint, or the key of a service, is missing or not wanted.
    """
    simulation = study.find(record)
    if restore(record):
        if read_summary(record).simulation["id"] != simulation.id:
            raise RecordError(f"{record}: holds another simulation; move it away")
        if paths.journal(record).exists():  # of a process that died right after it wrote the record
            retire(record)
        say(f"{record}: finished before")
        return
    place = engine_place_of(simulation.condition, endpoint)
    if simulation.condition.models and place is None:
        raise UsageError(f"{record}: needs an engine for {simulation.condition.models[0]}; name it with --endpoint")
    started = datetime.now(UTC)
    with Journal(paths.journal(record), simulation.id, _LOCK_PATIENCE) as journal:
        if restore(record):  # the process that had the lock finished it
            retire(record)
            say(f"{record}: finished by another process")
            return
        if journal.entries:
            say(f"going on from the journal: {len(journal.entries)} replies")
        purse = purse_for(study, simulation, say)
        playing = play_simulation(simulation, place, engine_timeout, journal, say, _progress(say), purse)
        played, engines = asyncio.run(playing)
        write_record(record, simulation, played, provenance(started, engines))
        retire(record)
    outcome = played.outcome
    say(f"{outcome.name}{f' ({outcome.detail})' if outcome.detail else ''} after {outcome.rounds} rounds")


def engine_place_of(condition: Condition, endpoint: Path | None) -> "Path | Service | None":
    """Return where the engine of a condition is: its service, or the given endpoint file; None if it needs none.

    Raises UsageError if there is an endpoint file for a service, or if the service's key is missing.
    """
    for player in condition.players.values():
        if player.entry is not None:
            from parley.engine.service import engine_place  # with an HTTP client, see below

            return engine_place(player.name, player.entry, endpoint, "--endpoint")
    return None


def purse_for(study: Study, simulation: Simulation, say: Callable[[str], None]) -> "Purse | None":
    """Return what pays the requests of a simulation; None if it makes none, or if its study has no budget."""
    if not simulation.condition.models:
        return None
    from parley.spending import purse_of  # with an event loop's locks; a scripted simulation has no use for it

    return purse_of(study, say)


async def play_simulation(
    simulation: Simulation,
    place: "Path | Service | None",
    engine_timeout: float,
    journal: Journal | None,
    say: Callable[[str], None],
    on_phase: Callable[[list[Exchange]], None],
    purse: "Purse | None" = None,
) -> tuple[Play, Mapping[str, Mapping[str, Any]]]:
    """Connect what the simulation needs and play it; return the play and the provenance of its engines.

    `place` is what `engine_place_of` gives: an endpoint file or a service, None for scripted simulations. `purse` pays
    the requests of a study that has a budget.
    """
    # Imported here, since a scripted simulation has no use for an HTTP client, whose import takes a tenth of its time.
    from parley.engine.client import Engine, LLMPolicy

    game = simulation.game()
    players = simulation.condition.players
    by_role: dict[str, Policy] = {}
    engines: dict[str, Mapping[str, Any]] = {}
    async with AsyncExitStack() as stack:
        engine: Engine | None = None
        for role, player in players.items():
            if player.entry is None:
                by_role[role] = ScriptedPolicy(game.rules[player.name])
                continue
            if engine is None:
                assert place is not None
                if isinstance(place, Path):
                    read_endpoint(place).require(player.name, place)
                if purse is not None:
                    await stack.enter_async_context(purse)
                engine = await stack.enter_async_context(Engine(place, say, purse))
                await engine.wait_ready(engine_timeout, lambda s: say(f"waiting for the engine, {s:.0f} s"))
                engines[player.name] = await engine.provenance()  # one model plays in a simulation
            by_role[role] = LLMPolicy(engine, player.entry.chat_template_kwargs)
        for text in warnings({"engines": engines}):
            say(f"warning: {text}")
        policies = {seat.name: by_role[seat.role] for seat in game.seats}
        played = await play_async(simulation.id, game, policies, journal, on_phase)
        if engine is not None:
            engines = {name: {**told, **engine.effort()} for name, told in engines.items()}
    return played, engines


def _progress(say: Callable[[str], None]) -> Callable[[list[Exchange]], None]:
    def tell(exchanges: list[Exchange]) -> None:
        first = exchanges[0].entry
        failed = sum(x.reply.failure is not None for x in exchanges)
        tokens = sum(x.entry.completion_tokens or 0 for x in exchanges)
        say(f"round {first.round} {first.phase}: {len(exchanges)} replies, {failed} unusable, {tokens} tokens")

    return tell
