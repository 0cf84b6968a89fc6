"""Stag hunts: how they go, what they pay, how they end and what is measured, each by hand."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.base import Group, new_game
from parley.games.network.graph import Network
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.games.stag_hunt.policies import POLICIES
from parley.policies.kinds import BY_MODEL, ChosenPolicy, PolicyKind, PolicyParameters
from support.hunting import hunt, new_hunt


def points(played: Any, number: int = 1) -> list[int]:
    return list(played.outcome.trace[number - 1]["points"].values())


# Payoffs


def test_all_get_the_stag_if_all_hunt_it() -> None:
    played = hunt("hhhh", "ssss")
    assert points(played) == [10, 10, 10, 10]
    assert played.outcome.name == "cooperation"


def test_one_hare_leaves_stag_hunters_with_nothing() -> None:
    played = hunt("hhhh", "sssh")
    assert points(played) == [0, 0, 0, 3]
    assert played.outcome.name == "exploited"


def test_who_gives_no_action_hunts_nothing_and_is_counted() -> None:
    played = hunt("hhhh", "sss-")
    assert points(played) == [0, 0, 0, 0]
    assert played.outcome.name == "exploited"
    assert played.of["idle"] == 1
    assert played.outcome.trace[0]["actions"]["agent_4"] is None


def test_a_number_of_stag_hunters_can_suffice() -> None:
    played = hunt("hhhh", "sssh", needed=3)
    assert points(played) == [10, 10, 10, 3]
    assert played.outcome.name == "partial_cooperation"
    assert points(hunt("hhhh", "sshh", needed=3)) == [0, 0, 3, 3]
    assert hunt("hhhb", "sssh", needed=3).outcome.name == "cooperation"  # all honest ones


def test_payoffs_are_parameters() -> None:
    assert points(hunt("hh", "ss", stag=20)) == [20, 20]
    assert points(hunt("hh", "sh", alone=1)) == [1, 3]
    assert points(hunt("hh", "sh", hare=5)) == [0, 5]


def test_nobody_honest_hunting_the_stag_is_defection() -> None:
    assert hunt("hhb", "hhs").outcome.name == "defection"
    assert hunt("hhb", "--s", needed=1).outcome.name == "defection"


def test_the_last_round_names_the_outcome_and_all_rounds_are_played() -> None:
    played = hunt("hhh", "sss", "ssh", "hhh")
    assert (played.outcome.name, played.outcome.rounds, played.outcome.finished_early) == ("defection", 3, False)
    assert len(hunt("hhh", *["sss"] * 7).phases) == 14
    asks = new_hunt()
    assert asks.parameters.rounds == 10


# Metrics by hand


def test_payoff_loss_and_cooperation_are_of_honest_players_alone() -> None:
    played = hunt("hhb", "sss", "ssh", "shh")
    # agent_1: 10 + 0 + 0, agent_2: 10 + 0 + 3, agent_3: 10 + 3 + 3
    assert played.of["payoffs"] == {"agent_1": 10, "agent_2": 13, "agent_3": 16}
    assert played.of["honest_payoff"] == pytest.approx(23 / 6)
    assert played.of["loss"] == pytest.approx(10 - 23 / 6)
    assert played.of["stag_share"] == pytest.approx(5 / 6)
    assert played.of["successes"] == 1
    assert played.of["byzantine_players"] == ["agent_3"]
    assert hunt("hh", "sh", stag=20).of["loss"] == pytest.approx(20 - 1.5)
    assert (played.of["full_payoff"], hunt("hh", "sh", stag=20).of["full_payoff"]) == (10, 20)


def test_recovery_is_a_success_after_a_failure() -> None:
    assert hunt("hh", "ss", "ss").of["recovered"] is None
    played = hunt("hh", "ss", "sh", "hh", "ss", "ss")
    assert (played.of["first_failure_round"], played.of["recovered"], played.of["recovery_round"]) == (2, True, 4)
    played = hunt("hh", "ss", "sh", "hh")
    assert (played.of["recovered"], played.of["recovery_round"]) == (False, None)
    assert hunt("hh", "ss", "sh").of["recovered"] is None  # no round was left


def test_measures_by_round() -> None:
    played = hunt("hhb", "sss", "ssh", "hh-", words=[["stag", "TRUST", "hare"], ["hare", None, "stag"], ["no"] * 3])
    series = StagHuntGame.evidence.series(played.outcome.as_json(), played.outcome.as_json()["trace"])
    assert series == {
        "cooperation": [(1, 1.0), (2, 1.0), (3, 0.0)],
        "success": [(1, 1.0), (2, 0.0), (3, 0.0)],
        "payoff": [(1, 1.0), (2, 0.0), (3, pytest.approx(0.3))],
        "promises": [(1, 1.0), (2, 0.0), (3, 0.0)],
    }
    silent = hunt("hh", "ss", cheap_talk=False).outcome.as_json()
    assert StagHuntGame.evidence.series(silent, silent["trace"])["promises"] == []


def test_cooperative_words_are_a_parameter() -> None:
    words = [["Onwards", "stag"]]
    assert hunt("hh", "ss", words=words).outcome.trace[0]["measures"]["promises"] == 0.5
    given = hunt("hh", "ss", words=words, cooperative_words=["ONWARDS", "stag"])
    assert given.outcome.trace[0]["measures"]["promises"] == 1
    twice = StagHuntParameters(cooperative_words=["Stag", "stag"])  # type: ignore[arg-type]
    assert twice.cooperative_words == ("stag",)


def test_what_is_declared_as_evidence_is_among_the_metrics() -> None:
    played = hunt("hhb", "sss", "ssh", "hhh")
    told = {**played.of, **StagHuntGame.evidence.derived({"rounds": 3, **played.of})}
    for described in (*StagHuntGame.evidence.indicators, *StagHuntGame.evidence.quantities):
        if described.name == "excluded_rounds":  # the published rules alone exclude any
            continue
        assert told[described.name] is not None or described.name in ("recovered",)
    assert all(played.of[quantity.most] for quantity in StagHuntGame.evidence.quantities if quantity.most)
    names = {name for figure in StagHuntGame.evidence.figures for name in figure.of}
    known = {
        x.name
        for x in (
            *StagHuntGame.evidence.measures,
            *StagHuntGame.evidence.indicators,
            *StagHuntGame.evidence.quantities,
        )
    }
    assert names <= known
    bounded = {quantity.name for quantity in StagHuntGame.evidence.quantities if quantity.bounded}
    assert {"honest_payoff", "loss"} <= bounded
    for figure in StagHuntGame.evidence.figures:
        if figure.of and set(figure.of) <= bounded:
            assert "Wilson intervals" in " ".join(figure.caption.split()), figure.name
    assert set(played.outcome.trace[0]["measures"]) == {measure.name for measure in StagHuntGame.evidence.measures}


def test_the_trace_has_all_that_a_timeline_needs() -> None:
    network = Network.of_edges(3, [(0, 1), (1, 2)])
    played = hunt("hhb", "ssh", "sss", words=[["a/b", None, "stag"], ["x"] * 3], network=network, disclosure="silent")
    first, second = played.outcome.trace
    assert first["words"] == {"agent_1": None, "agent_2": None, "agent_3": "stag"}
    assert first["not_words"] == {"agent_1": "a/b"}
    assert (first["hunters"], first["success"]) == (2, False)
    assert first["neighbors"] == {"agent_1": ["agent_2"], "agent_2": ["agent_1", "agent_3"], "agent_3": ["agent_2"]}
    assert "neighbors" not in second
    assert (played.of["no_words"], played.of["not_words"]) == (2, 1)
    assert (played.of["diameter"], played.of["edges"]) == (2, 2)


# What can be played


def agents(honest: int, byzantine: int = 0, policy: ChosenPolicy = BY_MODEL) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine, policy)]


@pytest.mark.parametrize(
    ("parameters", "groups", "words"),
    [
        ({}, agents(0, 3), "needs an honest player"),
        ({}, agents(1), "needs two players"),
        ({"needed": 5}, agents(4), "needed: 5: more than the players"),
        ({"topology": "ring", "disclosure": "silent"}, agents(2), "a ring needs 3"),
    ],
)
def test_what_cannot_be_played_is_refused(parameters: Any, groups: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        StagHuntGame.check(StagHuntParameters(**parameters), groups)
    StagHuntGame.check(StagHuntParameters(**parameters), agents(4, 1))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rounds": 0}, "rounds"),
        ({"hare": 11}, "payoffs alone 0, hare 11, stag 10"),
        ({"alone": 4}, "payoffs alone 4, hare 3"),
        ({"stag": 0, "hare": 0}, "stag must be above 0"),
        ({"needed": 0}, "needed"),
        ({"needed": "some"}, "needed"),
        ({"needed": True}, "needed"),
        ({"topology": "ring"}, "set disclosure: silent or explicit"),
        ({"disclosure": "loud"}, "disclosure"),
        ({"archetype_threshold": "2/5"}, "archetype_threshold must be 1/2 at least"),
        ({"cooperative_words": ["two words"]}, "is not one word"),
        ({"cooperative_words": []}, "cooperative_words"),
        ({"cooperative_words": ["stag", "Hare"]}, "promises no stag"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StagHuntParameters(**parameters)


def test_the_number_needed_is_the_same_value_however_it_is_written() -> None:
    assert StagHuntParameters(needed=3) == StagHuntParameters(needed="3")  # type: ignore[arg-type]
    assert StagHuntParameters().hunters_needed(7) == 7
    assert StagHuntParameters(needed="3").hunters_needed(7) == 3


def test_the_threat_model_is_the_papers_for_betrayers_alone() -> None:
    parameters = StagHuntParameters()

    def told(*groups: Group) -> str:
        return StagHuntGame.threat_model(parameters, groups)

    def of(name: str) -> ChosenPolicy:
        return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters())

    assert told(*agents(4)) == "none"
    assert told(*agents(3, 1, of("betray"))) == "paper"
    assert told(*agents(3, 1)) == "beyond: asks a model"
    mixed = Group("byzantine", 1, of("always_hare"))
    assert told(*agents(3, 1, of("betray")), mixed) == "beyond: does not promise the stag and betray"
    own = ChosenPolicy(PolicyKind("mine:Policy", "", fingerprint="0"), PolicyParameters())
    assert told(*agents(3, 1, own)) == "unknown: own policy"


# Pairing


def test_players_are_asked_in_the_order_of_their_neutral_names() -> None:
    """Which says nothing of who is Byzantine."""
    places = set()
    for seed in range(12):
        game = new_game(StagHuntGame, StagHuntParameters(), agents(10, 1), "plain", seed)
        asks = next(game.play())
        assert [ask.agent for ask in asks] == [f"agent_{i + 1}" for i in range(11)]
        places |= {place for place, ask in enumerate(asks) if ask.role == "byzantine"}
    assert len(places) > 3


def test_conditions_of_a_seed_are_paired() -> None:
    """The same names, places and first prompts, whoever plays and whatever is disclosed."""
    for seed in range(5):
        first = []
        for groups, disclosure in ((agents(4), "silent"), (agents(3, 1), "silent"), (agents(3, 1), "explicit")):
            parameters = StagHuntParameters(
                topology={"kind": "erdos_renyi", "p": 0.5},  # type: ignore[arg-type]
                disclosure=disclosure,  # type: ignore[arg-type]
            )
            game = new_game(StagHuntGame, parameters, groups, "plain", seed)
            asks = {ask.agent: ask for ask in next(game.play())}
            honest = [seat.name for seat in game.seats][:3]
            first.append((honest, game.network, [asks[name].user for name in honest]))
        assert first[0] == first[1] == first[2]
