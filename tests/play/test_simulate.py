import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley import paths
from parley.errors import RecordError, UsageError
from parley.play.journal import Journal
from parley.play.record import read_record, read_summary
from parley.play.replay import replay
from parley.play.runner import play
from parley.play.simulate import simulate
from parley.policies.kinds import ScriptedPolicy
from parley.study import Study
from parley.study.condition import Simulation
from support.answering import ENGINE, record_with_model, standing_in
from support.commands import heard
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
    policies = {name: Mortal(RULES[player.label]) for name, player in simulation.players.items()}
    opened = Journal(journal, simulation.id)
    with opened, pytest.raises(Death):
        play(simulation.id, game, policies, opened)
    return len(opened.entries)


@pytest.mark.slow
def test_a_process_that_plays_one_game_imports_no_scipy(study: Study, first: Simulation) -> None:
    modules = "{'scipy', 'httpx'} & {*sys.modules}"
    code = f"import sys; from parley.cli import main; import parley.engine.client; main(); print({modules})"
    command = [sys.executable, "-c", code, "simulate", str(study.file), str(first.record("small"))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("\nset()\n")


def test_a_simulation_becomes_a_record(study: Study, first: Simulation) -> None:
    record = first.record("small")
    said = run(study, record)
    summary = read_summary(record)
    assert summary.outcome["name"] in said[-1]
    assert summary.simulation["id"] == first.id
    assert replay(record).difference is None
    assert os.listdir(record.parent) == [record.name]
    assert not paths.journal(record).exists()
    found = summary.provenance
    assert {"parley", "python", "packages", "git", "machine", "started", "ended"} < set(found)
    assert str(Path.cwd()) not in str(found)  # no folder, and so no user


def test_a_finished_simulation_is_left_alone_and_a_deleted_record_brought_back(
    study: Study, first: Simulation
) -> None:
    record = first.record("small")
    run(study, record)
    before = (record.read_bytes(), record.stat().st_mtime_ns)
    assert run(study, record) == [f"{record}: finished before"]
    assert (record.read_bytes(), record.stat().st_mtime_ns) == before


@pytest.mark.promise("A simulation that died goes on from its journal.")
def test_a_simulation_that_died_goes_on_from_its_journal_or_anew_without_it(study: Study, first: Simulation) -> None:
    record = first.record("small")
    run(study, record)
    digest, entries = read_summary(record).digest, len(read_record(record)[1])
    journal = paths.journal(record)
    for round_number, is_there in ((1, True), (2, True), (2, False)):
        record.unlink()
        kept = play_until(first, journal, round_number)
        assert kept == 8 * (round_number - 1)
        if not is_there:
            journal.unlink()
        said = [line for line in run(study, record) if "journal" in line]
        assert said == ([f"going on from the journal: {kept} replies"] if kept and is_there else [])
        assert read_summary(record).digest == digest
        assert len(read_record(record)[1]) == entries


def test_what_lies_in_the_place_of_a_record_is_named_and_not_replaced(study: Study, first: Simulation) -> None:
    record = first.record("small")
    run(study, record)
    other = record.with_name("seed=1.parquet")
    whole = record.read_bytes()
    for content, words in [
        (b"half a record", r"cut short or not Parquet"),
        (whole, "holds another simulation; move it away"),
    ]:
        other.write_bytes(content)
        with pytest.raises(RecordError, match=rf"seed=1\.parquet: {words}"):
            run(study, other)
        assert other.read_bytes() == content
    with pytest.raises(UsageError, match="not a simulation of"):
        run(study, Path("results/small/simulations/x/seed=0.parquet"))


def test_a_model_answers_over_http_and_its_engine_is_told_and_recorded(
    study_factory: StudyFactory, tmp_path: Path
) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    simulation = next(study.simulations())
    record = simulation.record("small")
    with standing_in(tmp_path) as (endpoint, _):
        said = run(study, record, endpoint)
    assert "warning: tiny: evidence and no proof" in said
    at_once = study.content.shard_size * len(simulation.game().seats)
    assert read_summary(record).provenance["engines"] == {"tiny": {**ENGINE, "requests_at_once": at_once}}
    expected = record_with_model(simulation, tmp_path / "expected.parquet")
    assert read_summary(record).digest == read_summary(expected).digest
