"""How far a study is: by its records, and by what its processes say of themselves. Changes none of them.

`Progress.look` costs what changed since the last look: folders and files that did not change are not read again. So it
can be asked every second, by the display of a run and by `parley status --watch`.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from parley import paths
from parley.engine.weights import model_marker
from parley.errors import JournalError, ParleyError, RecordError
from parley.identity import machine
from parley.play.degenerate import degenerate_of
from parley.play.record import peek_summary
from parley.play.spending import spending_line
from parley.progress import snapshot
from parley.progress.state import FETCH_MODEL, KEPT_SECONDS, PLAY, RUN, SERVE, ProcessState, ProcessStates
from parley.study import Study
from parley.study.condition import SCRIPTED
from parley.study.frozen import planned_report
from parley.text import one_line

_IDLE_SECONDS = 60.0  # without a process that plays and without a new record: nothing is played
_SLOW_SECONDS = 5.0  # how often the budget is looked at
_CLOCKS_SECONDS = 5.0  # by which the clocks of machines may differ
_SETTLED_SECONDS = 60.0  # a folder changed longer ago than this cannot change again with the same time
IDLE = "nothing is played now"
PLANNING = "planning the jobs"
_STOPPING = "stopping; jobs that run are ended"


class Progress:
    """Looks at a study again and again."""

    def __init__(
        self, study: Study, since: float | None = None, clock: Callable[[], float] = time.time, reads: int = 20
    ) -> None:
        """`since` is when the run of this process began, None if it has none; a look reads at most `reads` records."""
        self._study = study
        self._clock = clock
        self._reads = reads
        self._is_own = since is not None
        self._since = since
        self._cells = snapshot.cells_of(study)
        self._cell_of = {str(cell.records): cell for cell in self._cells}
        self._folders = {path: _Folder(path) for cell in self._cells for path in (cell.records, cell.journals)}
        self._unread: deque[tuple[snapshot.ConditionProgress, str]] = deque()
        self._estimate = snapshot.Estimate(self._cells)
        self._states = ProcessStates(paths.processes(paths.results(study.name)))
        self._models = {
            f"model {name}": (marker, ProcessStates(paths.processes(marker.parent)))
            for name in sorted({name for condition in study.conditions for name in condition.models})
            if not study.models[name].is_service
            for marker in [model_marker(name, study.models[name])]
        }
        self._loaded: dict[str, float | None] = {}  # seconds that the last start of an engine took, by model
        self._slow = float("-inf")
        self._budget: str | None = None

    def look(self, last: bool = False) -> snapshot.Snapshot:
        """Return the study as it is now; in the `last` look of the run of this process, nothing goes on."""
        now = self._clock()
        states = self._states.look(now)
        run = next((state for state in reversed(states) if state.stage == RUN and state.alive), None)
        if not self._is_own:
            self._since = run.began if run is not None else None
        states = [state for state in states if self._is_of_run(state)]
        for state in states:
            self._count(state, now)
        for cell in self._cells:
            self._look_at_records(cell, now)
        self._follow(states)
        self._read_records(states, now)
        if now - self._slow >= _SLOW_SECONDS:
            self._slow = now
            self._budget = self._spent()

        left = any(cell.left for cell in self._cells)
        servers = {state.endpoint: state for state in states if state.stage == SERVE}  # the last one of each
        engines = self._engine_stages(servers.values(), now)
        before = [*self._model_stages(now, last), *engines]
        after = self._last_stages(states, now, last)
        playing_since = [state.began for state in states if state.stage == PLAY and state.alive]
        plays = bool(playing_since)
        loads = any(stage.state == snapshot.RUNNING for stage in engines)
        event = max(self._estimate.last_finish, self._estimate.last_reply)
        recently = (self._is_own or run is not None) and now - event < _IDLE_SECONDS
        idle = left and not (plays or recently or any(stage.state == snapshot.RUNNING for stage in before))
        playing = self._stage_of_playing(left, idle, last)
        goes_on = playing.state == snapshot.RUNNING
        loaded = [state.loaded for state in servers.values() if state.alive and state.loaded]
        return snapshot.Snapshot(
            study=self._study.name,
            cells=self._cells,
            stages=[*before, playing, *after],
            problems=self._problems(states, servers.values()),
            elapsed=None if self._since is None else max(now - self._since, 0.0),
            rates=self._estimate.answering(now) if left and goes_on else None,
            finishes=self._estimate.finishing(now) if goes_on else None,
            left=self._estimate.left(now) if goes_on else None,
            silent=max(now - max([min(playing_since), event, *loaded]), 0.0) if plays and not loads else None,
            budget=self._budget,
            note=""
            if last
            else self._note(run, idle, plays or any(s.state == snapshot.RUNNING for s in (*before, *after))),
            over=not left and all(stage.state == snapshot.DONE for stage in after),
        )

    def _is_of_run(self, state: ProcessState) -> bool:
        if state.alive or self._since is None:
            return True
        return state.began >= self._since - (0.0 if state.host == machine() else _CLOCKS_SECONDS)

    def _note(self, run: ProcessState | None, idle: bool, works: bool) -> str:
        if run is not None and run.stopping:
            return _STOPPING
        if run is not None and run.note and not works:
            return run.note
        if run is None and self._is_own and not works:  # it says so itself once it has the study's lock
            return PLANNING
        return IDLE if idle else ""

    # What is played

    def _count(self, state: ProcessState, now: float) -> None:
        for begins, (asked, came, *counts) in state.bins.items():
            if state.engine != SCRIPTED and self._tells_of_the_pace(came, now):
                process = (state.host, state.pid, state.began)
                self._estimate.replied(state.engine, (*process, begins), asked, came, counts)

    def _follow(self, states: Iterable[ProcessState]) -> None:
        """Take what processes say of their simulations; of two processes, the later one knows."""
        for cell in self._cells:
            cell.playing = {name: each for name, each in cell.playing.items() if name in cell.finished}
        for state in states:
            for record, game in state.games.items():
                folder, _, name = record.rpartition("/")
                of = self._cell_of.get(folder)
                if of is not None and name in of.names and (of.kind != SCRIPTED or name not in of.finished):
                    of.playing[name] = snapshot.Playing(**vars(game), alive=state.alive)

    def _look_at_records(self, cell: snapshot.ConditionProgress, now: float) -> None:
        if (names := self._folders[cell.journals].names(now)) is not None:
            begun = (name.removesuffix(".jsonl") + ".parquet" for name in names if name.endswith(".jsonl"))
            cell.begun = cell.names.intersection(begun)
        folder = self._folders[cell.records]
        first = folder.changed is None
        if (names := folder.names(now)) is None:
            return
        finished = cell.names.intersection(names)
        new = finished - cell.finished
        cell.finished = finished
        if not first:
            for name in new:
                self._estimate.finished(cell.kind, cell.records / name, now)
        elif new and now - (folder.changed or 0.0) < KEPT_SECONDS:
            # What was there before the first look tells of the pace, too, if it is of this run.
            for record in (cell.records / name for name in new):
                if (at := _modified(record)) is not None and self._tells_of_the_pace(at, now):
                    self._estimate.finished(cell.kind, record, at)
        if cell.kind != SCRIPTED:
            self._unread.extendleft((cell, name) for name in sorted(new))

    def _read_records(self, states: Iterable[ProcessState], now: float) -> None:
        """Read what some more of the finished simulations tell of their replies, the last ones first."""
        for _ in range(min(self._reads, len(self._unread))):
            cell, name = self._unread.popleft()
            followed = cell.playing.pop(name, None)
            try:
                telemetry = peek_summary(cell.records / name).telemetry
                calls, unusable = int(telemetry["calls"]), int(telemetry["failed_replies"])
                tokens = int(telemetry["prompt_tokens"]), int(telemetry["completion_tokens"])
                of_models, degenerate = degenerate_of(telemetry)
            except (ParleyError, LookupError, TypeError, ValueError):
                continue  # the tables will say what is wrong with it
            cell.counted += 1
            cell.replies += calls
            cell.unusable += unusable
            cell.of_models += of_models
            cell.degenerate += degenerate
            at = _modified(cell.records / name)
            # Played while nobody looked, it counts when it ended; unless the process of its shard still tells of it.
            if followed is not None or at is None or not self._tells_of_the_pace(at, now):
                continue
            shards = states if cell.condition.plays_by_shard else ()
            if not any(state.engine == cell.kind and state.began <= at for state in shards):
                self._estimate.replied(cell.kind, cell.records / name, at, at, (calls, *tokens))

    def _tells_of_the_pace(self, at: float, now: float) -> bool:
        """Whether what happened then was not long ago, and of the run that is followed, not of one before."""
        return now - at < KEPT_SECONDS and (self._since is None or at >= self._since)

    def _spent(self) -> str | None:
        if self._study.content.budget is None:
            return None
        if self._budget is not None and not paths.spent(self._study.name).exists():
            return self._budget  # nothing was counted since, and all records and journals would be read
        try:
            return (spending_line(self._study) or "").removeprefix("budget: ") or None
        except (RecordError, JournalError) as error:
            return one_line(str(error), 200)

    # Stages

    def _model_stages(self, now: float, last: bool) -> list[snapshot.Stage]:
        found = []
        for name, (marker, processes) in self._models.items():
            states = [state for state in processes.look(now) if state.stage == FETCH_MODEL and self._is_of_run(state)]
            found.append(self._stage(name, marker, states, now, last))
        return found

    def _engine_stages(self, servers: Iterable[ProcessState], now: float) -> list[snapshot.Stage]:
        loading: dict[str, float] = {}
        for state in servers:
            if state.alive and state.loaded is None and self._estimate.last_reply <= state.began:
                loading[state.model] = max(now - state.began, loading.get(state.model, 0.0))
            elif state.alive:
                took = None if state.loaded is None else state.loaded - state.began  # its log may not say
                self._loaded[state.model] = took or self._loaded.get(state.model)
        done = {name: seconds for name, seconds in self._loaded.items() if name not in loading}
        return [
            *(snapshot.Stage(f"engine {name}", snapshot.DONE, seconds) for name, seconds in done.items()),
            *(snapshot.Stage(f"engine {name}", snapshot.RUNNING, seconds) for name, seconds in loading.items()),
        ]

    def _last_stages(self, states: Sequence[ProcessState], now: float, last: bool) -> list[snapshot.Stage]:
        study = self._study
        plans = {"tables": study.plan, "ledger": study.ledger_plan, "figures": study.plan}
        plans |= {"report": planned_report(study), "view": study.plan}
        if not study.game.evidence.keeps_ledger:
            del plans["ledger"]
        return [
            self._stage(name, paths.stamp(study.name, name, plan), [s for s in states if s.stage == name], now, last)
            for name, plan in plans.items()
        ]

    def _stage(self, name: str, done: Path, states: Sequence[ProcessState], now: float, last: bool) -> snapshot.Stage:
        """Return a stage: a file says that it is done, its process that it runs, failed, or how long it took."""
        state = states[-1] if states else None
        if done.exists():
            took = None if state is None or state.ended is None else state.ended - state.began
            return snapshot.Stage(name, snapshot.DONE, took)
        if state is None:
            return snapshot.Stage(name, snapshot.TO_DO)
        if state.alive and not (last and self._is_own):
            return snapshot.Stage(name, snapshot.RUNNING, max(now - state.began, 0.0))
        return snapshot.Stage(name, snapshot.FAILED_STAGE)

    def _stage_of_playing(self, left: bool, idle: bool, last: bool) -> snapshot.Stage:
        if not left:
            return snapshot.Stage("playing", snapshot.DONE)
        if last and self._is_own:
            return snapshot.Stage("playing", snapshot.FAILED_STAGE)
        return snapshot.Stage("playing", snapshot.TO_DO if idle else snapshot.RUNNING)

    # Problems

    def _problems(
        self, states: Iterable[ProcessState], servers: Iterable[ProcessState]
    ) -> list[snapshot.ProgressProblem]:
        """Return the problems of now, the serious ones first; what holds up many simulations is one."""
        problems: dict[str, snapshot.ProgressProblem] = {}
        for game in (game for cell in self._cells for game in cell.unfinished):
            if text := game.error or (game.waits_for if game.alive else ""):
                problem = snapshot.ProgressProblem(text, 1, bool(game.error) or game.serious, bool(game.error))
                former = problems.get(problem.key, snapshot.ProgressProblem("", stopped=False))
                problems[problem.key] = replace(
                    problem, simulations=former.simulations + 1, stopped=problem.stopped or former.stopped
                )
        dead = [state for state in servers if not state.alive]
        found = [
            snapshot.ProgressProblem(s.error or f"the engine for {s.model} is gone; look at its log") for s in dead
        ]
        found += problems.values()
        warnings = {text for state in states if state.stage in (PLAY, SERVE) for text in state.warnings}
        return [
            *sorted(found, key=lambda problem: (not problem.serious, problem.text)),
            *(snapshot.ProgressProblem(text, serious=False) for text in sorted(warnings)),
        ]


class _Folder:
    """The names in a folder, listed again only when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.changed: float | None = None  # when a name came or went last, in seconds since the epoch; 0 without it

    def names(self, now: float) -> list[str] | None:
        """Return the names; None if they are those of the last call. A folder that is not there has none."""
        before = self.changed
        try:
            self.changed = os.stat(self._path).st_mtime
            # What changed of late may have changed again within one tick of its file system's clock.
            if self.changed == before and now - before > _SETTLED_SECONDS:
                return None
            return os.listdir(self._path)
        except OSError:
            self.changed = 0.0
            return None if before == 0 else []


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
