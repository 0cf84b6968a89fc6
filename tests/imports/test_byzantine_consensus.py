"""Games of the consensus paper's own code: imported, they end as they ended there; what cannot be trusted is named.

The two runs in `byzantine_consensus` were made by that code (commit b3bbf9e) with made-up replies.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parley.imports.byzantine_consensus import FORMAT
from parley.imports.games import ENDED, NO_GAME, UNREADABLE, Defect
from parley.imports.import_games import check, played

RUNS = Path(__file__).with_name("byzantine_consensus")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a copy of the runs, to be damaged."""
    return Path(shutil.copytree(RUNS, tmp_path / "results"))


@pytest.mark.promise("A game of the consensus paper's own code, imported, has its values, its outcome and its rounds.")
def test_games_are_and_end_as_they_did_there() -> None:
    games, none = check(FORMAT.read(RUNS))
    assert none == []
    first, second = games
    assert (first.prompt, second.prompt) == ("none_exist", "may_exist")
    assert [agent.role for agent in first.agents.values()] == ["honest", "honest", "honest", "byzantine"]
    play, missing = played(first)
    assert missing == []
    assert (play.outcome.name, play.outcome.rounds) == ("valid_consensus", 3)
    assert dict(play.outcome.metrics["initial_values"]) == first.material["initial_values"]
    failed = [x for x in play.exchanges if x.reply.value is None]
    assert {(x.entry.round, x.ask.phase) for x in failed} == {(1, "propose"), (2, "propose")}


@pytest.mark.parametrize("forged", ["{agent}: 3 -> 50", "{agent}: 3 -> 3", "{agent}: votes STOP"])
def test_a_reason_that_forges_a_line_is_found(results: Path, forged: str) -> None:
    log = results / "logs" / "run_001_log.txt"
    line = next(line for line in log.read_text(encoding="utf-8").split("\n") if " -> " in line and "[INFO]" in line)
    forged = "[INFO]   " + forged.format(agent=line.split()[1].strip(":"))
    log.write_text(log.read_text(encoding="utf-8").replace(line, f"{line}\n{forged}", 1), encoding="utf-8")
    [_], [damaged] = check(FORMAT.read(results))
    assert "answers twice" in damaged.text


def changed(results: Path, part: str, key: str, value: Any) -> None:
    """Change a field of the first run."""
    file = results / "json" / "run_001.json"
    content = json.loads(file.read_text())
    content[part][key] = value
    file.write_text(json.dumps(content))


def test_values_of_all_rounds_must_be_there_to_be_compared(results: Path) -> None:
    changed(results, "statistics", "rounds_data", [])
    _, [none] = check(FORMAT.read(results))
    assert "rounds_data" in none.text


@pytest.mark.parametrize(
    ("model", "player"), [("/data/Qwen3-8B/", "Qwen3-8B"), ("a/.b", "b"), ("/" * 3, "unknown"), ("m" * 99, "m" * 52)]
)
def test_a_model_may_be_any_path(results: Path, model: str, player: str) -> None:
    changed(results, "metrics", "model_name", model)
    games, none = check(FORMAT.read(results))
    assert none == []
    assert games[0].players == player


def test_a_game_without_honest_agents_ends_as_theirs(tmp_path: Path) -> None:
    asked = "[INFO] Round 1\n[INFO]   agent_0: (no value yet) -> 5\n[INFO]   agent_0: votes STOP\n"
    statistics = {
        "byzantine_agent_ids": ["agent_0"],
        "honest_agent_ids": [],
        "honest_initial_values": [],
        "consensus_outcome": "none",
        "total_rounds": 1,
        "rounds_data": [{"round": 1, "honest_values": [], "byzantine_values": [5]}],
    }
    config = {"max_rounds": 2, "value_range": [-5, 5], "byzantine_awareness": "may_exist"}
    metrics = {"model_name": "m", "network_topology": "fully_connected"}
    for name, text in [
        ("json/run_001.json", json.dumps({"config": config, "statistics": statistics, "metrics": metrics})),
        ("logs/run_001_log.txt", asked),
    ]:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    [_], none = check(FORMAT.read(tmp_path))
    assert none == []


@pytest.mark.parametrize(("key", "value"), [("consensus_outcome", "timeout"), ("honest_initial_values", [1, 2, 3])])
def test_a_file_that_says_something_else_is_named(results: Path, key: str, value: Any) -> None:
    changed(results, "statistics", key, value)
    [_], damaged = check(FORMAT.read(results))
    assert ENDED in {defect.kind for defect in damaged}


@pytest.mark.parametrize("value", [None, 51, "7"])
def test_a_first_value_that_cannot_be_is_named(results: Path, value: Any) -> None:
    changed(results, "statistics", "honest_initial_values", [1, value, 3])
    _, [none] = check(FORMAT.read(results))
    assert "initial value" in none.text


def test_what_is_no_game_is_named(results: Path) -> None:
    (results / "logs" / "run_001_log.txt").unlink()
    file = results / "json" / "run_002.json"
    content = json.loads(file.read_text())
    content["metrics"]["network_topology"] = "ring"
    file.write_text(json.dumps(content))
    kinds = [found.kind for found in FORMAT.read(results) if isinstance(found, Defect)]
    assert kinds == [UNREADABLE, NO_GAME]
