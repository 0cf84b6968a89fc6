"""Progress from files that are made here: records, journals and logs, with a clock that is passed in."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parley import paths
from parley.play.journal import Entry, Journal
from parley.progress.follow import Progress
from parley.progress.lines import facts
from parley.progress.state import Snapshot
from parley.study import Study
from parley.study.condition import Simulation
from support.studies import StudyFactory

MODEL = {"model": "tiny", "n": 2, "b": 0}
NOW = 1_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

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


def reply(number: int, came: float, agent: int = 1, tokens: int | None = 100) -> Entry:
    return Entry(number, "propose", f"agent_{agent}", 0, 7, "ask", "x", "stop", tokens, tokens, None, came - 2, 2.0)


def records(study: Study) -> list[Path]:
    return [simulation.record(study.name) for simulation in study.simulations()]


def touch(path: Path, at: float, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def finish(record: Path, at: float) -> None:
    """Make what stands for a record; those of scripted simulations are never opened."""
    os.utime(touch(record, at).parent, (at, at))


def journal(simulation: Simulation) -> Journal:
    return Journal(paths.journal(simulation.record("small")), simulation.id)


def log_of(simulation: Simulation, text: str, at: float) -> None:
    condition = simulation.condition
    touch(
        paths.log("small", "simulate", condition.name, f"spec={condition.spec}", f"seed={simulation.seed}"), at, text
    )


def counts(snapshot: Snapshot) -> tuple[int, int, int, int]:
    return (snapshot.finished, snapshot.running, snapshot.begun, snapshot.total)


def state(snapshot: Snapshot, stage: str) -> str:
    return {each.name: each.state for each in snapshot.stages}[stage]


# What is counted


def test_a_study_of_which_nothing_is_played_now(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory({}, MODEL, seeds=3)
    folder = records(study)[0].parent
    for name in ("seed=7.parquet", ".seed=0.parquet.12.tmp", "notes.txt"):  # not of the study
        finish(folder / name, NOW)
    for finished in (0, 1):
        snapshot = Progress(study, clock=clock).look()
        assert counts(snapshot) == (finished, 0, 0, 6)
        assert (snapshot.rates, snapshot.finishes, snapshot.left, snapshot.silent) == (None,) * 4
        assert (snapshot.idle, snapshot.over, snapshot.problems) == (True, False, [])
        finish(folder / "seed=0.parquet", NOW - 90)


def test_scripted_records_count_as_they_appear_without_journals(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory({"n": [3, 4]}, seeds=10)
    progress = Progress(study, since=NOW, clock=clock)
    assert counts(progress.look()) == (0, 0, 0, 20)
    for second, record in enumerate(records(study)[:5], start=1):
        finish(record, NOW + second)
        clock.now = NOW + second
        snapshot = progress.look()
        assert snapshot.finished == second
    assert snapshot.finishes == pytest.approx(5 / 4)  # since the first one
    assert snapshot.left is not None
    assert snapshot.left.seconds == pytest.approx(15 / (5 / 4))
    assert snapshot.rates is None
    assert snapshot.answered == (0, 0)


def test_a_journal_that_nobody_has_open_is_no_simulation_that_runs(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [simulation] = study.simulations()
    progress = Progress(study, clock=clock)
    with journal(simulation) as written:
        written.append(reply(1, NOW - 1000))
        assert counts(progress.look()) == (0, 1, 0, 1)
    clock.now += 5
    assert counts(progress.look()) == (0, 1, 0, 1)  # not looked at again yet
    clock.now += 10
    assert counts(progress.look()) == (0, 0, 1, 1)
    with journal(simulation):
        assert counts(progress.look(last=True)) == (0, 1, 0, 1)


def test_what_a_record_says_replaces_what_its_journal_said(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    study = study_factory(MODEL)
    [simulation] = study.simulations()
    records_tell(calls=5, failed=2)
    progress = Progress(study, since=NOW - 10, clock=clock)
    with journal(simulation) as written:
        written.append(reply(1, NOW - 1))
        log_of(simulation, "round 1 propose: 1 replies, 1 unusable, 9 tokens\n", NOW - 1)
        assert progress.look().answered == (1, 1)
        finish(simulation.record("small"), NOW)
    snapshot = progress.look()
    assert snapshot.answered == (5, 2)
    assert counts(snapshot) == (1, 0, 0, 1)
    assert snapshot.rates is None  # nothing is left


def test_a_look_reads_no_more_than_it_may(study_factory: StudyFactory, clock: Clock, records_tell: Records) -> None:
    study = study_factory(MODEL, seeds=5)
    records_tell(calls=10)
    for record in records(study):
        finish(record, NOW - 5000)
    progress = Progress(study, clock=clock, reads=2)
    assert [progress.look().answered[0] for _ in range(4)] == [20, 40, 50, 50]


# Speed


def test_replies_of_running_simulations_give_the_speed(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    first, _ = study.simulations()
    progress = Progress(study, since=NOW - 20, clock=clock)
    with journal(first) as written:
        for agent in (1, 2):
            written.append(reply(1, NOW - 8, agent))
        snapshot = progress.look()
        assert counts(snapshot) == (0, 1, 0, 2)
        assert snapshot.answered == (2, 0)
        assert snapshot.rates == pytest.approx((2 / 10, 200 / 10, 200 / 10))  # since the first was asked
        clock.now = NOW + 30
        assert progress.look().silent == pytest.approx(30)  # it was first seen to play at NOW
        written.append(reply(2, NOW + 39))
        clock.now = NOW + 40
        snapshot = progress.look()
        assert snapshot.silent == pytest.approx(1)
        assert snapshot.answered == (3, 0)


def test_tokens_that_nobody_told_are_not_0_per_second(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    with journal(next(study.simulations())) as written:
        written.append(reply(1, NOW, tokens=None))
        snapshot = Progress(study, since=NOW - 5, clock=clock).look()
    words = " ".join(facts(snapshot))
    assert "replies/s" in words
    assert "tokens" not in words
    assert "200 tokens/s" in facts(dataclasses.replace(snapshot, rates=(1.0, 200.0, 0.0)))


def test_replies_of_the_run_before_do_not_count_for_the_speed(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    progress = Progress(study, since=NOW - 10, clock=clock)
    with journal(next(study.simulations())) as written:
        for agent in range(1, 31):
            written.append(reply(1, NOW - 60, agent))
        snapshot = progress.look()
        assert snapshot.answered == (30, 0)
        assert (snapshot.rates, snapshot.left) == (None, None)
        written.append(reply(2, NOW - 1))
        assert progress.look().rates == pytest.approx((1 / 3, 100 / 3, 100 / 3))


# Time left


@pytest.mark.promise("The time left follows from the longest or the usual games.")
def test_the_time_left_is_that_of_the_longest_or_of_usual_games(
    study_factory: StudyFactory, clock: Clock, records_tell: Records
) -> None:
    study = study_factory(MODEL, seeds=3, parameters={"max_rounds": 5})
    first, second, _ = study.simulations()
    progress = Progress(study, since=NOW - 10, clock=clock)
    progress.look()
    with journal(second) as written:
        written.append(reply(1, NOW - 8, agent=1))
        written.append(reply(1, NOW - 8, agent=2))
        longest = progress.look().left
        records_tell(6)
        finish(first.record("small"), NOW)
        usual = progress.look().left
    assert longest is not None
    assert usual is not None
    # Three games of five rounds of two replies, of which two came in ten seconds; then games of six replies.
    assert (longest.bound, longest.seconds) == ("at most", pytest.approx((3 * 10 - 2) / 0.2))
    assert (usual.bound, usual.seconds) == ("about", pytest.approx((6 - 2 + 6) / (8 / 10)))


# Problems


WAIT = "the service for tiny answered 503: down; trying again in {} s\n"


def test_a_service_that_does_not_answer_is_told_until_it_does(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL, seeds=2)
    first, second = study.simulations()
    progress = Progress(study, since=NOW - 100, clock=clock)
    with journal(first) as one, journal(second) as two:
        for simulation, pause in ((first, 4), (second, 31)):
            log_of(simulation, WAIT.format(pause), clock.now)
        [problem] = progress.look().problems
        assert problem.serious
        assert problem.simulations == 2
        clock.now += 70
        [problem] = progress.look().problems
        assert str(problem) == "2 simulations, for 1 min 10 s: the service for tiny answered 503: down; trying again"
        one.append(reply(1, clock.now))
        [problem] = progress.look().problems
        assert problem.simulations == 1
        two.append(reply(1, clock.now))
        assert progress.look().problems == []


def test_a_simulation_that_died_says_why_until_it_is_played_again(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(MODEL)
    [simulation] = study.simulations()
    with journal(simulation):
        pass
    log_of(simulation, "going on\nparley: the engine for tiny died: \x1b[31mboom\n", NOW)
    progress = Progress(study, clock=clock)
    [problem] = progress.look().problems
    assert str(problem) == "1 simulation stopped: the engine for tiny died: [31mboom"
    with journal(simulation):
        log_of(simulation, "waiting for the engine for tiny, 20 s\n", NOW)
        assert progress.look(last=True).problems == []


# Stages


def test_a_run_that_ends_early_says_so_in_its_last_look(study_factory: StudyFactory, clock: Clock) -> None:
    study = study_factory(seeds=3)
    progress = Progress(study, since=NOW, clock=clock)
    progress.look()
    finish(records(study)[0], NOW + 1)
    touch(paths.log("small", "figures"), NOW + 1)  # whose process was killed
    clock.now += 4
    now, ended = (progress.look(last) for last in (False, True))
    for stage in ("playing", "figures"):
        assert (state(now, stage), state(ended, stage)) == ("running", "failed")
    assert (ended.rates, ended.finishes, ended.left) == (None, None, None)
