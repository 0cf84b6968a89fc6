"""Games of the consensus paper's own code: imported, they end as they ended there; what cannot be trusted is named.

The two runs in `byzantine_consensus` were made by that code (commit b3bbf9e) with made-up replies.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parley.imports.byzantine_consensus import FORMAT
from parley.imports.games import ENDED, NO_GAME, UNREADABLE, Defect, ImportedGame
from parley.imports.import_games import check, played
from parley.imports.jsonl import FORMAT as LINES

RUNS = Path(__file__).with_name("byzantine_consensus")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a copy of the runs, to be damaged."""
    return Path(shutil.copytree(RUNS, tmp_path / "results"))


@pytest.mark.promise("A game of the consensus paper's own code, imported, has its values, its outcome and its rounds.")
def test_games_are_and_end_as_they_did_there() -> None:
    games, none = check(FORMAT.read(RUNS))
    assert none == []
    assert [game.defects for game in games] == [(), ()]
    first, second = (game.game for game in games)
    assert (first.prompt, second.prompt) == ("none_exist", "may_exist")
    assert [agent.role for agent in first.agents.values()] == ["honest", "honest", "honest", "byzantine"]
    play, missing = played(first)
    assert missing == []
    assert (play.outcome.name, play.outcome.rounds) == ("valid_consensus", 3)
    assert dict(play.outcome.metrics["initial_values"]) == first.material["initial_values"]
    failed = [x for x in play.exchanges if x.reply.value is None]
    assert {(x.entry.round, x.ask.phase) for x in failed} == {(1, "propose"), (2, "propose")}


def test_a_reason_that_forges_a_line_is_found(results: Path) -> None:
    log = results / "logs" / "run_001_log.txt"
    line = next(line for line in log.read_text(encoding="utf-8").split("\n") if " -> " in line and "[INFO]" in line)
    forged = line.partition(" -> ")[0] + " -> 50"
    log.write_text(log.read_text(encoding="utf-8").replace(line, f"{line}\n{forged}", 1), encoding="utf-8")
    [damaged, good], _ = check(FORMAT.read(results))
    assert ENDED in {defect.kind for defect in damaged.defects}
    assert good.defects == ()


@pytest.mark.parametrize(
    ("key", "value"), [("consensus_outcome", "timeout"), ("total_rounds", 2), ("honest_initial_values", [1, 2, 3])]
)
def test_a_file_that_says_something_else_is_named(results: Path, key: str, value: Any) -> None:
    file = results / "json" / "run_001.json"
    content = json.loads(file.read_text())
    content["statistics"][key] = value
    file.write_text(json.dumps(content))
    [damaged, _], _ = check(FORMAT.read(results))
    assert ENDED in {defect.kind for defect in damaged.defects}


def test_what_is_no_game_is_named(results: Path) -> None:
    (results / "logs" / "run_001_log.txt").unlink()
    file = results / "json" / "run_002.json"
    content = json.loads(file.read_text())
    content["metrics"]["network_topology"] = "ring"
    file.write_text(json.dumps(content))
    kinds = [found.kind for found in FORMAT.read(results) if isinstance(found, Defect)]
    assert kinds == [UNREADABLE, NO_GAME]


# The plain format


def lines(tmp_path: Path, game: dict[str, Any], agents: dict[str, Any], said: list[tuple[str, list[Any]]]) -> Path:
    """Write a game of one round; `said` has what each agent replied in a phase."""
    number = 0 if game["game"] == "deliberation" else 1
    told = [
        {"id": "g", "round": number, "phase": phase, "agent": name, "reply": reply, **game, **agents[name]}
        for phase, replies in said
        for name, reply in zip(agents, replies, strict=True)
    ]
    file = tmp_path / "games.jsonl"
    file.write_text("\n".join(map(json.dumps, told)))
    return file


def checked(file: Path) -> tuple[list[Any], list[Defect]]:
    return check(LINES.read(file))


def proposal(value: int) -> dict[str, Any]:
    return {"internal_strategy": "", "value": value, "public_reasoning": ""}


@pytest.mark.promise("The plain format brings games of the consensus game and of the deliberation, too.")
def test_lines_bring_values_and_problems(tmp_path: Path) -> None:
    game = {"game": "consensus", "parameters": {"max_rounds": 1}, "prompt": "none_exist"}
    agents = {"agent_1": {"initial_value": 7}, "agent_2": {"initial_value": 9}}
    stop = {"decision": "stop"}
    said = [("propose", [proposal(7), proposal(7)]), ("vote", [stop, stop])]
    [found], none = checked(lines(tmp_path, game, agents, said))
    assert (found.defects, none) == ((), [])
    assert isinstance(found.game, ImportedGame)
    assert played(found.game)[0].outcome.name == "valid_consensus"

    problem = {"id": "p", "kind": "number", "question": "What is 2 + 2?", "answer": "4"}
    game = {"game": "deliberation", "parameters": {"turns": 1}, "problem": problem}
    answer = {"argument": "", "answer": "4"}
    [found], none = checked(lines(tmp_path, game, {"agent_1": {}, "agent_2": {}}, [("initial", [answer, answer])]))
    assert (found.defects, none) == ((), [])
    assert played(found.game)[0].outcome.name == "correct_consensus"


@pytest.mark.parametrize("value", [None, 51, "7"])
def test_a_first_value_that_cannot_be_is_named(tmp_path: Path, value: Any) -> None:
    agents = {"agent_1": {"initial_value": 7}, "agent_2": {} if value is None else {"initial_value": value}}
    _, none = checked(lines(tmp_path, {"game": "consensus"}, agents, [("propose", [proposal(7), proposal(7)])]))
    assert none
    assert all("agent_2: initial value" in each.text or "initial_value" in each.text for each in none)
