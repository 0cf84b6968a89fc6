"""What is wrong with a game is named by kind, file and round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.games import CUT_SHORT, MISSING, NO_GAME, PAYOFFS, UNASKED
from parley.imports.import_games import check, played
from support.records import cheap_talk, write_cheap_talk

pytestmark = pytest.mark.promise("Damage in a game that was played elsewhere is named by kind, file and round.")

GAME = cheap_talk(["ssh", "shh", "hhh"], adversary=3)


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
        games, defects = check(FORMAT.read(folder))
        assert len(games) == 2
        # An agent that is missing is told once, though it is asked twice.
        [defect] = [defect for defect in defects if defect.kind == kind]
        assert told in defect.text
        # An action that is missing has points that do not follow from it, too.
        assert {(defect.kind, defect.file) for defect in defects} <= {
            (each, "trial_03/results.json") for each in (kind, PAYOFFS)
        }


def test_who_sees_whom_is_played(tmp_path: Path) -> None:
    everyone = [f"Agent_{number}" for number in (1, 2, 3)]
    around = {"Agent_3": everyone, "Agent_1": ["Agent_3"], "Agent_2": ["Agent_3"]}  # no network of ours would be
    meta = {"experiment": "byzantine_star", "topology": "star", "visibility_map": around}
    write_cheap_talk(tmp_path, 1, cheap_talk(["ssh", "hhh"], 3, adversary_is_hub=True, **meta))
    [found], _ = check(FORMAT.read(tmp_path))
    play, _ = played(found)
    neighbors = {"Agent_1": ["Agent_3"], "Agent_2": ["Agent_3"], "Agent_3": ["Agent_1", "Agent_2"]}
    assert play.outcome.trace[0]["neighbors"] == neighbors
    assert play.outcome.metrics["byzantine_players"] == ["Agent_3"]


@pytest.mark.parametrize(
    ("change", "told"),
    [({"rounds": 0}, "greater than or equal to 1"), ({"rounds": 10_000}, "replies are missing"), ({"agents": []}, "")],
)
def test_what_the_rules_cannot_play_is_no_game(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    write_cheap_talk(tmp_path, 1, GAME, lambda content: content["metadata"].update(change))
    games, [none] = check(FORMAT.read(tmp_path))
    assert not games
    assert (none.kind, told in none.text) == (NO_GAME, True)
