"""Progress from files that are made here: records and states of processes, with a clock that is passed in."""

import json
import os
from pathlib import Path

import pytest

from parley import paths
from parley.files import mark_done
from parley.progress.follow import IDLE, Progress, Snapshot, Stage
from parley.progress.state import PLAY, RUN, SERVE
from support.records import write_events
from support.studies import StudyFactory, records_of

MODEL = {"model": "tiny", "n": 2, "b": 0}
NOW = 1_000_000.0
FOLDER = paths.processes(paths.results("small"))

Event = dict[str, object]


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def finish(record: Path) -> None:
    """Make what stands for a record."""
    record.parent.mkdir(parents=True, exist_ok=True)
    record.touch()


def plays(record: Path, at: float = NOW, waits_for: str = "", error: str = "") -> Event:
    told = {"waits_for": waits_for, "serious": True, "error": error}
    return {"event": "game", "at": at, "game": str(record), **told}


def ends(record: Path) -> Event:
    return {"event": "played", "at": NOW, "game": str(record)}


def replies(at: float, number: int = 1, unusable: int = 0) -> Event:
    numbers = {"replies": number, "unusable": unusable, "read": 100 * number, "written": 10 * number}
    return {"event": "replies", "at": at, **numbers}


def ended(at: float, error: str = "") -> Event:
    return {"event": "ended", "at": at, "error": error}


def player(*events: Event, at: float = NOW, host: str = "node1") -> Path:
    """Have a process tell that it plays."""
    return write_events(FOLDER, PLAY, *events, host=host, pid=1, began=at, at=at)


def tell_more(path: Path, at: float, *events: Event) -> None:
    """Append to what a process told."""
    with path.open("a") as file:
        file.writelines(json.dumps({"at": at, **event}) + "\n" for event in events)
    os.utime(path, (at, at))


def counts(snapshot: Snapshot) -> tuple[int, int, int]:
    return (snapshot.finished, snapshot.running, snapshot.total)


def stage_of(snapshot: Snapshot, name: str) -> Stage:
    return next(stage for stage in snapshot.stages if stage.name == name)


# What is counted


def test_a_study_of_which_nothing_is_played_now(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory({}, MODEL, seeds=3)
    folder = records_of(study)[0].parent
    for name in ("seed=7.parquet", ".seed=0.parquet.12.tmp", "notes.txt"):  # not of the study
        finish(folder / name)
    for finished in (0, 1):
        snapshot = Progress(study, clock=clock).look()
        assert counts(snapshot) == (finished, 0, 6)
        assert (snapshot.rates, snapshot.left, snapshot.elapsed) == (None,) * 3
        assert (snapshot.note, snapshot.over, snapshot.problems) == (IDLE, False, [])
        finish(folder / "seed=0.parquet")


def test_a_simulation_whose_process_is_gone_is_not_running(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [record] = records_of(study)
    progress = Progress(study, clock=clock)
    player(plays(record))
    assert counts(progress.look()) == (0, 1, 1)
    clock.now += 70  # without a sign of life
    gone = progress.look()
    assert counts(gone) == (0, 0, 1)
    assert (stage_of(gone, "playing").state, gone.note) == ("to do", IDLE)
    player(plays(record), at=clock.now)
    assert counts(progress.look()) == (0, 1, 1)
    finish(record)
    clock.now += 70
    assert progress.look().note == IDLE  # the tables are to be made, and nobody makes them
    finish(record)
    assert counts(progress.look()) == (1, 0, 1)


def test_replies_of_all_processes_of_a_run_are_added_up(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory({"model": "tiny", "n": [2, 3]}, seeds=2)
    [first, second], [last, _] = (sorted(r for r in records_of(study) if f"/n={n}/" in str(r)) for n in (2, 3))
    player(plays(first), replies(NOW, 5, unusable=2), ends(first), ended(NOW))
    killed = player(plays(second), replies(NOW, 3), at=NOW - 100)
    player(plays(second), replies(NOW, 4, unusable=1), plays(last), replies(NOW))
    finish(first)
    snapshot = Progress(study, clock=clock).look()
    assert (snapshot.replies, snapshot.unusable) == (5 + 3 + 4 + 1, 3)
    assert counts(snapshot) == (1, 2, 4)
    killed.unlink()
    assert Progress(study, clock=clock).look().replies == 10


def test_what_a_run_says_of_itself_is_told_while_nothing_is_played_or_always(
    study_factory: StudyFactory, clock: Clock
) -> None:
    study = study_factory(MODEL, seeds=2)
    assert Progress(study, is_own=True, clock=clock).look().note == ""
    for always in (False, True):
        note = {"event": "told", "note": "2 jobs sent", "always": always}
        run = write_events(FOLDER, RUN, note, host="node1", pid=2, began=NOW - 9, at=NOW)
        snapshot = Progress(study, clock=clock).look()
        assert (snapshot.note, snapshot.elapsed) == ("2 jobs sent", 9.0)
        process = player(plays(records_of(study)[0]))
        assert Progress(study, clock=clock).look().note == ("2 jobs sent" if always else "")
        process.unlink()
        run.unlink()
    write_events(FOLDER, RUN, note | {"always": False}, host="node1", pid=2, began=NOW, at=NOW)
    for record in records_of(study):
        finish(record)
    assert Progress(study, clock=clock).look().note == ""  # all is played: a job may make the tables


# Speed and time left


def test_replies_of_the_last_two_minutes_give_the_speed(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    first, _ = records_of(study)
    progress = Progress(study, clock=clock)
    process = player(plays(first, NOW - 10), replies(NOW - 8, 2))
    snapshot = progress.look()
    assert snapshot.rates == pytest.approx((2 / 10, 200 / 10, 20 / 10))
    tell_more(process, NOW + 39, replies(NOW + 39))
    clock.now = NOW + 40
    snapshot = progress.look()
    assert snapshot.rates == pytest.approx((3 / 50, 300 / 50, 30 / 50))
    clock.now = NOW + 115
    tell_more(process, clock.now)
    assert progress.look().rates == pytest.approx((1 / 120, 100 / 120, 10 / 120))
    clock.now = NOW + 160
    tell_more(process, clock.now)
    assert progress.look().rates is None  # unknown, not 0


@pytest.mark.promise("The time left is that of the simulations that are left, at the pace of those that ended.")
def test_the_time_left_is_what_is_left_at_the_pace_of_simulations_that_ended(
    study_factory: StudyFactory, clock: Clock
) -> None:
    study = study_factory(MODEL, {"n": 3}, seeds=5)
    scripted, others = (sorted(r for r in records_of(study) if ("tiny" in str(r)) == tiny) for tiny in (False, True))
    progress = Progress(study, clock=clock)
    player(plays(others[0], NOW - 20), host="node2")
    assert progress.look().left is None  # none has ended
    for record in (*others[:2], scripted[0]):
        finish(record)
    process = player(plays(others[0], NOW - 20), ends(others[0]), plays(others[1], NOW - 18), ends(others[1]))
    assert progress.look().left == pytest.approx(3 * 20 / 2)  # scripted agents take no time
    tell_more(process, NOW, plays(scripted[0], NOW - 4), ends(scripted[0]))
    assert progress.look().left == pytest.approx(3 * 20 / 2 + 4 * 4)


# Problems


def test_a_service_that_does_not_answer_is_told_until_it_does(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    progress = Progress(study, clock=clock)
    wait = "the service for tiny answered 503: down after {} s; trying again"
    records = records_of(study)
    processes = [player(plays(each, waits_for=wait.format(n))) for n, each in enumerate(records)]
    [problem] = progress.look().problems
    assert problem.serious
    assert problem.text in {f"2 simulations: {wait.format(n)}" for n in (0, 1)}
    for number, (process, record) in enumerate(zip(processes, records, strict=True)):
        tell_more(process, NOW, plays(record))
        assert len(progress.look().problems) == 1 - number


def test_a_simulation_that_failed_says_why_until_it_is_played_again(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [record] = records_of(study)
    progress = Progress(study, clock=clock)
    player(plays(record), plays(record, error="the engine for tiny died: boom"), at=NOW - 90)
    failed = progress.look()
    assert [problem.text for problem in failed.problems] == ["1 simulation stopped: the engine for tiny died: boom"]
    assert failed.running == 0
    player(plays(record), host="node2")
    assert progress.look().problems == []


# Stages


def test_a_run_that_ends_early_says_so_in_its_last_look(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(seeds=3)
    write_events(FOLDER, RUN, host="node1", pid=2, began=NOW, at=NOW)
    progress = Progress(study, is_own=True, clock=clock)
    finish(records_of(study)[0])
    player(plays(records_of(study)[1]))
    write_events(FOLDER, "figures", host="node1", began=NOW + 1, at=NOW + 1)
    clock.now += 4
    now, over = (progress.look(last) for last in (False, True))
    assert [stage_of(now, stage).state for stage in ("playing", "figures")] == ["running"] * 2
    assert [stage_of(over, stage).state for stage in ("playing", "figures")] == ["to do", "failed"]
    assert (now.note, over.note) == ("", "the run ended; to do: playing, tables, figures, report, view")
    assert (over.rates, over.left) == (None, None)


def test_a_stage_runs_as_long_as_its_process_and_ends_with_its_mark(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(seeds=1)
    progress = Progress(study, clock=clock)

    def tell(*events: Event, began: float, at: float) -> Path:
        return write_events(FOLDER, "tables", *events, host="node1", began=began, at=at)

    def look(at: float) -> Stage:
        clock.now = at
        return stage_of(progress.look(), "tables")

    assert look(NOW) == Stage("tables", "to do")
    tell(began=NOW + 1, at=NOW + 1)
    assert look(NOW + 5) == Stage("tables", "running", 4.0)
    assert look(NOW + 90) == Stage("tables", "failed")  # it was killed
    failing = tell(began=NOW + 91, at=NOW + 91)
    assert look(NOW + 92) == Stage("tables", "running", 1.0)
    tell_more(failing, NOW + 93, ended(NOW + 93, "no"))
    assert look(NOW + 94) == Stage("tables", "failed")
    tell(ended(NOW + 96), began=NOW + 95, at=NOW + 96)  # by hand, of a part
    assert look(NOW + 97) == Stage("tables", "to do")
    mark_done("small", "tables", study.plan)
    tell(ended(NOW + 106), began=NOW + 100, at=NOW + 106)
    assert look(NOW + 107) == Stage("tables", "done")


def serve(*events: Event, host: str = "node1", began: float = NOW, at: float = NOW) -> Path:
    """Have a process tell that it serves a model, and warns of something."""
    about = {"model": "tiny", "endpoint": str(paths.endpoint("small", "tiny", 0, "tiny"))}
    slow: Event = {"event": "warned", "text": "slow"}
    return write_events(FOLDER, SERVE, slow, *events, host=host, began=began, at=at, **about)


def test_an_engine_loads_until_a_reply_came(study_factory: StudyFactory, clock: Clock) -> None:
    progress = Progress(study_factory(MODEL), clock=clock)
    server = serve()
    clock.now = NOW + 30
    loading = progress.look()
    assert stage_of(loading, "engine tiny") == Stage("engine tiny", "running", 30.0)
    assert [problem.text for problem in loading.problems] == ["slow"]
    player(replies(NOW + 31))
    assert not any(stage.name == "engine tiny" for stage in progress.look().stages)
    tell_more(server, NOW + 40, ended(NOW + 40))
    clock.now = NOW + 110
    assert not any(problem.serious for problem in progress.look().problems)


def test_an_engine_that_died_or_is_gone_is_a_problem_until_another_one_serves(
    study_factory: StudyFactory, clock: Clock
) -> None:
    progress = Progress(study_factory(MODEL), clock=clock)
    serve(ended(NOW, "the engine for tiny died: no memory"), began=NOW - 200)
    assert "the engine for tiny died: no memory" in {problem.text for problem in progress.look().problems}
    serve(began=NOW - 150, at=NOW - 100)
    assert "the engine for tiny is gone; look at its log" in {problem.text for problem in progress.look().problems}
    serve(host="node2", began=NOW + 1)
    assert not any(problem.serious for problem in progress.look().problems)
