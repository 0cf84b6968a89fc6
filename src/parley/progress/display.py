"""What a person sees of a study: a block in a terminal, drawn again and again, and plain lines elsewhere."""

import os
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from parley.play.degenerate import WARN_FROM
from parley.play.matrix_text import wrapped
from parley.progress.snapshot import DONE, FAILED_STAGE, RUNNING, ConditionProgress, ProgressProblem, Snapshot, Stage
from parley.text import duration, one_line

_MARKS = {DONE: ("✓", "green"), RUNNING: ("▶", "cyan"), FAILED_STAGE: ("✗", "red")}
_FEWEST_CONDITIONS = 3
_PROBLEM_LINES = 3  # of one problem
_SILENT_SECONDS = 20.0  # as long as this without a reply is nothing to tell


def screenful(snapshot: Snapshot, console: Console) -> Group:
    """Return a study as it is now, in no more lines and columns than the terminal has."""
    # A line less than there is: where it ends the cursor stands.
    height, width = max(console.size.height - 1, 1), console.width
    head: list[Text | Table] = [*_head(snapshot, width), *_facts(snapshot, width)]
    stages = _stages(snapshot.stages, width)
    kept = max(height - len(head) - len(stages) - _FEWEST_CONDITIONS - 2, 1)
    problems = _problems(snapshot.problems, console, kept, width)
    table = _conditions(snapshot, height - len(head) - len(stages) - len(problems), width)
    lines = [*head, *([] if table is None else [table]), *problems, *stages]
    shown = lines[:height] if table is None else lines
    for line in shown:
        if isinstance(line, Text):
            line.truncate(width, overflow="ellipsis")
            line.no_wrap = True
    return Group(*shown)


def _head(snapshot: Snapshot, width: int) -> list[Text | Table]:
    """Return the study, the counts, and a bar where there is room for it."""
    line = Text(one_line(snapshot.study), style="bold")
    line.truncate(max(width // 4, 8), overflow="ellipsis")
    line.append(f"  {counts(snapshot)}", style="not bold")
    room = min(width - line.cell_len - 2, 40)
    if room < 5:
        return [line]
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(line, ProgressBar(total=max(snapshot.total, 1), completed=snapshot.finished, width=room))
    return [row]


def _facts(snapshot: Snapshot, width: int) -> Iterator[Text]:
    known = facts(snapshot)
    if snapshot.elapsed is not None:
        known.append(duration(snapshot.elapsed) + (" in all" if snapshot.over else " so far"))
    yield from wrapped(map(Text, known), width, " · ")
    if snapshot.budget is not None:
        yield Text(f"budget: {snapshot.budget}")
    if quiet := silence(snapshot):
        yield Text(quiet, style="yellow")
    if snapshot.note:
        yield Text(one_line(snapshot.note), style="dim")


def _problems(problems: Sequence[ProgressProblem], console: Console, most: int, width: int) -> list[Text]:
    lines: list[Text] = []
    for place, problem in enumerate(problems):
        rest = len(problems) - place - 1
        if len(lines) == most - 1 and rest:
            return [*lines, Text(f"  and {rest + 1} more warnings", style="yellow")]
        text = Text(f"! {one_line(str(problem))}", style="bold yellow" if problem.serious else "yellow")
        wrapped = list(text.wrap(console, width))[:_PROBLEM_LINES]
        # In one line if the others would have none.
        lines += wrapped if len(lines) + len(wrapped) + min(rest, 1) <= most else [text]
    return lines


def _stages(stages: Sequence[Stage], width: int) -> list[Text]:
    marked = ((*_MARKS.get(stage.state, ("·", "dim")), one_line(stage_words(stage))) for stage in stages)
    return wrapped((Text(f"{mark} {words}", style) for mark, style, words in marked), width)


def _conditions(snapshot: Snapshot, room: int, width: int) -> Table | None:
    """Return the conditions that matter in `room` lines; None if there is no room, or nothing to compare."""
    if room < 3 or len(snapshot.cells) < 2:
        return None
    cells = list(snapshot.cells)
    most = room - 1  # a line of titles
    if len(cells) > most:
        shown = sorted(sorted(range(len(cells)), key=lambda place: _rank(cells[place]))[: most - 1])
        rest = [cell for place, cell in enumerate(cells) if place not in set(shown)]
        cells = [cells[place] for place in shown]
    else:
        rest = []
    asks = any(cell.answered[0] for cell in snapshot.cells)
    titles = ("done", "running", *(("replies", "unusable") if asks else ()))
    rows = [_row(cell, asks) for cell in cells]
    others = sum(max(len(title), *(len(row[place]) for row in rows)) + 2 for place, title in enumerate(titles, 1))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    # Where there is little room, labels are cut and numbers are not.
    table.add_column("condition", no_wrap=True, overflow="ellipsis", max_width=max(width - others, 5))
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for cell, row in zip(cells, rows, strict=True):
        table.add_row(*row, style="dim" if not cell.left else None)
    if rest:
        done, left = sum(not cell.left for cell in rest), sum(bool(cell.left) for cell in rest)
        words = ", ".join(filter(None, (f"{done} done" if done else "", f"{left} not" if left else "")))
        table.add_row(Text(f"and {len(rest)} more conditions ({words})", style="dim"))
    return table


def _row(cell: ConditionProgress, asks: bool) -> list[Text]:
    replies, unusable = cell.answered
    values = [cell.label, f"{len(cell.finished)}/{len(cell.names)}", str(cell.running or "")]
    if asks:
        values += [f"{replies:,}" if replies else "", f"{unusable / replies:.0%}" if replies else ""]
    return [Text(value) for value in values]


def _rank(cell: ConditionProgress) -> tuple[int, float]:
    """Return what sorts the conditions that matter first: those played now, those begun, those to do."""
    replies, unusable = cell.answered
    state = 0 if cell.running else 1 if cell.left and (cell.finished or cell.playing) else 2 if cell.left else 3
    return (state, -(unusable / replies) if replies else 0.0)


def is_terminal(stream: object) -> bool:
    """Whether something can be drawn on a stream."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM", "dumb") != "dumb"


def counts(snapshot: Snapshot) -> str:
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
    if snapshot.answered[0]:
        return f"last reply {duration(snapshot.silent)} ago"
    return f"no reply yet, for {duration(snapshot.silent)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def stage_words(stage: Stage) -> str:
    """Return a stage and how long it took or has been running, such as "tables 4 s"."""
    return stage.name if stage.seconds is None else f"{stage.name} {duration(stage.seconds)}"


class PlainLines:
    """Says in plain lines what changed since the last one: what is new at once, counts every half minute."""

    def __init__(self, seconds: float = 30.0) -> None:
        self._seconds = seconds
        self._last_line = float("-inf")
        self._stages: dict[str, str] = {}
        self._problems: set[str] = set()

    def look(self, snapshot: Snapshot, now: float) -> Iterator[str]:
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
        self._problems = set(problems)
        if now - self._last_line >= self._seconds and not snapshot.over:
            self._last_line = now
            yield plain_line(snapshot)


def _stage_event(stage: Stage) -> str:
    took = "" if stage.seconds is None else f" in {duration(stage.seconds)}"
    return {RUNNING: f"{stage.name} begins", DONE: f"{stage.name} done{took}"}.get(stage.state, f"{stage.name} failed")


def plain_line(snapshot: Snapshot) -> str:
    """Return all there is to say in one line."""
    running = [stage_words(stage) for stage in snapshot.stages if stage.state == RUNNING and stage.name != "playing"]
    serious = [str(problem) for problem in snapshot.problems if problem.serious]
    parts = [
        counts(snapshot),
        *facts(snapshot),
        *([f"budget: {snapshot.budget}"] if snapshot.budget else []),
        *running,
        *([quiet] if (quiet := silence(snapshot)) else []),
        *serious,
        *([f"{duration(snapshot.elapsed)} in all"] if snapshot.over and snapshot.elapsed is not None else []),
        *([snapshot.note] if snapshot.note else []),
    ]
    return f"{snapshot.study}: " + "; ".join(one_line(part) for part in parts)
