"""The ledger of a study that was played: a small scripted game that keeps one (tests/support/council.py)."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.analysis.tables import read_table
from parley.errors import RecordError, UsageError
from parley.games.evidence import Session
from parley.identity import canonical_json
from parley.ledger.build import build, check_against_records
from parley.ledger.check import check_chain
from parley.play.record import read_summary, read_trace
from parley.study import Study
from support.playing import CouncilGame, council_sessions, recorded_study
from support.studies import StudyFactory

pytestmark = [
    pytest.mark.promise("The same records give the same chain; a chain of other words is found."),
    pytest.mark.usefixtures("council"),
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("played") / "results"


@pytest.fixture
def study(study_factory: StudyFactory, played: Path) -> Study:
    """A study that is played once for all tests: each has a copy of its records."""
    first = not played.exists()
    if not first:
        shutil.copytree(played, paths.RESULTS)
    study = recorded_study(study_factory)
    if first:
        shutil.copytree(paths.RESULTS, played)
    return study


def stored(study: Study) -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.ledger(study.name).read_bytes().splitlines()]


def transcripts(study: Study) -> list[tuple[str, int, Session]]:
    """Return what was said in each simulation, as the game tells it from the record."""
    return [
        (simulation.id, number, session)
        for simulation in study.simulations()
        for record in [simulation.record(study.name)]
        for number, session in enumerate(council_sessions(read_summary(record).outcome, read_trace(record)))
    ]


def test_the_chain_has_what_was_said_in_the_order_of_the_study(study: Study) -> None:
    table = build(study)
    blocks, sessions = stored(study), transcripts(study)
    assert [
        (block["simulation"], block["session"], [agent["name"] for agent in block["agents"]], block["agreed"])
        for block in blocks
    ] == [(identity, number, list(session.agents), session.agreed) for identity, number, session in sessions]
    assert {block["agreed"] for block in blocks} == {True, False}
    assert {block["session"] for block in blocks} == {0, 1}
    said = [(u["round"], u["agent"], u["content"]) for block in blocks for u in block["utterances"]]
    agreed = [session for *_, session in sessions if session.agreed]
    assert said == [(u.round, u.agent, u.content) for session in agreed for u in session.utterances]
    assert len(said) > 20
    checker = check_against_records(study)
    assert (checker.blocks, checker.empty) == (len(table), int((~table["agreed"]).sum()))
    assert checker.utterances == int(table.loc[table["agreed"], "utterances"].sum())


def test_the_same_records_give_the_same_bytes(study: Study) -> None:
    made = [paths.ledger("small"), paths.ledger_head(paths.ledger("small"))]
    made += [paths.table("small", "ledger", suffix) for suffix in (".parquet", ".csv")]
    build(study)
    before = [path.read_bytes() for path in made]
    for path in made:
        path.unlink()
    build(study)
    assert [path.read_bytes() for path in made] == before


def test_blocks_beyond_the_limit_are_counted(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    settings = study.content.ledger.model_copy(update={"block_limit": 1})
    sizes = build(replace(study, content=study.content.model_copy(update={"ledger": settings})))["block_bytes"]
    assert f"{len(sizes)} of {len(sizes)} blocks have more than block_limit" in caplog.text


def test_a_chain_of_other_words_is_not_that_of_the_records(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with all keys, as anyone can who knows the simulations: only the records tell."""

    def other(outcome: dict[str, Any], trace: Any) -> Sequence[Session]:
        return council_sessions({**outcome, "name": "another"}, trace)

    with monkeypatch.context() as patch:
        patch.setattr(CouncilGame.evidence, "sessions", other)
        build(study)
    assert check_chain(paths.ledger("small")).blocks
    first = next(identity for identity, _, session in transcripts(study) if session.agreed)
    [record] = [s.record("small") for s in study.simulations() if s.id == first]
    with pytest.raises(RecordError, match=rf"block 0: not what {record}, session 0 gives"):
        check_against_records(study)


def test_a_chain_or_records_of_which_some_are_missing_are_found(study: Study) -> None:
    build(study)
    chain = paths.ledger("small")
    lines = chain.read_bytes().splitlines(keepends=True)
    whole_head = paths.ledger_head(chain).read_bytes()
    head = {"blocks": len(lines) - 1, "format": 2, "hash": json.loads(lines[-2])["hash"]}
    chain.write_bytes(b"".join(lines[:-1]))
    paths.ledger_head(chain).write_text(canonical_json(head) + "\n")
    with pytest.raises(RecordError, match=rf"ends before block {len(lines) - 1} \(results/small/.*parquet, session"):
        check_against_records(study)
    chain.write_bytes(b"".join(lines))
    paths.ledger_head(chain).write_bytes(whole_head)
    next(study.simulations()).record("small").unlink()
    with pytest.raises(RecordError, match="block 0: not what"):
        check_against_records(study)
    build(study)  # of what is there
    check_against_records(study)


# The table


def test_the_table_has_a_row_per_block(study: Study) -> None:
    build(study)
    table = read_table("small", "ledger")
    lines = paths.ledger("small").read_bytes().splitlines(keepends=True)
    assert list(table["height"]) == list(range(len(lines)))
    assert list(table["block_bytes"]) == [len(line) for line in lines]
    blocks = stored(study)
    for column, key in {"hash": "hash", "utterances": "spoken", "agreed": "agreed"}.items():
        assert list(table[column]) == [block[key] for block in blocks]
    assert {"model", "n", "b", "prompt", "topology", "seed", "session", "agents", "rounds", "id"} <= set(table)


# Settings


def test_settings_that_a_ledger_cannot_have_are_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: ledger: the game consensus keeps none"):
        study_factory(ledger={"block_limit": 3})
    with pytest.raises(UsageError, match="consensus, keeps no ledger"):
        build(study_factory())
    for limit in (0, "8"):
        with pytest.raises(UsageError, match=r"small\.yaml: ledger\.block_limit"):
            study_factory(game="council", ledger={"block_limit": limit})
