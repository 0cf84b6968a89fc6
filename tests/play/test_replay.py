import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.errors import ParleyError, RecordError
from parley.games.consensus.game import ConsensusGame
from parley.games.registry import GAMES
from parley.play.record import read_summary, write_record
from parley.play.replay import replay
from support.answering import record_with_model
from support.answering_in_format import Answering
from support.forging import Meta, Rows, forge
from support.playing import ListPolicy, play_of
from support.studies import StudyFactory

Rewrite = Callable[..., None]


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
def rewrite(path: Path) -> Rewrite:
    """Change the rows or the metadata of the record."""

    def change(rows: Rows | None = None, meta: Meta | None = None) -> None:
        forge(path, rows, meta)

    return change


def test_a_replay_is_identical(path: Path) -> None:
    result = replay(path)
    assert result.difference is None
    assert result.summary == read_summary(path)


def test_rewriting_without_a_change_stays_identical(path: Path, rewrite: Rewrite) -> None:
    rewrite()
    assert replay(path).difference is None


def test_a_replay_needs_no_study(path: Path) -> None:
    for name in ("small.yaml", "models.yaml"):
        Path(name).unlink()
    assert replay(path).difference is None


def row_of(rows: list[dict[str, Any]], **key: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[name] == value for name, value in key.items()))


def test_an_altered_reply_is_detected(path: Path, rewrite: Rewrite) -> None:
    def alter(rows: list[dict[str, Any]]) -> None:
        row = row_of(rows, agent="agent_2", round=1, phase="propose")
        row["text"] = json.dumps({**json.loads(row["text"]), "value": 50 - json.loads(row["text"])["value"]})

    rewrite(alter)
    assert replay(path).difference is not None


def test_an_altered_reply_that_changes_nothing_is_detected(path: Path, rewrite: Rewrite) -> None:
    rewrite(lambda rows: rows[-1].update(text=rows[-1]["text"] + " "))
    assert replay(path).difference == "the content digests differ"


@pytest.mark.parametrize(("column", "value"), [("request_seed", 1), ("ask", "0" * 64)])
def test_an_altered_question_is_detected(path: Path, rewrite: Rewrite, column: str, value: Any) -> None:
    rewrite(lambda rows: row_of(rows, round=2, phase="vote", agent="agent_3").update({column: value}))
    assert replay(path).difference == "round 2, vote, agent_3, attempt 0: another question was recorded"


def test_a_missing_reply_is_detected(path: Path, rewrite: Rewrite) -> None:
    rewrite(lambda rows: rows.remove(row_of(rows, round=2, phase="vote", agent="agent_3")))
    assert replay(path).difference == "round 2, vote, agent_3, attempt 0: the record has no such reply"


def test_a_reply_too_many_is_detected(path: Path, rewrite: Rewrite) -> None:
    rewrite(lambda rows: rows.append({**rows[-1], "round": 9}))
    difference = replay(path).difference
    assert difference is not None
    assert "replies recorded" in difference


def test_an_altered_digest_is_detected(path: Path, rewrite: Rewrite) -> None:
    rewrite(meta=lambda meta: meta.update(digest="0" * 64))
    assert replay(path).difference == "the content digests differ"


def test_an_altered_outcome_is_detected(path: Path, rewrite: Rewrite) -> None:
    """The tables are made from the recorded outcome, so a replay has to look at it."""
    assert read_summary(path).outcome["name"] != "no_consensus"
    rewrite(meta=lambda meta: meta["outcome"].update(name="no_consensus", finished_early=False))
    assert replay(path).difference is not None


@pytest.mark.parametrize(
    "change", [{"max_rounds": 2}, {"stop_threshold": "1/4"}, {"history_rounds": 0}, {"value_max": 49}]
)
def test_altered_parameters_are_detected(path: Path, rewrite: Rewrite, change: dict[str, Any]) -> None:
    rewrite(meta=lambda meta: meta["simulation"]["parameters"].update(change))
    assert replay(path).difference is not None


def test_an_altered_seed_or_prompt_is_detected(path: Path, rewrite: Rewrite) -> None:
    rewrite(meta=lambda meta: meta["simulation"].update(seed=0))
    assert replay(path).difference is not None
    rewrite(meta=lambda meta: meta["simulation"].update(seed=1, prompt="none_exist"))
    assert replay(path).difference is not None


def test_a_record_of_another_protocol_version_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsensusGame, "protocol_version", 99)
    with pytest.raises(RecordError, match="recorded with version 2 of the consensus game, this is 99") as caught:
        replay(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"game": "chess"},
        {"prompt": "unknown"},
        {"parameters": {"max_rounds": -1}},
        {"parameters": None},
        {"groups": {}},
        {"groups": [{"role": "honest", "count": "many", "policy": "majority"}]},
        {"groups": [{"role": "king", "count": 1, "policy": "majority"}]},
        {"groups": [{"role": "honest", "count": 1, "policy": "chess"}]},
    ],
)
def test_a_record_that_makes_no_sense_is_refused_in_one_line(
    path: Path, rewrite: Rewrite, change: dict[str, Any]
) -> None:
    rewrite(meta=lambda meta: meta["simulation"].update(change))
    with pytest.raises(ParleyError) as caught:
        replay(path)
    assert len(str(caught.value).splitlines()) == 1
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_record_is_refused(folder: Path) -> None:
    (folder / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(RecordError, match=r"x\.parquet: cut short or not Parquet"):
        replay(folder / "x.parquet")


# Formats of replies


@pytest.mark.parametrize("written", ["text", "two_steps"])
@pytest.mark.parametrize("game", ["consensus", "deliberation", "stag_hunt"])
def test_every_format_replays(study_factory: StudyFactory, game: str, written: str) -> None:
    prompt = next(iter(GAMES[game].prompts))
    grid = {"model": "tiny", "n": 3, "b": 1, "byzantine": "random" if game != "stag_hunt" else "betray"}
    study = study_factory({**grid, "prompt": prompt}, game=game, parameters={"reply_format": written})
    path = record_with_model(next(study.simulations()), policy=Answering())
    result = replay(path)
    assert result.difference is None
    assert result.summary.simulation["parameters"]["reply_format"] == written
    rows = pq.read_table(path, partitioning=None).to_pylist()
    assert {row["failure"] for row in rows} == {None}
    assert any(row["phase"].endswith("_think") for row in rows) is (written == "two_steps")


def test_a_record_of_other_prompts_says_so_in_one_line(path: Path, rewrite: Rewrite) -> None:
    rewrite(
        rows=lambda rows: rows[0].update(ask="0" * 64),
        meta=lambda meta: meta["simulation"]["prompt_digests"].update(honest_propose_user="0" * 64),
    )
    difference = replay(path).difference
    assert difference is not None
    assert "another question was recorded (with other prompts than this version has; use" in difference


def test_an_altered_question_is_no_matter_of_prompts(path: Path, rewrite: Rewrite) -> None:
    rewrite(rows=lambda rows: rows[0].update(ask="0" * 64))
    assert str(replay(path).difference).endswith("another question was recorded")
