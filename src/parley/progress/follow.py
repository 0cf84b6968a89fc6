"""How far a study is: the sum of what its processes told, and of its records. Changes none of them.

Of files, a look reads what changed since the last one: the display of a run and `parley status --watch` look often.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from parley import paths
from parley.engine.weights import model_marker
from parley.errors import JournalError, ParleyError, RecordError
from parley.identity import machine
from parley.play.degenerate import degenerate_of
from parley.play.journal import journaled
from parley.play.record import peek_summary
from parley.play.spending import Spending
from parley.progress.pace import KEPT_SECONDS, Pace, time_left
from parley.progress.snapshot import (
    DONE,
    FAILED_STAGE,
    RUNNING,
    TO_DO,
    ConditionProgress,
    ProgressProblem,
    Snapshot,
    Stage,
    cells_of,
)
from parley.progress.state import PLAY, RUN, SERVE, GameProgress, ProcessState, ProcessStates
from parley.study import Study
from parley.study.condition import SCRIPTED
from parley.study.frozen import planned_report
from parley.text import one_line

_IDLE_SECONDS = 60.0  # without a process that plays and without a new record: nothing is played
_SPENT_SECONDS = 5.0  # how often it is looked at
_CLOCKS_SECONDS = 5.0  # by which the clocks of machines may differ
IDLE = "nothing is played now"
PLANNING = "planning the jobs"


class Progress:
    """Looks at a study again and again."""

    def __init__(
        self, study: Study, since: float | None = None, clock: Callable[[], float] = time.time, reads: int = 20
    ) -> None:
        """`since` is when the run of this process began, None if it has none; a look reads at most `reads` records."""
        self._study, self._clock, self._reads = study, clock, reads
        self._is_own, self._since = since is not None, since
        self._cells = cells_of(study)
        self._cell_of = {str(cell.records): cell for cell in self._cells}
        self._looked = False
        self._unread: deque[tuple[ConditionProgress, str]] = deque()
        self._damaged: dict[Path, ProgressProblem] = {}
        self._told: set[str] = set()  # simulations of whose replies a process told
        # By the kind of engine: replies with the tokens that they read and wrote, and ends of simulations.
        self._replies = {cell.kind: Pace() for cell in self._cells}
        self._finishes = {cell.kind: Pace() for cell in self._cells}
        self._states = ProcessStates(paths.processes(paths.results(study.name)))
        models = sorted({name for condition in study.conditions for name in condition.models})
        served = [name for name in models if not study.models[name].is_service]
        self._markers = {name: model_marker(name, study.models[name]) for name in served}
        self._fetching = {name: ProcessStates(paths.processes(self._markers[name].parent)) for name in served}
        self._loaded: dict[str, float | None] = {}  # seconds that the last start of an engine took, by model
        plans = {"tables": study.plan, "ledger": study.ledger_plan, "figures": study.plan}
        plans |= {"report": planned_report(study), "view": study.plan}
        if not study.game.evidence.keeps_ledger:
            del plans["ledger"]
        self._stamps = {stage: paths.stamp(study.name, stage, plan) for stage, plan in plans.items()}
        self._spending = Spending(study)
        self._spent: str | None = None
        self._spent_read = float("-inf")
        self._journals: dict[Path, tuple[float, int]] = {}  # when one was changed last, and its replies

    def look(self, last: bool = False) -> Snapshot:
        """Return the study as it is now; in the `last` look of the run of this process, nothing goes on."""
        now = self._clock()
        states = self._states.look(now)
        run = next((state for state in reversed(states) if state.stage == RUN and state.alive), None)
        if not self._is_own:
            self._since = None if run is None else run.began
        states = [state for state in states if self._is_of_run(state)]
        self._take_events(states, now)
        for cell in self._cells:
            self._take_records(cell, now)
        self._looked = True
        self._read_records(now)

        players = [state for state in states if state.stage == PLAY and state.alive]
        if not players:
            for cell in self._cells:
                self._take_journals(cell)
        servers = [*{state.endpoint: state for state in states if state.stage == SERVE}.values()]  # the last of each
        ends = last and self._is_own
        before = [*self._model_stages(now, ends), *self._engine_stages(servers, now)]
        after = [
            self._stage(stage, stamp, [state for state in states if state.stage == stage], now, ends)
            for stage, stamp in self._stamps.items()
        ]
        came = max(pace.last for pace in [*self._replies.values(), *self._finishes.values()])
        recently = (self._is_own or run is not None) and now - came < _IDLE_SECONDS
        works = not ends and (bool(players) or recently or _any_runs(before))
        left = any(cell.left for cell in self._cells)
        goes_on = left and works
        playing = Stage("playing", RUNNING if goes_on else TO_DO if left else DONE)
        stages = [*before, playing, *after]
        to_do = ", ".join(stage.name for stage in stages if stage.state != DONE)
        ended = to_do and f"the run ended; to do: {to_do}"
        since_last = [came, *(state.loaded for state in servers if state.alive and state.loaded)]
        waits = players and not _any_runs(before)
        rates = [rates for pace in self._replies.values() if (rates := pace.rates(now))] if goes_on else []
        return Snapshot(
            study=self._study.name,
            cells=self._cells,
            stages=stages,
            problems=self._problems(states, servers),
            elapsed=None if self._since is None else max(now - self._since, 0.0),
            rates=tuple(map(sum, zip(*rates, strict=True))) or None,
            finishes=self._finishing(now) if goes_on else None,
            left=time_left(self._cells, self._replies, self._finishes, now) if goes_on else None,
            silent=max(now - max(players[0].began, *since_last), 0.0) if waits else None,
            spent=self._what_was_spent(now, last),
            note=ended if ends else self._note(run, works or not left or _any_runs(after)),
            over=all(stage.state == DONE for stage in [playing, *after]),
        )

    def _is_of_run(self, state: ProcessState) -> bool:
        if state.alive or self._since is None:
            return True
        return state.began >= self._since - (0.0 if state.host == machine() else _CLOCKS_SECONDS)

    def _note(self, run: ProcessState | None, works: bool) -> str:
        if run is not None and run.note and (run.always or not works):
            return run.note
        if works:
            return ""
        return PLANNING if run is None and self._is_own else IDLE  # it says so itself once it has the study's lock

    # What is played

    def _take_events(self, states: Iterable[ProcessState], now: float) -> None:
        """Take what processes told of their simulations; of two processes, the later one knows."""
        for cell in self._cells:
            unread = cell.finished - cell.read
            cell.playing = {name: each for name, each in cell.playing.items() if name in unread}
        for state in states:
            self._told.update(state.games, (reply.game for reply in state.replies))
            if state.engine != SCRIPTED and (pace := self._replies.get(state.engine)):
                for reply in state.replies:
                    if self._tells_of_the_pace(reply.came, now):
                        pace.put(reply.asked, reply.came, (1, reply.read, reply.written))
            for record, game in state.games.items():
                folder, _, name = record.rpartition("/")
                of = self._cell_of.get(folder)
                if of is not None and name in of.names and name not in of.read:
                    of.playing[name] = replace(game, alive=state.alive)

    def _take_records(self, cell: ConditionProgress, now: float) -> None:
        names = list[str]()
        with suppress(OSError):  # nothing is finished
            names = os.listdir(cell.records)
        finished = cell.names.intersection(names)
        new = finished - cell.finished
        cell.finished = finished
        # Records that were there before anybody looked tell themselves when they came, if that was of late.
        if self._looked or now - _modified(cell.records) < KEPT_SECONDS:
            for name in new:
                at = now if self._looked else _modified(cell.records / name)
                if self._tells_of_the_pace(at, now):
                    self._finishes[cell.kind].put(at, at, (1,))
        if cell.kind != SCRIPTED or not self._is_own:  # a run has no time for those that say nothing of a pace
            self._unread.extendleft((cell, name) for name in sorted(new))

    def _take_journals(self, cell: ConditionProgress) -> None:
        """Take how many replies the simulations have that nobody plays: who was killed did not tell of the last."""
        folder = paths.journal(cell.records / "seed=0.parquet").parent
        for path in folder.glob("seed=*.jsonl") if cell.kind != SCRIPTED else ():
            if (name := path.with_suffix(".parquet").name) in cell.names - cell.finished:
                game = cell.playing.setdefault(name, GameProgress(alive=False))
                with suppress(JournalError):
                    if self._journals.get(path, (-1, 0))[0] != (modified := _modified(path)):
                        self._journals[path] = modified, len(journaled(path))
                    game.replies = self._journals[path][1]

    def _read_records(self, now: float) -> None:
        """Read what some more of the finished simulations tell of their replies, the last ones first."""
        for _ in range(min(self._reads, len(self._unread))):
            cell, name = self._unread.popleft()
            record = cell.records / name
            try:
                telemetry = peek_summary(record).telemetry
                calls, unusable = int(telemetry["calls"]), int(telemetry["failed_replies"])
                tokens = int(telemetry["prompt_tokens"]), int(telemetry["completion_tokens"])
                of_models, degenerate = degenerate_of(telemetry)
            except (ParleyError, LookupError, TypeError, ValueError) as error:
                self._damaged[record] = ProgressProblem(str(error))
                continue
            self._damaged.pop(record, None)
            if cell.kind == SCRIPTED:
                continue
            cell.read.add(name)
            cell.playing.pop(name, None)
            cell.replies += calls
            cell.unusable += unusable
            cell.of_models += of_models
            cell.degenerate += degenerate
            # Played while nobody looked, it counts when it ended.
            at = _modified(record)
            if str(record) not in self._told and self._tells_of_the_pace(at, now):
                self._replies[cell.kind].put(at, at, (calls, *tokens))

    def _tells_of_the_pace(self, at: float, now: float) -> bool:
        """Whether what happened then was not long ago, and of the run that is followed, not of one before."""
        return at >= max(now - KEPT_SECONDS, self._since or 0.0)

    def _finishing(self, now: float) -> float | None:
        """Return how many simulations end per second, of those engines that have any left; None if unknown."""
        kinds = {cell.kind for cell in self._cells if cell.left}
        return sum(rates[0] for kind in kinds if (rates := self._finishes[kind].rates(now))) or None

    def _what_was_spent(self, now: float, last: bool) -> str | None:
        if last or now - self._spent_read >= _SPENT_SECONDS:
            self._spent_read = now
            try:
                self._spent = self._spending.line()
            except (RecordError, JournalError) as error:
                self._spent = one_line(str(error), 200)
        return self._spent

    # Stages

    def _model_stages(self, now: float, ends: bool) -> Iterable[Stage]:
        for name, marker in self._markers.items():
            states = [state for state in self._fetching[name].look(now) if self._is_of_run(state)]
            yield self._stage(f"model {name}", marker, states, now, ends)

    def _engine_stages(self, servers: Iterable[ProcessState], now: float) -> Iterable[Stage]:
        loading: dict[str, float] = {}
        replied = max(pace.last for pace in self._replies.values())
        for state in (state for state in servers if state.alive):
            if state.loaded is None and replied <= state.began:
                loading[state.model] = max(now - state.began, loading.get(state.model, 0.0))
            else:
                took = None if state.loaded is None else state.loaded - state.began  # its log may not say
                self._loaded[state.model] = took or self._loaded.get(state.model)
        for name, seconds in self._loaded.items():
            if name not in loading:
                yield Stage(f"engine {name}", DONE, seconds)
        for name, seconds in loading.items():
            yield Stage(f"engine {name}", RUNNING, seconds)

    def _stage(self, name: str, done: Path, states: Sequence[ProcessState], now: float, ends: bool) -> Stage:
        """Return a stage: a file says that it is done, its process that it runs, failed, or how long it took."""
        state = states[-1] if states else None
        if done.exists():
            return Stage(name, DONE, None if state is None or state.ended is None else state.ended - state.began)
        if state is None or (state.ended is not None and not state.error):  # by hand, of what was there
            return Stage(name, TO_DO)
        if state.alive and not ends:
            return Stage(name, RUNNING, max(now - state.began, 0.0))
        return Stage(name, FAILED_STAGE)

    # Problems

    def _problems(self, states: Iterable[ProcessState], servers: Iterable[ProcessState]) -> list[ProgressProblem]:
        """Return the problems of now, the serious ones first; what holds up many simulations is one."""
        held: dict[str, ProgressProblem] = {}
        for game in (game for cell in self._cells for game in cell.unfinished):
            if text := game.error or (game.waits_for if game.alive else ""):
                problem = ProgressProblem(text, 1, bool(game.error) or game.serious, bool(game.error))
                if former := held.get(problem.key):
                    stopped = problem.stopped or former.stopped
                    problem = replace(problem, simulations=former.simulations + 1, stopped=stopped)
                held[problem.key] = problem
        gone = [state for state in servers if not state.alive]
        of_servers = [
            ProgressProblem(each.error or f"the engine for {each.model} is gone; look at its log") for each in gone
        ]
        warnings = {text for state in states if state.stage in (PLAY, SERVE) for text in state.warnings}
        return [
            *sorted([*of_servers, *held.values()], key=lambda problem: (not problem.serious, problem.text)),
            *self._damaged.values(),
            *(ProgressProblem(text, serious=False) for text in sorted(warnings)),
        ]


def _any_runs(stages: Iterable[Stage]) -> bool:
    return any(stage.state == RUNNING for stage in stages)


def _modified(path: Path) -> float:
    """Return when a file or a folder changed last, in seconds since the epoch; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
