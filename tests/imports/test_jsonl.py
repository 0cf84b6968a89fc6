"""The plain format: what lines say, what they may leave out, and which are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.imports.games import NO_GAME, UNREADABLE, Defect, ImportedGame
from parley.imports.import_games import check, import_games, played
from parley.imports.jsonl import FORMAT, SCHEMA, ReplyLine
from parley.study import load_study
from parley.study.study_file import text
from support import REPOSITORY
from support.records import reply_lines, write_lines


def one(file: Path) -> Any:
    [found] = FORMAT.read(file)
    return found


def test_a_game_is_what_its_lines_say(tmp_path: Path) -> None:
    lines = reply_lines(["ssh"], byzantine="liar", seed=7, links=[["agent_1", "agent_2"]])
    lines[1] |= {"reply": json.loads(lines[1].pop("text"))}  # fields may stand for the text
    game = one(write_lines(tmp_path / "games.jsonl", lines))
    assert isinstance(game, ImportedGame)
    assert (game.game, game.parameters, game.number, game.key) == ("stag_hunt", {"rounds": 1}, 7, "one")
    assert (game.players, game.byzantine) == ("model-1+model-2+model-3", "liar")
    assert [agent.role for agent in game.agents.values()] == ["honest", "honest", "byzantine"]
    assert game.links == [("agent_1", "agent_2")]
    assert (game.replies[0].system, game.replies[0].user) == ("You hunt.", "Round 1: signal?")
    assert [json.loads(given.entry.text)["word"] for given in game.replies[:3]] == ["stag"] * 3
    assert game.points == {(1, "agent_1"): 0, (1, "agent_2"): 0, (1, "agent_3"): 3}


def test_games_of_one_file_have_seeds_of_their_own(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "games.jsonl", reply_lines(["ss"]), reply_lines(["ss"], key="two"))
    first, second = (found.number for found in FORMAT.read(file) if isinstance(found, ImportedGame))
    assert first != second


def test_what_is_no_line_or_no_game_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with pytest.raises(UsageError, match=r"holds no \.jsonl"):
        list(FORMAT.read(tmp_path))
    for change, told in [
        ({"text": None}, "give text or reply"),
        ({"rond": 1}, "rond"),
        ({"round": "1"}, "round"),
        ({"role": "spy"}, "role"),
    ]:
        lines = reply_lines(["ss"])
        lines[1] |= change
        defect = next(each for each in FORMAT.read(write_lines(file, lines)) if isinstance(each, Defect))
        assert defect.kind == NO_GAME, change
        assert "line 2" in defect.text, change
        assert told in defect.text, change
    lines = reply_lines(["ss"], seed=1)
    lines[2]["seed"] = 2
    defect = one(write_lines(file, lines))
    assert str(defect) == f"a.jsonl: {NO_GAME}: game one: seed: 2 in round 1, and 1 before"
    file.write_bytes(b"\xff\xfe")
    assert one(tmp_path).kind == UNREADABLE


def test_the_schema_file_is_up_to_date_and_fits() -> None:
    stored = (REPOSITORY / paths.schema(SCHEMA)).read_text(encoding="utf-8")
    assert stored == text(ReplyLine.model_json_schema()), "run: python -m parley.imports.jsonl"
    validator = Draft202012Validator(ReplyLine.model_json_schema())
    assert all(validator.is_valid(line) for line in reply_lines(["ss"], byzantine="x"))
    assert not validator.is_valid({"id": "a", "round": 1})


# Other games


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


def check_lines(file: Path) -> tuple[list[Any], list[Defect]]:
    return check(FORMAT.read(file))


def proposal(value: int) -> dict[str, Any]:
    return {"internal_strategy": "", "value": value, "public_reasoning": ""}


@pytest.mark.promise("The plain format brings games of the consensus game and of the deliberation, too.")
def test_lines_bring_values_and_problems(tmp_path: Path) -> None:
    game = {"game": "consensus", "parameters": {"max_rounds": 1}, "prompt": "none_exist"}
    agents = {"agent_1": {"initial_value": 7}, "agent_2": {"initial_value": 9}}
    stop = {"decision": "stop"}
    said = [("propose", [proposal(7), proposal(7)]), ("vote", [stop, stop])]
    [found], none = check_lines(lines(tmp_path, game, agents, said))
    assert (found.defects, none) == ((), [])
    assert isinstance(found.game, ImportedGame)
    assert played(found.game)[0].outcome.name == "valid_consensus"

    problem = {"id": "p", "kind": "number", "question": "What is 2 + 2?", "answer": "4"}
    game = {"game": "deliberation", "parameters": {"turns": 1}, "problem": problem}
    answer = {"argument": "", "answer": "4"}
    [found], none = check_lines(lines(tmp_path, game, {"agent_1": {}, "agent_2": {}}, [("initial", [answer, answer])]))
    assert (found.defects, none) == ((), [])
    assert played(found.game)[0].outcome.name == "correct_consensus"


@pytest.mark.parametrize("value", [None, 51, "7"])
def test_a_first_value_that_cannot_be_is_named(tmp_path: Path, value: Any) -> None:
    agents = {"agent_1": {"initial_value": 7}, "agent_2": {} if value is None else {"initial_value": value}}
    _, none = check_lines(lines(tmp_path, {"game": "consensus"}, agents, [("propose", [proposal(7), proposal(7)])]))
    assert none
    assert all("agent_2: initial value" in each.text or "initial_value" in each.text for each in none)


@pytest.mark.promise("Imported games are held against the best known protocol, too.")
@pytest.mark.usefixtures("folder")
def test_imported_games_are_held_against_the_best_known_protocol() -> None:
    Path("config").mkdir()
    game = {"game": "consensus", "parameters": {"max_rounds": 2}, "prompt": "none_exist"}
    agents = {"agent_1": {"initial_value": 7}, "agent_2": {"initial_value": 9}}
    said = [("propose", [proposal(7), proposal(9)]), ("vote", [{"decision": "stop"}, {"decision": "stop"}])]
    summarize(load_study(import_games("jsonl", lines(Path(), game, agents, said), "theirs").study))
    [regret] = read_table("theirs", "regret").to_dict("records")
    assert (regret["reached_agreement"], regret["agreement_lost"]) == (0, 1)
