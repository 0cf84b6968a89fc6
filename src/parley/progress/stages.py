"""The stages of a study as their files tell them: models prepared, tables, ledger, figures, report, view."""

from dataclasses import dataclass
from pathlib import Path

from parley import paths
from parley.calibration.results import planned_report
from parley.engine.weights import model_marker
from parley.progress.tails import last_words
from parley.study import Study

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
_STALE_SECONDS = 900.0  # a log that nobody wrote to for so long is one of a run that ended


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its state, and how many seconds it took or has been running, if known."""

    name: str
    state: str
    seconds: float | None = None


class FileStage:
    """A stage of one job: a file says that it is done, its log that it runs, its benchmark how long it took."""

    def __init__(
        self, name: str, done: Path, log: Path, benchmark: Path, since: float | None, before: Path | None = None
    ) -> None:
        """`since` is when the run that is followed began, in seconds since the epoch; None if it is unknown.

        `before` is what says that the stage before it is done.
        """
        self.name = name
        self._before = before
        self._done, self._log, self._benchmark, self._since = done, log, benchmark, since
        self._began: float | None = None

    def look(self, now: float) -> Stage:
        """Return the stage as it is now."""
        if self._done.exists():
            return Stage(self.name, DONE, self._took(now))
        try:
            changed = self._log.stat().st_mtime
        except OSError:
            self._began = None
            return Stage(self.name, TO_DO)
        if self._since is None and not self._follows(changed):
            return Stage(self.name, TO_DO)
        if self._began is None:
            if changed < (now - _STALE_SECONDS if self._since is None else self._since - 1):
                return Stage(self.name, TO_DO)
            self._began = min(changed, now)
        if last_words(self._log).startswith(("parley: ", "interrupted")):
            return Stage(self.name, FAILED_STAGE)
        return Stage(self.name, RUNNING, max(now - self._began, 0.0))

    def _follows(self, changed: float) -> bool:
        """Whether a log that changed then was written after the stage before; else it is an earlier run's."""
        try:
            return self._before is None or changed >= self._before.stat().st_mtime - 1
        except OSError:
            return False

    def _took(self, now: float) -> float | None:
        """Return the seconds of the job, if it was one of the run that is followed."""
        try:
            measured = self._benchmark.stat().st_mtime
            if self._since is None or measured >= self._since - 1:
                return float(self._benchmark.read_text().splitlines()[1].split("\t")[0])
        except (OSError, ValueError, IndexError):
            pass
        if self._began is None:
            return None
        self._since = self._since or self._began
        return max(min(now, self._done.stat().st_mtime) - self._began, 0.0)


def model_stages(study: Study, since: float | None) -> list[FileStage]:
    """Return the preparation of each model that the study serves itself."""
    names = sorted({name for condition in study.conditions for name in condition.models})
    found = []
    for name in names:
        if not study.models[name].is_service:
            marker = model_marker(name, study.models[name])
            job = ("models", "fetch_model", marker.parent.name)
            found.append(FileStage(f"model {name}", marker, paths.log(*job), paths.benchmark(*job), since))
    return found


def last_stages(study: Study, since: float | None) -> list[FileStage]:
    """Return what follows when all is played."""
    stages = [("tables", "tables", "summarize", study.plan)]
    if study.game.evidence.keeps_ledger:
        stages.append(("ledger", "ledger", "ledger", study.ledger_plan))
    stages.append(("figures", "figures", "figures", study.plan))
    stages.append(("report", "report", "report", planned_report(study, new=False)))
    stages.append(("view", "view", "view", study.plan))
    tables, figures = (paths.stamp(study.name, folder, study.plan) for folder in ("tables", "figures"))
    before = {"figures": tables, "report": figures, "view": tables}
    return [
        FileStage(
            name,
            paths.stamp(study.name, folder, plan),
            paths.log(study.name, job),
            paths.benchmark(study.name, job),
            since,
            before.get(name),
        )
        for name, folder, job, plan in stages
    ]
