"""How far a study is: which records are there, and the sum of what its processes told. Changes none of them."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from parley import paths
from parley.engine.weights import model_marker
from parley.errors import JournalError, RecordError
from parley.play.spending import Spending
from parley.progress.snapshot import (
    DONE,
    FAILED_STAGE,
    RUNNING,
    TO_DO,
    ProgressProblem,
    Snapshot,
    Stage,
    cells_of,
    seconds_left,
)
from parley.progress.state import FETCH_MODEL, PLAY, RUN, SERVE, ProcessState, ProcessStates
from parley.study import Study
from parley.study.frozen import planned_report
from parley.text import one_line

_RATE_SECONDS = 120.0  # from which the speed is worked out
_SPENT_SECONDS = 5.0  # how often it is looked at
IDLE = "nothing is played now"
PLANNING = "planning the jobs"


class Progress:
    """Looks at a study again and again."""

    def __init__(self, study: Study, is_own: bool = False, clock: Callable[[], float] = time.time) -> None:
        """`is_own` says that this process runs the study."""
        self._study, self._is_own, self._clock = study, is_own, clock
        self._cells = cells_of(study)
        self._cell_of = {str(cell.records): cell for cell in self._cells}
        self._markers = _markers_of(study)
        self._states = processes_of(study)
        plans = {"tables": study.plan, "ledger": study.ledger_plan, "figures": study.plan}
        plans |= {"report": planned_report(study), "view": study.plan}
        if not study.game.evidence.keeps_ledger:
            del plans["ledger"]
        self._stamps = {stage: paths.stamp(study.name, stage, plan) for stage, plan in plans.items()}
        self._spending = Spending(study)
        self._spent: str | None = None
        self._spent_read = float("-inf")

    def look(self, last: bool = False) -> Snapshot:
        """Return the study as it is now; in the `last` look of the run of this process, nothing goes on."""
        now, ends = self._clock(), last and self._is_own
        states = self._states.look(now)
        run = next((state for state in reversed(states) if state.stage == RUN and state.alive), None)
        if self._is_own and run is None:
            states = []  # they tell of a run before
        self._count(states)
        rates = _rates(states, now)
        left = any(cell.left for cell in self._cells)
        players = [state for state in states if state.stage == PLAY and state.alive] if left and not ends else []
        servers = [*{state.endpoint: state for state in states if state.stage == SERVE}.values()]  # the last of each

        def stage(name: str, mark: Path, kind: str, model: str = "") -> Stage:
            return _stage(name, mark, [s for s in states if (s.stage, s.model) == (kind, model)], now, ends)

        engines = _engine_stages(servers, now, max((state.replied for state in states), default=0.0))
        after = [stage(name, mark, name) for name, mark in self._stamps.items()]
        playing = Stage("playing", RUNNING if players else TO_DO if left else DONE)
        models = [stage(f"model {name}", mark, FETCH_MODEL, name) for name, mark in self._markers.items()]
        stages = [*models, *engines, playing, *after]
        over = all(stage.state == DONE for stage in [playing, *after])
        works = over or any(stage.state == RUNNING for stage in stages) or (run is not None and not left)
        to_do = ", ".join(stage.name for stage in stages if stage.state != DONE)
        ended = f"the run ended; to do: {to_do}" if to_do else ""
        loading = any(stage.state == RUNNING for stage in engines)
        at_work = [*players, *(state for state in servers if state.alive)]
        return Snapshot(
            study=self._study.name,
            cells=self._cells,
            stages=stages,
            problems=self._problems(states, servers),
            elapsed=None if run is None else max(now - run.began, 0.0),
            rates=rates if players else None,
            left=seconds_left(self._cells, now) if players else None,
            silent=max(now - max(state.last for state in at_work), 0.0) if players and not loading else None,
            spent=self._what_was_spent(now, last),
            note=ended if ends else self._note(run, works),
            over=over,
        )

    def _count(self, states: Iterable[ProcessState]) -> None:
        """Take which records are there, and what processes told; of two that played a simulation, the later knows."""
        for cell in self._cells:
            names = list[str]()
            with suppress(OSError):  # nothing is finished
                names = os.listdir(cell.records)
            cell.finished, cell.games, cell.played = cell.names.intersection(names), {}, []
        for state in states:
            for folder, played in state.played.items():
                if folder in self._cell_of:
                    self._cell_of[folder].played.append(played)
            for record, game in state.games.items():
                folder, _, name = record.rpartition("/")
                if folder in self._cell_of:
                    self._cell_of[folder].games[name] = game, state.alive

    def _note(self, run: ProcessState | None, works: bool) -> str:
        if run is not None and run.note and (run.always or not works):
            return run.note
        if works or (run is not None and any(cell.played for cell in self._cells)):
            return ""
        return IDLE if run is None and not self._is_own else PLANNING

    def _what_was_spent(self, now: float, last: bool) -> str | None:
        if last or now - self._spent_read >= _SPENT_SECONDS:
            self._spent_read = now
            try:
                self._spent = self._spending.line()
            except (RecordError, JournalError) as error:
                self._spent = one_line(str(error), 200)
        return self._spent

    def _problems(self, states: Iterable[ProcessState], servers: Iterable[ProcessState]) -> list[ProgressProblem]:
        """Return the problems of now, the serious ones first; what holds up many simulations is one."""
        held: dict[str, ProgressProblem] = {}
        for game, alive in (game for cell in self._cells for game in cell.unfinished):
            if text := game.error or (game.waits_for if alive else ""):
                problem = ProgressProblem(text, 1, bool(game.error) or game.serious, bool(game.error))
                if former := held.get(problem.key):
                    stopped = problem.stopped or former.stopped
                    problem = replace(problem, simulations=former.simulations + 1, stopped=stopped)
                held[problem.key] = problem
        of_servers = [
            ProgressProblem(state.error or f"the engine for {state.model} is gone; look at its log")
            for state in servers
            if state.error or not (state.alive or state.ended)
        ]
        warnings = {text for state in states if state.stage in (PLAY, SERVE) for text in state.warnings}
        return [
            *sorted([*of_servers, *held.values()], key=lambda problem: (not problem.serious, problem.text)),
            *(ProgressProblem(text, serious=False) for text in sorted(warnings)),
        ]


def processes_of(study: Study) -> ProcessStates:
    """Return the processes that work for a study: those of its own, and those that prepare its models."""
    folders = [paths.results(study.name), *(marker.parent for marker in _markers_of(study).values())]
    return ProcessStates(*map(paths.processes, folders))


def _markers_of(study: Study) -> dict[str, Path]:
    """Return the file that says that a model is prepared, for each that a server of Parley's own serves."""
    models = sorted({name for condition in study.conditions for name in condition.models})
    return {name: model_marker(name, study.models[name]) for name in models if not study.models[name].is_service}


def _rates(states: Iterable[ProcessState], now: float) -> tuple[float, ...] | None:
    """Return the replies and tokens per second of late, or since the first simulation began; None if none came."""
    recent = list[tuple[float, ...]]()
    for state in states:
        state.replies = [each for each in state.replies if each[0] >= now - _RATE_SECONDS]
        recent += state.replies
    if not recent:
        return None
    began = min((each.began for state in states for each in state.played.values() if each.replies), default=now)
    span = max(now - max(began, now - _RATE_SECONDS), 1.0)
    return tuple(sum(column) / span for column in [*zip(*recent, strict=True)][1:])


def _engine_stages(servers: Iterable[ProcessState], now: float, replied: float) -> list[Stage]:
    """Return a stage for each model that is or was served: it loads until its server says so, or a reply came."""
    stages: dict[str, Stage] = {}
    for state in servers:
        name = f"engine {state.model}"
        if state.alive and state.loaded is None and replied <= state.began:
            stages[name] = Stage(name, RUNNING, max(now - state.began, 0.0))
        elif state.loaded is not None or state.alive:
            stages.setdefault(name, Stage(name, DONE, state.loaded and state.loaded - state.began))
    return sorted(stages.values(), key=lambda stage: stage.state == RUNNING)


def _stage(name: str, mark: Path, states: Sequence[ProcessState], now: float, ends: bool) -> Stage:
    """Return a stage: a file says that it is done, its process that it runs, failed, or how long it took."""
    state = states[-1] if states else None
    if mark.exists():
        return Stage(name, DONE, None if state is None or state.ended is None else state.ended - state.began)
    if state is None or (state.ended is not None and not state.error):  # by hand, of what was there
        return Stage(name, TO_DO)
    if state.alive and not ends:
        return Stage(name, RUNNING, max(now - state.began, 0.0))
    return Stage(name, FAILED_STAGE)
