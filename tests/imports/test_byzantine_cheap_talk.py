"""The published raw games become games of ours: seats, roles, words, actions, networks, conditions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.games import NO_GAME, UNREADABLE, Defect, ImportedGame
from parley.imports.import_games import check, played
from support.records import cheap_talk, write_cheap_talk

STAR = {"experiment": "byzantine_star", "topology": "star"}
RING = {
    "Agent_1": ["Agent_1", "Agent_2", "Agent_4"],
    "Agent_2": ["Agent_1", "Agent_2", "Agent_3"],
    "Agent_3": ["Agent_2", "Agent_3", "Agent_4"],
    "Agent_4": ["Agent_1", "Agent_3", "Agent_4"],
}


def read(folder: Path, content: Mapping[str, Any]) -> ImportedGame:
    write_cheap_talk(folder, 1, content)
    [game] = FORMAT.read(folder)
    assert isinstance(game, ImportedGame), game
    return game


def test_a_game_has_its_seats_roles_replies_and_payoffs(tmp_path: Path) -> None:
    game = read(tmp_path, cheap_talk(["ssh", "hhh"], adversary=3))
    assert {name: (a.role, a.player) for name, a in game.agents.items()} == {
        "Agent_1": ("honest", "mixtral"),
        "Agent_2": ("honest", "qwen"),
        "Agent_3": ("byzantine", "betray"),
    }
    keys = [given.key for given in game.replies[:4]]
    assert keys == [*((1, "signal", f"Agent_{n}", 0) for n in (1, 2, 3)), (1, "act", "Agent_1", 0)]
    assert json.loads(game.replies[3].text) == {"reasoning": "so", "action": "Hunt Stag"}
    assert (game.points[1, "Agent_1"], game.points[1, "Agent_3"]) == (0, 3)
    assert (game.players, game.byzantine, game.links) == ("llama+mixtral+qwen", "betray", None)


def test_experiments_become_parameters(tmp_path: Path) -> None:
    silent = {"experiment": "communication_topology_silent", "topology": "broadcast"}
    rows: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"experiment": "communication_topology", "topology": "ring"}, ("ring", "explicit", "any", "betray")),
        (silent, ("complete", "silent", "any", "betray")),
        ({"experiment": "byzantine_soft", "defect_prob": 0.5}, ("complete", "none", "any", "betray-0.5")),
        ({**STAR, "adversary_is_hub": True}, ("star", "explicit", "hub", "betray")),
    ]
    for number, (meta, (topology, disclosure, seat, byzantine)) in enumerate(rows):
        game = read(tmp_path / str(number), cheap_talk(["ssss"], adversary=1, **meta))
        told = {"rules": "published", "rounds": 1, "topology": topology, "disclosure": disclosure, "seat": seat}
        assert (game.parameters, game.byzantine) == (told, byzantine), meta


def test_who_sees_whom_is_as_in_the_file(tmp_path: Path) -> None:
    meta = {"experiment": "communication_topology", "topology": "ring", "visibility_map": RING}
    game = read(tmp_path, cheap_talk(["ssss"], **meta))
    pairs = [(1, 2), (1, 4), (2, 3), (3, 4)]
    assert game.links == [(f"Agent_{a}", f"Agent_{b}") for a, b in pairs]


def test_runs_of_another_length_are_told_apart(tmp_path: Path) -> None:
    assert read(tmp_path / "k1_10_trials_5_rounds", cheap_talk(["ss"])).players == "mixtral+qwen-10-trials"
    assert read(tmp_path / "k1_20_trials_5_rounds", cheap_talk(["ss"])).players == "mixtral+qwen"


def test_a_reply_that_their_code_could_not_read_is_none_of_ours(tmp_path: Path) -> None:
    content = cheap_talk(["ss"])
    decided = content["rounds_data"][1]["full_decisions"]["Agent_1"]
    decided |= {"action": None, "action_parsing_failed": True}
    # They asked twice and kept one text. What is JSON stays none that Parley could read.
    flat = '{"action": "Hunt Hare"}'
    for kept, text in (("I hunt the", "I hunt the"), (flat, json.dumps(flat))):
        decided["reasoning"] = kept
        replies = read(tmp_path / kept[:1], content).replies
        assert [(each.phase, each.text) for each in replies[2:4]] == [("act", text), ("act_again", text)]
        [checked], none = check(FORMAT.read(tmp_path / kept[:1]))
        assert none == []
        play, _ = played(checked)
        assert (play.outcome.name, play.outcome.metrics["excluded_rounds"]) == ("excluded", 1)


def test_what_is_no_game_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"holds no results\.json"):
        list(FORMAT.read(tmp_path))
    for trial, text in enumerate(('{"rounds_data": [', '{"other": 1}', "[1]"), 1):
        (tmp_path / f"trial_{trial}").mkdir()
        (tmp_path / f"trial_{trial}" / "results.json").write_text(text)
    found = [(defect.kind, defect.file) for defect in FORMAT.read(tmp_path) if isinstance(defect, Defect)]
    assert found == [(kind, f"trial_{n}/results.json") for n, kind in enumerate((UNREADABLE, NO_GAME, NO_GAME), 1)]
