"""`parley play`: the matrix in a terminal, lines elsewhere, and a terminal that is left as it was."""

import asyncio
import copy
import signal
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from parley.games.registry import GAMES
from parley.play.live import play, show_replies
from parley.play.matrix import AGAIN, FAILED, WAITING, WatchedGame, marks_of, rounds_of
from parley.play.matrix_text import LiveScreen, can_draw
from parley.play.record import write_record
from parley.play.runner import play_async
from parley.policies import Ask
from parley.study.condition import Simulation
from support.commands import ALTERNATE, BACK, HIDE, SHOW, RudePolicy, Terminal, watched
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley play` shows a matrix live, and leaves the terminal as it was.")


def run(simulation: Simulation, screen: LiveScreen, stop_after: int | None = None) -> None:
    """Play a game on a screen; `stop_after` so many replies comes Ctrl-C."""

    class Ending(RudePolicy):
        said = 0

        async def answer(self, *asked):  # type: ignore[no-untyped-def]
            Ending.said += 1
            if Ending.said == stop_after:
                signal.raise_signal(signal.SIGINT)
                await asyncio.sleep(10)  # the signal ends it
            return await super().answer(*asked)

    policies = {seat.name: Ending(type(screen.game)) for seat in screen.game.seats}
    with screen.shown():
        asyncio.run(play_async("a" * 64, simulation.game(), policies, watchers=[screen]))


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.slow
def test_a_terminal_gets_the_matrix_and_is_left_as_it_was(
    study_factory: StudyFactory, terminal: Terminal, name: str
) -> None:
    simulation = watched(study_factory, name)
    run(simulation, LiveScreen(simulation.game(), ["heading"], terminal))
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
def test_ctrl_c_leaves_the_terminal_clean(study_factory: StudyFactory, terminal: Terminal) -> None:
    simulation = watched(study_factory, "consensus")
    screen = LiveScreen(simulation.game(), ["heading"], terminal)
    with pytest.raises(KeyboardInterrupt):
        run(simulation, screen, stop_after=12)
    out = terminal.getvalue()
    assert [out.count(code) for code in (ALTERNATE, BACK, HIDE, SHOW)] == [1, 1, 1, 1]
    assert terminal.after[0] == "heading"
    assert not any(line.startswith("Outcome: ") for line in terminal.after)
    assert any("agent_1" in line for line in terminal.after)


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


def test_groups_of_a_role_have_signs_before_their_agents(study_factory: StudyFactory, terminal: Terminal) -> None:
    for policies, signs in ((("majority", "stubborn"), 1), (("majority",), 0)):
        groups = [{"role": "honest", "count": 1, "policy": policy} for policy in policies]
        play(study_factory({"groups": groups, "model": None, "n": None}), {}, 0, [], 1.0, False, print, terminal)
        for number, policy in enumerate(policies, 1):
            assert sum(line.startswith(f"({number}) honest · {policy}: agent_") for line in terminal.after) == signs
            assert any(f"({number}) agent_" in line for line in terminal.after) == signs
        terminal.truncate(terminal.seek(0))


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
    lines: list[str] = []
    show_replies(record, lines.append, terminal)
    assert sum(line.startswith("  agent_") for line in lines) == len(played.exchanges)
    failed = sum(x.reply.failure is not None for x in played.exchanges)
    assert failed == sum("unusable reply" in line for line in lines) > 0
    assert sum("[red]no[/red]" in line for line in lines) == sum("[red]" in x.entry.text for x in played.exchanges)
    assert not [c for line in lines for c in line if unicodedata.category(c) in ("Cc", "Cf")]
    assert any(line.startswith("Outcome: ") for line in terminal.getvalue().replace("\x1b[1m", "").splitlines())


# What is to be seen of a game while it is played


class Watched(WatchedGame):
    """A game that is looked at in each phase."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.game())
        self.before: list[Watched] = []

    def asking(self, asks: Sequence[Ask]) -> None:
        super().asking(asks)
        self.before.append(copy.copy(self))


@pytest.mark.parametrize("name", GAMES)
def test_replies_are_seen_while_it_is_played_and_what_the_game_says_of_them_at_its_end(
    study_factory: StudyFactory, name: str
) -> None:
    simulation = watched(study_factory, name)
    game, found = simulation.game(), Watched(simulation)
    policies = {seat.name: RudePolicy(type(game)) for seat in game.seats}
    asyncio.run(play_async(simulation.id, game, policies, watchers=[found]))
    for seen in found.before:
        assert not seen.timeline.states  # the game has said nothing yet
        assert max(rounds_of(seen.timeline)) == seen.asks[0].round  # nothing is shown of what has not been played
        labels = marks_of(seen.timeline)
        assert {agent for (agent, _), of_cell in labels.items() if WAITING in of_cell} == seen.waiting
    first, last = found.before[0], found
    assert first.waiting == {ask.agent for ask in first.asks}
    assert any(cell.text for seen in found.before for cell in seen.timeline.cells.values())
    assert (last.waiting, last.asks) == (frozenset(), ())
    # Its rounds are those that were asked, but for what agents began with.
    assert max(rounds_of(last.timeline)) == max(rounds_of(found.before[-1].timeline))
    assert {cell.state for cell in last.timeline.cells.values()} <= {state.name for state in last.timeline.states}
    assert any(x.failed for x in last.exchanges)
    assert {mark.label for mark in last.timeline.marks} & {FAILED, AGAIN}
    assert len(last.timeline.framed) == 2
