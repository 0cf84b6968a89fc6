"""`parley status`: how far a study is, from its files alone: once, or again and again until all is done."""

import sys
from collections.abc import Iterator
from typing import TextIO

from parley.play.changes import changes_of, former_lines, renamed_lines
from parley.play.relocate import Moves
from parley.progress.follow import Progress
from parley.progress.lines import IDLE, counted, facts, silence, stage_words
from parley.progress.screen import Screen
from parley.progress.stages import FAILED_STAGE, RUNNING, TO_DO
from parley.progress.state import Snapshot
from parley.study import Study
from parley.text import one_line

_READS = 2_000  # records of one look


def status(study: Study) -> Iterator[str]:
    """Yield lines for a person: counts, replies, pace and time left, what was spent, problems, stages."""
    snapshot = Progress(study, reads=_READS).look()
    changes = changes_of(study)
    _count_as_finished(snapshot, changes.moves)
    yield f"{snapshot.study}: {counted(snapshot)}"
    yield from renamed_lines(changes, study)
    yield from changes.moves.lines()
    former = list(former_lines(changes, study.name))
    yield from former
    if former:
        yield f"what changed: parley diff {study.file}"
    if snapshot.budget is not None:
        yield f"budget: {snapshot.budget}"
    if known := facts(snapshot):
        yield ", ".join(known)
    if quiet := silence(snapshot):
        yield quiet
    if snapshot.idle and snapshot.finished < snapshot.total:
        yield IDLE
    for problem in snapshot.problems:
        yield f"! {one_line(str(problem))}"
    for stage in snapshot.stages:
        if stage.state in (RUNNING, FAILED_STAGE):
            yield f"{stage.state}: {stage_words(stage)}"
    if waiting := [stage.name for stage in snapshot.stages if stage.state == TO_DO and stage.name != "playing"]:
        yield f"to do: {', '.join(waiting)}"


def _count_as_finished(snapshot: Snapshot, moves: Moves) -> None:
    """Count what a run only has to move to its path."""
    cells = {cell.condition.name: cell for cell in snapshot.cells}
    for simulation in moves.simulations:
        cell = cells[simulation.condition.name]
        cell.finished |= {simulation.record(snapshot.study).name}


def watch(study: Study, stream: TextIO | None = None) -> None:
    """Show a study until all of it is done, or until Ctrl-C; plain lines where nothing can be drawn."""
    screen = Screen(Progress(study), sys.stdout if stream is None else stream)
    screen.start()
    try:
        screen.wait(lambda snapshot: snapshot.over)
    except KeyboardInterrupt:
        return
    finally:
        screen.stop()
    if isinstance(screen.failure, BrokenPipeError):
        raise screen.failure
