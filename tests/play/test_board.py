"""What is to be seen of a game while it is played."""

import asyncio
from collections.abc import Sequence

import pytest

from parley.games.registry import GAMES
from parley.play.board import Board, Seen
from parley.play.runner import play_async
from parley.policies import Ask
from parley.study.condition import Simulation
from support.studies import StudyFactory
from support.watching import RudePolicy, watched


class Watched(Board):
    """A board that is looked at in each phase."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.game)
        self.before: list[tuple[int, Seen]] = []

    def asking(self, asks: Sequence[Ask]) -> None:
        self._took = 0.0  # the game is asked in each round, however long it takes here
        super().asking(asks)
        self.before.append((asks[0].round, self.see()))


def watch(simulation: Simulation) -> Watched:
    board, game = Watched(simulation), simulation.game()
    policies = {seat.name: RudePolicy(type(game)) for seat in game.seats}
    board.end(asyncio.run(play_async(simulation.id, game, policies, watcher=board)).outcome)
    return board


@pytest.mark.parametrize("name", GAMES)
def test_what_is_seen_of_a_round_that_is_over_stays_when_the_game_ends(study_factory: StudyFactory, name: str) -> None:
    board = watch(watched(study_factory, name))
    last = board.see()
    shift = max(last.matrix.columns) - max(number for number, _ in board.before)
    compared, begun = 0, set[int]()
    for asked, seen in board.before:
        for key, cell in seen.matrix.cells.items():
            if key[1] < asked + shift:
                final = last.matrix.cells[key]
                assert (cell.text, cell.failed, cell.again) == (final.text, final.failed, final.again)
                compared += 1
        for key, cell in seen.matrix.cells.items():  # nothing is told of what has not been played
            assert key[1] <= asked + shift
            if key[1] == asked + shift and asked not in begun:
                assert (cell.text, cell.color) == ("", None)
        begun.add(asked)
    assert compared > 10
    assert any(cell.color for _, seen in board.before for cell in seen.matrix.cells.values())
    if last.matrix.results:
        assert any(seen.matrix.results for _, seen in board.before)
    # Who is asked, and whose reply failed.
    _, first = board.before[0]
    assert first.waiting == {ask.agent for ask in first.asks}
    assert {agent for (agent, _), cell in first.matrix.cells.items() if cell.open} >= first.waiting
    assert (last.waiting, last.asks) == (frozenset(), ())
    assert last.unusable > 0
    assert any(cell.failed or cell.again for cell in last.matrix.cells.values())
    framed = [row.framed for row in last.matrix.rows]
    assert sum(framed) == 2
    assert framed == sorted(framed)


def test_a_game_that_cannot_bear_silence_is_asked_at_its_end(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(board: Board, began: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Board, "_foreseen", fails)
    board = watch(watched(study_factory, "stag_hunt"))
    assert not any(seen.matrix.results for _, seen in board.before)
    assert board.see().matrix.results
