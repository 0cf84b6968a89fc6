"""What a person sees of a study: a block in a terminal, drawn again and again, and plain lines elsewhere."""

from collections.abc import Iterator

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from parley.play.matrix_text import wrapped
from parley.progress.follow import DONE, FAILED_STAGE, RUNNING, TO_DO, Snapshot, Stage
from parley.text import duration, one_line

_MARKS = {DONE: ("✓", "green"), RUNNING: ("▶", "cyan"), FAILED_STAGE: ("✗", "red"), TO_DO: ("·", "dim")}
_MAX_PROBLEMS = 5
_UNLIMITED = 1_000_000  # columns, or problems


def screenful(snapshot: Snapshot, console: Console) -> SegmentLines:
    """Return a study as it is now, in no more lines and columns than the terminal has."""
    # A line less than there is: where it ends the cursor stands.
    width, height = console.width, max(console.height - 1, 1)
    title, *more = summary(snapshot, width, min(_MAX_PROBLEMS, max(height // 6, 1)))
    first = Table.grid(padding=(0, 2, 0, 0))
    room = min(width - title.cell_len - 2, 40)
    bar = ProgressBar(total=max(snapshot.total, 1), completed=snapshot.finished, width=room)
    first.add_row(title, *([bar] if room >= 5 else []))
    return SegmentLines(console.render_lines(Group(first, *more), pad=False)[:height], new_lines=True)


def summary(snapshot: Snapshot, width: int = _UNLIMITED, most: int = _UNLIMITED) -> Iterator[Text]:
    """Yield the study and its counts, what is known of it, at `most` so many of its problems, and its stages."""
    yield Text(f"{one_line(snapshot.study)}: {counts(snapshot)}", "bold")
    yield from wrapped(map(Text, facts(snapshot)), width, " · ")
    yield from (Text(one_line(line)) for line in (snapshot.spent, snapshot.note) if line)
    for problem in snapshot.problems[:most]:
        yield Text(f"! {one_line(problem.text, 2 * width)}", "bold yellow" if problem.serious else "yellow")
    if (more := len(snapshot.problems) - most) > 0:
        yield Text(f"  {more} more warnings", "yellow")
    marked = ((*_MARKS[stage.state], stage) for stage in snapshot.stages)
    yield from wrapped((Text(f"{mark} {one_line(stage_words(stage))}", style) for mark, style, stage in marked), width)


def counts(snapshot: Snapshot) -> str:
    """Return in words how many simulations are done, running and to do."""
    to_do = snapshot.total - snapshot.finished - snapshot.running
    parts = [f"{snapshot.finished:,} of {snapshot.total:,} simulations"]
    parts += [f"{snapshot.running} running"] if snapshot.running else []
    return ", ".join([*parts, *([f"{to_do:,} to do"] if to_do else [])])


def facts(snapshot: Snapshot) -> list[str]:
    """Return what is known of replies, speed and time; what is not known is left out."""
    known = []
    if snapshot.replies:
        unusable = f"{snapshot.unusable / snapshot.replies:.1%}" if snapshot.unusable else "none"
        known.append(f"{snapshot.replies:,} replies, {unusable} unusable")
    if snapshot.rates is not None:
        each, read, written = snapshot.rates
        known.append(f"{_number(each)} replies/s")
        if read + written > 0:
            # A service may tell one of the two, or none.
            of_these = f" ({_number(written)} written)" if read > 0 and written > 0 else ""
            known.append(f"{_number(read + written)} tokens/s{of_these}")
    if snapshot.left is not None:
        step = 10 if snapshot.left < 60 else 60  # no more digits than are known
        known.append(f"about {duration(max(-(-snapshot.left // step), 1) * step)} left")
    if snapshot.elapsed is not None and snapshot.elapsed >= 1:
        known.append(duration(snapshot.elapsed) + (" in all" if snapshot.over else " so far"))
    return known


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


def plain_line(snapshot: Snapshot) -> str:
    """Return all there is to say in one line."""
    stages = [f"{stage_words(stage)} {stage.state}" for stage in snapshot.stages if stage.state in _TOLD]
    told = [*stages, snapshot.spent or "", snapshot.note, *(problem.text for problem in snapshot.problems)]
    return f"{snapshot.study}: " + "; ".join(map(one_line, [counts(snapshot), *facts(snapshot), *filter(None, told)]))


_TOLD = (RUNNING, FAILED_STAGE)


class PlainLines:
    """Says a study in a plain line, every half minute, and at once when a stage or a problem is new."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._last_line = float("-inf")
        self._told: set[tuple[str, str]] = set()

    def look(self, snapshot: Snapshot, now: float) -> Iterator[str]:
        """Yield the line if it is due; `now` is in seconds of any clock."""
        told = {(stage.name, stage.state) for stage in snapshot.stages if stage.state in _TOLD}
        told |= {("", problem.key) for problem in snapshot.problems}
        if not snapshot.over and (told - self._told or now - self._last_line >= self._seconds):
            self._last_line = now
            yield plain_line(snapshot)
        self._told = told
