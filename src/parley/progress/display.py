"""What a person sees of a study: a block in a terminal, drawn again and again, and plain lines elsewhere."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from parley.play.matrix_text import wrapped
from parley.progress.snapshot import DONE, FAILED_STAGE, RUNNING, TO_DO, ConditionProgress, Snapshot, Stage
from parley.text import duration, one_line

_MARKS = {DONE: ("✓", "green"), RUNNING: ("▶", "cyan"), FAILED_STAGE: ("✗", "red"), TO_DO: ("·", "dim")}
_MAX_PROBLEMS = 5
_SILENT_SECONDS = 20.0  # as long as this without an event is nothing to tell
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
    lines = console.render_lines(Group(first, *more), pad=False)
    if (below := height - len(lines)) >= 3 and len(snapshot.cells) > 1:
        lines += console.render_lines(_conditions(snapshot.cells, below, width), pad=False)
    return SegmentLines(lines[:height], new_lines=True)


def summary(snapshot: Snapshot, width: int = _UNLIMITED, most: int = _UNLIMITED) -> Iterator[Text]:
    """Yield the study and its counts, what is known of it, at `most` so many of its problems, and its stages."""
    yield Text(f"{one_line(snapshot.study)}: {counts(snapshot)}", "bold")
    yield from wrapped(map(Text, facts(snapshot)), width, " · ")
    yield from (Text(line, style) for line, style in news(snapshot))
    for problem in snapshot.problems[:most]:
        yield Text(f"! {one_line(str(problem), 2 * width)}", "bold yellow" if problem.serious else "yellow")
    if (more := len(snapshot.problems) - most) > 0:
        yield Text(f"  {more} more warnings", "yellow")
    marked = ((*_MARKS[stage.state], stage) for stage in snapshot.stages)
    yield from wrapped((Text(f"{mark} {one_line(stage_words(stage))}", style) for mark, style, stage in marked), width)


def _conditions(cells: Sequence[ConditionProgress], room: int, width: int) -> Table:
    """Return a table in `room` lines: all conditions, or those that matter most and how many others there are."""
    most = room - 1 if len(cells) < room else room - 2  # a line of titles, and one of the others
    # Those played now, those begun, those to do, those done.
    order = [(not cell.running, not cell.left, not cell.finished) for cell in cells]
    first = sorted(range(len(cells)), key=order.__getitem__)
    titles = ["done", "running"] + ["replies", "unusable"] * any(cell.answered[0] for cell in cells)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    # Where there is little room, labels are cut and numbers are not.
    table.add_column("condition", no_wrap=True, overflow="ellipsis", max_width=max(width - 11 * len(titles), 5))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for cell in (cells[place] for place in sorted(first[:most])):
        replies, unusable = cell.answered
        row = [cell.label, f"{len(cell.finished)}/{len(cell.names)}", str(cell.running or "")]
        row += [f"{replies:,}", f"{unusable / replies:.0%}"] if replies else []
        table.add_row(*map(Text, row), style="dim" if not cell.left else None)
    if rest := [cells[place] for place in first[most:]]:
        done = sum(not cell.left for cell in rest)
        table.add_row(Text(f"and {len(rest)} more conditions ({done} done)", style="dim"))
    return table


def counts(snapshot: Snapshot) -> str:
    """Return in words how many simulations are done, running and to do."""
    to_do = snapshot.total - snapshot.finished - snapshot.running
    parts = [f"{snapshot.finished:,} of {snapshot.total:,} simulations"]
    parts += [f"{snapshot.running} running"] if snapshot.running else []
    return ", ".join([*parts, *([f"{to_do:,} to do"] if to_do else [])])


def facts(snapshot: Snapshot) -> list[str]:
    """Return what is known of replies, speed and time; what is not known is left out."""
    replies, unusable = snapshot.answered
    known = []
    if replies:
        known.append(f"{replies:,} replies, {f'{unusable / replies:.1%}' if unusable else 'none'} unusable")
    if snapshot.rates is not None:
        each, read, written = snapshot.rates
        known.append(f"{_number(each)} replies/s")
        if read + written > 0:
            # A service may tell one of the two, or none.
            of_these = f" ({_number(written)} written)" if read > 0 and written > 0 else ""
            known.append(f"{_number(read + written)} tokens/s{of_these}")
    elif snapshot.left:
        known.append(f"{_number((snapshot.total - snapshot.finished) / snapshot.left * 60)} simulations/min")
    if snapshot.left is not None:
        step = 10 if snapshot.left < 60 else 60  # no more digits than are known
        known.append(f"about {duration(max(-(-snapshot.left // step), 1) * step)} left")
    if snapshot.elapsed is not None and snapshot.elapsed >= 1:
        known.append(duration(snapshot.elapsed) + (" in all" if snapshot.over else " so far"))
    return known


def news(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return what was spent, when somebody was last heard of and what goes on instead, each with its style."""
    silent = snapshot.silent or 0.0
    silence = f"last sign of life {duration(silent)} ago" if silent >= _SILENT_SECONDS else ""
    lines = ((snapshot.spent or "", ""), (silence, "yellow"), (one_line(snapshot.note), "dim"))
    return [(line, style) for line, style in lines if line]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it took or has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


def plain_line(snapshot: Snapshot) -> str:
    """Return all there is to say in one line."""
    running = [stage_words(stage) for stage in snapshot.stages if stage.state == RUNNING and stage.name != "playing"]
    serious = [str(problem) for problem in snapshot.problems if problem.serious]
    parts = [counts(snapshot), *facts(snapshot), *running, *(line for line, _ in news(snapshot)), *serious]
    return f"{snapshot.study}: " + "; ".join(map(one_line, parts))


class PlainLines:
    """Says in plain lines what changed since the last one: what is new at once, counts every half minute."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._last_line = float("-inf")
        self._stages: set[tuple[str, str]] = set()  # those told, and their states
        self._problems: set[str] = set()  # those of the last look

    def look(self, snapshot: Snapshot, now: float) -> Iterator[str]:
        """Yield the lines that are due; `now` is in seconds of any clock."""
        lines, is_first = [], self._last_line == float("-inf")
        for stage in snapshot.stages:
            told, took = (stage.name, stage.state), "" if stage.seconds is None else f" in {duration(stage.seconds)}"
            words = {RUNNING: "begins", DONE: f"done{took}", FAILED_STAGE: "failed"}.get(stage.state)
            was_done = is_first and stage.state == DONE and not took
            if words and told not in self._stages and not was_done:
                lines.append(f"{stage.name} {words}")
            self._stages.add(told)
        lines += [f"warning: {problem}" for problem in snapshot.problems if problem.key not in self._problems]
        self._problems = {problem.key for problem in snapshot.problems}
        yield from (f"{snapshot.study}: {one_line(line)}" for line in lines)
        if now - self._last_line >= self._seconds and not snapshot.over:
            self._last_line = now
            yield plain_line(snapshot)
