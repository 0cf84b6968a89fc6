"""The servers of a study's shards, as their endpoint files and logs tell of them."""

import re
from pathlib import Path

from parley import paths
from parley.engine.endpoint import FAILED, read_endpoint
from parley.errors import EngineError
from parley.progress.stages import DONE, RUNNING, Stage
from parley.progress.tails import Tail
from parley.text import one_line

_WARNING = b"parley: warning: "
_LOADED = b"Application startup complete"
_LOAD = re.compile(rb"generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs")


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
