"""The scripted players of the stag hunt: each against answers that are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parley.errors import UsageError
from parley.games.base import Group
from parley.games.network.graph import Network
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.games.stag_hunt.policies import POLICIES
from parley.games.stag_hunt.state import HARE, STAG, YOU, Action, Seen, StagHuntView
from parley.policies.kinds import ChosenPolicy
from support.hunting import letters, new_hunt
from support.playthrough import by_hand

LISTENERS = ("grim_trigger", "tit_for_tat", "win_stay_lose_shift", "follow_words")
UNSEEN = {"network": Network.of_edges(3, [(0, 1)]), "disclosure": "silent"}  # nobody sees the betrayer


def chosen(name: str, **given: Any) -> ChosenPolicy:
    return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters(**given))


def played(name: Any, roles: str = "hhb", betray: dict[str, Any] | None = None, **given: Any) -> list[str]:
    """Return what was done, round by round."""
    honest = name if isinstance(name, ChosenPolicy) else chosen(name)
    policies = {"honest": honest, "byzantine": chosen("betray", **(betray or {}))}
    return letters(by_hand(new_hunt(roles, policies=policies, **{"rounds": 4, **given})))


def said(name: str, phase: str = "act", words: Any = None, *history: dict[str, Action | None], **rules: Any) -> str:
    """Return what a player says or does who saw this."""
    seen = tuple(Seen(i + 1, {}, actions, None) for i, actions in enumerate(history))
    view = replace(StagHuntView(phase, "honest", 1, words or {}, seen, True, ("together", "stag")), **rules)
    rule = POLICIES[name].rule
    assert rule is not None
    reply = rule(chosen(name).parameters)(view, np.random.default_rng(0))
    return str(reply.get("word", reply.get("action")))


def test_what_players_do_beside_a_betrayer_and_without_one() -> None:
    beside = {
        "always_stag": ["ssh"] * 4,
        "always_hare": ["hhh"] * 4,
        "grim_trigger": ["ssh", "hhh", "hhh", "hhh"],
        "tit_for_tat": ["ssh", "hhh", "hhh", "hhh"],
        "win_stay_lose_shift": ["ssh", "hhh", "ssh", "hhh"],
        "follow_words": ["ssh"] * 4,  # the betrayer promises
    }
    for name, rounds in beside.items():
        assert played(name) == rounds, name
        assert played(name, "hhh") == (["hhh"] if name == "always_hare" else ["sss"]) * 4, name
    assert played("grim_trigger", betray={"from_round": 3}) == ["sss", "sss", "ssh", "hhh"]
    for name in ("grim_trigger", "tit_for_tat", "follow_words"):
        assert played(name, **UNSEEN) == ["ssh"] * 4, name


@pytest.mark.slow
def test_a_betrayer_betrays_by_chance_in_each_round_from_its_first_on() -> None:
    long = {"rounds": 400, "history_rounds": 1, "cheap_talk": False}
    assert played("always_stag", **long, betray={"probability": 0.3}).count("ssh") == pytest.approx(120, abs=28)
    waits = played("always_stag", **long, betray={"from_round": 201, "probability": 0.3})
    assert {*waits[:200]} == {"sss"}
    assert waits[200:].count("ssh") == pytest.approx(60, abs=20)


def test_grim_trigger_never_forgives_and_tit_for_tat_does() -> None:
    calm: dict[str, Action | None] = {YOU: STAG, "player_1": STAG, "player_2": STAG}
    hare, after, silent = {**calm, "player_2": HARE}, {**calm, YOU: HARE}, {**calm, "player_1": None}
    for history, grim, tit in (
        ([calm], STAG, STAG),
        ([hare], HARE, HARE),
        ([hare, after], HARE, STAG),
        ([after], HARE, STAG),  # a grim one remembers by its own hare alone
        ([silent], STAG, HARE),
    ):
        assert (said("grim_trigger", "act", None, *history), said("tit_for_tat", "act", None, *history)) == (grim, tit)
    rounds = played("grim_trigger", betray={"probability": 0.4}, rounds=8, history_rounds=1)
    first = next(place for place, actions in enumerate(rounds) if actions.endswith("h"))
    assert [actions[:2] for actions in rounds] == ["ss"] * (first + 1) + ["hh"] * (7 - first)


def test_win_stay_lose_shift_answers_to_its_points_alone() -> None:
    def after(mine: Action | None, others: str, **rules: int) -> str:
        seen = {YOU: mine, **{f"player_{i}": {"s": STAG, "h": HARE}.get(c) for i, c in enumerate(others)}}
        return said("win_stay_lose_shift", "act", None, seen, **{"needed": 3, "stag": 10, "hare": 3, **rules})

    assert after(STAG, "ssh") == STAG  # a hare that costs nothing
    assert after(STAG, "shh") == after(STAG, "ss", needed=4) == HARE
    assert after(HARE, "sss") == after(HARE, "hhh") == STAG  # a hare is no win
    assert after(HARE, "hhh", stag=3, alone=3) == after(None, "sss") == STAG
    assert played("win_stay_lose_shift", **UNSEEN, show_points=True) == ["ssh", "hhh", "ssh", "hhh"]
    modest = chosen("win_stay_lose_shift", aspiration=3)
    assert played(modest, **UNSEEN, show_points=True) == ["ssh", "hhh", "hhh", "hhh"]


def test_players_say_what_they_do_and_follow_words_listens() -> None:
    hare: dict[str, Action | None] = {YOU: STAG, "player_1": HARE}
    for name, word in (("always_stag", "together"), ("follow_words", "together")):
        assert said(name, "signal", None, hare) == word
    for name in ("always_hare", "grim_trigger", "tit_for_tat"):
        assert said(name, "signal", None, hare) == "hare"
    for words, action in (
        ({YOU: "x", "player_1": "STAG", "player_2": "together"}, STAG),
        ({YOU: "stag", "player_1": "stag", "player_2": "hare"}, HARE),
        ({YOU: "stag", "player_1": None}, HARE),
    ):
        assert said("follow_words", "act", words) == action, words


MISFITS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *((name, {}, {"history_rounds": 0}, "history_rounds: 0") for name in LISTENERS[:3]),
    ("win_stay_lose_shift", {}, {"topology": "ring", "disclosure": "silent"}, "topology: ring: .*show_points: true"),
    ("win_stay_lose_shift", {"aspiration": 11}, {}, "aspiration: 11: above stag"),
    ("follow_words", {}, {"cheap_talk": False}, "cheap_talk: true"),
    ("betray", {"word": "banana"}, {}, "word: banana"),
    ("betray", {}, {"cooperative_words": ["trust"]}, "word: stag"),
    ("betray", {"from_round": 4}, {"rounds": 3}, "from_round: 4: never betrays in 3 rounds"),
]


def test_policies_that_do_not_fit_the_game_are_refused() -> None:
    for name, given, parameters, named in MISFITS:
        role = "byzantine" if name == "betray" else "honest"
        with pytest.raises(UsageError, match=named):
            StagHuntGame.check(
                StagHuntParameters(**parameters), [Group("honest", 2), Group(role, 1, chosen(name, **given))]
            )
        StagHuntGame.check(StagHuntParameters(), [Group("honest", 2), Group(role, 1, chosen(name))])
    last = [Group("honest", 2), Group("byzantine", 1, chosen("betray", from_round=3))]
    StagHuntGame.check(StagHuntParameters(rounds=3), last)
    for wrong in ({"from_round": 0}, {"probability": 0}, {"probability": 1.5}, {"word": "two words"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            chosen("betray", **wrong)
    assert POLICIES["betray"].roles == ("byzantine",)
