"""Progress from files that are made here: records and states of processes, with a clock that is passed in."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from parley import paths
from parley.files import mark_done
from parley.progress.follow import IDLE, Progress
from parley.progress.snapshot import Snapshot, Stage
from parley.progress.state import PLAY, RUN, SERVE
from parley.study.condition import SERVICES
from support.records import write_events
from support.studies import StudyFactory, records_of

MODEL = {"model": "tiny", "n": 2, "b": 0}
NOW = 1_000_000.0
FOLDER = paths.processes(paths.results("small"))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Records = Callable[..., None]


@pytest.fixture
def records_tell(monkeypatch: pytest.MonkeyPatch) -> Records:
    """Have all records tell the same of their replies."""

    def tell(calls: int, failed: int = 0) -> None:
        telemetry = {"calls": calls, "failed_replies": failed, "prompt_tokens": 10 * calls, "completion_tokens": calls}
        summary = type("Summary", (), {"telemetry": telemetry})
        monkeypatch.setattr("parley.progress.follow.peek_summary", lambda path: summary)

    return tell


def touch(path: Path, at: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))
    return path


def finish(record: Path, at: float) -> None:
    """Make what stands for a record; those of scripted simulations are never opened."""
    os.utime(touch(record, at).parent, (at, at))


def played(
    record: Path,
    replies: Sequence[float] = (),
    at: float = NOW,
    host: str = "node1",
    unusable: int = 0,
    waits_for: str = "",
    error: str = "",
    engine: str = "tiny",
) -> Path:
    """Have a process tell that it plays a simulation, of which these replies came, each asked two seconds before."""
    events: list[dict[str, object]] = [{"event": "plays", "game": str(record), "engine": engine}]
    events += [reply(record, came, number < unusable) for number, came in enumerate(replies)]
    if waits_for:
        events.append({"event": "waits", "game": str(record), "text": waits_for, "serious": True})
    if error:
        events.append({"event": "played", "game": str(record), "error": error})
    return write_events(FOLDER, PLAY, *events, host=host, pid=1, began=at, at=at)


def reply(record: Path, came: float, failed: bool = False) -> dict[str, object]:
    about = {"event": "reply", "game": str(record), "round": 1, "failed": failed}
    return {**about, "at": came, "asked": came - 2, "came": came, "read": 100, "written": 100}


def tell_more(path: Path, *events: dict[str, object]) -> None:
    """Append to what a process told."""
    with path.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def ended(at: float, error: str = "") -> dict[str, object]:
    return {"event": "ended", "at": at, "error": error}


def counts(snapshot: Snapshot) -> tuple[int, int, int]:
    return (snapshot.finished, snapshot.running, snapshot.total)


def stage_of(snapshot: Snapshot, name: str) -> Stage:
    return next(stage for stage in snapshot.stages if stage.name == name)


# What is counted


def test_a_study_of_which_nothing_is_played_now(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    study = study_factory({}, MODEL, seeds=3)
    records_tell(calls=0)
    folder = records_of(study)[0].parent
    for name in ("seed=7.parquet", ".seed=0.parquet.12.tmp", "notes.txt"):  # not of the study
        finish(folder / name, NOW)
    for finished in (0, 1):
        snapshot = Progress(study, clock=clock).look()
        assert counts(snapshot) == (finished, 0, 6)
        assert (snapshot.rates, snapshot.finishes, snapshot.left, snapshot.silent) == (None,) * 4
        assert (snapshot.note, snapshot.over, snapshot.problems) == (IDLE, False, [])
        finish(folder / "seed=0.parquet", NOW - 90)


def test_scripted_records_count_as_they_appear_without_journals(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory({"n": [3, 4]}, seeds=10)
    progress = Progress(study, since=NOW, clock=clock)
    assert counts(progress.look()) == (0, 0, 20)
    for second, record in enumerate(records_of(study)[:5], start=1):
        finish(record, NOW + second)
        clock.now = NOW + second
        snapshot = progress.look()
        assert snapshot.finished == second
    assert snapshot.finishes == pytest.approx(5 / 4)  # since the first one
    assert snapshot.left is not None
    assert snapshot.left.seconds == pytest.approx(15 / (5 / 4))
    assert snapshot.rates is None
    assert snapshot.answered == (0, 0)


def test_a_simulation_whose_process_is_gone_is_not_running(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [record] = records_of(study)
    progress = Progress(study, clock=clock)
    played(record)
    assert counts(progress.look()) == (0, 1, 1)
    clock.now += 70  # without a sign of life
    assert counts(progress.look()) == (0, 0, 1)
    played(record, at=clock.now)
    assert counts(progress.look(last=True)) == (0, 1, 1)


def test_what_a_record_says_replaces_what_its_process_said(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    study = study_factory(MODEL)
    [record] = records_of(study)
    records_tell(calls=5, failed=2)
    progress = Progress(study, since=NOW - 10, clock=clock)
    process = played(record, [NOW - 1], unusable=1)
    assert progress.look().answered == (1, 1)
    process.unlink()
    finish(record, NOW)
    for _ in range(2):
        snapshot = progress.look()
        assert snapshot.answered == (5, 2)
        assert counts(snapshot) == (1, 0, 1)
        assert snapshot.rates is None  # nothing is left
        played(record, [NOW - 1])  # by a process that was killed, before another one went on


def test_what_a_run_says_of_itself_is_told_while_nothing_is_played_or_always(
    study_factory: StudyFactory, clock: Clock
) -> None:
    study = study_factory(MODEL, seeds=2)
    for always in (False, True):
        note = {"event": "told", "note": "2 jobs sent", "always": always}
        write_events(FOLDER, RUN, note, host="node1", pid=2, began=NOW, at=NOW)
        assert Progress(study, clock=clock).look().note == "2 jobs sent"
        process = played(records_of(study)[0])
        assert Progress(study, clock=clock).look().note == ("2 jobs sent" if always else "")
        process.unlink()
    write_events(FOLDER, RUN, note | {"always": False}, host="node1", pid=2, began=NOW, at=NOW)
    for record in records_of(study):
        finish(record, NOW)
    assert Progress(study, clock=clock).look().note == ""  # all is played: a job may make the tables


def test_a_look_reads_no_more_than_it_may(study_factory: StudyFactory, clock: Clock, records_tell: Records) -> None:
    study = study_factory(MODEL, seeds=5)
    records_tell(calls=10)
    for record in records_of(study):
        finish(record, NOW - 5000)
    progress = Progress(study, clock=clock, reads=2)
    assert [progress.look().answered[0] for _ in range(4)] == [20, 40, 50, 50]


# Speed


def test_replies_of_running_simulations_give_the_speed(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    first, _ = records_of(study)
    progress = Progress(study, since=NOW - 20, clock=clock)
    process = played(first, [NOW - 8, NOW - 7])
    snapshot = progress.look()
    assert counts(snapshot) == (0, 1, 2)
    assert snapshot.answered == (2, 0)
    assert snapshot.rates == pytest.approx((2 / 10, 200 / 10, 200 / 10))  # since the first was asked
    clock.now = NOW + 30
    assert progress.look().silent == pytest.approx(30)  # it has played since NOW
    tell_more(process, reply(first, NOW + 39))
    clock.now = NOW + 40
    snapshot = progress.look()
    assert snapshot.silent == pytest.approx(1)
    assert snapshot.answered == (3, 0)
    assert snapshot.rates == pytest.approx((3 / 50, 300 / 50, 300 / 50))


def test_replies_of_a_shard_count_once_by_its_process_or_by_its_records(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    models = {"tiny": {"source": {"url": "http://127.0.0.1:9/v1", "served": "x"}}}
    study = study_factory(MODEL, seeds=2, models=models)
    first, second = records_of(study)
    records_tell(calls=2)
    finish(first, NOW - 1)
    process = played(first, [NOW - 9, NOW - 8], at=NOW - 20, engine=SERVICES)
    plays = {"event": "plays", "game": str(second), "engine": SERVICES}
    tell_more(process, {"event": "played", "game": str(first), "error": ""}, plays, reply(second, NOW - 7))
    os.utime(process, (NOW, NOW))
    assert Progress(study, since=NOW - 30, clock=clock).look().rates == pytest.approx((3 / 11, 300 / 11, 300 / 11))
    process.unlink()
    assert Progress(study, since=NOW - 30, clock=clock).look().rates == pytest.approx((2 / 1, 20 / 1, 2 / 1))


def test_replies_of_the_run_before_do_not_count_for_the_speed(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    progress = Progress(study, since=NOW - 10, clock=clock)
    before = [NOW - 60 - number for number in range(30)]
    played(records_of(study)[0], before)
    snapshot = progress.look()
    assert snapshot.answered == (30, 0)
    assert (snapshot.rates, snapshot.left) == (None, None)
    played(records_of(study)[0], [*before, NOW - 1], at=NOW + 1)
    assert progress.look().rates == pytest.approx((1 / 3, 100 / 3, 100 / 3))


# Time left


@pytest.mark.promise("The time left is a range, from games that ended to ones that may last longer.")
def test_the_time_left_is_from_that_of_usual_games_to_that_of_longer_ones(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    study = study_factory(MODEL, seeds=3, parameters={"max_rounds": 5})
    first, second, _ = records_of(study)
    progress = Progress(study, since=NOW - 10, clock=clock)
    progress.look()
    played(second, [NOW - 8, NOW - 7])
    unknown = progress.look().left
    records_tell(6)
    finish(first, NOW)
    usual = progress.look().left
    assert unknown is not None
    assert usual is not None
    # One round of two replies of a second game that has both, and of two games more; or five rounds of each.
    assert (unknown.seconds, unknown.most) == (pytest.approx((1 + 4) / 0.2), pytest.approx((10 - 2 + 20) / 0.2))
    assert str(unknown) == "1 min to 3 min left"
    # Then games of six replies, as one had; or of eight, the mean with one of ten.
    found = (6 - 2 + 6) / (8 / 10), (8 - 2 + 8) / (8 / 10)
    assert (usual.seconds, usual.most) == (pytest.approx(found[0]), pytest.approx(found[1]))


# Problems


def test_a_service_that_does_not_answer_is_told_until_it_does(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    progress = Progress(study, since=NOW - 100, clock=clock)
    wait = "the service for tiny answered 503: down after {} s; trying again"
    for number, record in enumerate(records_of(study)):
        played(record, host=f"node{number}", waits_for=wait.format(number))
    [problem] = progress.look().problems
    assert problem.serious
    assert problem.simulations == 2
    assert str(problem) == f"2 simulations: {wait.format(1)}"
    for number, record in enumerate(records_of(study)):
        played(record, host=f"node{number}", at=clock.now)
        left = progress.look().problems
        assert [problem.simulations for problem in left] == [1 - number] * (1 - number)


def test_a_simulation_that_failed_says_why_until_it_is_played_again(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [record] = records_of(study)
    progress = Progress(study, clock=clock)
    played(record, at=NOW - 90, error="the engine for tiny died: boom")
    [problem] = progress.look().problems
    assert str(problem) == "1 simulation stopped: the engine for tiny died: boom"
    played(record, host="node2")
    assert progress.look(last=True).problems == []


# Stages


def test_a_run_that_ends_early_says_so_in_its_last_look(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(seeds=3)
    progress = Progress(study, since=NOW, clock=clock)
    progress.look()
    finish(records_of(study)[0], NOW + 1)
    write_events(FOLDER, "figures", host="node1", began=NOW + 1, at=NOW + 1)
    clock.now += 4
    now, ended = (progress.look(last) for last in (False, True))
    assert [stage_of(now, stage).state for stage in ("playing", "figures")] == ["running"] * 2
    assert [stage_of(ended, stage).state for stage in ("playing", "figures")] == ["to do", "failed"]
    assert (now.note, ended.note) == ("", "the run ended; to do: playing, tables, figures, report, view")
    assert (ended.rates, ended.finishes, ended.left) == (None, None, None)


def test_a_stage_runs_as_long_as_its_process_and_ends_with_its_mark(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(seeds=1)
    progress = Progress(study, since=NOW, clock=clock)

    def tell(*events: dict[str, object], began: float = NOW + 1, at: float) -> None:
        write_events(FOLDER, "tables", *events, host="node1", began=began, at=at)

    def look(at: float) -> Stage:
        clock.now = at
        return stage_of(progress.look(), "tables")

    tell(ended(NOW - 40, "no"), began=NOW - 50, at=NOW)
    assert look(NOW) == Stage("tables", "to do")
    tell(at=NOW + 1)
    assert look(NOW + 5) == Stage("tables", "running", 4.0)
    assert look(NOW + 90) == Stage("tables", "failed")  # it was killed
    tell(ended(NOW + 7, "no"), at=NOW + 8)
    assert look(NOW + 91) == Stage("tables", "failed")
    tell(ended(NOW + 7), at=NOW + 9)  # by hand, of a part
    assert look(NOW + 92) == Stage("tables", "to do")
    mark_done("small", "tables", study.plan)
    tell(ended(NOW + 7), at=NOW + 9)
    assert look(NOW + 92) == Stage("tables", "done", 6.0)


def serve(*events: dict[str, object], host: str = "node1", began: float = NOW, at: float = NOW) -> Path:
    """Have a process tell that it serves a model, and warns of something."""
    about = {"model": "tiny", "endpoint": str(paths.endpoint("small", "tiny", 0, "tiny"))}
    slow = {"event": "warned", "text": "slow"}
    return write_events(FOLDER, SERVE, slow, *events, host=host, began=began, at=at, **about)


def test_an_engine_loads_until_its_server_says_so(study_factory: StudyFactory, clock: Clock) -> None:
    progress = Progress(study_factory(MODEL), since=NOW, clock=clock)

    def look(at: float) -> Stage:
        clock.now = at
        return stage_of(progress.look(), "engine tiny")

    server = serve()
    assert look(NOW + 12) == Stage("engine tiny", "running", 12.0)
    assert [str(problem) for problem in progress.look().problems] == ["slow"]
    tell_more(server, {"event": "loaded", "at": NOW + 30})
    done = Stage("engine tiny", "done", 30.0)
    assert look(NOW + 31) == done
    server.unlink()  # it is stopped
    assert look(NOW + 110) == done


def test_an_engine_that_died_or_is_gone_is_a_problem_until_another_one_serves(
    study_factory: StudyFactory, clock: Clock
) -> None:
    progress = Progress(study_factory(MODEL), since=NOW, clock=clock)
    serve(ended(NOW, "the engine for tiny died: no memory"))
    assert "the engine for tiny died: no memory" in map(str, progress.look().problems)
    progress = Progress(study_factory(MODEL), since=NOW, clock=clock)
    serve(at=NOW - 100)
    assert "the engine for tiny is gone; look at its log" in map(str, progress.look().problems)
    serve(host="node2", began=NOW + 1)
    assert not any(problem.serious for problem in progress.look().problems)
