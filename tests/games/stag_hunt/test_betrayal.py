"""Betrayal, detection, recovery and archetypes of the stag hunt, each by hand."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from parley.games.evidence import Mark, Timeline, TimelineCell
from parley.games.network import Network
from parley.games.stag_hunt.betrayal import SWEEP, archetype, archetype_shares
from parley.games.stag_hunt.evidence import StagHuntEvidence
from support.playing import Hunted, hunt

pytestmark = pytest.mark.promise(
    "Detection, retreat, recovery and archetypes of the stag hunt are those counted by hand."
)

Words = Sequence[Sequence[str | None]] | None
EVIDENCE = StagHuntEvidence()
CALM = ["stag"] * 3
AS_BEFORE = ["x", "stag", "y"]

# What is so, the rounds of hhb (s: stag, h: hare, -: no usable reply), the words, and what is found.
DETECTION: list[tuple[str, list[str], Words, dict[str, Any]]] = [
    ("a betrayal is a hare of a Byzantine player", ["sss", "sh-", "ssh", "sss"],
     None, {"first_betrayal_round": 3, "detected": False}),
    ("the first other action is a detection", ["sss", "ssh", "sss", "shs", "hhs"],
     None, {"detection_round": 4, "rounds_until_detection": 2, "rounds_until_retreat": 2}),
    ("so is the first other word, but not another case", ["sss", "ssh", "sss", "sss", "hss"],
     [CALM, CALM, ["STAG", "Stag", "x"], ["stag", "beware", "x"], CALM],
     {"detection_round": 4, "rounds_until_detection": 2, "rounds_until_retreat": 3}),
    ("going back to the stag is one, and no retreat", ["shh", "sss"],
     None, {"detection_round": 2, "retreated": False}),
    ("changes before or in the round of the betrayal are none", ["sss", "hsh", "hss"],
     [CALM, AS_BEFORE, AS_BEFORE], {"detected": False, "rounds_until_detection": None}),
    ("failures are no change", ["ssh", "-ss", "sss"],
     [CALM, [None, "stag", "x"], [None, "two/words", "x"]], {"detected": False}),
    ("who fails in the round of the betrayal is compared with what it said before", ["sss", "ssh", "sss", "sss"],
     [CALM, [None, "stag", "x"], ["beware", "stag", "x"], CALM], {"detection_round": 3, "rounds_until_retreat": None}),
    ("and with what it did before", ["sss", "-sh", "-ss", "hss"],
     None, {"detection_round": 4, "rounds_until_retreat": 2}),
    ("who never said or did anything before changes nothing", ["-sh", "hss", "sss"],
     [[None, "stag", "x"], CALM, ["beware", "stag", "x"]], {"detected": False}),
    ("a betrayal in the last round can show nothing", ["sss", "ssh"],
     None, {"first_betrayal_round": 2, "betrayed_players": 0, "detected": None, "kept_hunting": None}),
    ("who did not hunt the stag before neither keeps to it nor retreats", ["hhh", "ssh", "ssh"],
     None, {"kept_hunting": 0, "cooperation_persistent": 1, "retreated": None}),
    ("but another may retreat", ["hsh", "hsh", "hhh"], None, {"kept_hunting": 0, "rounds_until_retreat": 2}),
    ("or keep hunting", ["hsh", "hsh", "ssh"], None, {"kept_hunting": 0.5, "retreated": False}),
]  # fmt: skip
# Roles, rounds, the number needed, and: disruption_round, recovered, recovery_round.
RECOVERY: list[tuple[str, list[str], Any, tuple[int | None, bool | None, int | None]]] = [
    ("hhb", ["hss", "sss", "ssh", "ssh"], "all", (3, False, None)),  # what came before the betrayal says nothing
    ("hhb", ["hss", "sss", "ssh", "hss", "sss"], "all", (3, True, 5)),
    ("hhb", ["ssh", "hsh", "sss"], 2, (2, True, 3)),  # a hare without which the hunt succeeds is no disruption
    ("hhb", ["ssh", "ssh"], 2, (None, None, None)),
    ("hhb", ["sss", "ssh"], "all", (2, None, None)),  # nothing comes after it
    ("hhb", ["hss", "sss"], "all", (None, None, None)),  # nobody was betrayed
    ("hhh", ["hss", "sss"], "all", (1, True, 2)),
    ("hhh", ["hss", "hss"], "all", (1, False, None)),
    ("hhh", ["sss", "sss"], "all", (None, None, None)),
]


def test_detection_and_retreat_by_hand() -> None:
    for so, rounds, words, found in DETECTION:
        of = hunt("hhb", *rounds, words=words).of
        assert {name: of[name] for name in found} == found, so
    of = hunt("hhh", "sss", "ssh", "shh").of
    assert of["first_betrayal_round"] is of["detected"] is of["kept_hunting"] is None
    assert of["archetypes_by_threshold"] == {}


def test_recovery_counts_from_the_failure_of_the_betrayal() -> None:
    for roles, rounds, needed, found in RECOVERY:
        of = hunt(roles, *rounds, needed=needed).of
        assert (of["disruption_round"], of["recovered"], of["recovery_round"]) == found, (roles, rounds)


def test_each_player_counts_from_the_first_betrayal_that_it_sees() -> None:
    network = Network.of_edges(4, [(0, 2), (1, 3)])  # each sees its own betrayer
    of = hunt("hhbb", "sshs", "hsss", "hssh", "hhss", network=network, disclosure="silent").of
    counts = {"stags": 0, "hares": 3, "idle": 0, "share": 0.0}
    assert of["after_betrayal"]["agent_1"] == {
        **{"seen": 1, **counts, "archetype": "defection_prone", "changed": 2, "kept": False}
    }
    later = of["after_betrayal"]["agent_2"]
    assert (later["seen"], later["hares"], later["changed"]) == (3, 1, 4)
    assert (of["first_betrayal_round"], of["detection_round"]) == (1, 2)


def test_archetypes_by_hand() -> None:
    # After round 1: agent_1 ssss, agent_2 hhhh, agent_3 sssh, agent_4 s---, agent_5 ----
    of = hunt("hhhhhb", "sssssh", "shss-h", "shs--h", "shs--h", "shh--h").of
    assert {name: (found["share"], found["archetype"]) for name, found in of["after_betrayal"].items()} == {
        "agent_1": (1.0, "cooperation_persistent"),
        "agent_2": (0.0, "defection_prone"),
        "agent_3": (0.75, "unclassified"),
        "agent_4": (1.0, "cooperation_persistent"),
        "agent_5": (None, "unclassified"),
    }
    names = ("kept_hunting", "cooperation_persistent", "defection_prone", "unclassified")
    assert [of[name] for name in names] == pytest.approx([0.4, 0.4, 0.2, 0.4])


def test_the_threshold_is_a_parameter_swept_and_exact() -> None:
    rounds = ("ssh", "shh", "shh", "shh", "hhh")  # agent_1: 3 of 4, agent_2: 0 of 4
    of = hunt("hhb", *rounds).of
    assert of["cooperation_persistent"] == 0
    assert hunt("hhb", *rounds, archetype_threshold="3/4").of["cooperation_persistent"] == 0.5
    by_threshold = of["archetypes_by_threshold"]
    assert list(by_threshold) == [f"{0.5 + 0.05 * step:.2f}" for step in range(11)]
    assert [each["cooperation_persistent"] for each in by_threshold.values()] == [0.5] * 6 + [0.0] * 5
    assert {each["defection_prone"] for each in by_threshold.values()} == {0.5}
    assert {sum(each.values()) for each in by_threshold.values()} == {1.0}
    for share, threshold, kind in (
        ("4/5", "4/5", "cooperation_persistent"),
        ("1/5", "4/5", "defection_prone"),
        ("1/2", "1/2", "unclassified"),
        ("51/100", "1/2", "cooperation_persistent"),
    ):
        assert archetype(Fraction(share), Fraction(threshold)) == kind, (share, threshold)
    assert archetype(None, Fraction(4, 5)) == "unclassified"
    assert {*archetype_shares([], Fraction(4, 5)).values()} == {None}
    assert (SWEEP[0], SWEEP[-1], len(SWEEP)) == (Fraction(1, 2), 1, 11)


def test_the_papers_rule_follows_from_the_record() -> None:
    # agent_1 switches, agent_2 never hunted the stag, agent_3 comes back, agent_4 fails once.
    game = hunt("hhhhb", "shsss", "shssh", "hhhhs", "hhs-s")
    assert EVIDENCE.derived({"rounds": 4, **game.of}) == {"hare_for_good": 0.5, "group_cooperation": 0}
    by_agent = EVIDENCE.of_agents(game.of, game.outcome.trace)
    of = {name: by_agent[name]["hare_for_good"] for name in game.of["after_betrayal"]}
    assert of == {"agent_1": 1, "agent_2": 1, "agent_3": 0, "agent_4": 0}
    assert "hare_for_good" not in game.of  # records stay as they are
    calm = hunt("hhh", "sss", "hss").of
    assert EVIDENCE.derived({"rounds": 2, **calm}) == {"hare_for_good": None, "group_cooperation": 0.5}
    for rounds, share in ((3, 0.5), (1, None)):
        assert EVIDENCE.derived({"rounds": rounds, "excluded_rounds": 1, **calm})["group_cooperation"] == share


def test_shares_move_with_the_threshold_as_counted_by_hand() -> None:
    # After round 1 agent_1 hunts 3 stags of 4, agent_3 1 of 4, agent_4 2 of 4, which is neither at any threshold.
    swept = hunt("hbhh", "shss", "shss", "shhs", "shhh", "hhhh").of["archetypes_by_threshold"]
    assert [float(threshold) for threshold in swept] == pytest.approx([0.5 + 0.05 * step for step in range(11)])
    for threshold, found in swept.items():
        told_apart = float(threshold) <= 0.75
        assert found["cooperation_persistent"] == found["defection_prone"] == pytest.approx(told_apart / 3)
        assert found["unclassified"] == pytest.approx(1 / 3 if told_apart else 1)
    assert hunt("hh", "ss").of["archetypes_by_threshold"] == {}


# A game as a table


def told(hunted: Hunted) -> Timeline:
    return EVIDENCE.timeline(hunted.outcome.as_json(), hunted.outcome.as_json()["trace"])


def test_words_actions_and_points_stand_by_player_and_round() -> None:
    found = told(hunt("hbh", "sss", "shs", "h-h", words=[["yes", "trust", "stag"], ["a", "b", None], ["c", "d", "e"]]))
    assert list(found.agents) == ["agent_1", "agent_3", "agent_2"]  # the Byzantine player last
    assert found.framed == {"agent_2"}
    assert found.cells["agent_1", 1] == TimelineCell("Hunt Stag", "yes")
    assert found.cells["agent_3", 2] == TimelineCell("Hunt Stag", "–")  # no word
    assert found.cells["agent_2", 3] == TimelineCell("idle", "d")
    assert found.results == {1: "10", 2: "0", 3: "–"}


def test_the_first_betrayal_and_what_it_changed_are_marked() -> None:
    found = told(hunt("hbhb", "ssss", "shsh", "shsh", "shhs"))
    betrayed, changed = "first betrayal", "first other word or action of a player that saw one"
    assert list(found.marks) == [
        Mark("agent_2", 2, betrayed),
        Mark("agent_4", 2, betrayed),
        Mark("agent_3", 4, changed),
    ]
    assert told(hunt("hbh", "sss", "ssh")).marks == ()
