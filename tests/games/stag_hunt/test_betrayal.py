"""Betrayal, detection, persistence and archetypes of the stag hunt, each by hand."""

from fractions import Fraction
from typing import Any

import pytest

from parley.games.network.graph import Network
from parley.games.stag_hunt.betrayal import SWEEP, archetype, archetype_shares
from parley.games.stag_hunt.evidence import StagHuntEvidence
from parley.games.stag_hunt.parameters import StagHuntParameters
from support.hunting import hunt

CALM = ["stag"] * 3


def test_a_betrayal_is_a_hare_of_a_byzantine_player() -> None:
    assert hunt("hhb", "sss", "sh-", "ssh", "sss").of["first_betrayal_round"] == 3
    played = hunt("hhh", "sss", "ssh", "shh")
    assert played.of["first_betrayal_round"] is played.of["detected"] is played.of["kept_hunting"] is None
    assert played.of["archetypes_by_threshold"] == {}


def test_detection_is_the_first_other_action_after_it() -> None:
    played = hunt("hhb", "sss", "ssh", "sss", "shs", "hhs")
    assert (played.of["detected"], played.of["detection_round"], played.of["rounds_until_detection"]) == (True, 4, 2)
    assert played.of["rounds_until_retreat"] == 2


def test_detection_is_also_the_first_other_word() -> None:
    words = [CALM, CALM, ["STAG", "Stag", "x"], ["stag", "beware", "x"], CALM]
    played = hunt("hhb", "sss", "ssh", "sss", "sss", "hss", words=words)
    assert (played.of["detection_round"], played.of["rounds_until_detection"]) == (4, 2)
    assert played.of["rounds_until_retreat"] == 3


def test_going_back_to_the_stag_is_another_action_too() -> None:
    played = hunt("hhb", "shh", "sss")
    assert (played.of["detection_round"], played.of["after_betrayal"]["agent_2"]["changed"]) == (2, 2)
    assert played.of["rounds_until_retreat"] is None  # a hare hunter has nothing to retreat from


def test_changes_before_or_in_the_round_of_the_betrayal_are_none() -> None:
    played = hunt("hhb", "sss", "hsh", "hss", words=[CALM, ["x", "stag", "y"], ["x", "stag", "y"]])
    assert played.of["detected"] is False
    assert played.of["rounds_until_detection"] is None


def test_failures_are_no_detection() -> None:
    played = hunt("hhb", "ssh", "-ss", "sss", words=[CALM, [None, "stag", "x"], [None, "two/words", "x"]])
    assert played.of["detected"] is False
    assert played.of["after_betrayal"]["agent_1"]["idle"] == 1


def test_who_fails_in_the_round_of_the_betrayal_detects_it_by_what_it_did_before() -> None:
    words = [CALM, [None, "stag", "x"], ["beware", "stag", "x"], CALM]
    by_word = hunt("hhb", "sss", "ssh", "sss", "sss", words=words)
    assert (by_word.of["detection_round"], by_word.of["rounds_until_retreat"]) == (3, None)
    by_action = hunt("hhb", "sss", "-sh", "-ss", "hss")
    assert (by_action.of["detection_round"], by_action.of["rounds_until_retreat"]) == (4, 2)


def test_who_never_said_or_did_anything_before_changes_nothing() -> None:
    played = hunt("hhb", "-sh", "hss", "sss", words=[[None, "stag", "x"], CALM, ["beware", "stag", "x"]])
    assert played.of["after_betrayal"]["agent_1"]["changed"] is None


def test_a_betrayal_in_the_last_round_can_show_nothing() -> None:
    played = hunt("hhb", "sss", "ssh")
    assert played.of["first_betrayal_round"] == 2
    assert (played.of["betrayed_players"], played.of["detected"], played.of["kept_hunting"]) == (0, None, None)


def test_each_player_counts_from_the_first_betrayal_that_it_sees() -> None:
    # agent_1 - agent_3(b), agent_2 - agent_4(b): each sees its own betrayer.
    network = Network.of_edges(4, [(0, 2), (1, 3)])
    played = hunt("hhbb", "sshs", "hsss", "hssh", "hhss", network=network, disclosure="silent")
    after = played.of["after_betrayal"]
    assert after["agent_1"] == {
        "seen": 1,
        "stags": 0,
        "hares": 3,
        "idle": 0,
        "share": 0.0,
        "archetype": "defection_prone",
        "changed": 2,
        "kept": False,
    }
    assert (after["agent_2"]["seen"], after["agent_2"]["hares"], after["agent_2"]["changed"]) == (3, 1, 4)
    assert (played.of["first_betrayal_round"], played.of["detection_round"]) == (1, 2)


def test_who_did_not_hunt_the_stag_before_does_not_keep_to_it_nor_retreats() -> None:
    played = hunt("hhb", "hhh", "ssh", "ssh")
    assert (played.of["kept_hunting"], played.of["cooperation_persistent"], played.of["retreated"]) == (0, 1, None)
    played = hunt("hhb", "hsh", "hsh", "hhh")
    assert (played.of["kept_hunting"], played.of["retreated"], played.of["rounds_until_retreat"]) == (0, True, 2)
    assert hunt("hhb", "hsh", "hsh", "ssh").of["kept_hunting"] == 0.5
    assert hunt("hhb", "hsh", "hsh", "ssh").of["retreated"] is False


def test_recovery_counts_from_the_failure_of_the_betrayal() -> None:
    def recovery(roles: str, *rounds: str, **given: Any) -> tuple[Any, ...]:
        of = hunt(roles, *rounds, **given).of
        return of["disruption_round"], of["recovered"], of["recovery_round"]

    # A failure before it, and a success between them, say nothing of the betrayal.
    assert recovery("hhb", "hss", "sss", "ssh", "ssh") == (3, False, None)
    assert recovery("hhb", "hss", "sss", "ssh", "hss", "sss") == (3, True, 5)
    # Where hunts succeed without the betrayer its first hare is no disruption.
    assert recovery("hhb", "ssh", "hsh", "sss", needed=2) == (2, True, 3)
    assert recovery("hhb", "ssh", "ssh", needed=2) == (None, None, None)
    assert recovery("hhb", "sss", "ssh") == (2, None, None)  # nothing comes after it
    assert recovery("hhb", "hss", "sss") == (None, None, None)  # nobody was betrayed
    assert recovery("hhh", "hss", "sss") == (1, True, 2)
    assert recovery("hhh", "hss", "hss") == (1, False, None)


def test_who_sees_no_betrayer_detects_nothing() -> None:
    network = Network.of_edges(3, [(0, 1)])
    played = hunt("hhb", "ssh", "hhh", network=network, disclosure="silent")
    assert (played.of["first_betrayal_round"], played.of["betrayed_players"], played.of["detected"]) == (1, 0, None)


def test_persistence_and_archetypes_by_hand() -> None:
    # After round 1: agent_1 ssss, agent_2 hhhh, agent_3 sssh, agent_4 s---, agent_5 ----
    played = hunt("hhhhhb", "sssssh", "shss-h", "shs--h", "shs--h", "shh--h")
    found = {name: (of["share"], of["archetype"]) for name, of in played.of["after_betrayal"].items()}
    assert found == {
        "agent_1": (1.0, "cooperation_persistent"),
        "agent_2": (0.0, "defection_prone"),
        "agent_3": (0.75, "unclassified"),
        "agent_4": (1.0, "cooperation_persistent"),
        "agent_5": (None, "unclassified"),
    }
    assert played.of["kept_hunting"] == pytest.approx(2 / 5)
    assert (played.of["cooperation_persistent"], played.of["defection_prone"]) == (
        pytest.approx(0.4),
        pytest.approx(0.2),
    )
    assert played.of["unclassified"] == pytest.approx(0.4)


def test_the_threshold_is_a_parameter_and_swept() -> None:
    rounds = ("ssh", "shh", "shh", "shh", "hhh")  # agent_1: 3 of 4, agent_2: 0 of 4
    played = hunt("hhb", *rounds)
    assert played.of["cooperation_persistent"] == 0
    assert hunt("hhb", *rounds, archetype_threshold="3/4").of["cooperation_persistent"] == 0.5
    by_threshold = played.of["archetypes_by_threshold"]
    assert list(by_threshold) == [
        "0.50",
        "0.55",
        "0.60",
        "0.65",
        "0.70",
        "0.75",
        "0.80",
        "0.85",
        "0.90",
        "0.95",
        "1.00",
    ]
    persistent = [of["cooperation_persistent"] for of in by_threshold.values()]
    assert persistent == [0.5] * 6 + [0.0] * 5
    for of in by_threshold.values():
        assert sum(of.values()) == pytest.approx(1)
        assert of["defection_prone"] == 0.5


@pytest.mark.parametrize(
    ("share", "threshold", "kind"),
    [
        ("4/5", "4/5", "cooperation_persistent"),
        ("79/100", "4/5", "unclassified"),
        ("1/5", "4/5", "defection_prone"),
        ("21/100", "4/5", "unclassified"),
        ("1/2", "1/2", "unclassified"),
        ("51/100", "1/2", "cooperation_persistent"),
        ("49/100", "1/2", "defection_prone"),
        ("1", "1", "cooperation_persistent"),
        ("0", "1", "defection_prone"),
        (None, "4/5", "unclassified"),
    ],
)
def test_thresholds_are_exact(share: Any, threshold: str, kind: str) -> None:
    assert archetype(None if share is None else Fraction(share), Fraction(threshold)) == kind


def test_shares_of_nobody_are_missing() -> None:
    assert set(archetype_shares([], Fraction(4, 5)).values()) == {None}
    assert (SWEEP[0], SWEEP[-1], len(SWEEP)) == (Fraction(1, 2), 1, 11)


def test_the_papers_rule_follows_from_the_record() -> None:
    # agent_1 switches, agent_2 never hunted the stag, agent_3 comes back, agent_4 fails once.
    played = hunt("hhhhb", "shsss", "shssh", "hhhhs", "hhs-s")
    evidence = StagHuntEvidence()
    assert evidence.derived({"rounds": 4, **played.of}) == {"hare_for_good": 0.5, "group_cooperation": 0}
    of = {name: found["hare_for_good"] for name, found in evidence.of_agents(played.of).items()}
    assert of == {"agent_1": 1, "agent_2": 1, "agent_3": 0, "agent_4": 0}
    assert "hare_for_good" not in played.of  # records stay as they are
    calm = hunt("hhh", "sss", "hss").of
    assert evidence.derived({"rounds": 2, **calm}) == {"hare_for_good": None, "group_cooperation": 0.5}
    assert evidence.derived({"rounds": 3, "excluded_rounds": 1, **calm})["group_cooperation"] == 0.5
    assert evidence.derived({"rounds": 1, "excluded_rounds": 1, **calm})["group_cooperation"] is None


def test_what_betrayed_players_did_and_what_it_paid() -> None:
    game = hunt("hhhhb", "shsss", "shssh", "hhhhs", "hhs-s")
    told = StagHuntEvidence().behaved(StagHuntParameters(), game.of, list(game.outcome.trace))
    assert {name: set(each.shown) for name, each in told.items()} == {
        "agent_1": {"hare_for_good", "switched_for_good"},
        "agent_2": {"hare_for_good", "preemptive"},
        "agent_3": {"stag_again"},
        "agent_4": set(),  # its only action after the betrayal is a hare, and a reply failed
    }
    assert (told["agent_1"].payoff, told["agent_2"].payoff) == (1.5, 3)  # of all four rounds
    assert (told["agent_1"].cost, told["agent_2"].cost) == (1.5, 0)
