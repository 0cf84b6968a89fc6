"""What is wrong with a game is named by kind, file and round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.check import Checked, check, played
from parley.imports.games import CUT_SHORT, MISSING, NO_GAME, PAYOFFS, SEATS, TWICE, UNASKED
from parley.imports.jsonl import FORMAT as JSONL
from support.imported import cheap_talk, reply_lines, write_cheap_talk, write_lines

GAME = cheap_talk(["ssh", "shh", "hhh"], adversary=3)


def cut(content: dict[str, Any]) -> None:
    content["rounds_data"] = content["rounds_data"][:4]


def lose(content: dict[str, Any]) -> None:
    del content["rounds_data"][3]["full_decisions"]["Agent_2"]


def pay(content: dict[str, Any]) -> None:
    content["rounds_data"][3]["payoffs"]["Agent_1"] = 10


def reseat(content: dict[str, Any]) -> None:
    content["rounds_data"][2]["full_decisions"]["Agent_1"]["model_family"] = "Qwen"


def swap(content: dict[str, Any]) -> None:
    first, second, _ = content["metadata"]["agents"]
    for entry in content["rounds_data"]:
        decided = entry["full_decisions"]
        decided["Agent_1"]["model_family"], decided["Agent_2"]["model_family"] = "Qwen", "Mixtral"
    for key in ("model", "model_family"):
        first[key], second[key] = second[key], first[key]


def add(content: dict[str, Any]) -> None:
    content["rounds_data"][0]["full_decisions"]["Agent_9"] = {"reasoning": "", "action": None}


def seats(first: str, second: str) -> str:
    return f"Agent_1: org/{first}-1, Agent_2: org/{second}-1, Agent_3: org/Llama-1"


@pytest.mark.parametrize(
    ("damage", "kind", "told"),
    [
        (cut, CUT_SHORT, "2 of 3 rounds"),
        (lose, MISSING, "round 2: Agent_2 has no act"),
        (pay, PAYOFFS, "round 2: Agent_1 has 10 points for Hunt Stag, by the rules 0"),
        (reseat, SEATS, "round 2: Agent_1 is org/Qwen-1, and org/Mixtral-1 before"),
        (swap, SEATS, f"{seats('Qwen', 'Mixtral')}; in most games of the condition {seats('Mixtral', 'Qwen')}"),
        (add, UNASKED, "round 1: signal of Agent_9; 1 in all"),
    ],
)
def test_damage_is_named_with_file_and_round(
    tmp_path: Path, damage: Callable[[dict[str, Any]], object], kind: str, told: str
) -> None:
    write_cheap_talk(tmp_path, 1, GAME)
    write_cheap_talk(tmp_path, 2, GAME)
    write_cheap_talk(tmp_path, 3, GAME, damage)
    games, none = check(FORMAT.read(tmp_path))
    assert not none
    assert [each.defects for each in games[:2]] == [(), ()]
    # An agent that is missing is told once, though it is asked twice.
    assert [str(d) for d in games[2].defects if d.kind == kind] == [f"trial_03/results.json: {kind}: {told}"]
    # An action that is missing has points that do not follow from it, too.
    assert {defect.kind for defect in games[2].defects} <= {kind, PAYOFFS}


def test_the_same_file_twice_is_one_game(tmp_path: Path) -> None:
    content = write_cheap_talk(tmp_path, 1, GAME).read_bytes()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "results.json").write_bytes(content)
    games, _ = check(FORMAT.read(tmp_path))
    assert [[defect.kind for defect in each.defects] for each in games] == [[], [TWICE]]


def test_what_the_rules_cannot_play_is_no_game(tmp_path: Path) -> None:
    lines = [
        reply_lines(["ss"], key="a", parameters={"rounds": 1, "needed": 3}),
        reply_lines(["ss"], key="b", game="chess"),
        reply_lines(["ss"], key="c", links=[["agent_1", "agent_7"]]),
        reply_lines(["ss"], key="d", parameters={"rounds": 0}),
        reply_lines(["ss"], key="e", game="consensus", parameters={}),
    ]
    games, none = check(JSONL.read(write_lines(tmp_path / "a.jsonl", *lines)))
    assert not games
    assert [defect.kind for defect in none] == [NO_GAME] * 5
    assert "dealt by a seed, so they cannot be imported" in none[4].text
    assert "game c: links name agent_7, who plays no part" in none[2].text


def checked(folder: Path, lines: list[dict[str, Any]]) -> Checked:
    [game], _ = check(JSONL.read(write_lines(folder / "a.jsonl", lines)))
    assert not game.defects
    return game


def test_who_sees_whom_is_played(tmp_path: Path) -> None:
    settings = {"rounds": 3, "topology": "star", "disclosure": "explicit"}
    links = [["agent_3", "agent_1"], ["agent_3", "agent_2"]]  # around agent_3, which no network of ours would be
    lines = reply_lines(["ssh", "sss", "sss"], byzantine="x", parameters=settings, links=links)
    play, _ = played(checked(tmp_path, lines).game)
    neighbors = {"agent_1": ["agent_3"], "agent_2": ["agent_3"], "agent_3": ["agent_1", "agent_2"]}
    assert play.outcome.trace[0]["neighbors"] == neighbors
    assert play.outcome.metrics["byzantine_players"] == ["agent_3"]


def test_an_unusable_reply_is_no_damage(tmp_path: Path) -> None:
    lines = reply_lines(["ss"])
    lines[3] |= {"text": "I hunt", "points": 0}
    lines[2]["points"] = 0
    play, _ = played(checked(tmp_path, lines).game)
    assert play.exchanges[3].reply.failure == "invalid_json"
    assert play.outcome.metrics["idle"] == 1
