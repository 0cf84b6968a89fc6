"""Which scripted players fit which stag hunt; docs/playthroughs and test_theory.py show what they do."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.parameters import Group
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.games.stag_hunt.policies import POLICIES
from parley.policies.kinds import ChosenPolicy


def chosen(name: str, **given: Any) -> ChosenPolicy:
    return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters(**given))


MISFITS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("win_stay_lose_shift", {}, {"topology": "ring", "disclosure": "silent"}, "topology: ring: .*show_points: true"),
    ("follow_words", {}, {"cheap_talk": False}, "cheap_talk: true"),
    ("betray", {"word": "banana"}, {}, "word: banana"),
    ("betray", {}, {"cooperative_words": ["trust"]}, "word: stag"),
]


def test_policies_that_do_not_fit_the_game_are_refused() -> None:
    for name, given, parameters, named in MISFITS:
        role = "byzantine" if name == "betray" else "honest"
        with pytest.raises(UsageError, match=named):
            StagHuntGame.check(
                StagHuntParameters(**parameters), [Group("honest", 2), Group(role, 1, chosen(name, **given))]
            )
        StagHuntGame.check(StagHuntParameters(), [Group("honest", 2), Group(role, 1, chosen(name))])
    assert POLICIES["betray"].roles == ("byzantine",)
