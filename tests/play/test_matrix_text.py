"""A matrix on a terminal."""

import asyncio
import io
import itertools
import re

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.table import Table

from parley.games.evidence import State, Timeline, TimelineCell
from parley.play.matrix import WatchedGame
from parley.play.matrix_text import _clean, _tables, final_view, live_view, outcome_line
from parley.play.runner import play_async
from support.commands import RudePolicy, watched
from support.replies import TEXTS
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Whatever agents say, cells stay in their columns and no escape sequence passes.")

WIDE = ["東京都庁舎", "👩‍👩‍👧", "👍🏽", "e\u0301\u0301\u0301", "❤\ufe0f", "[red]x[/red]", "x" * 200]


def lines(view: RenderableType, width: int) -> list[list[Segment]]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    return console.render_lines(view, pad=False)


def tables_of(texts: list[str], width: int) -> list[Table]:
    agents = {f"agent_{place}": text for place, text in enumerate(texts)}
    cells = {
        (name, number): TimelineCell("even" if place % 2 else "odd", texts[(place + number) % len(texts)])
        for place, name in enumerate(agents)
        for number in range(1, 7)
    }
    states = [State("even", "even", "#0072B2"), State("odd", "odd", "#F0E442")]
    framed = frozenset(list(agents)[1::2])
    timeline = Timeline(agents, framed, "Byzantine", cells, states, [], {1: texts[0]}, texts[1])
    return _tables(timeline, "round", width)


def test_cells_stay_in_their_columns_whatever_is_said() -> None:
    for texts, width in itertools.product([TEXTS, WIDE], [40, 60, 120]):
        for table in tables_of(texts, width):
            starts = set()
            for line in lines(table, width):
                assert sum(segment.cell_length for segment in line) <= width
                before = itertools.accumulate((segment.cell_length for segment in line), initial=0)
                colored = [
                    at for at, segment in zip(before, line, strict=False) if segment.style and segment.style.bgcolor
                ]
                if colored:  # cells begin at the same columns in each line
                    starts.add(tuple(colored))
            assert len(starts) == 1


def test_no_escape_sequence_and_no_markup_of_a_reply_gets_through() -> None:
    texts = [*TEXTS, *WIDE, "\x1b[2J\x1b]0;title\x07[bold]"]
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        console.print(*tables_of(texts, 120))
    out = capture.get()
    assert re.sub("\x1b\\[[0-9;]*m|\n", "", out).isprintable()
    assert "\x1b[2J" not in out
    assert "[red]x" in out

    # What terminals do not agree on is left out.
    assert _clean("e\u0301x\u0336 👍🏽 ❤\ufe0f\uffff") == "éx 👍 ❤\ufffd"


@pytest.mark.parametrize("name", ["consensus", "stag_hunt"])
@pytest.mark.slow
def test_a_screen_has_no_more_lines_and_columns_than_the_terminal(study_factory: StudyFactory, name: str) -> None:
    simulation = watched(study_factory, name)
    game = simulation.game()
    sizes = [(40, 12), (120, 40)]
    shown = []

    class Watched(WatchedGame):
        def asking(self, asks: object) -> None:
            super().asking(asks)  # type: ignore[arg-type]
            heading = ["a heading " * 20, "東" * 200]
            shown.extend((size, live_view(self, heading, size[0])) for size in sizes)

    found = Watched(simulation.game())
    policies = {seat.name: RudePolicy(type(game)) for seat in game.seats}
    ended = asyncio.run(play_async(simulation.id, game, policies, watchers=[found])).outcome
    for (columns, height), view in shown:
        drawn = ["".join(segment.text for segment in line) for line in lines(view, columns)]
        assert max(map(cell_len, drawn)) <= columns
        assert any("agent" in line for line in drawn[:height])  # rich cuts off what is below
    for columns, _ in sizes:
        last = [
            "".join(each.text for each in line) for line in lines(final_view(found, ["heading"], columns), columns)
        ]
        assert outcome_line(type(game), ended) in " ".join(" ".join(last).split())  # none of it is cut
        assert max(map(cell_len, last)) <= columns
