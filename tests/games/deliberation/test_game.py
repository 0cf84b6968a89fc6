"""Deliberations: how they go and how they end, each by hand-made answers."""

from typing import Any

import numpy as np
import pytest

from parley.errors import UsageError
from parley.games.base import Group, new_game
from parley.games.deliberation.game import DeliberationGame, Panels
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.network.graph import Network
from parley.policies import Reply
from support.deliberating import CARDS, CHOICES, EIGHTEEN, deliberate, new_deliberation


def test_unanimity_on_the_right_answer_ends_a_deliberation_at_once() -> None:
    played = deliberate(new_deliberation(turns=3), ["17", "18", "18"], ["18", "18", "18"])
    assert (played.outcome.name, played.outcome.detail, played.outcome.rounds) == ("correct_consensus", None, 2)
    assert played.outcome.finished_early
    assert played.outcome.metrics["consensus"] == "18"
    assert played.outcome.metrics["turn_of_consensus"] == 1


def test_unanimity_on_a_wrong_answer_is_told_apart() -> None:
    played = deliberate(new_deliberation(), ["17", "17", "17"])
    assert (played.outcome.name, played.outcome.metrics["consensus_correct"]) == ("wrong_consensus", False)


def test_answers_are_compared_as_numbers_and_cards_as_sets() -> None:
    assert deliberate(new_deliberation(), ["18", "18.0", "36/2"]).outcome.name == "correct_consensus"
    assert deliberate(new_deliberation(problem=CARDS), ["A,7", "7,A", "7, A"]).outcome.name == "correct_consensus"


def test_without_unanimity_it_hangs_after_the_last_turn() -> None:
    played = deliberate(new_deliberation(turns=1), ["17", "18", "18"], ["17", "18", "18"])
    assert (played.outcome.name, played.outcome.detail) == ("hung", "turn_limit")
    assert played.outcome.diagnosis == "never_agreed"
    assert not played.outcome.finished_early
    assert played.outcome.metrics["consensus"] is None


def test_all_turns_are_played_where_unanimity_is_judged_after_the_last() -> None:
    game = new_deliberation(turns=2, stop_when_unanimous=False)
    played = deliberate(game, ["18"] * 3, ["18"] * 3, ["18"] * 3)
    assert (played.outcome.name, played.outcome.rounds) == ("correct_consensus", 3)
    assert played.outcome.metrics["turn_of_consensus"] == 0

    game = new_deliberation(turns=1, stop_when_unanimous=False)
    played = deliberate(game, ["18"] * 3, ["18", "18", "17"])
    assert (played.outcome.name, played.outcome.diagnosis) == ("hung", "drifted_apart")


def test_only_honest_agents_must_agree() -> None:
    assert deliberate(new_deliberation("hhb"), ["18", "18", "3"]).outcome.name == "correct_consensus"
    played = deliberate(new_deliberation("hhb", turns=0), ["18", "17", "18"])
    assert played.outcome.name == "hung"


@pytest.mark.parametrize(
    ("last", "diagnosis"),
    [
        (["18", "18", None], "agreed_but_some_unreadable"),
        (["18", "18", "eighteen"], "agreed_but_some_unreadable"),
        ([None, "?", "?"], "nothing_readable"),
    ],
)
def test_what_cannot_be_read_is_no_agreement(last: list[Any], diagnosis: str) -> None:
    played = deliberate(new_deliberation(turns=0), last)
    assert (played.outcome.name, played.outcome.diagnosis) == ("hung", diagnosis)


def test_an_answer_that_cannot_be_read_is_its_own_class_and_never_right() -> None:
    played = deliberate(new_deliberation(turns=0), ["18", "about 18 or 19", None])
    metrics = played.outcome.metrics
    assert (metrics["unreadable"], metrics["silent"], metrics["utterances"]) == (1, 1, 2)
    assert played.outcome.trace[0]["answers"] == {"agent_1": "18", "agent_2": None, "agent_3": None}
    assert played.outcome.trace[0]["measures"]["accuracy"] == pytest.approx(1 / 3)


def test_it_hangs_at_the_time_limit_even_if_all_agree_then() -> None:
    told = [["17", "18", "18"], ["18", "18", "18"]]
    game = new_deliberation(time_limit=3)
    assert deliberate(game, *told, milliseconds=1499).outcome.name == "correct_consensus"
    played = deliberate(new_deliberation(time_limit=3), *told, milliseconds=1500)
    assert (played.outcome.name, played.outcome.detail) == ("hung", "time_limit")
    assert played.outcome.diagnosis == "agreed_too_late"


def test_it_hangs_once_too_few_honest_agents_give_an_answer() -> None:
    played = deliberate(new_deliberation("hhhb", fewest_honest=2), ["18", None, "?", "18"])
    assert (played.outcome.name, played.outcome.detail, played.outcome.rounds) == ("hung", "too_few_honest", 1)
    played = deliberate(new_deliberation("hhhb", turns=0, fewest_honest=2), ["18", "18", "?", "18"])
    assert played.outcome.detail == "turn_limit"


def test_indicators_compare_one_agent_majorities_and_unanimity() -> None:
    played = deliberate(new_deliberation(turns=1), ["17", "18", "18"], ["18", "18", "18"])
    of = played.outcome.metrics
    assert (of["single_correct"], of["first_majority_correct"], of["last_majority_correct"]) == (False, True, True)
    played = deliberate(new_deliberation("hhhb", turns=0), ["18", "18", "17", "17"])  # a tie, with the adversary's
    of = played.outcome.metrics
    assert (of["single_correct"], of["first_majority_correct"], of["consensus_correct"]) == (True, False, False)


def test_majorities_are_given_of_honest_agents_and_of_all() -> None:
    """Two adversaries who are right at first, to be trusted, make a majority that the honest alone do not have."""
    played = deliberate(new_deliberation("hhhbb", turns=1), ["17", "17", "18", "18", "18"], ["18"] * 3 + ["17"] * 2)
    of = played.outcome.metrics
    assert (of["first_majority_correct"], of["first_majority_correct_honest"]) == (True, False)
    assert (of["last_majority_correct"], of["last_majority_correct_honest"]) == (True, True)
    played = deliberate(new_deliberation("hbb", turns=0), ["18", "17", "17"])
    of = played.outcome.metrics
    assert (of["last_majority_correct"], of["last_majority_correct_honest"]) == (False, True)


@pytest.mark.parametrize(
    ("reading", "values"), [("exact", [None, "18", None]), ("strict", ["18", "18", None]), ("flexible", ["20"] * 3)]
)
def test_a_study_chooses_how_numbers_are_read_and_the_record_says_it(reading: str, values: list[Any]) -> None:
    game = new_deliberation(turns=0, reading=reading)
    said = {"agent_1": "18 or 20", "agent_2": "18", "agent_3": "none"}
    asks = next(steps := game.play())
    replies = [Reply(ask.reply_model.model_validate({"argument": "So 20", "answer": said[ask.agent]})) for ask in asks]
    if reading == "flexible":
        replies[1] = Reply(asks[1].reply_model.model_validate({"argument": "18", "answer": "20"}))
    with pytest.raises(StopIteration) as ended:
        steps.send(replies)
    outcome = ended.value.value
    assert list(outcome.trace[0]["answers"].values()) == values
    assert outcome.metrics["reading"] == outcome.trace[0]["rules"]["reading"] == reading
    # By both, whatever was played.
    assert (outcome.metrics["single_correct_strict"], outcome.metrics["single_correct_flexible"]) == (True, False)


def test_other_problems_have_no_reading_of_numbers() -> None:
    played = deliberate(new_deliberation(problem=CARDS, turns=0), ["A, 7"] * 3)
    assert played.outcome.metrics["single_correct_strict"] is None
    parameters = DeliberationParameters.model_validate({"reading": "strict", "problems": {"kind": "wason"}})
    with pytest.raises(UsageError, match="reading: strict: is for numbers, and wason asks for cards; remove it"):
        DeliberationGame.check(parameters, [Group("honest", 3)])


def test_the_rules_of_a_deliberation_say_its_limits_and_its_network() -> None:
    given = {"turns": 3, "time_limit": 60, "fewest_honest": 2, "topology": {"kind": "path"}}
    ring = Network.of_edges(3, [(0, 1), (1, 2)])
    rules = deliberate(new_deliberation("hhb", network=ring, **given), ["18"] * 3).outcome.trace[0]["rules"]
    assert rules == {
        **{"turns": 3, "stop_when_unanimous": True, "time_limit": 60, "fewest_honest": 2, "redeliberations": 0},
        **{"hears": "all", "reading": "exact", "topology": "path", "malicious": 1},
        "links": [["agent_1", "agent_2"], ["agent_2", "agent_3"]],
    }
    assert deliberate(new_deliberation(), ["18"] * 3).outcome.trace[0]["rules"]["links"] is None


# Prioritized problems


def test_policies_are_accepted_at_theta_exactly_with_their_mean_level_as_confidence() -> None:
    said = [["Open on Sundays", "Lend tools"], ["open on  sundays"], ["Lend tools", "Buy more books"]]
    played = deliberate(new_deliberation(problem=CHOICES, turns=0), said)
    assert played.outcome.name == "graded_consensus"
    assert played.outcome.metrics["consensus"] == ["lend tools", "open on sundays"]
    assert played.outcome.metrics["final_confidence"] == pytest.approx(2 / 3)
    played = deliberate(new_deliberation(problem=CHOICES, turns=0, theta="0.67"), said)
    assert (played.outcome.name, played.outcome.metrics["final_confidence"]) == ("hung", None)


@pytest.mark.parametrize(
    ("said", "confidence"),
    [
        ([["Lend tools"], ["Lend tools"], ["Buy more books"]], 2 / 3),
        ([[*CHOICES.options], [*CHOICES.options], []], 2 / 3),
    ],
)
def test_confidence_is_the_mean_over_however_many_policies(said: Any, confidence: float) -> None:
    played = deliberate(new_deliberation(problem=CHOICES, turns=0), said)
    assert played.outcome.metrics["final_confidence"] == pytest.approx(confidence)


def test_policies_that_nobody_may_choose_are_counted_and_support_nothing() -> None:
    played = deliberate(
        new_deliberation(problem=CHOICES, turns=0), [["Close it"], ["Close it"], ["Close it", "Lend tools"]]
    )
    assert played.outcome.name == "hung"
    assert played.outcome.metrics["unknown_policies"] == 3
    assert played.outcome.metrics["right_answer"] is played.outcome.metrics["single_correct"] is None


def test_the_level_of_every_policy_is_recorded_accepted_or_not() -> None:
    said = [["Open on Sundays", "Lend tools"], ["Open on Sundays"], ["Lend tools", "Buy more books"]]
    played = deliberate(new_deliberation(problem=CHOICES, turns=0), said)
    levels = {"buy more books": "1/3", "lend tools": "2/3", "open on sundays": "2/3"}
    assert played.outcome.trace[0]["levels"] == levels
    assert played.outcome.trace[0]["verdict"]["levels"] == levels
    assert played.outcome.metrics["final_levels"] == levels
    assert "levels" not in deliberate(new_deliberation(turns=0), ["18"] * 3).outcome.trace[0]["verdict"]


def test_confidence_is_not_kept_where_a_later_turn_accepts_nothing() -> None:
    apart = [["Open on Sundays"], ["Lend tools"], ["Buy more books"]]
    game = new_deliberation(problem=CHOICES, turns=2, stop_when_unanimous=False)
    outcome = deliberate(game, [["Lend tools"], ["Lend tools"], ["Open on Sundays"]], apart, apart).outcome.as_json()
    assert DeliberationGame.evidence.series(outcome, outcome["trace"])["confidence"] == [(0, pytest.approx(2 / 3))]


def test_equal_selections_end_a_deliberation_on_policies_early() -> None:
    said = [["Lend tools", "Buy more books"], ["buy more books", "Lend tools"]]
    played = deliberate(new_deliberation("hh", problem=CHOICES, turns=5), said)
    assert (played.outcome.rounds, played.outcome.metrics["final_confidence"]) == (1, 1.0)


def test_the_matching_rule_and_theta_are_recorded() -> None:
    played = deliberate(new_deliberation("hh", problem=CHOICES, turns=0), [["Lend tools"], ["Lend tools"]])
    rules = played.outcome.trace[0]["rules"]
    assert (rules["theta"], rules["matching"]) == ("2/3", "nfkc-casefold-v1")


# Panels and the hung set


def test_a_hung_problem_goes_to_another_panel_and_never_to_the_same() -> None:
    game = new_deliberation("hhh", turns=0, panel_size=2, redeliberations=2)
    apart = ["16", "17", "18"]
    played = deliberate(game, apart, apart, apart)
    panels = [tuple(entry["answers"]) for entry in played.outcome.trace]
    assert sorted(panels) == [("agent_1", "agent_2"), ("agent_1", "agent_3"), ("agent_2", "agent_3")]
    assert (played.outcome.name, played.outcome.metrics["deliberations"]) == ("hung", 3)
    assert [ask.round for asks in played.turns for ask in asks] == [0, 0, 1, 1, 2, 2]


def test_no_panel_is_drawn_twice_and_each_has_an_honest_agent() -> None:
    names = ["agent_1", "agent_2", "agent_3", "agent_4"]
    for seed in range(20):
        panels = Panels(names, ["agent_2"], 2, np.random.default_rng(seed))
        drawn = [panels.next() for _ in range(3)]
        assert {*drawn} == {("agent_1", "agent_2"), ("agent_2", "agent_3"), ("agent_2", "agent_4")}
        assert Panels(names, ["agent_2"], 4, np.random.default_rng(seed)).next() == tuple(names)


def test_agreement_ends_the_deliberations() -> None:
    game = new_deliberation("hhh", turns=0, panel_size=2, redeliberations=2, seed=1)
    first = next(game.play())
    apart = {ask.agent for ask in first}
    said = ["18", "18", "18"]
    said[int(sorted(apart)[0][-1]) - 1] = "17"
    played = deliberate(new_deliberation("hhh", turns=0, panel_size=2, redeliberations=2, seed=1), said, ["18"] * 3)
    assert (played.outcome.name, played.outcome.metrics["deliberations"]) == ("correct_consensus", 2)


def test_a_panel_has_an_honest_agent() -> None:
    for seed in range(30):
        asks = next(new_deliberation("hbbb", panel_size=2, seed=seed).play())
        assert "agent_1" in {ask.agent for ask in asks}


def agents(honest: int, byzantine: int = 0) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine)]


@pytest.mark.parametrize(
    ("parameters", "groups", "words"),
    [
        ({}, agents(0, 3), "needs an honest agent"),
        ({"panel_size": 4}, agents(3), "panel_size: 4: more than the agents"),
        ({"panel_size": 3, "redeliberations": 1}, agents(3), "redeliberations: 1: 1 panels of 3"),
        ({"panel_size": 1, "redeliberations": 2}, agents(2, 4), "redeliberations: 2: 2 panels of 1"),
        ({"topology": "ring"}, agents(2), "a ring needs 3"),
        ({"fewest_honest": 3}, agents(2, 2), "fewest_honest: 3: a panel has 2 honest agents at most"),
        ({"fewest_honest": 2, "panel_size": 1}, agents(2, 2), "fewest_honest: 2: a panel has 1"),
    ],
)
def test_what_cannot_be_played_is_refused(parameters: Any, groups: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DeliberationGame.check(DeliberationParameters(**parameters), groups)
    fine = {**parameters, "panel_size": 1, "redeliberations": 1, "topology": "complete", "fewest_honest": 1}
    DeliberationGame.check(DeliberationParameters(**fine), agents(2, 4))


@pytest.mark.parametrize(
    "parameters",
    [
        {"theta": 0},
        {"theta": "3/2"},
        {"theta": -0.5},
        {"theta": "nan"},
        {"cot_share": "1.01"},
        {"turns": -1},
        {"redeliberations": 1},
        {"hears": "some"},
        {"time_limit": 0},
    ],
)
def test_parameters_out_of_range_are_refused(parameters: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(parameters))):
        DeliberationParameters(**parameters)


# Who is asked what


def test_agents_get_their_own_last_answer_and_those_of_all_others() -> None:
    played = deliberate(new_deliberation(turns=1), ["16", "17", "18"], ["18"] * 3)
    user = played.ask(1, 2).user
    assert 'you: "17" | Argument: "Because of 17."' in user
    assert 'agent_1: "16"' in user
    assert 'agent_3: "18"' in user
    assert "agent_2" not in user


def test_with_one_neighbor_agents_hear_the_others_in_turn() -> None:
    game = new_deliberation("hhhh", turns=4, hears="neighbor")
    apart = ["1", "2", "3", "4"]
    played = deliberate(game, apart, apart, apart, apart, apart)
    heard = [entry["heard"]["agent_2"] for entry in played.outcome.trace]
    assert heard == [[], ["agent_3"], ["agent_4"], ["agent_1"], ["agent_3"]]
    assert 'agent_3: "3"' in played.ask(1, 2).user
    assert 'agent_4: "4"' not in played.ask(1, 2).user


def test_nobody_hears_whom_gossip_does_not_reach() -> None:
    network = Network.of_edges(5, [(0, 1), (1, 2), (3, 4)])
    played = deliberate(new_deliberation("hhhhh", turns=1, network=network), list("12345"), ["18"] * 5)
    assert played.outcome.trace[1]["heard"] == {
        "agent_1": ["agent_2", "agent_3"],  # agent_3's over agent_2
        "agent_2": ["agent_1", "agent_3"],
        "agent_3": ["agent_1", "agent_2"],
        "agent_4": ["agent_5"],
        "agent_5": ["agent_4"],
    }


@pytest.mark.parametrize(("share", "n", "number"), [(0, 4, 0), ("1/2", 4, 2), ("1/2", 5, 3), ("1/3", 4, 1), (1, 4, 4)])
def test_a_share_of_the_agents_answers_first_by_chain_of_thought(share: Any, n: int, number: int) -> None:
    asks = next(new_deliberation("h" * n, cot_share=share).play())
    by_thought = [ask for ask in asks if "step by step: write down" in ask.user]
    assert len(by_thought) == number
    for ask in asks:
        fields = list(ask.reply_model.model_fields)
        assert fields == (["argument", "answer"] if ask in by_thought else ["answer", "argument"])


def test_who_answers_by_chain_of_thought_says_nothing_of_roles() -> None:
    chosen = set()
    for seed in range(40):
        asks = next(new_deliberation("hb", cot_share="1/2", seed=seed).play())
        chosen |= {ask.role for ask in asks if "step by step: write down" in ask.user}
    assert chosen == {"honest", "byzantine"}


def test_the_same_seed_has_the_same_problem_whoever_plays() -> None:
    parameters = DeliberationParameters()
    for seed in range(5):
        games = [
            new_game(DeliberationGame, parameters, groups, "improve", seed)
            for groups in (agents(3), agents(5), agents(4, 1))
        ]
        assert len({game.problem.id for game in games if isinstance(game, DeliberationGame)}) == 1
        assert len({game.target for game in games if isinstance(game, DeliberationGame)}) == 1


def test_a_record_s_problem_is_played_and_not_drawn_again() -> None:
    game = new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, EIGHTEEN.as_json())
    assert isinstance(game, DeliberationGame)
    assert game.problem == EIGHTEEN
    with pytest.raises(ValueError, match="problem"):
        new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, {"id": 7})


# What is measured


def test_changes_and_conformity_are_counted_by_hand() -> None:
    game = new_deliberation("hhhh", turns=1, stop_when_unanimous=False)
    played = deliberate(game, ["18", "17", "17", "17"], ["17", "18", "17", None])
    first, second = (entry["measures"] for entry in played.outcome.trace)
    assert first == {
        "accuracy": 0.25,
        "participation": 0.75,
        "right_to_wrong": None,
        "wrong_to_right": None,
        "conformity": None,
        "confidence": None,
    }
    assert second["accuracy"] == 0.25
    assert second["right_to_wrong"] == 1  # agent_1
    assert second["wrong_to_right"] == pytest.approx(1 / 3)  # agent_2 of three
    assert second["conformity"] == 1  # agent_1; the others heard two 17 and an 18, and held 17


def test_conformity_is_of_those_alone_who_had_an_answer_and_heard_a_majority_against_it() -> None:
    game = new_deliberation("hhhh", turns=1, stop_when_unanimous=False)
    played = deliberate(game, [None, "17", "17", "18"], ["17", "17", "17", "18"])
    assert played.outcome.trace[1]["measures"]["conformity"] == 0  # agent_4 alone
    game = new_deliberation("hhh", turns=1, stop_when_unanimous=False)
    played = deliberate(game, ["16", "17", "18"], ["17", "17", "17"])
    assert played.outcome.trace[1]["measures"]["conformity"] is None  # no majority anywhere


def test_measures_are_of_honest_agents_alone() -> None:
    played = deliberate(new_deliberation("hhb", turns=0), ["18", "17", "18"])
    assert played.outcome.trace[0]["measures"]["accuracy"] == 0.5
    assert played.outcome.trace[0]["measures"]["participation"] == 0.5


def test_a_deliberation_that_ended_has_the_points_of_the_turns_that_it_had() -> None:
    outcome = deliberate(new_deliberation(turns=3), ["17", "18", "18"], ["18"] * 3).outcome.as_json()
    series = DeliberationGame.evidence.series(outcome, outcome["trace"])
    assert series["accuracy"] == [(0, pytest.approx(2 / 3)), (1, 1.0)]
    assert DeliberationGame.evidence.last_round(outcome, outcome["trace"]) == 1
    assert series["wrong_to_right"] == [(1, 1.0)]
    assert series["confidence"] == []


def test_curves_are_those_of_the_last_deliberation() -> None:
    game = new_deliberation("hhh", turns=0, panel_size=2, redeliberations=1)
    outcome = deliberate(game, ["16", "17", "15"], ["18"] * 3).outcome.as_json()
    assert DeliberationGame.evidence.series(outcome, outcome["trace"])["accuracy"] == [(0, 1.0)]


def test_the_transcript_has_every_utterance_of_every_deliberation() -> None:
    game = new_deliberation("hhh", turns=1, panel_size=2, redeliberations=1)
    outcome = deliberate(game, ["16", "17", None], ["16", "17", None], ["18"] * 3).outcome.as_json()
    first, second = DeliberationGame.evidence.transcript(outcome, outcome["trace"])
    assert (first.agreed, second.agreed) == (False, True)
    assert [utterance.round for utterance in second.utterances] == [2, 2]
    assert second.utterances[0].content == {"answer": "18", "argument": "Because of 18."}
    assert first.agents == tuple(outcome["trace"][0]["answers"])
    spoken = [agent for entry in outcome["trace"][:2] for agent, said in entry["said"].items() if said]
    assert [utterance.agent for utterance in first.utterances] == spoken
    told = {"id": "eighteen", "kind": "number", "question": "What is nine times two?", "options": []}
    assert first.subject == second.subject == told
