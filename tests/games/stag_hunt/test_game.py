"""What can be played as a stag hunt, how conditions are paired, what is measured; docs/playthroughs shows hunts."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.base import Group, new_game
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import PRESETS, StagHuntParameters
from parley.games.stag_hunt.policies import POLICIES
from parley.policies.kinds import BY_MODEL, ChosenPolicy, PolicyKind, PolicyParameters
from support.hunting import hunt
from support.studies import StudyFactory

EVIDENCE = StagHuntGame.evidence
PAPER: dict[str, Any] = {"rules": "published"}


def agents(honest: int, byzantine: int = 0, policy: ChosenPolicy = BY_MODEL) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine, policy)]


CANNOT_BE_PLAYED: list[tuple[dict[str, Any], list[Group], str]] = [
    ({}, agents(0, 3), "an honest player"),
    ({}, agents(1), "two players"),
    ({"needed": 5}, agents(4), "needed: 5"),
    ({"topology": "ring", "disclosure": "silent"}, agents(2), "a ring needs 3"),
]
OUT_OF_RANGE: list[tuple[dict[str, Any], str]] = [
    ({"rounds": 0}, "rounds"),
    ({"hare": 11}, "alone 0, hare 11, stag 10"),
    ({"alone": 4}, "alone 4, hare 3"),
    ({"stag": 0, "hare": 0}, "above 0"),
    *(({"needed": needed}, "needed") for needed in (0, "some", True)),
    ({"topology": "ring"}, "set disclosure: silent or explicit"),
    ({"disclosure": "loud"}, "disclosure"),
    ({"archetype_threshold": "2/5"}, "archetype_threshold"),
    ({"cooperative_words": ["two words"]}, "not one word"),
    ({"cooperative_words": []}, "cooperative_words"),
    ({"cooperative_words": ["stag", "Hare"]}, "promises no stag"),
    ({"cheap_talk": False, "nudge": True}, "nudge is about words"),
    ({"cheap_talk": False, "hides": "words"}, "hides is about words"),
    ({**PAPER, "stag": 9}, "stag: 10, not 9"),
    ({**PAPER, "needed": 3}, "needed: all, not 3"),
    ({**PAPER, "cheap_talk": False}, "cheap_talk: True"),
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


def test_the_same_value_may_be_written_in_two_ways() -> None:
    assert StagHuntParameters(needed=3) == StagHuntParameters(needed="3")  # type: ignore[arg-type]
    assert [StagHuntParameters(needed=needed).hunters_needed(7) for needed in ("all", "3")] == [7, 3]
    assert StagHuntParameters(cooperative_words=["Stag", "stag"]).cooperative_words == ("stag",)  # type: ignore[arg-type]
    for (rules, disclosure), preset in PRESETS.items():
        by_name = {"disclosure": disclosure, "rules": rules}
        assert StagHuntParameters(**preset, **by_name) == StagHuntParameters(**by_name)  # type: ignore[arg-type]


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
    assert len({*same, identity(**PAPER), identity(nudge=True)}) == 3


def test_the_threat_model_is_the_papers_for_betrayers_alone() -> None:
    def told(*groups: Group) -> str:
        return StagHuntGame.threat_model(StagHuntParameters(), groups)

    def of(name: str) -> ChosenPolicy:
        return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters())

    own = ChosenPolicy(PolicyKind("mine:Policy", "", fingerprint="0"), PolicyParameters())
    assert told(*agents(4)) == "none"
    assert told(*agents(3, 1, of("betray"))) == "paper"
    assert told(*agents(3, 1)) == "beyond: asks a model"
    mixed = Group("byzantine", 1, of("always_hare"))
    assert told(*agents(3, 1, of("betray")), mixed) == "beyond: does not promise the stag and betray"
    assert told(*agents(3, 1, own)) == "unknown: own policy"


def test_players_are_asked_in_the_order_of_their_neutral_names() -> None:
    """Which says nothing of who is Byzantine."""
    places = set()
    for seed in range(12):
        asks = next(new_game(StagHuntGame, StagHuntParameters(), agents(10, 1), "plain", seed).play())
        assert [ask.agent for ask in asks] == [f"agent_{i + 1}" for i in range(11)]
        places |= {place for place, ask in enumerate(asks) if ask.role == "byzantine"}
    assert len(places) > 3


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


def test_what_is_declared_as_evidence_is_among_the_metrics() -> None:
    played = hunt("hhb", "sss", "ssh", "hhh")
    told = {**played.of, **EVIDENCE.derived({"rounds": 3, **played.of})}
    described = (*EVIDENCE.indicators, *EVIDENCE.quantities)
    missing = {each.name for each in described if told.get(each.name) is None}
    assert missing == {"excluded_rounds"}  # the published rules alone exclude any
    assert all(played.of[quantity.most] for quantity in EVIDENCE.quantities if quantity.most)
    bounded = {quantity.name for quantity in EVIDENCE.quantities if quantity.bounded}
    assert {"honest_payoff", "loss"} <= bounded
    for figure in EVIDENCE.figures:
        assert {*figure.of} <= {each.name for each in (*EVIDENCE.measures, *described)}, figure.name
        if figure.of and {*figure.of} <= bounded:
            assert "Wilson intervals" in " ".join(figure.caption.split()), figure.name
    assert {*played.outcome.trace[0]["measures"]} == {measure.name for measure in EVIDENCE.measures}


def test_series_have_the_measures_of_each_round() -> None:
    words = [["stag", "TRUST", "hare"], ["hare", None, "stag"], ["no"] * 3]
    outcome = hunt("hhb", "sss", "ssh", "hh-", words=words).outcome.as_json()
    assert EVIDENCE.series(outcome, outcome["trace"]) == {
        "cooperation": [(1, 1.0), (2, 1.0), (3, 0.0)],
        "success": [(1, 1.0), (2, 0.0), (3, 0.0)],
        "payoff": [(1, 1.0), (2, 0.0), (3, pytest.approx(0.3))],
        "promises": [(1, 1.0), (2, 0.0), (3, 0.0)],
    }
    silent = hunt("hh", "ss", cheap_talk=False).outcome.as_json()
    assert EVIDENCE.series(silent, silent["trace"])["promises"] == []


def test_payoffs_are_of_honest_players_and_of_all_rounds() -> None:
    of = hunt("hhb", "sss", "ssh", "shh").of  # agent_1: 10 + 0 + 0, agent_2: 10 + 0 + 3
    assert of["payoffs"] == {"agent_1": 10, "agent_2": 13, "agent_3": 16}
    assert (of["honest_payoff"], of["loss"]) == (pytest.approx(23 / 6), pytest.approx(10 - 23 / 6))
    assert (of["stag_share"], of["successes"]) == (pytest.approx(5 / 6), 1)
    assert (hunt("hh", "sh", stag=20).of["loss"], hunt("hh", "sh", alone=1).of["honest_payoff"]) == (18.5, 2)
    assert hunt("hhb", "--s", needed=1).outcome.name == "defection"
    assert hunt("hhhb", "sssh", needed=3).outcome.name == "cooperation"  # all honest ones
