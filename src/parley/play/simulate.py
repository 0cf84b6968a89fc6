"""The `simulate` stage: plays one simulation of a study, from its journal if there is one, into its record."""

import asyncio
import gc
import logging
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from parley import paths
from parley.engine.endpoint import read_endpoint
from parley.engine.models import ModelEntry
from parley.errors import NotReadyError, ParleyError, UsageError
from parley.files import open_to_append
from parley.play.forks import forked_policies
from parley.play.journal import Journal, delete_journal, off_loop
from parley.play.pausing import PauseWatcher
from parley.play.record import provenance, provenance_warnings, write_record
from parley.play.record_store import read_own, write_conditions
from parley.play.runner import Play, Watcher, all_of, play_async
from parley.policies import Policy
from parley.policies.kinds import ScriptedPolicy
from parley.policies.own_code import load_plugin
from parley.study import Study
from parley.study.condition import Player, Simulation
from parley.text import Hearing, every, limited_logger, log_line, logged_to, own_log

if TYPE_CHECKING:
    from parley.engine.client import Engine
    from parley.engine.service.budget import Budget
    from parley.engine.service.service import Service

_log = limited_logger(__name__)
_POLL_SECONDS = 1.0
_AT_THE_DISK = 64  # games that wait for a slow disk at once; Python has four threads more than cores
_FILES = 4  # that a game has open: its journal and HTTP connections
# Gives what is told of each reply of a simulation that is played in this task, as long as the context lasts.
Playing = Callable[[Simulation], AbstractContextManager[Watcher]]
_LOCK_PATIENCE = 30.0  # seconds that processes of a killed workflow are given to end


def _unwatched(simulation: Simulation) -> AbstractContextManager[Watcher]:
    return nullcontext(Watcher())


@dataclass(frozen=True)
class Answering:
    """What answers in simulations: where the engine of each model is, how long it may take to start, what pays it."""

    places: "Mapping[str, Path | Service]"
    engine_timeout: float = 0.0
    budget: "Budget | None" = None  # of requests to services


def simulate(
    study: Study,
    record: Path,
    endpoints: Sequence[Path],
    engine_timeout: float,
    playing: Playing = _unwatched,
) -> None:
    """Make the record of one simulation of `study`; does nothing if it is there already.

    `endpoints` are the endpoint files of the engines, one for each model that is no service. Raises EngineError if an
    engine does not start or dies (what was answered stays in the journal), JournalError if another process plays it,
    UsageError if an endpoint, or the key of a service, is missing or not wanted.
    """
    simulation = study.find(record)
    write_conditions(study)
    if _is_finished(record, simulation):
        read_own(record, simulation)
        _log.info("%s: finished before", record)
        return
    places = engine_places(simulation.condition.entries, endpoints)
    for model in simulation.condition.models:
        if model not in places:
            raise UsageError(f"{record}: needs an engine for {model}; name its endpoint file")

    with paid(study, [simulation]) as budget:
        answering = Answering(places, engine_timeout, budget)
        asyncio.run(_play_with_journal(study, simulation, answering, playing))


def simulate_shard(
    study: Study, engine: str, number: int, exit_with: int | None = None, playing: Playing = _unwatched
) -> None:
    """Make the records of the simulations of one shard of `study` that need no server.

    Those that are there already are left alone. As many are played at once as their services allow. Scripted ones have
    no journal: what a death takes of those is played again in milliseconds. If some fail, the others are played, and
    an error as of `simulate` is raised that counts them and quotes the first. All ends when the process `exit_with` is
    gone, with a ParleyError. Raises UsageError if the study has no such shard.
    """
    mine = [simulation for simulation in study.shard(engine, number) if simulation.condition.plays_by_shard]
    if not mine:
        raise UsageError(
            f"{study.file}: no shard {number} of {engine} that plays in one job; "
            f"`parley expand {study.file}` counts the shards"
        )
    write_conditions(study)
    missing = [simulation for simulation in mine if not _is_finished(simulation.record(study.name), simulation)]
    _log.info("shard %d: %d simulations, %d finished before", number, len(mine), len(mine) - len(missing))
    gc.set_threshold(20_000)  # games make much and keep little: looked through every 700 objects, a tenth of their CPU
    with logged_to(Hearing(_write_own_log)):
        failed = asyncio.run(_play_shard(study, missing, exit_with, playing))
    if failed:
        more = f"{len(failed)} of {len(missing)} simulations failed, the first of them: " if len(failed) > 1 else ""
        raise type(failed[0])(f"{more}{failed[0]}")


def _is_finished(record: Path, simulation: Simulation) -> bool:
    """Return whether a record is there; what was left of its journal goes."""
    if not record.exists():
        return False
    if paths.journal(record).exists():  # of a process that died right after it wrote the record
        read_own(record, simulation)  # a damaged one keeps its journal
        delete_journal(record, simulation.id)
    return True


async def _play_shard(
    study: Study, simulations: Sequence[Simulation], exit_with: int | None, playing: Playing
) -> list[ParleyError]:
    """Play simulations, of each service some at once; return the errors of those that failed.

    When a service is not there, what it plays in and has not begun does not begin: each would wait for it as long.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_AT_THE_DISK))
    at_once: dict[tuple[str, ...], int] = {}
    for condition in {id(s.condition): s.condition for s in simulations}.values():
        at_once[condition.models] = min(condition.at_once, at_once.get(condition.models, condition.at_once))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _FILES // max(len(at_once), 1)
    free = {models: asyncio.Semaphore(min(number, most)) for models, number in at_once.items()}
    absent: set[tuple[str, ...]] = set()
    began, done = time.monotonic(), 0
    failed: list[ParleyError] = []

    async def play(simulation: Simulation) -> None:
        nonlocal done
        models = simulation.condition.models
        async with free[models]:
            try:
                if models in absent:
                    raise NotReadyError("not started: the service did not answer the ones before")
                await _play_of_shard(study, simulation, playing, budget)
            except ParleyError as error:
                if isinstance(error, NotReadyError):
                    absent.add(models)
                failed.append(error)
                _log.info("%s/seed=%d: %s", simulation.condition.name, simulation.seed, error)
        done += 1
        seldom = None if done == len(simulations) else every(since=began)
        _log.info("%d of %d played", done - len(failed), len(simulations), extra=seldom)

    with paid(study, simulations) as budget:
        games = asyncio.ensure_future(all_of(map(play, simulations)))
        try:
            while not (await asyncio.wait([games], timeout=_POLL_SECONDS))[0]:
                if exit_with is not None and not psutil.pid_exists(exit_with):
                    raise ParleyError(
                        "the workflow that started this process has ended; run its command again to go on"
                    )
            await games
        finally:
            games.cancel()
            await asyncio.wait([games])
    return failed


async def _play_of_shard(study: Study, simulation: Simulation, playing: Playing, budget: "Budget | None") -> None:
    """Play one simulation of a shard; one with a journal has the log that a job of its own would have."""
    condition = simulation.condition
    if not condition.keeps_journal:
        started = datetime.now(UTC)
        with playing(simulation):
            played, _ = await play_simulation(simulation, Answering({}))
            # In a thread: the next game is played while the disk syncs this one.
            record = simulation.record(study.name)
            await asyncio.to_thread(write_record, record, simulation, played, provenance(started, {}))
        return
    log = paths.simulation_log(study.name, condition.folder, simulation.seed)
    here = own_log.set(log)
    try:
        answering = Answering(engine_places(condition.entries, []), budget=budget)
        await _play_with_journal(study, simulation, answering, playing)
    except ParleyError as error:
        _log.info("parley: %s", error)
        raise
    finally:
        own_log.reset(here)


async def _play_with_journal(study: Study, simulation: Simulation, answering: Answering, playing: Playing) -> None:
    """Play one simulation from its journal into its record."""
    record = simulation.record(study.name)
    started = datetime.now(UTC)
    # In a thread: others play while it waits for its lock.
    with await asyncio.to_thread(Journal, paths.journal(record), simulation.id, _LOCK_PATIENCE) as journal:
        if _is_finished(record, simulation):  # by the process that had the lock
            _log.info("%s: finished by another process", record)
            return
        if journal.entries:
            _log.info("going on from the journal: %d replies", len(journal.entries))
        with playing(simulation) as watcher:
            watchers = [watcher, PauseWatcher(study, simulation.players)]
            played, engines = await play_simulation(simulation, answering, journal, watchers)
            for model, requests in study.requests_at_once(simulation.condition).items():
                engines[model]["requests_at_once"] = requests
            await off_loop(write_record, record, simulation, played, provenance(started, engines))
            delete_journal(record, simulation.id)
    outcome = played.outcome
    detail = f" ({outcome.detail})" if outcome.detail else ""
    _log.info("%s%s after %d rounds", outcome.name, detail, outcome.rounds)


def engine_places(entries: Mapping[str, ModelEntry], endpoints: Sequence[Path]) -> "dict[str, Path | Service]":
    """Return where the engines of models are: services, and those of the given endpoint files.

    A model without any is left out. Raises UsageError if an endpoint file is not wanted, or if a service's key is
    missing, EngineError if a file is none.
    """
    if not entries and not endpoints:
        return {}
    from parley.engine.service.service import service_of  # with an HTTP client, see below

    services = [name for name, entry in entries.items() if entry.is_service]
    places: dict[str, Path | Service] = {}
    for path in endpoints:
        model = read_endpoint(path).model
        if model not in entries or model in services:
            raise UsageError(f"{path}: serves {model}, which is a service here or plays no part; leave it out")
        places[model] = path
    return places | {name: service_of(name, entries[name]) for name in services}


def paid(study: Study, simulations: Sequence[Simulation]) -> "AbstractContextManager[Budget | None]":
    """Give what pays the requests of simulations to services; None if they make none, or the study has no budget."""
    if not any(each.condition.asks_services for each in simulations):
        return nullcontext()
    from parley.play.spending import budget_of  # which reads records; a scripted simulation has no use for it

    return budget_of(study) or nullcontext()


async def play_simulation(
    simulation: Simulation, answering: Answering, journal: Journal | None = None, watchers: Sequence[Watcher] = ()
) -> tuple[Play, dict[str, dict[str, Any]]]:
    """Connect what the simulation needs and play it; return the play and the provenance of its engines."""
    game = simulation.game()
    async with AsyncExitStack() as stack:
        engines = await connect(stack, simulation, answering) if simulation.condition.models else {}
        provenances = {name: dict(await engine.provenance()) for name, engine in engines.items()}
        for text in provenance_warnings({"engines": provenances}):
            _log.warning("%s", text)
        of_groups = [policy_of(group.player, engines) for group in simulation.condition.groups]
        policies = forked_policies(simulation, {seat.name: of_groups[seat.group] for seat in game.seats})
        played = await play_async(simulation.id, game, policies, journal, watchers)
    return played, provenances


async def connect(stack: AsyncExitStack, simulation: Simulation, answering: Answering) -> "dict[str, Engine]":
    """Return the engines, by model, when all of them answer."""
    # Imported here, since a scripted simulation has no use for an HTTP client, whose import takes a tenth of its time.
    from parley.engine.client import Engine

    engines: dict[str, Engine] = {}
    for name, entry in simulation.condition.entries.items():
        budget = answering.budget if entry.is_service else None
        engines[name] = await stack.enter_async_context(Engine(answering.places[name], budget, entry.deadline))
    for engine in engines.values():
        await engine.wait_ready(answering.engine_timeout)
    return engines


def policy_of(player: Player, engines: "Mapping[str, Engine]") -> Policy:
    """Return what answers for a player's agents."""
    if rule := player.policy.rule:
        return ScriptedPolicy(rule)
    llm: Policy | None = None
    if player.model is not None and player.entry is not None:
        from parley.engine.client import LLMPolicy

        llm = LLMPolicy(engines[player.model], player.entry)
    if player.policy.kind.is_plugin:
        return load_plugin(player.policy, llm)
    assert llm is not None, "a study names a model for each policy that asks one"
    return llm


def _write_own_log(record: logging.LogRecord) -> None:
    """Write what a simulation of a shard says where a job of its own would have its log."""
    log = own_log.get()
    if log is not None:
        # Opened for each line: as many files as simulations that play at once could be too many. A log that cannot be
        # written ends no game.
        with suppress(OSError, ParleyError), open(open_to_append(log, 0o666), "a", encoding="utf-8") as file:
            file.write(f"{log_line(record)}\n")
