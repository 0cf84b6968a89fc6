"""The ledger of a study that was played: a small scripted game that keeps one (tests/support/council.py)."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis.tables import read_table
from parley.errors import RecordError, UsageError
from parley.games.evidence import Session
from parley.identity import canonical_json
from parley.ledger.block import SignedUtterance
from parley.ledger.build import build, check_against_records, check_study
from parley.play.record import read_summary, read_trace
from parley.play.simulate import simulate
from parley.study import Study
from support.council import CouncilGame, recorded_study
from support.studies import StudyFactory

pytestmark = pytest.mark.usefixtures("council")


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return recorded_study(study_factory)


def stored(study: Study) -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.ledger(study.name).read_bytes().splitlines()]


def transcript(study: Study, index: int) -> tuple[Session, ...]:
    """Return what was said in one simulation, as the game tells it from the record."""
    record = list(study.simulations())[index].record(study.name)
    return tuple(CouncilGame.evidence.transcript(read_summary(record).outcome, read_trace(record)))


@pytest.mark.slow
def test_the_chain_has_the_sessions_of_all_simulations_in_the_order_of_the_study(study: Study) -> None:
    build(study)
    expected = [
        (simulation.id, number, list(session.agents), session.agreed)
        for index, simulation in enumerate(study.simulations())
        for number, session in enumerate(transcript(study, index))
    ]
    found = [
        (block["simulation"], block["session"], [agent["name"] for agent in block["agents"]], block["agreed"])
        for block in stored(study)
    ]
    assert found == expected
    assert {agreed for *_, agreed in found} == {True, False}
    assert {number for _, number, *_ in found} == {0, 1}


def test_what_was_said_is_on_the_chain_word_for_word(study: Study) -> None:
    build(study)
    said = [(u["round"], u["agent"], u["content"]) for block in stored(study) for u in block["utterances"]]
    sessions = [s for index in range(len(list(study.simulations()))) for s in transcript(study, index) if s.agreed]
    assert said == [(u.round, u.agent, u.content) for session in sessions for u in session.utterances]
    assert len(said) > 20


def test_the_same_records_give_the_same_bytes(study: Study) -> None:
    made = [paths.ledger("small"), paths.ledger_head(paths.ledger("small"))]
    made += [paths.table("small", "ledger", suffix) for suffix in (".parquet", ".csv")]
    build(study)
    before = [path.read_bytes() for path in made]
    for path in made:
        path.unlink()
    build(study)
    assert [path.read_bytes() for path in made] == before


def test_the_ledger_of_a_study_is_whole_and_that_of_its_records(study: Study) -> None:
    table = build(study)
    checker = check_against_records(study)
    assert (checker.blocks, checker.empty) == (len(table), int((~table["agreed"]).sum()))
    assert checker.utterances == int(table.loc[table["agreed"], "utterances"].sum())


def test_a_chain_of_other_words_is_not_that_of_the_records(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with all keys, as anyone can who knows the simulations: only the records tell."""
    plain = CouncilGame.evidence.transcript
    with monkeypatch.context() as patch:
        patch.setattr(
            CouncilGame.evidence, "transcript", lambda outcome, trace: plain({**outcome, "name": "another"}, trace)
        )
        build(study)
    assert check_study(study).blocks
    first = next(s for index, s in enumerate(study.simulations()) if transcript(study, index)[0].agreed)
    with pytest.raises(RecordError, match=rf"block 0: not what {first.record('small')}, session 0 gives"):
        check_against_records(study)


def test_a_chain_of_fewer_or_more_simulations_is_not_that_of_the_records(study: Study) -> None:
    build(study)
    chain = paths.ledger("small")
    lines = chain.read_bytes().splitlines(keepends=True)
    head = {"blocks": len(lines) - 1, "format": 2, "hash": json.loads(lines[-2])["hash"]}
    chain.write_bytes(b"".join(lines[:-1]))
    paths.ledger_head(chain).write_text(canonical_json(head) + "\n")
    with pytest.raises(RecordError, match=rf"ends before block {len(lines) - 1} \(results/small/.*parquet, session"):
        check_against_records(study)


def test_a_chain_without_its_head_is_told(study: Study) -> None:
    build(study)
    paths.ledger_head(paths.ledger("small")).unlink()
    with pytest.raises(RecordError, match=r"head\.json: missing: without it, .* \(parley ledger build\)"):
        check_study(study)


def test_a_changed_record_is_found(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    build(study)
    next(study.simulations()).record("small").unlink()
    with pytest.raises(RecordError, match="no such file"):
        check_against_records(study)
    with pytest.raises(RecordError, match="no such file"):
        build(study)


# The table


def test_the_table_has_a_row_per_block(study: Study) -> None:
    build(study)
    table = read_table("small", "ledger")
    lines = paths.ledger("small").read_bytes().splitlines(keepends=True)
    assert list(table["height"]) == list(range(len(lines)))
    assert list(table["block_bytes"]) == [len(line) for line in lines]
    blocks = stored(study)
    for column, key in {"hash": "hash", "nonce": "nonce", "utterances": "spoken", "agreed": "agreed"}.items():
        assert list(table[column]) == [block[key] for block in blocks]
    assert {"model", "n", "b", "prompt", "topology", "seed", "session", "agents", "rounds", "id"} <= set(table)


def test_the_table_counts_messages_over_the_network_of_the_simulation(study: Study) -> None:
    table = build(study)
    four = table[table["n"] == 4]
    each = four["announce_messages"] / four["utterances"]
    # Of four agents: 3 from the speaker; complete: 2 more from each of three; ring: 2, then 1 from each of three.
    assert set(each[four["topology"] == "complete"]) == {9.0}
    assert set(each[four["topology"] == "ring"]) == {5.0}
    assert (four["data_messages"] == 3 * four["utterances"]).all()
    assert (table["request_messages"] == table["data_messages"]).all()
    assert set(four.loc[four["topology"] == "ring", "hops"]) == {2}
    assert (table["unreached"] == 0).all()
    two_phases = four["announce_bytes"] + four["request_bytes"] + four["data_bytes"]
    assert (two_phases[four["topology"] == "complete"] < four.loc[four["topology"] == "complete", "flood_bytes"]).all()


def test_node_k_of_the_network_is_the_kth_agent_by_number(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a path of eleven agents, where an utterance of number k takes as many steps as the further end is away."""
    study = study_factory({"n": 11, "b": 0}, game="council", parameters={"max_rounds": 1, "topology": "path"})
    [simulation] = study.simulations()
    simulate(study, simulation.record("small"), [], 0.0)
    plain = CouncilGame.evidence.transcript

    def only(agent: str) -> pd.Series:
        def told(outcome: Any, trace: Any) -> list[Session]:
            [session] = plain(outcome, trace)
            said = tuple(u for u in session.utterances if u.agent == agent)
            return [Session(session.subject, session.agents, {}, said, session.agreed, {})]

        monkeypatch.setattr(CouncilGame.evidence, "transcript", told)
        return build(study).iloc[0]

    hops = {number: only(f"agent_{number}")["hops"] for number in range(1, 12)}
    assert hops == {number: max(number - 1, 11 - number) for number in range(1, 12)}


def test_a_study_of_which_nothing_is_told_has_an_empty_ledger(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CouncilGame.evidence, "transcript", lambda outcome, trace: ())
    assert build(study).empty
    assert check_against_records(study).blocks == 0
    assert list(read_table("small", "ledger").columns)[:2] == ["model", "n"]


# What cannot be chained


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda sessions: [sessions[0], sessions[0]], "session 1: cannot be chained: deliberated again"),
        (lambda sessions: [replaced(sessions[0], agents=("agent_1", "agent_99"))], "session 0: agent_99 did not play"),
        (lambda sessions: [replaced(sessions[0], agents=("agent_1",))], "takes no part"),
        (lambda sessions: [replaced(sessions[0], utterances=sessions[0].utterances * 2)], "cannot be chained: utter"),
        (lambda sessions: [replaced(sessions[0], verdict={"share": float("nan")})], "not JSON compliant"),
        (lambda sessions: sessions[0].no_such_thing, "tells of nothing that was said"),
    ],
)
def test_sessions_that_no_chain_can_hold_are_refused_in_one_line(
    study: Study, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any], words: str
) -> None:
    plain = CouncilGame.evidence.transcript
    monkeypatch.setattr(CouncilGame.evidence, "transcript", lambda outcome, trace: change(plain(outcome, trace)))
    with pytest.raises(RecordError, match=words) as raised:
        build(study)
    assert "seed=0.parquet" in str(raised.value)
    assert not paths.ledger("small").exists()


def replaced(session: Session, **changes: Any) -> Session:
    return Session(**{**session.__dict__, **changes})


# Settings


def test_the_difficulty_changes_the_ledger_and_no_simulation(study: Study, study_factory: StudyFactory) -> None:
    build(study)
    harder = recorded_study(study_factory, ledger={"difficulty": 6})
    assert harder.plan == study.plan
    assert harder.ledger_plan != study.ledger_plan
    with pytest.raises(RecordError, match="block 0: not what"):
        check_against_records(harder)
    table = build(harder)
    assert all(int(found, 16) < 1 << 250 for found in table["hash"])
    assert check_against_records(harder).blocks == len(table)


def test_a_game_without_a_ledger_has_no_settings_for_one(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: ledger: the game consensus keeps none; remove this key"):
        study_factory(ledger={"difficulty": 3})
    with pytest.raises(UsageError, match="its game, consensus, keeps no ledger"):
        build(study_factory())


@pytest.mark.parametrize("difficulty", [-1, 25, 1.5, "8", True])
def test_a_difficulty_that_is_none_is_refused(study_factory: StudyFactory, difficulty: object) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: ledger\.difficulty"):
        study_factory(game="council", ledger={"difficulty": difficulty})


def test_an_utterance_is_sent_with_where_it_belongs() -> None:
    said = SignedUtterance(round=1, agent="agent_1", content={"a": 1}, signature="0" * 128)
    assert json.loads(said.sent("ff", 3)) == {**said.model_dump(), "simulation": "ff", "session": 3}
