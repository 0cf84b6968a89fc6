"""What is wrong with a game is named by kind, file and round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.games import CUT_SHORT, MISSING, NO_GAME, PAYOFFS, SEATS, UNASKED
from parley.imports.import_games import check, played
from parley.imports.jsonl import FORMAT as JSONL
from support.records import cheap_talk, reply_lines, write_cheap_talk, write_lines

pytestmark = pytest.mark.promise("Damage in a game that was played elsewhere is named by kind, file and round.")

GAME = cheap_talk(["ssh", "shh", "hhh"], adversary=3)


def swap(content: dict[str, Any]) -> None:
    first, second, _ = content["metadata"]["agents"]
    for entry in content["rounds_data"]:
        decided = entry["full_decisions"]
        decided["Agent_1"]["model_family"], decided["Agent_2"]["model_family"] = "Qwen", "Mixtral"
    for key in ("model", "model_family"):
        first[key], second[key] = second[key], first[key]


def in_round(number: int, stage: int, *keys: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what puts a value into a game; None takes away what is there."""

    def change(content: dict[str, Any]) -> None:
        target = content["rounds_data"][2 * (number - 1) + stage]
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value
        if value is None:
            del target[keys[-1]]

    return change


def cut(content: dict[str, Any]) -> None:
    content["rounds_data"] = content["rounds_data"][:4]


DAMAGE: list[tuple[Callable[[dict[str, Any]], object], str, str]] = [
    (cut, CUT_SHORT, "2 of 3 rounds"),
    (in_round(2, 1, "full_decisions", "Agent_2", value=None), MISSING, "round 2: Agent_2 has no act"),
    (in_round(2, 1, "payoffs", "Agent_1", value=10), PAYOFFS, "round 2: Agent_1 has 10 points for Hunt Stag, by"),
    (
        in_round(2, 0, "full_decisions", "Agent_1", "model_family", value="Qwen"),
        SEATS,
        "round 2: Agent_1 is org/Qwen-1",
    ),
    (swap, SEATS, "Agent_1: org/Qwen-1, Agent_2: org/Mixtral-1, Agent_3: org/Llama-1; in most games"),
    (
        in_round(1, 0, "full_decisions", "Agent_9", value={"reasoning": "", "action": None}),
        UNASKED,
        "signal of Agent_9",
    ),
]


def test_damage_is_named_with_file_and_round(tmp_path: Path) -> None:
    for number, (damage, kind, told) in enumerate(DAMAGE):
        folder = tmp_path / str(number)
        for trial, change in enumerate((None, None, damage), 1):
            write_cheap_talk(folder, trial, GAME, change)
        games, none = check(FORMAT.read(folder))
        assert not none
        assert [each.defects for each in games[:2]] == [(), ()]
        # An agent that is missing is told once, though it is asked twice.
        [defect] = [defect for defect in games[2].defects if defect.kind == kind]
        assert defect.file == "trial_03/results.json"
        assert told in defect.text
        # An action that is missing has points that do not follow from it, too.
        assert {defect.kind for defect in games[2].defects} <= {kind, PAYOFFS}


def test_what_the_rules_cannot_play_is_no_game(tmp_path: Path) -> None:
    lines = [
        reply_lines(["ss"], key="a", parameters={"rounds": 1, "needed": 3}),
        reply_lines(["ss"], key="b", game="chess"),
        reply_lines(["ss"], key="c", links=[["agent_1", "agent_7"]]),
        reply_lines(["ss"], key="d", parameters={"rounds": 0}),
    ]
    games, none = check(JSONL.read(write_lines(tmp_path / "a.jsonl", *lines)))
    assert not games
    assert [defect.kind for defect in none] == [NO_GAME] * 4
    assert "game c: links name agent_7, who plays no part" in none[2].text


def test_who_sees_whom_is_played(tmp_path: Path) -> None:
    settings = {"rounds": 3, "topology": "star", "disclosure": "explicit"}
    links = [["agent_3", "agent_1"], ["agent_3", "agent_2"]]  # around agent_3, which no network of ours would be
    lines = reply_lines(["ssh", "sss", "sss"], byzantine="x", parameters=settings, links=links)
    [found], _ = check(JSONL.read(write_lines(tmp_path / "a.jsonl", lines)))
    assert not found.defects
    play, _ = played(found)
    neighbors = {"agent_1": ["agent_3"], "agent_2": ["agent_3"], "agent_3": ["agent_1", "agent_2"]}
    assert play.outcome.trace[0]["neighbors"] == neighbors
    assert play.outcome.metrics["byzantine_players"] == ["agent_3"]


def test_a_game_of_a_few_replies_and_ten_thousand_rounds_is_none(tmp_path: Path) -> None:
    lines = reply_lines(["ss", "hh"], parameters={"rounds": 10_000})
    [none] = check(JSONL.read(write_lines(tmp_path / "long.jsonl", lines)))[1]
    assert (none.kind, "replies are missing" in none.text) == (NO_GAME, True)
