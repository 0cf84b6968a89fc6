"""`parley play`: the matrix in a terminal, lines elsewhere, recordings, and a terminal that is left as it was."""

import asyncio
import json
import re
import signal
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.games.registry import GAMES
from parley.play.board import Board, Seen
from parley.play.live import play
from parley.play.live_screen import LiveScreen, can_draw
from parley.play.read import read_lines
from parley.play.record import write_record
from parley.play.runner import play_async
from parley.policies import Ask
from parley.study.condition import Simulation
from support.commands import ALTERNATE, BACK, HIDE, SHOW, RudePolicy, Terminal, watched
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley play` shows a matrix live, and leaves the terminal as it was.")


def run(screen: LiveScreen, stop_after: int | None = None) -> None:
    """Play a game on a screen; `stop_after` so many replies comes Ctrl-C."""
    policy = RudePolicy(type(screen.game))

    class Ending(RudePolicy):
        said = 0

        async def answer(self, *asked):  # type: ignore[no-untyped-def]
            Ending.said += 1
            if Ending.said == stop_after:
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(10)  # the signal ends it
            return await policy.answer(*asked)

    policies = {seat.name: Ending(type(screen.game)) for seat in screen.game.seats}
    with screen.shown():
        played = asyncio.run(play_async("a" * 64, screen._new_game(), policies, watcher=screen))
        screen.end(played.outcome)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.slow
def test_a_terminal_gets_the_matrix_and_is_left_as_it_was(
    study_factory: StudyFactory, terminal: Terminal, name: str
) -> None:
    run(LiveScreen(watched(study_factory, name), ["heading"], None, terminal))
    out = terminal.getvalue()
    assert [out.count(code) for code in (ALTERNATE, BACK, HIDE, SHOW)] == [1, 1, 1, 1]
    assert terminal.after[0] == "heading"
    assert any(line.startswith("Outcome: ") for line in terminal.after)
    assert sum("◆ agent" in line for line in terminal.after) >= 2
    assert "\x1b[2J[red]" not in out


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A command that ran in this process before does not hear of signals, and ends nothing."""
    former, handler = signal.set_wakeup_fd(-1), signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)
    signal.set_wakeup_fd(former, warn_on_full_buffer=False)


@pytest.mark.usefixtures("own_signals")
def test_ctrl_c_leaves_the_terminal_clean_and_loses_nothing(
    study_factory: StudyFactory, terminal: Terminal, tmp_path: Path
) -> None:
    for suffix in (".svg", ".cast"):
        screen = LiveScreen(watched(study_factory, "consensus"), ["heading"], tmp_path / f"cut{suffix}", terminal)
        with pytest.raises(KeyboardInterrupt):
            run(screen, stop_after=12)
    out = terminal.getvalue()
    assert [out.count(code) for code in (ALTERNATE, BACK, HIDE, SHOW)] == [2, 2, 2, 2]
    assert terminal.after[0] == "heading"
    assert not any(line.startswith("Outcome: ") for line in terminal.after)
    assert "agent_1" in "".join(ET.parse(tmp_path / "cut.svg").getroot().itertext())
    events = [json.loads(line) for line in (tmp_path / "cut.cast").read_text(encoding="utf-8").splitlines()]
    assert any("agent_1" in data for _, _, data in events[1:])


def test_lines_are_printed_where_a_matrix_has_no_place(
    study_factory: StudyFactory, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert can_draw(terminal)
    for name, value in {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "39", "LINES": "11"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not can_draw(terminal), name
    monkeypatch.setenv("TERM", "dumb")
    lines: list[str] = []
    play(study_factory(), {}, 0, [], 1.0, False, lines.append, terminal)
    assert terminal.getvalue() == ""
    assert lines[1] == "Round 1, propose"
    assert lines[-1].startswith("Outcome: ")


def test_a_picture_loads_nothing_and_holds_the_matrix(study_factory: StudyFactory, tmp_path: Path) -> None:
    run(LiveScreen(watched(study_factory, "consensus"), ["heading"], tmp_path / "game.svg", None))
    text = (tmp_path / "game.svg").read_text(encoding="utf-8")
    assert not re.search(r"@font-face|@import|url\((?!#)|href|<script", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
    shown = "".join(ET.fromstring(text).itertext()).replace("\xa0", " ")
    assert "Outcome: " in shown
    assert "agent_5" in shown


def test_a_recording_that_cannot_be_made_is_refused_before_the_game(
    study_factory: StudyFactory, tmp_path: Path
) -> None:
    (tmp_path / "there.svg").write_text("kept")
    lines: list[str] = []
    for name, words in [("a.gif", r"\.svg"), ("no/a.svg", "folder"), ("there.svg", "exists")]:
        with pytest.raises(UsageError, match=words):
            play(study_factory(), {}, 0, [], 1.0, False, lines.append, None, tmp_path / name)
    assert not lines
    assert (tmp_path / "there.svg").read_text() == "kept"


# A record, read from start to end


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.slow
def test_every_reply_of_a_record_is_there_in_full(
    study_factory: StudyFactory, tmp_path: Path, terminal: Terminal, name: str
) -> None:
    simulation = watched(study_factory, name)
    game = simulation.game()
    policies = {seat.name: RudePolicy(type(game)) for seat in game.seats}
    played = asyncio.run(play_async(simulation.id, game, policies))
    record = tmp_path / "seed=1.parquet"
    write_record(record, simulation, played, {})
    lines = list(read_lines(record, terminal))
    assert sum(line.startswith("  agent_") for line in lines) == len(played.exchanges)
    failed = sum(x.reply.failure is not None for x in played.exchanges)
    assert failed == sum("unusable reply" in line for line in lines) > 0
    assert sum("[red]no[/red]" in line for line in lines) == sum("[red]" in x.entry.text for x in played.exchanges)
    assert not [c for line in lines for c in line if unicodedata.category(c) in ("Cc", "Cf")]
    assert any(line.startswith("Outcome: ") for line in terminal.getvalue().replace("\x1b[1m", "").splitlines())


# What is to be seen of a game while it is played


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
