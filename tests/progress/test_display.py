"""What is drawn, from states that are made here."""

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from parley import paths
from parley.play.simulate import simulate
from parley.progress.display import PlainLines, Screen, facts, plain_line, screenful, status, watch
from parley.progress.follow import Progress, ProgressProblem, Snapshot, Stage
from parley.progress.state import PLAY, RUN
from support.records import write_events
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The display is never larger than the terminal, and texts of others are escaped.")

STAGES = (
    Stage("model tiny", "done"),
    Stage("engine tiny", "done"),
    Stage("playing", "running", 74.0),
    Stage("tables", "to do"),
)
SNAPSHOT = Snapshot(
    study="small",
    total=8,
    finished=5,
    running=0,
    replies=50,
    unusable=2,
    stages=STAGES,
    problems=(),
    elapsed=130.0,
    rates=(1.4, 900.0, 60.0),
    left=175.0,
    spent="budget: 1,000 of 2,000 tokens spent",
    note="",
    over=False,
)


def drawn(shown: Snapshot, width: int = 80, height: int = 24) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    console.print(screenful(shown, console))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_study_is_drawn_with_what_is_known_of_it() -> None:
    lines = drawn(replace(SNAPSHOT, problems=[ProgressProblem("3 simulations: the service is away")]))
    assert lines[0].startswith("small: 5 of 8 simulations, 3 to do  ━")
    assert lines[1:] == [
        "50 replies, 4.0% unusable · 1.4 replies/s · 960 tokens/s (60 written)",
        "about 3 min left · 2 min 10 s so far",
        "budget: 1,000 of 2,000 tokens spent",
        "! 3 simulations: the service is away",
        "✓ model tiny   ✓ engine tiny   ▶ playing 1 min 14 s   · tables",
    ]


def test_it_is_never_larger_than_the_terminal() -> None:
    problems = [ProgressProblem(f"a problem {'that is long ' * 30} {letter}") for letter in "abcdefgh"]
    stages = [Stage(f"engine model-with-a-long-name-{number}", "running", 5.0) for number in range(9)]
    shown = replace(SNAPSHOT, problems=problems, spent="b" * 200, note="n" * 200, stages=[*STAGES, *stages])
    for width, height in ((80, 24), (20, 5), (110, 2)):
        lines = drawn(shown, width, height)
        assert len(lines) < height or len(lines) == 1
        assert max(map(len, lines)) <= width


def test_nothing_that_files_say_is_taken_for_markup_or_moves_the_cursor() -> None:
    shown = replace(SNAPSHOT, problems=[ProgressProblem("[red]no[/red] \x1b[2J [/] [link=x]")])
    assert "! [red]no[/red] [2J [/] [link=x]" in drawn(shown)
    assert plain_line(shown).endswith("; [red]no[/red] [2J [/] [link=x]")


def test_tokens_that_nobody_told_are_not_0_per_second() -> None:
    shown = replace(SNAPSHOT, replies=0, left=None, elapsed=None)
    assert facts(replace(shown, rates=(1.0, 0.0, 0.0))) == ["1.0 replies/s"]
    assert facts(replace(shown, rates=(1.0, 200.0, 0.0))) == ["1.0 replies/s", "200 tokens/s"]


def test_plain_lines_come_every_half_minute_and_with_what_is_new() -> None:
    plain = PlainLines(30.0)

    def told(at: float, **changes: object) -> list[str]:
        return list(plain.look(replace(SNAPSHOT, replies=0, spent=None, **changes), at))  # type: ignore[arg-type]

    assert told(100.0, elapsed=None) == [
        "small: 5 of 8 simulations, 3 to do; 1.4 replies/s; 960 tokens/s (60 written); about 3 min left; "
        "playing 1 min 14 s running"
    ]
    assert told(129.0) == []
    assert len(told(130.0)) == 1
    wait = ProgressProblem("the service answered 503 after 4 s")
    [line] = told(131.0, problems=[wait])
    assert line.endswith("; the service answered 503 after 4 s")
    assert told(133.0, problems=[replace(wait, text="the service answered 503 after 9 s")]) == []
    assert told(134.0) == []
    assert told(134.5, problems=[wait])
    [line] = told(135.0, stages=[*STAGES[:2], Stage("playing", "done"), Stage("tables", "failed")])
    assert line.endswith("; tables failed")


# The loop behind it, and `parley status`


class Closed(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
def test_a_reader_that_is_gone_ends_a_watch_and_no_run(study_factory: StudyFactory) -> None:
    study = study_factory()
    with pytest.raises(BrokenPipeError):
        watch(study, Closed())
    screen = Screen(Progress(study), Closed())
    screen.start()
    screen.wait()
    screen.stop()
    assert isinstance(screen.failure, BrokenPipeError)


def test_a_display_that_is_ended_before_it_began_never_begins(study_factory: StudyFactory) -> None:
    """Snakemake begins it in a thread of its own, while the main thread may already end the run."""
    shown = io.StringIO()
    screen = Screen(Progress(study_factory()), shown)
    screen.stop()
    screen.start()
    screen.stop()
    assert (shown.getvalue(), screen.snapshot) == ("", None)


@pytest.mark.promise("`parley status` says what is done and what is to do.")
def test_status_tells_what_is_done_and_what_is_to_do(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    assert list(status(study)) == [
        "small: 0 of 4 simulations, 4 to do",
        "nothing is played now",
        "· playing   · tables   · figures   · report   · view",
    ]
    folder = paths.processes(paths.results("small"))
    note = {"event": "told", "note": "2 jobs sent, not playing yet", "always": False}
    run = write_events(folder, RUN, note, began=time.time() - 60)
    assert "2 jobs sent, not playing yet" in list(status(study))
    run.unlink()
    for simulation in list(study.simulations())[:2]:
        simulate(study, simulation.record("small"), [], 1.0)
    assert list(status(study))[1] == "nothing is played now"
    write_events(folder, PLAY)
    write_events(folder, "tables", {"event": "ended", "at": time.time(), "error": "no"})
    assert list(status(study)) == [
        "small: 2 of 4 simulations, 2 to do",
        "▶ playing   ✗ tables   · figures   · report   · view",
    ]
    assert not Path("results/small/tables").exists()
