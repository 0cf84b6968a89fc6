"""What can be played as a stag hunt, how conditions are paired, what is measured; docs/playthroughs shows hunts."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.base import new_game
from parley.games.parameters import Group
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from support.playing import hunt
from support.studies import StudyFactory

PAPER: dict[str, Any] = {"rules": "published"}


def agents(honest: int, byzantine: int = 0) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine)]


CANNOT_BE_PLAYED: list[tuple[dict[str, Any], list[Group], str]] = [
    ({}, agents(0, 3), "an honest player"),
    ({}, agents(1), "two players"),
    ({"needed": 5}, agents(4), "needed: 5"),
]
OUT_OF_RANGE: list[tuple[dict[str, Any], str]] = [
    ({"hare": 11}, "alone 0, hare 11, stag 10"),
    *(({"needed": needed}, "needed") for needed in (0, "some", True)),
    ({"topology": "ring"}, "set disclosure: silent or explicit"),
    ({"archetype_threshold": "2/5"}, "archetype_threshold"),
    ({"cooperative_words": ["two words"]}, "not one word"),
    ({"cooperative_words": ["stag", "Hare"]}, "promises no stag"),
    ({"nudge": True}, "nudge: needs rules: published"),
    *(({**PAPER, "cheap_talk": False, name: True}, "about words") for name in ("links_told", "nudge")),
    ({**PAPER, "reply_format": "text"}, "reply_format: json"),
]


def test_what_cannot_be_played_is_refused() -> None:
    for parameters, groups, named in CANNOT_BE_PLAYED:
        with pytest.raises(UsageError, match=named):
            StagHuntGame.check(StagHuntParameters(**parameters), groups)
        StagHuntGame.check(StagHuntParameters(**parameters), agents(4, 1))
    for parameters, named in OUT_OF_RANGE:
        with pytest.raises(ValueError, match=named):
            StagHuntParameters(**parameters)


@pytest.mark.promise("`rules: published` has the paper's defaults, prompts and excluded rounds.")
def test_the_published_rules_have_the_papers_defaults() -> None:
    p = StagHuntParameters(**PAPER)
    assert (p.rounds, p.retries, p.show_points, p.history_rounds) == (5, 0, True, None)
    assert [(s.temperature, s.max_tokens) for s in (p.signal, p.act)] == [(0.0, 512)] * 2
    assert StagHuntParameters(**PAPER, rounds=3).rounds == 3


def test_rules_and_switches_are_part_of_the_identity_only_where_they_are_set(study_factory: StudyFactory) -> None:
    def identity(**parameters: Any) -> str:
        grid = {"model": "grim_trigger", "prompt": "plain"}
        return study_factory(grid, game="stag_hunt", parameters=parameters).conditions[0].identity

    same = {identity(), identity(rules="parley"), identity(count_told=True, hides="words+actions")}
    assert len(same) == 1
    assert len({*same, identity(**PAPER), identity(**PAPER, nudge=True)}) == 3


def test_conditions_of_a_seed_are_paired() -> None:
    """The same names, places and first prompts, whoever plays and whatever is disclosed."""
    for seed in range(5):
        first = []
        for groups, disclosure in ((agents(4), "silent"), (agents(3, 1), "silent"), (agents(3, 1), "explicit")):
            given: Any = {"topology": {"kind": "erdos_renyi", "p": 0.5}, "disclosure": disclosure}
            game = new_game(StagHuntGame, StagHuntParameters(**given), groups, "plain", seed)
            asks = {ask.agent: ask for ask in next(game.play())}
            honest = [seat.name for seat in game.seats][:3]
            first.append((honest, game.network, [asks[name].user for name in honest]))
        assert first[0] == first[1] == first[2]


# What is measured


def test_payoffs_are_of_honest_players_and_of_all_rounds() -> None:
    played = hunt("hhb", "sss", "ssh", "shh")  # agent_1: 10 + 0 + 0, agent_2: 10 + 0 + 3
    of = played.of
    assert [entry["measures"]["cooperation"] for entry in played.outcome.trace] == [1, 1, 0.5]
    assert of["payoffs"] == {"agent_1": 10, "agent_2": 13, "agent_3": 16}
    assert (of["honest_payoff"], of["loss"]) == (pytest.approx(23 / 6), pytest.approx(10 - 23 / 6))
    assert (of["stag_share"], of["successes"]) == (pytest.approx(5 / 6), 1)
    assert (hunt("hh", "sh", stag=20).of["loss"], hunt("hh", "sh", alone=1).of["honest_payoff"]) == (18.5, 2)
    assert hunt("hhb", "--s", needed=1).outcome.name == "defection"
    assert hunt("hhhb", "sssh", needed=3).outcome.name == "cooperation"  # all honest ones
