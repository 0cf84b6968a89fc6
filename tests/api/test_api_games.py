"""The API with the other games: their measures, figures, tables and ledger, and a file of problems."""

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import parley
from parley.ledger.build import build
from support.demo_study import play_study, summarize_study, write_study

DELIBERATION: dict[str, Any] = {
    "game": "deliberation",
    "seeds": 2,
    "parameters": {"problems": {"kind": "gsm8k", "path": "problems/some.jsonl"}},
    "grids": [
        {
            "model": {"name": "solver", "accuracy": 0.6},
            "n": 4,
            "b": [0, 1],
            "byzantine": "stubborn",
            "prompt": "improve",
        }
    ],
}
STAG_HUNT: dict[str, Any] = {
    "game": "stag_hunt",
    "seeds": 2,
    "parameters": {"rounds": 3, "disclosure": "silent"},
    "grids": [
        {
            "model": ["tit_for_tat", "always_stag"],
            "n": 4,
            "b": [0, 1],
            "byzantine": "betray",
            "prompt": "plain",
            "vary": {"topology": ["ring", "star"]},
        }
    ],
}


@pytest.fixture
def deliberation(tmp_path: Path) -> Path:
    file = tmp_path / "problems" / "some.jsonl"
    file.parent.mkdir()
    lines = [{"question": f"What is {i} + 1?", "answer": f"It is.\n#### {i + 1}"} for i in range(20)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_study(tmp_path, **DELIBERATION)
    return tmp_path


@pytest.fixture
def stag_hunt(tmp_path: Path) -> Path:
    write_study(tmp_path, **STAG_HUNT)
    return tmp_path


def needs_ledger(study: parley.Study, name: str) -> bool:
    return any(spec.blocks for spec in study._study.figures if spec.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["deliberation", "stag_hunt"])
def test_all_levels_figures_and_records_are_read_from_elsewhere(
    game: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = request.getfixturevalue(game)
    play_study(root)
    monkeypatch.chdir("/")
    study = parley.load("demo", root)
    results = study.results()
    for level in ("attempts", "rounds", "simulations", "conditions"):
        assert len(results.frame(level))  # type: ignore[arg-type]
    for name in results.figures:
        if not needs_ledger(study, name):
            assert results.figure(name).axes
    for record in results.records:
        assert record.replay().identical
    measures = [measure.name for measure in study._study.game.evidence.measures]
    assert measures
    assert set(measures) <= set(results.rounds.columns)
    assert results.rounds[measures].notna().any().any()
    played = parley.run(study.play(**results.records[0].axes))
    assert played.outcome.name in {outcome.name for outcome in study._study.game.outcomes}


def test_the_ledger_is_a_table_where_the_game_keeps_one(deliberation: Path) -> None:
    study = play_study(deliberation)
    summarize_study(deliberation, study)
    results = parley.load("demo", deliberation).results()
    assert "ledger" in results.tables
    with pytest.raises(parley.ParleyError, match="no such table; run: parley ledger build"):
        results.table("ledger")
    with chdir(deliberation):
        build(study)
    assert len(results.table("ledger"))
    for name in results.figures:
        assert results.figure(name).axes


def test_a_game_without_a_ledger_has_no_table_of_it(stag_hunt: Path) -> None:
    play_study(stag_hunt)
    results = parley.load("demo", stag_hunt).results()
    assert "ledger" not in results.tables
    with pytest.raises(parley.UsageError, match="'ledger': no such table"):
        results.table("ledger")
