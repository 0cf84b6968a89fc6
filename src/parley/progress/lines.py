"""What is said of a study in plain lines: where nothing can be drawn, and by `parley status`."""

from collections.abc import Iterator

from parley.play.degenerate import WARN_FROM
from parley.play.pace import duration
from parley.progress.stages import DONE, FAILED_STAGE, RUNNING, Stage
from parley.progress.state import Snapshot
from parley.text import one_line

_SILENT_SECONDS = 20.0  # as long as this without a reply is nothing to tell
IDLE = "nothing is played now"


def counted(snapshot: Snapshot) -> str:
    """Return in words how many simulations are done, running and to do."""
    to_do = snapshot.total - snapshot.finished - snapshot.running
    parts = [f"{snapshot.finished:,} of {snapshot.total:,} simulations"]
    if snapshot.running:
        parts.append(f"{snapshot.running} running")
    if to_do:
        begun = f" ({snapshot.begun} begun)" if snapshot.begun else ""
        parts.append(f"{to_do:,} to do{begun}")
    return ", ".join(parts)


def facts(snapshot: Snapshot) -> list[str]:
    """Return what is known of replies, speed, budget and time left; what is not known is left out."""
    replies, unusable = snapshot.answered
    found = []
    if replies:
        share = unusable / replies
        found.append(f"{replies:,} replies, {f'{share:.1%}' if unusable else 'none'} unusable")
    if snapshot.over and snapshot.degenerate_share >= WARN_FROM:
        found.append(f"warning: {snapshot.degenerate_share:.1%} degenerate (see the report)")
    if snapshot.rates is not None:
        each, read, written = snapshot.rates
        found.append(f"{_number(each)} replies/s")
        if read + written > 0:
            # A service may tell one of the two, or none.
            of_these = f" ({_number(written)} written)" if read > 0 and written > 0 else ""
            found.append(f"{_number(read + written)} tokens/s{of_these}")
    elif snapshot.finishes is not None and snapshot.finished < snapshot.total:
        per_minute = snapshot.finishes < 1
        pace = snapshot.finishes * 60 if per_minute else snapshot.finishes
        found.append(f"{_number(pace)} simulations/{'min' if per_minute else 's'}")
    if snapshot.left is not None:
        found.append(str(snapshot.left))
    return found


def silence(snapshot: Snapshot) -> str:
    """Return for how long nothing was answered, and what the engine says of it; "" if something was."""
    if snapshot.silent is None or snapshot.silent < _SILENT_SECONDS:
        return ""
    what = (
        f"last reply {duration(snapshot.silent)} ago"
        if snapshot.answered[0]
        else (f"no reply yet, for {duration(snapshot.silent)}")
    )
    return f"{what}; {snapshot.words}" if snapshot.words else what


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it took or has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


class PlainLines:
    """Says in plain lines what changed since the last one: what is new at once, counts every half minute."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._told = float("-inf")
        self._stages: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def look(self, snapshot: Snapshot, now: float, note: str = "") -> Iterator[str]:
        """Yield the lines that are due; `now` is in seconds of any clock."""
        for stage in snapshot.stages:
            before = self._stages.get(stage.name)
            self._stages[stage.name] = stage.state
            if stage.state != before and stage.state in (RUNNING, DONE, FAILED_STAGE):
                if stage.state == DONE and stage.seconds is None and before is None:
                    continue  # it was done before the first look
                yield f"{snapshot.study}: {_stage_event(stage)}"
        problems = {problem.key: str(problem) for problem in snapshot.problems}
        for key, text in problems.items():
            if key not in self._problems:
                yield f"{snapshot.study}: warning: {one_line(text)}"
        for key in set(self._problems) - set(problems):
            yield f"{snapshot.study}: over: {one_line(self._problems[key])}"
        self._problems = problems
        if now - self._told >= self._seconds and not snapshot.over:
            self._told = now
            yield plain_line(snapshot, note)


def _stage_event(stage: Stage) -> str:
    took = "" if stage.seconds is None else f" in {duration(stage.seconds)}"
    return {RUNNING: f"{stage.name} begins", DONE: f"{stage.name} done{took}"}.get(stage.state, f"{stage.name} failed")


def plain_line(snapshot: Snapshot, note: str = "") -> str:
    """Return all there is to say in one line."""
    running = [stage_words(stage) for stage in snapshot.stages if stage.state == RUNNING and stage.name != "playing"]
    serious = [str(problem) for problem in snapshot.problems if problem.serious]
    parts = [
        counted(snapshot),
        *facts(snapshot),
        *([f"budget: {snapshot.budget}"] if snapshot.budget else []),
        *running,
        *([quiet] if (quiet := silence(snapshot)) else []),
        *serious,
        *([f"{duration(snapshot.elapsed)} in all"] if snapshot.over and snapshot.elapsed is not None else []),
        *([note or IDLE] if note or snapshot.idle else []),
    ]
    return f"{snapshot.study}: " + "; ".join(one_line(part) for part in parts)
