import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.errors import RecordError
from parley.games.consensus.game import ConsensusGame
from parley.play.record import read_summary, write_record
from parley.play.replay import replay
from parley.policies import Ask, Completion
from support.answering import record_with_model
from support.playing import ListPolicy, play_of
from support.records import Meta, Rows, forge
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A replay gives the identical digest, without the study; altered records are found.")

Replayed = Callable[..., str | None]


@pytest.fixture
def path(study_factory: StudyFactory) -> Path:
    """A record with retries, silence and a Byzantine agent."""
    study = study_factory(
        {"n": 4, "b": 1, "byzantine": "random"}, parameters={"max_rounds": 3, "stop_threshold": 1}, seeds=2
    )
    simulation = list(study.simulations())[1]
    path = simulation.record("small")
    write_record(path, simulation, play_of(simulation, ListPolicy("no", '{"decision": "stop"}')), {})
    return path


@pytest.fixture
def difference(path: Path) -> Replayed:
    """What a replay of the record finds after its rows or its metadata were changed, with checksums that are right."""
    whole = path.read_bytes()

    def found(rows: Rows | None = None, meta: Meta | None = None) -> str | None:
        path.write_bytes(whole)
        return replay(forge(path, rows, meta)).difference

    return found


def test_a_replay_is_identical_and_needs_no_study(path: Path, difference: Replayed) -> None:
    for name in ("small.yaml", "models.yaml"):
        Path(name).unlink()
    result = replay(path)
    assert result.difference is None
    assert result.summary == read_summary(path)
    assert difference() is None


def test_a_long_text_of_an_own_server_is_cut_and_one_under_the_former_grammar_is_not(
    study_factory: StudyFactory,
) -> None:
    class Verbose:
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            proposal = {"internal_strategy": "x" * 500, "value": 3, "public_reasoning": ""}
            return Completion(json.dumps(proposal if ask.phase == "propose" else {"decision": "stop"}), "stop")

    found = []
    for entry in ({}, {"grammar": 1}):
        models = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}, **entry}}
        study = study_factory({"n": 2, "model": "tiny"}, models=models, parameters={"max_rounds": 1})
        simulation = next(study.simulations())
        path = record_with_model(simulation, policy=Verbose())
        assert replay(path).difference is None
        found.append(set(pq.read_table(path)["failure"].to_pylist()))
    assert found == [{None}, {None, "out_of_range"}]


def row_of(rows: list[dict[str, Any]], **key: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[name] == value for name, value in key.items()))


def test_altered_replies_and_questions_are_detected(difference: Replayed) -> None:
    def alter(rows: list[dict[str, Any]]) -> None:
        row = row_of(rows, agent="agent_2", round=1, phase="propose")
        row["text"] = json.dumps({**json.loads(row["text"]), "value": 50 - json.loads(row["text"])["value"]})

    vote = {"round": 2, "phase": "vote", "agent": "agent_3"}
    place = "round 2, vote, agent_3, attempt 0: "
    digests = "the content digests differ"
    rows: list[tuple[Rows, str]] = [
        (alter, ""),
        (lambda rows: rows[-1].update(text=rows[-1]["text"] + " "), digests),  # which changes nothing
        (lambda rows: row_of(rows, **vote).update(request_seed=1), f"{place}another question was recorded"),
        (lambda rows: row_of(rows, **vote).update(ask="0" * 64), f"{place}another question was recorded"),
        (lambda rows: rows.remove(row_of(rows, **vote)), f"{place}the record has no such reply"),
        (lambda rows: rows.append({**rows[-1], "round": 9}), "replies recorded"),
    ]
    for number, (change, words) in enumerate(rows):
        found = difference(change)
        assert found is not None, number
        assert words in found


def test_altered_metadata_is_detected(path: Path, difference: Replayed) -> None:
    """The tables are made from the recorded outcome, so a replay has to look at it."""
    assert read_summary(path).outcome["name"] != "no_consensus"
    parameters = [{"max_rounds": 2}, {"stop_threshold": "1/4"}, {"history_rounds": 0}, {"value_max": 49}]
    changes: list[Meta] = [
        lambda meta: meta.update(digest="0" * 64),
        lambda meta: meta["outcome"].update(name="no_consensus", finished_early=False),
        *(lambda meta, p=p: meta["simulation"]["parameters"].update(p) for p in parameters),  # type: ignore[misc]
        lambda meta: meta["simulation"].update(seed=0),
        lambda meta: meta["simulation"].update(prompt="none_exist"),
    ]
    for number, change in enumerate(changes):
        assert difference(meta=change) is not None, number


def test_a_record_of_another_protocol_version_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsensusGame, "protocol_version", 99)
    with pytest.raises(RecordError, match=rf"{path}: .*version 2 of the consensus game, this is 99"):
        replay(path)
