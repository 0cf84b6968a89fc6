"""What is drawn, from states that are made here."""

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from parley.progress.display import PlainLines, facts, plain_line, screenful
from parley.progress.snapshot import ConditionProgress, ProgressProblem, Snapshot, Stage
from parley.progress.snapshot import cells_of as conditions_of
from parley.progress.state import Played
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The display is never larger than the terminal, and texts of others are escaped.")

STAGES = (
    Stage("model tiny", "done", 12.0),
    Stage("engine tiny", "done", 41.0),
    Stage("playing", "running", 74.0),
    Stage("tables", "to do"),
)


def cells_of(study_factory: StudyFactory, number: int) -> Sequence[ConditionProgress]:
    return conditions_of(study_factory({"model": "tiny", "n": list(range(2, 2 + number))}, seeds=4))


def snapshot(cells: Sequence[ConditionProgress], **changes: object) -> Snapshot:
    made = Snapshot(
        study="small",
        cells=cells,
        stages=STAGES,
        problems=(),
        elapsed=130.0,
        rates=(1.4, 900.0, 60.0),
        left=175.0,
        silent=3.0,
        spent=None,
        note="",
        over=False,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def finish(cell: ConditionProgress, number: int, replies: int, unusable: int = 0) -> None:
    cell.finished = frozenset(sorted(cell.names)[:number])
    cell.played = [Played(0.0, number, replies, unusable)]


def drawn(shown: Snapshot, width: int = 80, height: int = 24) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    console.print(screenful(shown, console))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_study_with_a_few_conditions(study_factory: StudyFactory) -> None:
    cells = cells_of(study_factory, 2)
    finish(cells[0], 4, 40, 2)
    finish(cells[1], 1, 10)
    lines = drawn(snapshot(cells, spent="budget: 1,000 of 2,000 tokens spent"))
    assert lines[0].startswith("small: 5 of 8 simulations, 3 to do  ━")
    assert lines[1:] == [
        "50 replies, 4.0% unusable · 1.4 replies/s · 960 tokens/s (60 written)",
        "about 3 min left · 2 min 10 s so far",
        "budget: 1,000 of 2,000 tokens spent",
        "✓ model tiny 12 s   ✓ engine tiny 41 s   ▶ playing 1 min 14 s   · tables",
        "condition  done  running  replies  unusable",
        "n=2         4/4                40        5%",
        "n=3         1/4                10        0%",
    ]


def test_it_is_never_larger_than_the_terminal(study_factory: StudyFactory) -> None:
    cells = cells_of(study_factory, 60)
    finish(cells[7], 1, 10, 5)
    problems = [ProgressProblem(f"a problem {'that is long ' * 30} {letter}", 2) for letter in "abcdefgh"]
    stages = [Stage(f"engine model-with-a-long-name-{number}", "running", 5.0) for number in range(9)]
    shown = snapshot(cells, problems=problems, silent=80.0, spent="b" * 200, stages=[*STAGES, *stages])
    for width, height in ((80, 24), (20, 5), (110, 2)):
        lines = drawn(replace(shown, note="n" * 200), width, height)
        assert len(lines) < height or len(lines) == 1
        assert max(map(len, lines)) <= width


def test_of_many_conditions_those_that_matter_are_shown(study_factory: StudyFactory) -> None:
    cells = cells_of(study_factory, 60)
    finish(cells[0], 4, 40)
    finish(cells[50], 2, 20, 9)
    lines = drawn(snapshot(cells), height=12)
    assert any(line.startswith("n=52") for line in lines)
    assert not any(line.startswith("n=2 ") for line in lines)  # it is done
    assert [line for line in lines if line.startswith("and ")] == ["and 55 more conditions (1 done)"]


def test_silence_and_problems_are_told(study_factory: StudyFactory) -> None:
    cells = cells_of(study_factory, 2)
    finish(cells[0], 1, 10)
    shown = snapshot(cells, silent=74.0, problems=[ProgressProblem("the service is away", 3)])
    lines = drawn(shown, 100)
    assert "last sign of life 1 min 14 s ago" in lines
    assert "! 3 simulations: the service is away" in lines
    assert "last sign of life 1 min 14 s ago" in plain_line(shown)
    assert "3 simulations: the service is away" in plain_line(shown)
    assert not any("last sign" in line for line in drawn(replace(shown, silent=12.0), 100))


def test_nothing_that_files_say_is_taken_for_markup_or_moves_the_cursor(study_factory: StudyFactory) -> None:
    shown = snapshot(cells_of(study_factory, 2), problems=[ProgressProblem("[red]no[/red] \x1b[2J [/] [link=x]")])
    assert "! [red]no[/red] [2J [/] [link=x]" in drawn(shown)
    [warning] = [line for line in PlainLines().look(shown, 0.0) if "warning" in line]
    assert warning == "small: warning: [red]no[/red] [2J [/] [link=x]"


def test_tokens_that_nobody_told_are_not_0_per_second(study_factory: StudyFactory) -> None:
    shown = snapshot(cells_of(study_factory, 1), left=None, elapsed=None)
    assert facts(replace(shown, rates=(1.0, 0.0, 0.0))) == ["1.0 replies/s"]
    assert facts(replace(shown, rates=(1.0, 200.0, 0.0))) == ["1.0 replies/s", "200 tokens/s"]


def test_plain_lines_come_for_stages_and_every_half_minute(study_factory: StudyFactory) -> None:
    cells = cells_of(study_factory, 2)
    plain = PlainLines(30.0)

    def told(at: float, **changes: object) -> list[str]:
        return list(plain.look(snapshot(cells, **changes), at))

    assert told(100.0, elapsed=None) == [
        "small: model tiny done in 12 s",
        "small: engine tiny done in 41 s",
        "small: playing begins",
        "small: 0 of 8 simulations, 8 to do; 1.4 replies/s; 960 tokens/s (60 written); about 3 min left",
    ]
    assert told(129.0) == []
    assert len(told(130.0)) == 1
    wait = ProgressProblem("the service answered 503 after 4 s", 2)
    assert told(131.0, problems=[wait]) == ["small: warning: 2 simulations: the service answered 503 after 4 s"]
    # The same problem is told again by the line of the half minute alone.
    assert told(133.0, problems=[replace(wait, text="the service answered 503 after 9 s")]) == []
    assert told(134.0) == []
    assert told(134.5, problems=[wait])
    stages = [*STAGES[:2], Stage("playing", "done", 90.0), Stage("tables", "failed")]
    assert told(135.0, stages=stages) == ["small: playing done in 1 min 30 s", "small: tables failed"]
