"""What a process tells of itself, and how another one takes it."""

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.identity import machine
from parley.play.runner import Watcher
from parley.play.simulate import simulate
from parley.progress.events import note_server_line, watched_play, working
from parley.progress.state import PLAY, SERVE, ProcessState, ProcessStates
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.text import waiting
from support.commands import wait_until
from support.records import write_events
from support.studies import StudyFactory

pytestmark = pytest.mark.usefixtures("folder")

FOLDER = Path("processes")
GONE = 2**22 + 1  # no process has this number


def only_state(folder: Path = FOLDER) -> ProcessState:
    [state] = ProcessStates(folder).look(time.time())
    return state


def test_a_stage_tells_that_it_works_and_how_it_ended() -> None:
    with working(FOLDER, "tables"):
        assert (only_state().stage, only_state().alive) == ("tables", True)
    ended = only_state()
    assert (ended.alive, ended.error) == (False, "")
    assert ended.ended is not None
    assert ended.ended >= ended.began
    for error, words in ((OSError("no \x1b[2Jspace"), "no [2Jspace"), (KeyboardInterrupt(), "interrupted")):
        with pytest.raises(type(error)), working(FOLDER, "tables"):
            raise error
        assert (only_state().alive, only_state().error) == (False, words)


def test_what_played_leaves_no_file_unless_it_failed() -> None:
    with working(FOLDER, PLAY):
        assert only_state().alive
    assert list(FOLDER.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), working(FOLDER, PLAY):
        raise KeyboardInterrupt
    assert list(FOLDER.iterdir()) == []
    with pytest.raises(ValueError, match="no"), working(FOLDER, PLAY):
        raise ValueError("no")
    assert only_state().error == "no"


def test_no_event_names_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.identity.gethostname", lambda: "node17.example")
    with working(FOLDER, "tables"):
        pass
    [path] = FOLDER.iterdir()
    assert "node17" not in f"{path}{path.read_text()}"


def test_a_process_that_is_gone_or_silent_for_a_minute_is_dead() -> None:
    write_events(FOLDER, "tables", pid=GONE)
    assert not only_state().alive  # of this machine: its process is not there
    (FOLDER / f"{machine()}-{GONE}.jsonl").unlink()
    path = write_events(FOLDER, "tables", host="elsewhere", pid=1)
    states = ProcessStates(FOLDER)
    written = path.stat().st_mtime
    assert [state.alive for state in states.look(written + 50)] == [True]
    assert [state.alive for state in states.look(written + 70)] == [False]
    # Its clock differs from ours: a touch while we look is a sign of life.
    os.utime(path, (written + 5, written + 5))
    assert [state.alive for state in states.look(written + 100)] == [True]
    states.remove(written + 200)
    assert list(FOLDER.iterdir()) == []


def test_a_process_without_events_touches_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WRITE_SECONDS", "_BEAT_SECONDS"):
        monkeypatch.setattr(f"parley.progress.events.{name}", 0.01)
    with working(FOLDER, "tables"):
        [path] = FOLDER.iterdir()
        os.utime(path, (1.0, 1.0))
        wait_until(lambda: path.stat().st_mtime > 1.0)


def test_a_server_that_ended_well_leaves_nothing_of_a_killed_one_at_its_endpoint() -> None:
    kept = [write_events(FOLDER, SERVE, endpoint="b.json", pid=1)]
    write_events(FOLDER, SERVE, endpoint="a.json", pid=GONE)
    with working(FOLDER, SERVE, endpoint="a.json"):
        pass
    assert list(FOLDER.iterdir()) == kept


def test_what_is_no_event_says_nothing() -> None:
    path = write_events(FOLDER, "tables")
    lines = ("", "{", "[]", "null", "\xff", '{"event": "reply"}', '{"event": "loaded", "at": {}}', '{"event": "new"}')
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.write('{"event": "warned", "text": "known"}\n')
    assert (only_state().warnings, only_state().loaded) == (["known"], None)
    os.mkfifo(FOLDER / "e.jsonl")
    (FOLDER / "f.jsonl").write_text("\n".join(lines))
    assert [state.stage for state in ProcessStates(FOLDER).look(time.time()) if state.alive] == ["tables"]
    assert ProcessStates(Path("nowhere")).look(time.time()) == []


def test_a_line_that_is_not_whole_is_taken_when_it_is() -> None:
    path = write_events(FOLDER, "tables")
    states = ProcessStates(FOLDER)
    line = json.dumps({"event": "warned", "text": "slow"}) + "\n"
    for part, known in (("", []), (line[:9], []), (line[9:], ["slow"]), (line[:-1], ["slow"])):
        with path.open("a") as file:
            file.write(part)
        [state] = states.look(time.time())
        assert state.warnings == known


def state_played(study: Study) -> ProcessState:
    """Play the one simulation of a study, and return the state of its process at its end."""
    [record] = [simulation.record(study.name) for simulation in study.simulations()]
    folder = paths.processes(paths.results(study.name))
    states: list[ProcessState] = []

    with working(folder, PLAY) as events:

        @contextmanager
        def seen(simulation: Simulation) -> Iterator[Watcher]:
            with watched_play(events, study.name, simulation) as watcher:
                yield watcher
                assert events is not None
                events._write()
                states.append(only_state(folder))

        simulate(study, record, [], 1.0, seen)
    [state] = states
    return state


def test_replies_are_counted_while_a_simulation_is_played_those_of_a_forks_record_not_for_its_pace(
    study_factory: StudyFactory,
) -> None:
    grid = {"model": "majority", "b": 1, "n": 4, "byzantine": "random"}
    fork = {"of": "small", "at": 2, "change": "none", "repeats": 1}
    played = state_played(study_factory(grid, parameters={"max_rounds": 2}))
    Path("forks.yaml").write_text(yaml.safe_dump({"game": "consensus", "fork": fork}))
    for state, asked in ((played, 16), (state_played(load_study(Path("forks.yaml"))), 8)):
        [game] = state.games.values()
        assert (game.replies, game.unusable, game.in_round) == (4 * 2 * 2, 0, 4 * 2)  # agents, phases, rounds
        assert len(state.replies) == asked


def test_what_a_simulation_waits_for_is_told_until_it_fails(study_factory: StudyFactory) -> None:
    simulation = next(study_factory().simulations())
    record = str(simulation.record("small"))
    log = logging.getLogger("parley.test")

    def play() -> None:
        with working(FOLDER, PLAY) as events, watched_play(events, "small", simulation):
            assert events is not None
            log.info("trying again in 4 s", extra=waiting("trying again"))
            events._write()
            state = only_state()
            assert state.games[record].waits_for == "trying again"
            state.take({"event": "reply", "game": record, "round": 1, "failed": False})
            assert not state.games[record].waits_for
            log.warning("a warning")
            log.warning("a warning")
            raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        play()
    state = only_state()
    assert (state.games[record].waits_for, state.games[record].error) == ("", "gone")
    assert state.warnings == ["a warning"]


def test_that_vllm_has_loaded_a_model_is_noted() -> None:
    with working(FOLDER, SERVE) as events:
        assert events is not None
        for line, loaded in (
            ("INFO 11-22 20:00:00 [loggers.py:1] loading\n", False),
            ("INFO: Application startup complete.\n", True),
        ):
            note_server_line(events, line)
            events._write()
            assert (only_state().loaded is not None) == loaded


def test_a_new_file_in_the_place_of_an_old_one_is_of_another_process(tmp_path: Path) -> None:
    file, now = tmp_path / "h-1.jsonl", time.time()
    began = {"event": "began", "at": now, "stage": "playing", "host": machine(), "pid": os.getpid()}
    ended = {"event": "ended", "at": now, "error": "boom"}
    states = ProcessStates(tmp_path)
    for events, alive, error in (([began, ended], False, "boom"), ([began], True, "")):
        file.write_text("".join(json.dumps(event) + "\n" for event in events))  # of the same inode, and then shorter
        [state] = states.look(now)
        assert (state.alive, state.error) == (alive, error)
    shutil.rmtree(tmp_path)
    assert states.look(now) == []
