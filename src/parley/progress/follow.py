"""How far a study is, from its files alone: records, journals, logs of jobs, marks of stages. Changes none of them.

`Progress.look` costs what changed since the last look: folders that did not change are not listed, files are read from
where the last look ended. So it can be asked every second, by the display of a run and by `parley status --watch`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

from parley import paths
from parley.errors import JournalError, ParleyError, RecordError
from parley.files import is_locked
from parley.play.degenerate import degenerate_of
from parley.play.pace import KEPT_SECONDS
from parley.play.record import peek_summary
from parley.play.spending import spending_line
from parley.progress.engines import Engines
from parley.progress.estimate import Estimate
from parley.progress.problems import Problem, Problems, disk_problem
from parley.progress.stages import (
    DONE,
    FAILED_STAGE,
    RUNNING,
    TO_DO,
    FileStage,
    Stage,
    last_stages,
    model_stages,
)
from parley.progress.state import Cell, Playing, Snapshot, cells_of
from parley.progress.tails import JobLog, JournalTail
from parley.study import Study
from parley.study.condition import SCRIPTED
from parley.text import one_line

_PROBE_SECONDS = 10.0  # how often it is looked whether a silent simulation still lives
_IDLE_SECONDS = 60.0  # without a process that plays and without a new record: nothing is played
_GAP_SECONDS = 120.0  # without a record or a reply: what was before was another run
_SLOW_SECONDS = 5.0  # how often the disk and the budget are looked at


class Progress:
    """Looks at the files of a study, again and again."""

    def __init__(
        self, study: Study, since: float | None = None, clock: Callable[[], float] = time.time, reads: int = 20
    ) -> None:
        """`since` is when the run that is followed began (seconds since the epoch), None if that is unknown.

        A look reads at most `reads` records.
        """
        self._study = study
        self._clock = clock
        self._reads = reads
        self._since = since
        self._cells = cells_of(study)
        self._unread: deque[tuple[Cell, str]] = deque()
        self._estimate = Estimate(self._cells)
        self._engines = Engines(study.name)
        self._models = model_stages(study, since)
        self._last = last_stages(study, since)
        self._problems = Problems()
        self._played: tuple[float | None, float | None] = (None, None)
        self._alive: float | None = None  # since when simulations are played, or wait for their engine
        self._plays: float | None = None  # since when they do not wait for it
        self._slow = float("-inf")
        self._probe_seconds = _PROBE_SECONDS
        self._first = True
        self._budget: str | None = None
        self._disk: str | None = None

    def look(self, last: bool = False) -> Snapshot:
        """Return the study as it is now; the `last` look makes sure which simulations are still played."""
        now = self._clock()
        self._probe_seconds = 0.0 if last else _PROBE_SECONDS
        self._look_at_files(now)
        begun = [one for cell in self._cells for one in cell.unfinished]
        if not any(one.alive for one in begun):
            self._alive = None
        elif self._alive is None:
            self._alive = now
        left = any(cell.left for cell in self._cells)
        before = [*self._stages_of(self._models, now, last), *self._engines.look(now, self._estimate.replies.last)]
        after = self._stages_of(self._last, now, last)
        recently = now - max(self._estimate.finishes.last or 0.0, self._estimate.replies.last or 0.0) < _IDLE_SECONDS
        # From elsewhere, the lock says whether there is a run.
        recently = recently and (self._since is not None or is_locked(paths.lock(self._study.name)))
        idle = left and not (self._alive or recently or any(stage.state == RUNNING for stage in before))
        loading = any(stage.name.startswith("engine ") and stage.state == RUNNING for stage in before)
        if not loading:
            self._plays = self._plays or self._alive
        playing = self._stage_of_playing(now, idle and self._since is None, last)
        goes_on = not idle and playing.state != FAILED_STAGE
        return Snapshot(
            study=self._study.name,
            cells=self._cells,
            stages=[*before, playing, *after],
            problems=self._problems_of(begun, now),
            elapsed=None if self._since is None else max(now - self._since, 0.0),
            rates=self._estimate.replies.rates(now) if left and goes_on else None,
            finishes=self._estimate.finishing(now) if goes_on else None,
            left=self._estimate.left(now) if goes_on else None,
            silent=None if self._alive is None or loading else self._silence(now),
            words=self._engines.words(now),
            budget=self._budget,
            idle=idle,
            over=not left and all(stage.state == DONE for stage in after),
        )

    def _stages_of(self, stages: Sequence[FileStage], now: float, last: bool) -> list[Stage]:
        """Return stages as they are now; logs of jobs that were killed look as if these ran, and outlast the run."""
        found = [stage.look(now) for stage in stages]
        if not any(stage.state == RUNNING for stage in found):
            return found
        if self._since is None:  # of a run from elsewhere, its lock says whether it lives
            ended = None if is_locked(paths.lock(self._study.name)) else TO_DO
        else:
            ended = FAILED_STAGE if last else None
        return [Stage(stage.name, ended) if ended and stage.state == RUNNING else stage for stage in found]

    def _silence(self, now: float) -> float:
        """Return the seconds since the last reply, or since there was anybody to give one."""
        return max(now - max(self._alive or 0.0, self._plays or 0.0, self._estimate.replies.last or 0.0), 0.0)

    def _look_at_files(self, now: float) -> None:
        for cell in self._cells:
            self._look_at_records(cell, now)
            if cell.left or cell.playing:
                self._look_at_journals(cell, now)
        self._read_records(now)
        if now - self._slow >= _SLOW_SECONDS:
            self._slow = now
            self._disk = disk_problem(paths.RESULTS)
            self._budget = self._spent()
        if self._first and self._since is None:
            self._estimate.forget_before_gap(_GAP_SECONDS)
        self._first = False

    def _problems_of(self, begun: list[Playing], now: float) -> list[Problem]:
        warnings = {text for one in begun for text in one.log.warnings} | set(self._engines.warnings())
        found = [*self._engines.problems, *([self._disk] if self._disk else [])]
        waits = [(one.log.last, one.alive) for one in begun if _waits(one, self._since)]
        return self._problems.look(now, waits, found, warnings)

    def _look_at_records(self, cell: Cell, now: float) -> None:
        names = cell.records.names(now)
        if names is None:
            return
        finished = cell.names.intersection(names)
        new = finished - cell.finished
        cell.finished = finished
        if cell.seen:
            for _ in new:
                self._estimate.finish(cell, now)
        elif new and now - (cell.records.changed or 0.0) < KEPT_SECONDS:
            # What was there before the first look tells of the pace, too, if it is of this run.
            for at in (_modified(cell, name) for name in new):
                if at is not None and self._tells_of_the_pace(at, now):
                    self._estimate.finish(cell, at)
        cell.seen = True
        if cell.kind != SCRIPTED:
            self._unread.extendleft((cell, name) for name in sorted(new))

    def _look_at_journals(self, cell: Cell, now: float) -> None:
        names = cell.journals.names(now)
        if names is not None:
            begun = {
                name.removesuffix(".jsonl") + ".parquet" for name in names if name.endswith(".jsonl")
            } & cell.names
            for name in begun - set(cell.playing) - cell.finished:
                cell.playing[name] = self._playing(cell, name)
            for name in set(cell.playing) - begun - cell.finished:  # somebody deleted its journal
                del cell.playing[name]
        if cell.kind == SCRIPTED:  # nobody reads what it says of its replies
            for name in cell.finished.intersection(cell.playing):
                del cell.playing[name]
        for one in cell.unfinished:
            self._follow(cell, one, now)

    def _playing(self, cell: Cell, name: str) -> Playing:
        record = cell.records.path / name
        seed = name.removeprefix("seed=").removesuffix(".parquet")
        log = paths.simulation_log(self._study.name, cell.condition.place, seed)
        return Playing(JournalTail(paths.journal(record)), JobLog(log))

    def _follow(self, cell: Cell, one: Playing, now: float) -> None:
        replies = one.journal.look()
        one.log.look()
        for asked, came, prompt, completion in replies:
            if self._tells_of_the_pace(came, now) and cell.kind != SCRIPTED:
                self._estimate.reply(cell, asked, came, 1, prompt or 0, completion or 0)
        if replies and one.probed and self._probe_seconds:
            one.alive = True
            one.probed = now
        elif now - one.probed >= self._probe_seconds:
            one.alive = is_locked(one.journal.path)
            one.probed = now

    def _read_records(self, now: float) -> None:
        """Read what some more of the finished simulations tell of their replies, the last ones first."""
        for _ in range(min(self._reads, len(self._unread))):
            cell, name = self._unread.popleft()
            followed = cell.playing.pop(name, None)
            try:
                told = peek_summary(cell.records.path / name).telemetry
                calls, unusable = int(told["calls"]), int(told["failed_replies"])
                tokens = int(told["prompt_tokens"]), int(told["completion_tokens"])
                of_models, degenerate = degenerate_of(told)
            except (ParleyError, LookupError, TypeError, ValueError):
                continue  # the tables will say what is wrong with it
            cell.counted += 1
            cell.replies += calls
            cell.unusable += unusable
            cell.of_models += of_models
            cell.degenerate += degenerate
            seen = followed.journal if followed else None
            at = _modified(cell, name)
            more = calls - (seen.replies if seen else 0)
            if more > 0 and at is not None and self._tells_of_the_pace(at, now):
                prompt = tokens[0] - (seen.prompt if seen else 0)
                completion = tokens[1] - (seen.completion if seen else 0)
                self._estimate.reply(cell, at, at, more, max(prompt, 0), max(completion, 0))

    def _tells_of_the_pace(self, at: float, now: float) -> bool:
        """Whether what happened then was not long ago, and of the run that is followed, not of one before."""
        return now - at < KEPT_SECONDS and (self._since is None or at >= self._since)

    def _spent(self) -> str | None:
        if self._study.budget is None:
            return None
        if self._budget is not None and not paths.spent(self._study.name).exists():
            return self._budget  # nothing was counted since, and all records and journals would be read
        try:
            return (spending_line(self._study) or "").removeprefix("budget: ") or None
        except (RecordError, JournalError) as error:
            return one_line(str(error), 200)

    def _stage_of_playing(self, now: float, idle: bool, last: bool) -> Stage:
        began, ended = (None, None) if idle else self._played
        left = any(cell.left for cell in self._cells)
        firsts = [
            at for at in (self._estimate.replies.began, self._estimate.finishes.began, self._plays) if at is not None
        ]
        if began is None and firsts and not idle and (left or self._since is not None):
            began = min(firsts) if self._since is None else max(min(firsts), self._since)
        if not left and began is not None and ended is None:
            ended = max(self._estimate.finishes.last or now, began)
        self._played = (began, ended)
        if not left:
            return Stage("playing", DONE, None if began is None or ended is None else ended - began)
        if began is None:
            return Stage("playing", TO_DO)
        ended_early = last and self._since is not None and self._alive is None
        return Stage("playing", FAILED_STAGE if ended_early else RUNNING, max(now - began, 0.0))


def _waits(one: Playing, since: float | None) -> bool:
    """Whether the last line of a job's log still holds: nothing was answered since, and it is no old run's."""
    at = one.log.modified
    if at is None or (one.journal.last is not None and one.journal.last > at):
        return False
    return one.alive or since is None or at >= since - 1


def _modified(cell: Cell, name: str) -> float | None:
    try:
        return (cell.records.path / name).stat().st_mtime
    except OSError:
        return None
