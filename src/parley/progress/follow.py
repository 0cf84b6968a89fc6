"""How far a study is: which records are there, and the sum of what its processes told. Changes none of them."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parley import paths
from parley.engine.weights import model_marker
from parley.errors import JournalError, RecordError
from parley.play.spending import spending_line
from parley.progress.state import FETCH_MODEL, PLAY, RUN, SERVE, GameProgress, Played, ProcessState, ProcessStates
from parley.study import Study
from parley.study.condition import SCRIPTED
from parley.study.frozen import planned_report
from parley.text import counted, one_line

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
IDLE = "nothing is played now"
_RATE_SECONDS = 120.0  # from which the speed is worked out
_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_Game = tuple[GameProgress, bool]  # and whether its process lives


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its state, and how many seconds it has been running."""

    name: str
    state: str
    seconds: float | None = None


@dataclass(frozen=True)
class ProgressProblem:
    """Something that a person should know, and whether somebody should do something about it."""

    text: str
    serious: bool = True

    @property
    def key(self) -> str:
        """The same for the same problem, whatever the numbers in its text."""
        return _NUMBER.sub("#", self.text)


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment; replies and speed are those of the run that goes on, or of the last one."""

    study: str
    total: int  # simulations
    finished: int  # those with a record
    running: int  # those that are played now
    replies: int
    unusable: int
    stages: Sequence[Stage]
    problems: Sequence[ProgressProblem]
    elapsed: float | None  # seconds of the run that goes on
    rates: tuple[float, ...] | None  # replies, tokens read, tokens written per second
    left: float | None  # seconds until the last simulation ends
    spent: str | None  # of what services may use, in a last look
    note: str  # what goes on where nothing is played
    over: bool  # whether all simulations and all that is made of them are there


@dataclass
class _Condition:
    """The records of a condition: their names, how many are to come, and the kind of engine that they need."""

    folder: str
    names: frozenset[str]
    engine: str
    left: int = 0


class Progress:
    """Looks at a study again and again."""

    def __init__(self, study: Study, is_own: bool = False, clock: Callable[[], float] = time.time) -> None:
        """`is_own` says that this process runs the study."""
        self._study, self._is_own, self._clock = study, is_own, clock
        self._conditions = {each.folder: each for each in _conditions_of(study)}
        self._markers = _markers_of(study)
        self._states = processes_of(study)
        plans = {"tables": study.plan, "ledger": study.ledger_plan, "figures": study.plan}
        plans |= {"report": planned_report(study), "view": study.plan}
        if not study.game.evidence.keeps_ledger:
            del plans["ledger"]
        self._stamps = {stage: paths.stamp(study.name, stage, plan) for stage, plan in plans.items()}

    def look(self, last: bool = False) -> Snapshot:
        """Return the study as it is now; in the `last` look of the run of this process, nothing goes on."""
        now, ends = self._clock(), last and self._is_own
        states = self._states.look(now)
        run = next((state for state in reversed(states) if state.stage == RUN and state.alive), None)
        if self._is_own and run is None:
            states = []  # they tell of a run before
        unfinished = self._unfinished(states)
        left = sum(each.left for each in self._conditions.values())
        total = sum(len(each.names) for each in self._conditions.values())
        plays = bool(left) and not ends and any(state.stage == PLAY and state.alive for state in states)
        servers = [*{state.endpoint: state for state in states if state.stage == SERVE}.values()]  # the last of each

        def stage(name: str, mark: Path, kind: str, model: str = "") -> Stage:
            """Return a stage: a file says that it is done, its process that it runs or failed."""
            state = next((s for s in reversed(states) if (s.stage, s.model) == (kind, model)), None)
            if mark.exists():
                return Stage(name, DONE)
            if state is None or (state.ended is not None and not state.error):
                return Stage(name, TO_DO)
            if state.alive and not ends:
                return Stage(name, RUNNING, max(now - state.began, 0.0))
            return Stage(name, FAILED_STAGE)

        after = [stage(name, mark, name) for name, mark in self._stamps.items()]
        playing = Stage("playing", RUNNING if plays else TO_DO if left else DONE)
        models = [stage(f"model {name}", mark, FETCH_MODEL, name) for name, mark in self._markers.items()]
        replied = max((state.replied for state in states), default=0.0)
        loading = [s for s in servers if s.alive and replied <= s.began]  # until a reply comes
        engines = [Stage(f"engine {s.model}", RUNNING, max(now - s.began, 0.0)) for s in loading]
        stages = [*models, *engines, playing, *after]
        over = all(stage.state == DONE for stage in [playing, *after])
        works = over or any(stage.state == RUNNING for stage in stages) or (run is not None and not left)
        to_do = ", ".join(stage.name for stage in stages if stage.state != DONE)
        ended = f"the run ended; to do: {to_do}" if to_do else ""
        return Snapshot(
            study=self._study.name,
            total=total,
            finished=total - left,
            running=sum(alive and not game.error for game, alive in unfinished),
            replies=sum(state.number_of_replies for state in states),
            unusable=sum(state.unusable for state in states),
            stages=stages,
            problems=_problems(unfinished, states, servers),
            elapsed=None if run is None else max(now - run.began, 0.0),
            rates=_rates(states, now) if plays else None,
            left=self._seconds_left(states, now) if plays else None,
            spent=_what_was_spent(self._study) if last else None,
            note=ended if ends else self._note(run, works),
            over=over,
        )

    def _unfinished(self, states: Iterable[ProcessState]) -> list[_Game]:
        """Count which records are there; return the games without one that processes told of, by the last of each."""
        there: dict[str, frozenset[str]] = {}
        for folder, condition in self._conditions.items():
            names = list[str]()
            with suppress(OSError):  # nothing is finished
                names = os.listdir(folder)
            there[folder] = condition.names.intersection(names)
            condition.left = len(condition.names) - len(there[folder])
        games: dict[str, _Game] = {}
        for state in states:
            for record, game in state.games.items():
                folder, _, name = record.rpartition("/")
                if folder in there and name in self._conditions[folder].names - there[folder]:
                    games[record] = game, state.alive
        return list(games.values())

    def _note(self, run: ProcessState | None, works: bool) -> str:
        if run is not None and run.note and (run.always or not works):
            return run.note
        return "" if works or run is not None or self._is_own else IDLE

    def _seconds_left(self, states: Sequence[ProcessState], now: float) -> float | None:
        """Return how long what is left will take, engine after engine, at the pace of the simulations that ended.

        None if it is unknown of one; but scripted agents take next to no time where models play, too.
        """
        left: dict[str, int] = defaultdict(int)
        for condition in self._conditions.values():
            left[condition.engine] += condition.left
        ended: dict[str, list[Played]] = defaultdict(list)
        for folder, played in (each for state in states for each in state.played.items()):
            if folder in self._conditions:
                ended[self._conditions[folder].engine].append(played)
        to_play = {engine: number for engine, number in left.items() if number}
        seconds = 0.0
        for engine, number in to_play.items():
            if games := sum(played.games for played in ended[engine]):
                seconds += number * max(now - min(played.began for played in ended[engine]), 0.0) / games
            elif engine != SCRIPTED or len(to_play) == 1:
                return None
        return seconds


def processes_of(study: Study) -> ProcessStates:
    """Return the processes that work for a study: those of its own, and those that prepare its models."""
    folders = [paths.results(study.name), *(marker.parent for marker in _markers_of(study).values())]
    return ProcessStates(*map(paths.processes, folders))


def _conditions_of(study: Study) -> Iterable[_Condition]:
    names: dict[tuple[int, ...], frozenset[str]] = {}  # most conditions have the same seeds
    for condition in study.conditions:
        seeds = tuple(condition.seeds)
        if seeds not in names:
            names[seeds] = frozenset(paths.simulation("", "", seed).name for seed in seeds)
        folder = str(paths.simulation(study.name, condition.folder, 0).parent)
        yield _Condition(folder, names[seeds], condition.engine if condition.models else SCRIPTED)


def _markers_of(study: Study) -> dict[str, Path]:
    """Return the file that says that a model is prepared, for each that a server of Parley's own serves."""
    models = sorted({name for condition in study.conditions for name in condition.models})
    return {name: model_marker(name, study.models[name]) for name in models if not study.models[name].is_service}


def _what_was_spent(study: Study) -> str | None:
    try:
        return spending_line(study)
    except (RecordError, JournalError) as error:
        return one_line(str(error), 200)


def _problems(
    unfinished: Iterable[_Game], states: Iterable[ProcessState], servers: Iterable[ProcessState]
) -> list[ProgressProblem]:
    """Return the problems of now, the serious ones first; what holds up many simulations is one."""
    held: dict[str, list[GameProgress]] = defaultdict(list)
    for game, alive in unfinished:
        if text := game.error or (game.waits_for if alive else ""):
            held[_NUMBER.sub("#", text)].append(game)
    problems = [
        ProgressProblem(state.error or f"the engine for {state.model} is gone; look at its log")
        for state in servers
        if state.error or not (state.alive or state.ended)
    ]
    for games in held.values():
        stopped = " stopped" if any(game.error for game in games) else ""
        text = f"{counted(len(games), 'simulation')}{stopped}: {games[-1].error or games[-1].waits_for}"
        problems.append(ProgressProblem(text, any(game.error or game.serious for game in games)))
    warnings = {text for state in states if state.stage in (PLAY, SERVE) for text in state.warnings}
    problems += [ProgressProblem(text, serious=False) for text in sorted(warnings)]
    return sorted(problems, key=lambda problem: not problem.serious)


def _rates(states: Iterable[ProcessState], now: float) -> tuple[float, ...] | None:
    """Return the replies and tokens per second of late, or since the first simulation began; None if none came."""
    recent = list[tuple[float, ...]]()
    for state in states:
        state.replies = [each for each in state.replies if each[0] >= now - _RATE_SECONDS]
        recent += state.replies
    if not recent:
        return None
    began = min((played.began for state in states if state.replied for played in state.played.values()), default=now)
    span = max(now - max(began, now - _RATE_SECONDS), 1.0)
    return tuple(sum(column) / span for column in [*zip(*recent, strict=True)][1:])
