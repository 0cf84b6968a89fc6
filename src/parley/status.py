"""`parley status`: how far a study is, from its records and journals alone."""

import time
from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.record import read_summary
from parley.spending import spending_line
from parley.study import Study

_RECENT_SECONDS = 600.0


def status(study: Study) -> Iterator[str]:
    """Yield lines for a person: counts, what was spent of the budget, pace of the last ten minutes and time left.

    Raises RecordError for a record that cannot be read.
    """
    records = [simulation.record(study.name) for simulation in study.simulations()]
    finished = [path for path in records if path.exists()]
    playing = [path for path in records if path not in set(finished) and paths.journal(path).exists()]
    left = len(records) - len(finished)
    yield f"{study.name}: {len(finished)} of {len(records)} simulations finished, {len(playing)} begun"
    if (spending := spending_line(study)) is not None:
        yield spending
    now = time.time()
    recent = [path for path in finished if now - path.stat().st_mtime < _RECENT_SECONDS]
    if recent and left:
        # From the first of the recent records: a study that started just now has not had ten minutes.
        span = max(now - min(path.stat().st_mtime for path in recent), 1.0)
        tokens = sum(_tokens(path) for path in recent)
        pace = len(recent) / span
        yield f"{tokens / span:,.0f} tokens/s, {pace * 60:.1f} simulations/min in the last {span / 60:.0f} min"
        yield f"about {_duration(left / pace)} left at this pace"


def _tokens(record: Path) -> int:
    telemetry = read_summary(record).telemetry
    return int(telemetry["prompt_tokens"] + telemetry["completion_tokens"])


def _duration(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60 + 1} min"
