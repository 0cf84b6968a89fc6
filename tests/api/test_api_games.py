"""The API with the other games: their measures, figures, tables and ledger, and a file of problems."""

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import parley
from parley.ledger.build import build
from parley.study import Study
from support.studies import play_study, summarize_study, write_study

pytestmark = pytest.mark.promise("All levels, figures and the ledger of each game are read through `import parley`.")

AGENTS = {"n": 4, "b": [0, 1]}
SOLVERS = {"model": {"name": "solver", "accuracy": 0.6}, "byzantine": "stubborn", "prompt": "improve"}
HUNTERS = {"model": "tit_for_tat", "byzantine": "betray", "prompt": "plain", "vary": {"topology": ["ring", "star"]}}
DELIBERATION: dict[str, Any] = {
    "game": "deliberation",
    "seeds": 2,
    "parameters": {"problems": {"kind": "gsm8k", "path": "problems/some.jsonl"}},
    "grids": [AGENTS | SOLVERS],
}
STAG_HUNT: dict[str, Any] = {
    "game": "stag_hunt",
    "seeds": 2,
    "parameters": {"rounds": 3, "disclosure": "silent"},
    "grids": [AGENTS | HUNTERS],
}


def played(folder: Path, content: dict[str, Any]) -> Study:
    file = folder / "problems" / "some.jsonl"
    file.parent.mkdir()
    lines = [{"question": f"What is {i} + 1?", "answer": f"It is.\n#### {i + 1}"} for i in range(20)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_study(folder, **content)
    return play_study(folder)


@pytest.mark.slow
@pytest.mark.parametrize("content", [DELIBERATION, STAG_HUNT], ids=lambda content: content["game"])
def test_all_levels_figures_and_records_are_read_from_elsewhere(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summarize_study(tmp_path, made := played(tmp_path, content))
    game = made.game
    monkeypatch.chdir("/")
    study = parley.load("demo", tmp_path)
    results = study.results()
    for frame in (results.attempts, results.rounds, results.simulations, results.conditions):
        assert len(frame)
    needs_ledger = {spec.name for spec in game.evidence.figures if spec.blocks}
    for name in set(results.figures) - needs_ledger:
        assert results.figure(name).axes
    for record in results.records:
        assert record.replay().identical
    measures = [measure.name for measure in game.evidence.measures]
    assert measures
    assert set(measures) <= set(results.rounds.columns)
    assert results.rounds[measures].notna().any().any()
    again = parley.run(study.play(**results.records[0].axes))
    assert again.outcome.name in {outcome.name for outcome in game.outcomes}


@pytest.mark.slow
def test_the_ledger_is_a_table_where_the_game_keeps_one(tmp_path: Path) -> None:
    study = played(tmp_path, DELIBERATION)
    summarize_study(tmp_path, study)
    results = parley.load("demo", tmp_path).results()
    assert "ledger" in results.tables
    with pytest.raises(parley.ParleyError, match="run: parley ledger build"):
        results.table("ledger")
    with chdir(tmp_path):
        build(study)
    assert len(results.table("ledger"))
    [name, *_] = [spec.name for spec in study.game.evidence.figures if spec.blocks]
    assert results.figure(name).axes
