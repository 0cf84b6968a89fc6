"""`parley play`: the matrix in a terminal, lines elsewhere, recordings, and a terminal that is left as it was."""

import asyncio
import json
import logging
import re
import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.games.registry import GAMES
from parley.play.live import play
from parley.play.live_screen import LiveScreen, can_draw
from parley.play.runner import play_async
from parley.text.logs import NAME
from support.studies import StudyFactory
from support.watching import ALTERNATE, BACK, HIDE, SHOW, RudePolicy, Terminal, watched


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


def test_warnings_are_said_below_the_matrix(
    study_factory: StudyFactory, terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    screen = LiveScreen(watched(study_factory, "consensus"), ["heading"], None, terminal)
    logger, heard = logging.getLogger(NAME), []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append((record.getMessage(), BACK in terminal.getvalue()))  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with screen.shown():
            logger.warning("it is late")
            logger.info("how far it is")
    finally:
        logger.removeHandler(handler)
    assert heard == [("it is late", True)]


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


def test_a_study_is_played_on_a_terminal(study_factory: StudyFactory, terminal: Terminal) -> None:
    lines: list[str] = []
    play(study_factory(), {}, 0, [], 1.0, True, lines.append, terminal)
    assert any(line.startswith("Outcome: ") for line in terminal.after)
    assert any("reasoning: " in line for line in lines)  # with --reasoning all texts come, too


@pytest.mark.parametrize("name", GAMES)
def test_a_picture_loads_nothing_and_holds_the_matrix(study_factory: StudyFactory, tmp_path: Path, name: str) -> None:
    run(LiveScreen(watched(study_factory, name), ["heading"], tmp_path / "game.svg", None))
    text = (tmp_path / "game.svg").read_text(encoding="utf-8")
    assert not re.search(r"@font-face|@import|url\((?!#)|href|<script", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
    shown = "".join(ET.fromstring(text).itertext()).replace("\xa0", " ")
    assert "Outcome: " in shown
    assert "agent_5" in shown


def test_a_cast_is_one_that_asciinema_plays(study_factory: StudyFactory, tmp_path: Path) -> None:
    run(LiveScreen(watched(study_factory, "consensus"), ["heading"], tmp_path / "game.cast", None))
    header, *events = map(json.loads, (tmp_path / "game.cast").read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert len(events) > 4
    assert {kind for _, kind, _ in events} == {"o"}
    assert "Outcome: " in events[-2][2]
    for _, _, data in events:
        assert set(re.findall("\x1b\\[[0-9;?]*[^0-9;?m]", data)) <= {"\x1b[H", "\x1b[K", "\x1b[J"}


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
