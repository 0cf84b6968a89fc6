"""The plain format: what lines say, what they may leave out, and which are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from parley.errors import UsageError
from parley.imports.games import NO_GAME, UNREADABLE, Defect, ImportedGame
from parley.imports.jsonl import FORMAT, ReplyLine
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


def test_the_schema_fits() -> None:
    validator = Draft202012Validator(ReplyLine.model_json_schema())
    assert all(validator.is_valid(line) for line in reply_lines(["ss"], byzantine="x"))
    assert not validator.is_valid({"id": "a", "round": 1})
