import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.errors import JournalError, ParleyError, RecordError, UsageError
from parley.play.journal import Journal
from parley.play.record import read_record, read_summary
from parley.play.replay import replay
from parley.play.runner import play
from parley.play.simulate import simulate
from parley.policies import Ask, Completion
from parley.policies.kinds import ScriptedPolicy
from parley.study import Study
from parley.study.condition import Simulation
from support.answering import ENGINE, record_with_model, standing_in
from support.hearing import heard
from support.playing import RULES
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"n": 4, "b": 1, "byzantine": "random"}, seeds=2, parameters={"max_rounds": 3})


@pytest.fixture
def first(study: Study) -> Simulation:
    return next(study.simulations())


def run(study: Study, record: Path, endpoint: Path | None = None) -> list[str]:
    with heard() as said:
        simulate(study, record, [endpoint] if endpoint else [], 1.0)
    return said


def play_until(simulation: Simulation, journal: Path, round_number: int) -> int:
    """Play with a journal and die in the given round; return the number of replies that were kept."""

    class Death(Exception):  # noqa: N818
        pass

    class Mortal(ScriptedPolicy):
        async def answer(self, ask, seed, attempt):  # type: ignore[no-untyped-def]
            if ask.round == round_number:
                raise Death
            return await super().answer(ask, seed, attempt)

    game = simulation.game()
    policies = {name: Mortal(RULES[player.label]) for name, player in simulation.players(game).items()}
    opened = Journal(journal, simulation.id)
    with opened, pytest.raises(Death):
        play(simulation.id, game, policies, opened)
    return len(opened.entries)


def test_a_simulation_becomes_a_record_and_is_told_phase_by_phase(study: Study, first: Simulation) -> None:
    record = first.record("small")
    said = run(study, record)
    assert said[:2] == [f"round 1 {phase}: 4 replies, 0 unusable, 0 tokens" for phase in ("propose", "vote")]
    summary = read_summary(record)
    assert summary.outcome["name"] in said[-1]
    assert f"after {summary.outcome['rounds']} rounds" in said[-1]
    assert summary.simulation["id"] == first.id
    players = {group["role"]: group["player"] for group in summary.simulation["groups"]}
    assert players == {"honest": "majority", "byzantine": "random"}
    assert replay(record).difference is None
    assert os.listdir(record.parent) == [record.name]
    assert not paths.journal(record).exists()
    found = summary.provenance
    assert {"parley", "python", "packages", "git", "machine", "started", "ended"} < set(found)
    assert found["engines"] == {}
    assert found["started"] <= found["ended"]
    assert str(Path.cwd()) not in str(found)  # no folder, and so no user


def test_a_finished_simulation_is_left_alone_and_a_deleted_record_brought_back(
    study: Study, first: Simulation
) -> None:
    record = first.record("small")
    run(study, record)
    before = (record.read_bytes(), record.stat().st_mtime_ns)
    assert run(study, record) == [f"{record}: finished before"]
    assert (record.read_bytes(), record.stat().st_mtime_ns) == before
    record.unlink()  # as Snakemake does with a whole shard when one of its jobs fails
    assert run(study, record) == [f"{record}: finished before"]
    assert record.read_bytes() == before[0]


def lost(record: Path) -> Path:
    """Delete a record under both its names; return where its journal is."""
    record.unlink()
    paths.kept_record(record).unlink()
    return paths.journal(record)


def test_a_simulation_that_died_goes_on_from_its_journal_or_anew_without_it(study: Study, first: Simulation) -> None:
    record = first.record("small")
    run(study, record)
    digest, entries = read_summary(record).digest, len(read_record(record)[1])
    for round_number, is_there in ((1, True), (2, True), (2, False)):
        journal = lost(record)
        kept = play_until(first, journal, round_number)
        assert kept == 8 * (round_number - 1)
        if not is_there:
            journal.unlink()
        said = [line for line in run(study, record) if "journal" in line]
        assert said == ([f"going on from the journal: {kept} replies"] if kept and is_there else [])
        assert read_summary(record).digest == digest
        assert len(read_record(record)[1]) == entries


def test_a_simulation_that_is_being_played_is_not_played_twice(
    study: Study, first: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.play.simulate._LOCK_PATIENCE", 0.1)
    record = first.record("small")
    with Journal(paths.journal(record), first.id), pytest.raises(JournalError, match="another process is playing"):
        run(study, record)
    assert not record.exists()
    run(study, record)
    assert record.exists()


def test_a_journal_survives_a_record_that_cannot_be_written(
    study: Study, first: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = first.record("small")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(RecordError, match="cannot be written"):
            run(study, record)
    assert os.listdir(record.parent) == []
    said = run(study, record)
    assert said[0].startswith("going on from the journal: ")
    assert record.exists()


def test_a_simulation_whose_journal_is_cut_anywhere_goes_on(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # nothing dies here but a file
    study = study_factory({"model": "random", "n": 1}, parameters={"max_rounds": 1})
    simulation = next(study.simulations())
    record, journal = simulation.record("small"), paths.journal(simulation.record("small"))
    with monkeypatch.context() as patch:
        patch.setattr("parley.play.simulate.retire", lambda record: None)  # its journal stays
        run(study, record)
    digest, content = read_summary(record).digest, journal.read_bytes()
    asked = count_calls(monkeypatch)
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for cut in sorted({*range(0, len(content), 101), *ends, *(end - 1 for end in ends)}):
        record.unlink()
        paths.kept_record(record).unlink(missing_ok=True)
        journal.write_bytes(content[:cut])
        asked.clear()
        run(study, record)
        assert read_summary(record).digest == digest
        assert len(asked) == 2 - max(content[:cut].count(b"\n") - 1, 0)
        assert not journal.exists()


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Return the list to which every call of a scripted policy is added from now on."""
    asked: list[tuple[int, str]] = []
    answer = ScriptedPolicy.answer

    async def counted(self: ScriptedPolicy, ask: Ask, seed: int, attempt: int) -> Completion:
        asked.append((ask.round, ask.phase))
        return await answer(self, ask, seed, attempt)

    monkeypatch.setattr(ScriptedPolicy, "answer", counted)
    return asked


def test_a_clock_that_jumps_backwards_changes_times_alone(
    study: Study, first: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = first.record("small")
    run(study, record)
    digest, outcome = read_summary(record).digest, read_summary(record).outcome
    journal = lost(record)
    day = 86_400.0
    clock = iter(range(1, 1_000_000))
    # Each call is a day earlier than the last, back to before 1970; a simulation that died goes on in its own past.
    monkeypatch.setattr(time, "time", lambda: 10 * day - next(clock) * day)
    play_until(first, journal, 2)
    run(study, record)
    summary = read_summary(record)
    assert (summary.digest, summary.outcome) == (digest, outcome)
    assert summary.telemetry["request_seconds"] >= 0  # durations have a clock of their own
    started = pq.read_table(record, partitioning=None).column("started").to_pylist()
    assert started == sorted(started, reverse=True)
    assert started[-1].year < 1970
    assert replay(record).difference is None


def test_what_lies_in_the_place_of_a_record_is_named_and_not_replaced(study: Study, first: Simulation) -> None:
    record = first.record("small")
    run(study, record)
    other = record.with_name("seed=1.parquet")
    whole = record.read_bytes()
    for content, words in [
        (b"", r"cut short or not Parquet"),
        (b"half a record", r"cut short or not Parquet"),
        (whole, "holds another simulation; move it away"),
    ]:
        other.write_bytes(content)
        with pytest.raises(RecordError, match=rf"seed=1\.parquet: {words}"):
            run(study, other)
        assert other.read_bytes() == content
    with pytest.raises(UsageError, match="not a simulation of"):
        run(study, Path("results/small/simulations/x/seed=0.parquet"))


def test_a_model_needs_an_engine(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"})
    record = next(study.simulations()).record("small")
    for endpoint, words in [(None, "needs an engine for tiny"), (Path("no.json"), "no endpoint file")]:
        with pytest.raises(ParleyError, match=words):
            run(study, record, endpoint)
        assert not record.exists()


def test_names_of_the_study_do_not_change_what_is_said(study_factory: StudyFactory) -> None:
    digests = []
    for name in ("small", "other"):
        study = study_factory({"model": "random"}, name=name, parameters={"max_rounds": 3})
        record = next(study.simulations()).record(name)
        simulate(study, record, [], 1.0)
        digests.append(read_summary(record).digest)
    assert digests[0] == digests[1]


def test_a_model_answers_over_http_and_its_engine_is_told_and_recorded(
    study_factory: StudyFactory, tmp_path: Path
) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    simulation = next(study.simulations())
    record = simulation.record("small")
    with standing_in(tmp_path) as (endpoint, _):
        said = run(study, record, endpoint)
    assert "warning: tiny: evidence and no proof" in said
    at_once = study.shard_size * len(simulation.game().seats)
    assert read_summary(record).provenance["engines"] == {"tiny": {**ENGINE, "requests_at_once": at_once}}
    expected = record_with_model(simulation, tmp_path / "expected.parquet")
    assert read_summary(record).digest == read_summary(expected).digest
