"""A matrix as lines of a terminal."""

import asyncio
import io
import itertools
import re

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from parley.play.board import Board
from parley.play.matrix import Cell, Matrix, Row
from parley.play.matrix_text import _blocks, _clean, final_lines, outcome_words, screen_lines
from parley.play.runner import play_async
from support.commands import RudePolicy, watched
from support.replies import TEXTS
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Whatever agents say, cells stay in their columns and no escape sequence passes.")

WIDE = ["東京都庁舎", "👩‍👩‍👧", "👍🏽", "e\u0301\u0301\u0301", "❤\ufe0f", "[red]x[/red]", "x" * 200]


def matrix_of(texts: list[str]) -> Matrix:
    rows = [Row(f"agent_{place}", text, place % 2 == 1) for place, text in enumerate(texts)]
    cells = {
        (row.name, number): Cell(texts[(place + number) % len(texts)], "#0072B2" if place % 2 else "#F0E442")
        for place, row in enumerate(rows)
        for number in range(1, 7)
    }
    return Matrix(rows, cells, "Byzantine", {}, {}, {1: texts[0]}, texts[1])


def printed(lines: list[Text], width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    with console.capture() as capture:
        for line in lines:
            console.print(line)
    return capture.get()


def test_cells_stay_in_their_columns_whatever_is_said() -> None:
    for texts, width in itertools.product([TEXTS, WIDE], [40, 60, 120]):
        for block in _blocks(matrix_of(texts), matrix_of(texts).rows, "round", width):
            assert len({line.cell_len for line in block}) == 1
            assert block[0].cell_len <= width
            # Colored cells begin at the same column in each line.
            starts = {
                tuple(cell_len(line.plain[: span.start]) for span in line.spans if "on " in str(span.style))
                for line in block
                if any("on " in str(span.style) for span in line.spans)
            }
            assert len(starts) == 1


def test_no_escape_sequence_and_no_markup_of_a_reply_gets_through() -> None:
    texts = [*TEXTS, *WIDE, "\x1b[2J\x1b]0;title\x07[bold]"]
    out = "".join(printed(block, 120) for block in _blocks(matrix_of(texts), matrix_of(texts).rows, "round", 120))
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
    shown: list[tuple[tuple[int, int], list[Text]]] = []
    sizes = [(40, 12), (120, 40)]

    class Watched(Board):
        def asking(self, asks: object) -> None:
            super().asking(asks)  # type: ignore[arg-type]
            heading = ["a heading " * 20, "東" * 200]
            shown.extend((size, screen_lines(self.see(), heading, "", self.game, size)) for size in sizes)

    board = Watched(simulation.game)
    policies = {seat.name: RudePolicy(type(game)) for seat in game.seats}
    ended = asyncio.run(play_async(simulation.id, game, policies, watcher=board)).outcome
    board.end(ended)
    for (columns, height), lines in shown:
        assert len(lines) <= height
        assert max(line.cell_len for line in lines) <= columns
        assert any("agent" in line.plain for line in lines)
    for columns, _ in sizes:
        last = final_lines(board.see(), ["heading"], board.game, columns)
        plain = "\n".join(line.plain for line in last)
        assert f"Outcome: {outcome_words(type(board.game), ended)}" in " ".join(plain.split())  # none of it is cut
        assert max(line.cell_len for line in last) <= columns
