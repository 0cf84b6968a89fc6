"""The stages of a study as their files tell them: models prepared, engines loaded, tables, ledger, figures, report."""

import re
from dataclasses import dataclass
from pathlib import Path

from parley import paths
from parley.calibration.results import planned_report
from parley.engine.endpoint import FAILED, read_endpoint
from parley.engine.weights import model_marker
from parley.errors import EngineError
from parley.progress.tails import Tail, last_words
from parley.study import Study
from parley.text import one_line

TO_DO, RUNNING, DONE, FAILED_STAGE = "to do", "running", "done", "failed"
_STALE_SECONDS = 900.0  # a log that nobody wrote to for so long is one of a run that ended
_WARNING = b"parley: warning: "
_LOADED = b"Application startup complete"
_LOAD = re.compile(rb"generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs")


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
    tables, figures = (paths.stamp(study.name, folder, study.plan) for folder in ("tables", "figures"))
    before = {"figures": tables, "report": figures}
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


class _Engine:
    """One server: its endpoint file and its log."""

    def __init__(self, path: Path, log: Path, began: float) -> None:
        self.path = path
        self.began = began
        self.loaded = False
        self.took: float | None = None  # seconds, if somebody watched
        self.load: tuple[float, int, int] | None = None  # tokens written per second, requests running and waiting
        self.load_at = 0.0
        self.warnings: list[str] = []
        self._log = Tail(log)
        self._looks = 0

    def look(self, now: float, replied: float | None) -> None:
        lines, _ = self._log.lines()
        for line in lines:
            if not self.loaded and _LOADED in line:
                self.loaded = True
                self.took = now - self.began if self._looks else None  # it may have been long ago
            if found := _LOAD.search(line):
                self.load = (float(found[1]), int(found[2]), int(found[3]))
                self.load_at = self._log.modified or now
            if line.startswith(_WARNING):
                self.warnings.append(one_line(line.decode(errors="replace"), 300).removeprefix("parley: warning: "))
        self.loaded = self.loaded or (replied is not None and replied > self.began)
        self._looks += 1


class Engines:
    """The servers of a study's shards."""

    def __init__(self, study: str) -> None:
        self._study = study
        self._engines: dict[Path, _Engine] = {}
        self._loaded: dict[str, float | None] = {}  # seconds of the last start, by model
        self.problems: list[str] = []

    def look(self, now: float, replied: float | None) -> list[Stage]:
        """Return the engines that load, or did; `replied` is when the last reply came.

        `problems` says afterwards which died.
        """
        self.problems = []
        found = set((paths.results(self._study) / "engines").glob("*/shard=*/*.json"))
        self._engines = {path: engine for path, engine in self._engines.items() if path in found}
        loading: dict[str, float] = {}
        for path in sorted(found):
            try:
                endpoint = read_endpoint(path)
                began = path.stat().st_mtime
            except (EngineError, OSError):  # it is being removed
                continue
            if path not in self._engines:
                log = paths.log(self._study, "serve", path.parent.parent.name, path.parent.name, path.stem)
                self._engines[path] = _Engine(path, log, began)
            engine = self._engines[path]
            if endpoint.state == FAILED or not endpoint.alive:
                died = f"died: {endpoint.error}" if endpoint.state == FAILED else "is gone; look at its log"
                self.problems.append(one_line(f"the engine for {endpoint.model} {died}", 300))
                continue
            engine.look(now, replied)
            if engine.loaded:
                self._loaded[endpoint.model] = engine.took or self._loaded.get(endpoint.model)
            else:
                loading[endpoint.model] = max(now - engine.began, loading.get(endpoint.model, 0.0))
        done = {name: seconds for name, seconds in self._loaded.items() if name not in loading}
        return [
            *(Stage(f"engine {name}", DONE, seconds) for name, seconds in done.items()),
            *(Stage(f"engine {name}", RUNNING, seconds) for name, seconds in loading.items()),
        ]

    def warnings(self) -> list[str]:
        """Return what the servers warned of."""
        return [text for engine in self._engines.values() for text in engine.warnings]

    def words(self, now: float) -> str:
        """Return what the engines are busy with by their own words of the last half minute; "" if they say nothing."""
        loads = [e.load for e in self._engines.values() if e.load is not None and now - e.load_at < 30]
        running, waiting = sum(load[1] for load in loads), sum(load[2] for load in loads)
        if not running and not waiting:
            return ""
        queue = f", {waiting} waiting" if waiting else ""
        prefill = "" if any(load[0] for load in loads) else ", reading prompts (prefill)"
        return f"engine busy with {running} request{'' if running == 1 else 's'}{queue}{prefill}"
