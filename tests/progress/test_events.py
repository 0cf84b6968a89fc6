"""What a process tells of itself, and how another one takes it."""

import json
import logging
import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from parley.errors import ParleyError
from parley.play.record import peek_summary
from parley.play.runner import Exchange
from parley.play.simulate import simulate, simulate_shard
from parley.progress.events import watched_play, working
from parley.progress.state import PLAY, ProcessState, ProcessStates
from parley.study.condition import SCRIPTED
from parley.text import waiting
from support.answering import SERVED, VARIABLE, StandInService, as_recorded
from support.commands import wait_until
from support.records import write_events
from support.studies import StudyFactory, records_of

pytestmark = pytest.mark.usefixtures("folder")

FOLDER = Path("processes")
GONE = 2**22 + 1  # no process has this number


def last_state() -> ProcessState:
    return ProcessStates(FOLDER).look(time.time())[-1]


def test_a_stage_tells_that_it_works_and_how_it_ended() -> None:
    with working(FOLDER, "tables"):
        assert (last_state().stage, last_state().alive) == ("tables", True)
    ended = last_state()
    assert (ended.alive, ended.error) == (False, "")
    assert ended.ended is not None
    assert ended.ended >= ended.began
    for error, words in ((OSError("no \x1b[2Jspace"), "no [2Jspace"), (KeyboardInterrupt(), "interrupted")):
        with pytest.raises(type(error)), working(FOLDER, "tables"):
            raise error
        assert (last_state().alive, last_state().error) == (False, words)


def test_no_event_names_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.identity.gethostname", lambda: "node17.example")
    with working(FOLDER, "tables"):
        pass
    [path] = FOLDER.iterdir()
    assert "node17" not in f"{path}{path.read_text()}"


def test_a_process_that_is_gone_or_silent_for_a_minute_is_dead() -> None:
    write_events(FOLDER, "tables", pid=GONE)
    assert not last_state().alive  # of this machine: its process is not there
    states = ProcessStates(FOLDER)
    states.remove_dead(time.time())
    path = write_events(FOLDER, "tables", host="elsewhere", pid=1)
    written = path.stat().st_mtime
    assert [state.alive for state in states.look(written + 50)] == [True]
    assert [state.alive for state in states.look(written + 70)] == [False]
    os.utime(path, (written + 50, written + 50))
    assert [state.alive for state in states.look(written + 100)] == [True]
    states.remove_dead(written + 200)
    assert list(FOLDER.iterdir()) == []


def test_a_process_without_events_touches_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WRITE_SECONDS", "_BEAT_SECONDS"):
        monkeypatch.setattr(f"parley.progress.events.{name}", 0.01)
    with working(FOLDER, "tables"):
        [path] = FOLDER.iterdir()
        os.utime(path, (1.0, 1.0))
        wait_until(lambda: path.stat().st_mtime > 1.0)


def test_what_is_no_event_says_nothing() -> None:
    path = write_events(FOLDER, "tables")
    lines = ("", "{", "[]", "null", "\xff", '{"event": "reply"}', '{"event": "ended", "at": {}}', '{"event": "new"}')
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.write('{"event": "warned", "at": 1.0, "text": "known"}\n')
    assert last_state().warnings == ["known"]
    os.mkfifo(FOLDER / "e.jsonl")
    (FOLDER / "f.jsonl").write_text("\n".join(lines))
    assert [state.stage for state in ProcessStates(FOLDER).look(time.time()) if state.alive] == ["tables"]
    assert ProcessStates(Path("nowhere")).look(time.time()) == []


def test_a_line_that_is_not_whole_is_taken_when_it_is() -> None:
    path = write_events(FOLDER, "tables")
    states = ProcessStates(FOLDER)
    line = json.dumps({"event": "warned", "at": 1.0, "text": "slow"}) + "\n"
    for part, known in (("", []), (line[:9], []), (line[9:], ["slow"]), (line[:-1], ["slow"])):
        with path.open("a") as file:
            file.write(part)
        [state] = states.look(time.time())
        assert state.warnings == known


def test_a_reply_is_told_once_and_that_of_a_journal_not_again(
    study_factory: StudyFactory, server: StandInService
) -> None:
    entry = {"source": {"url": server.url, "served": SERVED, "key_variable": VARIABLE}}
    study = study_factory({"model": "tiny", "n": 3}, models={"tiny": entry}, parameters={"max_rounds": 2})
    [record] = records_of(study)

    def play() -> None:
        with working(FOLDER, PLAY) as events:
            simulate(study, record, [], 1.0, partial(watched_play, events, study.name))

    server.answer = lambda body: as_recorded(body) if len(server.bodies) <= 4 else (401, {"error": "no"})
    with pytest.raises(ParleyError):
        play()
    failed = last_state()
    assert "401" in failed.games[str(record)].error
    assert 0 < failed.number_of_replies <= 4
    server.answer = as_recorded
    play()
    told = ProcessStates(FOLDER).look(time.time())
    made = peek_summary(record).telemetry
    assert [state.played[str(record.parent)].games for state in told] == [0, 1]
    assert sum(state.number_of_replies for state in told) == made["calls"]
    assert sum(state.unusable for state in told) == made["failed_replies"]


def test_of_scripted_agents_is_told_only_that_they_play(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=3, parameters={"max_rounds": 1})
    with working(FOLDER, PLAY) as events:
        simulate_shard(study, SCRIPTED, 0, playing=partial(watched_play, events, study.name))
    [played] = last_state().played.values()
    assert (played.games, last_state().number_of_replies, last_state().games) == (3, 0, {})


def test_what_a_simulation_waits_for_is_told_until_it_fails(study_factory: StudyFactory) -> None:
    simulation = next(study_factory({"model": "tiny"}).simulations())
    replied = cast(Exchange, SimpleNamespace(entry=SimpleNamespace(given="a fork's record")))
    record = str(simulation.record("small"))
    log = logging.getLogger("parley.test")

    def play() -> None:
        with working(FOLDER, PLAY) as events, watched_play(events, "small", simulation) as watcher:
            log.info("trying again in 4 s", extra=waiting("trying again"))
            events._write()
            state = last_state()
            assert state.games[record].waits_for == "trying again"
            watcher.answered(replied)
            events._write()
            state = last_state()
            assert not state.games[record].waits_for
            log.warning("a warning")
            log.warning("a warning")
            raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        play()
    state = last_state()
    assert (state.games[record].waits_for, state.games[record].error) == ("", "gone")
    assert state.warnings == ["a warning"]
