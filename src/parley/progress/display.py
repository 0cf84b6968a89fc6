"""What a person sees of a study: a block in a terminal, drawn again and again, and plain lines elsewhere."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from parley.play.degenerate import WARN_FROM
from parley.play.matrix_text import wrapped
from parley.progress.snapshot import DONE, FAILED_STAGE, RUNNING, ConditionProgress, Snapshot, Stage
from parley.text import duration, one_line

_MARKS = {DONE: ("✓", "green"), RUNNING: ("▶", "cyan"), FAILED_STAGE: ("✗", "red")}
_MAX_PROBLEMS = 5
_PROBLEM_LENGTH = 240
_SILENT_SECONDS = 20.0  # as long as this without a reply is nothing to tell


def screenful(snapshot: Snapshot, console: Console) -> SegmentLines:
    """Return a study as it is now, in no more lines and columns than the terminal has."""
    # A line less than there is: where it ends the cursor stands.
    height, options = max(console.height - 1, 1), console.options
    lines = console.render_lines(Group(*_head(snapshot, console.width, height)), options, pad=False)
    if (room := height - len(lines)) >= 3 and len(snapshot.cells) > 1:
        lines += console.render_lines(_conditions(snapshot.cells, room, console.width), options, pad=False)
    return SegmentLines(lines[:height], new_lines=True)


def _head(snapshot: Snapshot, width: int, height: int) -> Iterator[Text | Table]:
    """Yield the study and its counts with a bar, what is known of it, its problems and its stages."""
    title = Text(one_line(snapshot.study), "bold", no_wrap=True, overflow="ellipsis")
    title.truncate(max(width // 4, 8), overflow="ellipsis")
    title.append(f"  {counts(snapshot)}", "not bold")
    if (room := min(width - title.cell_len - 2, 40)) < 5:
        yield title
    else:
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_row(title, ProgressBar(total=max(snapshot.total, 1), completed=snapshot.finished, width=room))
        yield row
    yield from wrapped(map(Text, facts(snapshot)), width, " · ")
    for line, style in zip(news(snapshot), ("", "yellow", "dim"), strict=True):
        if line:
            yield Text(line, style)
    most, length = min(_MAX_PROBLEMS, max(height // 6, 1)), min(_PROBLEM_LENGTH, max(2 * width - 4, 20))
    if (more := len(snapshot.problems) - most) > 0:
        yield Text(f"  {more} more warnings", "yellow")
    for problem in snapshot.problems[:most]:
        yield Text(f"! {one_line(str(problem), length)}", "bold yellow" if problem.serious else "yellow")
    marked = ((*_MARKS.get(stage.state, ("·", "dim")), stage) for stage in snapshot.stages)
    yield from wrapped((Text(f"{mark} {one_line(stage_words(stage))}", style) for mark, style, stage in marked), width)


def _conditions(cells: Sequence[ConditionProgress], room: int, width: int) -> Table:
    """Return a table in `room` lines: all conditions, or those that matter most and how many others there are."""
    most = room - 1 if len(cells) < room else room - 2  # a line of titles, and one of the others
    first = sorted(range(len(cells)), key=lambda place: _rank(cells[place]))
    asks = any(cell.answered[0] for cell in cells)
    titles = ("done", "running", *(("replies", "unusable") if asks else ()))
    rows = [(cells[place], _row(cells[place], asks)) for place in sorted(first[:most])]
    widths = [max(len(title), *(len(row[place]) for _, row in rows)) + 2 for place, title in enumerate(titles, 1)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    # Where there is little room, labels are cut and numbers are not.
    table.add_column("condition", no_wrap=True, overflow="ellipsis", max_width=max(width - sum(widths), 5))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for cell, row in rows:
        table.add_row(*map(Text, row), style="dim" if not cell.left else None)
    if rest := [cells[place] for place in first[most:]]:
        done = sum(not cell.left for cell in rest)
        table.add_row(Text(f"and {len(rest)} more conditions ({done} done)", style="dim"))
    return table


def _row(cell: ConditionProgress, asks: bool) -> list[str]:
    replies, unusable = cell.answered
    values = [cell.label, f"{len(cell.finished)}/{len(cell.names)}", str(cell.running or "")]
    return values + ([f"{replies:,}", f"{unusable / replies:.0%}"] if replies else ["", ""]) if asks else values


def _rank(cell: ConditionProgress) -> tuple[int, float]:
    """Return what sorts the conditions that matter first: those played now, those begun, those to do."""
    replies, unusable = cell.answered
    state = 0 if cell.running else 1 if cell.left and (cell.finished or cell.playing) else 2 if cell.left else 3
    return (state, -(unusable / replies) if replies else 0.0)


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
    if snapshot.over and snapshot.degenerate_share >= WARN_FROM:
        known.append(f"warning: {snapshot.degenerate_share:.1%} degenerate (see the report)")
    if snapshot.rates is not None:
        each, read, written = snapshot.rates
        known.append(f"{_number(each)} replies/s")
        if read + written > 0:
            # A service may tell one of the two, or none.
            of_these = f" ({_number(written)} written)" if read > 0 and written > 0 else ""
            known.append(f"{_number(read + written)} tokens/s{of_these}")
    elif snapshot.finishes is not None and snapshot.finished < snapshot.total:
        known.append(f"{_number(snapshot.finishes * 60)} simulations/min")
    known += [] if snapshot.left is None else [str(snapshot.left)]
    if snapshot.elapsed is not None and snapshot.elapsed >= 1:
        known.append(duration(snapshot.elapsed) + (" in all" if snapshot.over else " so far"))
    return known


def news(snapshot: Snapshot) -> tuple[str, str, str]:
    """Return what was spent, for how long nothing was answered, what goes on instead; "" for nothing."""
    silence = ""
    if snapshot.silent is not None and snapshot.silent >= _SILENT_SECONDS:
        waited = duration(snapshot.silent)
        silence = f"last reply {waited} ago" if snapshot.answered[0] else f"no reply yet, for {waited}"
    return snapshot.spent or "", silence, one_line(snapshot.note)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it took or has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


def plain_line(snapshot: Snapshot) -> str:
    """Return all there is to say in one line."""
    running = [stage_words(stage) for stage in snapshot.stages if stage.state == RUNNING and stage.name != "playing"]
    serious = [str(problem) for problem in snapshot.problems if problem.serious]
    parts = [counts(snapshot), *facts(snapshot), *running, *filter(None, news(snapshot)), *serious]
    return f"{snapshot.study}: " + "; ".join(map(one_line, parts))


class PlainLines:
    """Says in plain lines what changed since the last one: what is new at once, counts every half minute."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._last_line = float("-inf")
        self._said: set[object] = set()

    def look(self, snapshot: Snapshot, now: float) -> Iterator[str]:
        """Yield the lines that are due; `now` is in seconds of any clock."""
        lines: dict[object, str] = {}
        for stage in snapshot.stages:
            took = "" if stage.seconds is None else f" in {duration(stage.seconds)}"
            words = {RUNNING: "begins", DONE: f"done{took}", FAILED_STAGE: "failed"}.get(stage.state)
            if words and (took or stage.state != DONE or self._last_line > float("-inf")):  # else done before
                lines[stage.name, stage.state] = f"{stage.name} {words}"
        lines |= {problem.key: f"warning: {problem}" for problem in snapshot.problems}
        for key, line in lines.items():
            if key not in self._said:
                yield f"{snapshot.study}: {one_line(line)}"
        self._said = set(lines)
        if now - self._last_line >= self._seconds and not snapshot.over:
            self._last_line = now
            yield plain_line(snapshot)
