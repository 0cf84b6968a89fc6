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
from support.hunting import chosen, letters, new_hunt
from support.scripted import play_scripted


def played(
    name: str,
    roles: str = "hhb",
    betray: dict[str, Any] | None = None,
    identity: int = 0,
    honest: dict[str, Any] | None = None,
    **given: Any,
) -> Any:
    policies = {"honest": chosen(name, **(honest or {})), "byzantine": chosen("betray", **(betray or {}))}
    return play_scripted(new_hunt(roles, policies=policies, **{"rounds": 4, **given}), identity)


def view(
    phase: str = "act", words: dict[str, str | None] | None = None, *history: dict[str, Action | None], number: int = 1
) -> StagHuntView:
    seen = tuple(Seen(i + 1, {}, actions, None) for i, actions in enumerate(history))
    return StagHuntView(phase, "honest", number, words or {}, seen, True, ("together", "stag"))


def said(name: str, seen: StagHuntView, **given: Any) -> str:
    policy = chosen(name, **given)
    assert policy.kind.rule is not None
    reply = policy.kind.rule(policy.parameters)(seen, np.random.default_rng(0))
    return str(reply.get("word", reply.get("action")))


def test_betrayers_and_the_four_honest_policies_by_round() -> None:
    assert letters(played("always_stag")) == ["ssh"] * 4
    assert letters(played("always_hare")) == ["hhh"] * 4
    assert letters(played("grim_trigger")) == ["ssh", "hhh", "hhh", "hhh"]
    assert letters(played("tit_for_tat")) == ["ssh", "hhh", "hhh", "hhh"]
    assert letters(played("win_stay_lose_shift")) == ["ssh", "hhh", "ssh", "hhh"]
    assert letters(played("follow_words")) == ["ssh"] * 4  # the betrayer promises


def test_without_a_betrayer_all_but_the_hares_cooperate() -> None:
    for name in ("always_stag", "grim_trigger", "tit_for_tat", "win_stay_lose_shift", "follow_words"):
        assert letters(played(name, "hhh")) == ["sss"] * 4
    assert letters(played("always_hare", "hhh")) == ["hhh"] * 4


def test_a_betrayer_starts_in_its_round() -> None:
    assert letters(played("always_stag", betray={"from_round": 3})) == ["sss", "sss", "ssh", "ssh"]
    assert letters(played("grim_trigger", betray={"from_round": 3})) == ["sss", "sss", "ssh", "hhh"]


@pytest.mark.slow
def test_a_betrayer_betrays_by_chance_in_each_round() -> None:
    rounds = letters(played("always_stag", rounds=1000, history_rounds=1, betray={"probability": 0.3}))
    assert rounds.count("ssh") == pytest.approx(300, abs=45)
    assert letters(played("always_stag", betray={"probability": 1.0})) == ["ssh"] * 4
    waits = letters(
        played("always_stag", rounds=1000, history_rounds=1, betray={"from_round": 501, "probability": 0.3})
    )
    assert set(waits[:500]) == {"sss"}
    assert 100 < waits[500:].count("ssh") < 200


def test_a_betrayer_promises_whatever_it_does() -> None:
    for given in ({}, {"from_round": 3}, {"probability": 0.5}):
        words = [entry["words"]["agent_3"] for entry in played("always_stag", betray=given).outcome.trace]
        assert words == ["stag"] * 4
    words = [entry["words"]["agent_3"] for entry in played("always_stag", betray={"word": "trust"}).outcome.trace]
    assert words == ["trust"] * 4


def test_grim_trigger_never_forgives_and_tit_for_tat_does() -> None:
    calm: dict[str, Action | None] = {YOU: STAG, "player_1": STAG, "player_2": STAG}
    hare: dict[str, Action | None] = {**calm, "player_2": HARE}
    after: dict[str, Action | None] = {**calm, YOU: HARE}
    assert said("grim_trigger", view("act", None, calm)) == STAG
    assert said("grim_trigger", view("act", None, hare, after)) == HARE
    assert said("grim_trigger", view("act", None, after)) == HARE  # it sees its own hare alone
    assert said("tit_for_tat", view("act", None, hare)) == HARE
    assert said("tit_for_tat", view("act", None, hare, after)) == STAG
    silent: dict[str, Action | None] = {**calm, "player_1": None}
    assert said("grim_trigger", view("act", None, silent)) == STAG
    assert said("tit_for_tat", view("act", None, silent)) == HARE


def test_win_stay_lose_shift_answers_to_its_points_alone() -> None:
    def after(mine: Action | None, others: str, **rules: int) -> str:
        seen = {YOU: mine, **{f"player_{i}": {"s": STAG, "h": HARE}.get(c) for i, c in enumerate(others)}}
        given = {"needed": 3, "stag": 10, "alone": 0, "hare": 3, **rules}
        return str(said("win_stay_lose_shift", replace(view("act", None, seen), **given)))

    assert after(STAG, "ssh") == STAG  # a hare that costs nothing
    assert after(STAG, "shh") == after(STAG, "ss", needed=4) == HARE
    assert after(HARE, "sss") == after(HARE, "hhh") == STAG  # a hare is no win
    assert after(HARE, "hhh", stag=3, alone=3) == STAG
    assert after(None, "sss") == STAG  # nor is nothing


def test_win_stay_lose_shift_takes_the_points_that_it_is_shown() -> None:
    network = Network.of_edges(3, [(0, 1)])  # nobody sees the betrayer
    told = {"network": network, "disclosure": "silent", "show_points": True}
    assert letters(played("win_stay_lose_shift", **told)) == ["ssh", "hhh", "ssh", "hhh"]
    modest = {"aspiration": 3}
    assert letters(played("win_stay_lose_shift", honest=modest)) == ["ssh", "hhh", "hhh", "hhh"]


def test_grim_trigger_remembers_with_a_short_history() -> None:
    betray = {"probability": 0.4}
    for identity in range(5):
        rounds = letters(played("grim_trigger", betray=betray, rounds=8, history_rounds=1, identity=identity))
        first = next(i for i, actions in enumerate(rounds) if actions.endswith("h"))
        assert [actions[:2] for actions in rounds] == ["ss"] * (first + 1) + ["hh"] * (7 - first)


def test_follow_words_hunts_the_stag_if_all_words_of_others_are_cooperative() -> None:
    assert said("follow_words", view("act", {YOU: "x", "player_1": "STAG", "player_2": "together"})) == STAG
    assert said("follow_words", view("act", {YOU: "stag", "player_1": "stag", "player_2": "hare"})) == HARE
    assert said("follow_words", view("act", {YOU: "stag", "player_1": None})) == HARE


def test_honest_players_say_what_they_do() -> None:
    hare: dict[str, Action | None] = {YOU: STAG, "player_1": HARE}
    for name, word in {
        "always_stag": "together",
        "always_hare": "hare",
        "grim_trigger": "hare",
        "tit_for_tat": "hare",
    }.items():
        assert said(name, view("signal", None, hare)) == word
    assert said("follow_words", view("signal", None, hare)) == "together"


def test_policies_see_their_neighbors_alone() -> None:
    network = Network.of_edges(3, [(0, 1)])  # nobody sees the betrayer
    for name in ("grim_trigger", "tit_for_tat", "follow_words"):
        assert letters(played(name, network=network, disclosure="silent")) == ["ssh"] * 4


@pytest.mark.parametrize(
    ("name", "given", "parameters", "words"),
    [
        ("grim_trigger", {}, {"history_rounds": 0}, "history_rounds: 0"),
        ("tit_for_tat", {}, {"history_rounds": 0}, "history_rounds: 0"),
        ("win_stay_lose_shift", {}, {"history_rounds": 0}, "history_rounds: 0"),
        (
            "win_stay_lose_shift",
            {},
            {"topology": "ring", "disclosure": "silent"},
            "topology: ring: .*show_points: true",
        ),
        ("win_stay_lose_shift", {"aspiration": 11}, {}, "aspiration: 11: above stag .10., so that it never wins"),
        ("follow_words", {}, {"cheap_talk": False}, "plays only with cheap_talk: true"),
        ("betray", {"word": "banana"}, {}, "word: banana: promises nothing"),
        ("betray", {}, {"cooperative_words": ["trust"]}, "word: stag: promises nothing"),
        ("betray", {"from_round": 4}, {"rounds": 3}, "from_round: 4: never betrays in 3 rounds; lower it"),
    ],
)
def test_policies_that_do_not_fit_the_game_are_refused(name: str, given: Any, parameters: Any, words: str) -> None:
    role = "byzantine" if name == "betray" else "honest"
    groups = [Group("honest", 2), Group(role, 1, chosen(name, **given))]
    with pytest.raises(UsageError, match=words):
        StagHuntGame.check(StagHuntParameters(**parameters), groups)
    StagHuntGame.check(StagHuntParameters(), [Group("honest", 2), Group(role, 1, chosen(name))])


@pytest.mark.parametrize(
    "given",
    [
        {"from_round": 0},
        {"probability": 0},
        {"probability": 1.5},
        {"word": "two words"},
    ],
)
def test_what_a_betrayer_cannot_be_told_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        chosen("betray", **given)


def test_a_betrayer_may_wait_for_the_last_round() -> None:
    groups = [Group("honest", 2), Group("byzantine", 1, chosen("betray", from_round=3))]
    StagHuntGame.check(StagHuntParameters(rounds=3), groups)
    assert letters(played("always_stag", rounds=3, betray={"from_round": 3})) == ["sss", "sss", "ssh"]


def test_betrayers_are_byzantine() -> None:
    assert POLICIES["betray"].roles == ("byzantine",)
