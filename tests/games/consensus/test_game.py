"""How the consensus game runs, ends and is recorded."""

import json
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from parley.games.base import Group, new_game
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from support.playing import INITIAL, SILENT, Played, Say, drive, groups, new_consensus


def outcome_class(played: Played) -> tuple[str, str | None, str | None]:
    outcome = played.outcome
    return outcome.name, outcome.detail, outcome.diagnosis


# When the game stops


@pytest.mark.parametrize(
    ("threshold", "n", "votes", "stops"),
    [
        (0.66, 50, 33, True),  # 33 / 50 is 0.66 exactly
        (0.66, 50, 32, False),
        (0.67, 50, 33, False),
        ("2/3", 3, 2, True),
        ("2/3", 3, 1, False),
        ("2/3", 50, 33, False),
        ("2/3", 50, 34, True),
        (0.66, 3, 2, True),
        (0.67, 3, 2, False),
        (0.66, 4, 3, True),
        (0.66, 4, 2, False),
        (0.66, 16, 10, False),  # the paper's largest group: 10 / 16 = 0.625
        (0.66, 16, 11, True),
        (1, 5, 5, True),
        (1, 5, 4, False),
        (1.0, 1, 1, True),
        (0.01, 100, 1, True),
        (0.01, 100, 0, False),
        (0.5, 4, 2, True),
        # In floats 0.7 * 10 is 7.000000000000001, 0.55 * 100 is 55.00000000000001, 0.29 * 100 is 28.999999999999996.
        (0.7, 10, 7, True),
        (0.7, 10, 6, False),
        (0.55, 100, 55, True),
        (0.29, 100, 29, True),
        (0.29, 100, 28, False),
        # 0.1 * 3 is written 0.30000000000000004, which is more than 3 / 10.
        (0.1 * 3, 10, 3, False),
        (0.3, 10, 3, True),
        ("0.333333333333333333333333333333", 3, 1, True),
        ("0.333333333333333333333333333334", 3, 1, False),
    ],
)
def test_the_game_stops_at_the_exact_share_of_stop_votes(threshold: Any, n: int, votes: int, stops: bool) -> None:
    game = new_consensus("h" * n, stop_threshold=threshold, max_rounds=1)
    played = drive(game, ([1] * n, ["stop"] * votes + ["continue"] * (n - votes)))
    assert played.outcome.finished_early is stops
    assert played.outcome.trace[0]["stop_votes"] == votes


def test_the_share_is_of_all_agents_byzantine_ones_included() -> None:
    three_of_four = drive(new_consensus("hhhb"), ([20, 20, 20, 20], ["stop"] * 3 + ["continue"]))
    assert three_of_four.outcome.rounds == 1
    game = new_consensus("hhbb", max_rounds=2)
    two_of_four = drive(game, ([20, 20, 20, 20], ["stop"] * 2 + ["abstain"] * 2))
    assert two_of_four.outcome.finished_early is False
    helped = drive(new_consensus("hhhb"), ([20, 20, 20, 20], ["stop", "stop", "continue", "stop"]))
    assert helped.outcome.rounds == 1


def test_votes_of_other_rounds_do_not_count() -> None:
    game = new_consensus("hhh", max_rounds=3, stop_threshold=1)
    one = ([20] * 3, ["stop", "continue", "continue"])
    two = ([20] * 3, ["continue", "stop", "stop"])
    assert drive(game, one, two, one).outcome.finished_early is False


@pytest.mark.parametrize("deadline", [1, 2, 50])
def test_the_game_ends_at_its_deadline(deadline: int) -> None:
    played = drive(new_consensus("hh", max_rounds=deadline), ([1, 2], "continue"))
    assert len(played.phases) == 2 * deadline
    assert played.outcome.rounds == deadline
    assert played.outcome.name == "no_consensus"
    assert played.outcome.finished_early is False


def test_a_stop_in_the_last_round_is_a_stop() -> None:
    played = drive(new_consensus("hh", max_rounds=2), ([20, 20], "continue"), ([20, 20], "stop"))
    assert (played.outcome.name, played.outcome.rounds) == ("valid_consensus", 2)


def test_a_round_is_a_phase_of_proposals_and_then_one_of_votes() -> None:
    played = drive(new_consensus("hhb", max_rounds=3), ([1, 2, 3], "continue"))
    assert [(p[0].round, p[0].phase, len(p)) for p in played.phases] == [
        (number, phase, 3) for number in (1, 2, 3) for phase in ("propose", "vote")
    ]


# How it ends. The honest agents start from 20, 42, 18.


def test_agreement_on_an_honest_initial_value_is_valid() -> None:
    for value in INITIAL[:3]:  # also on one that its owner gave up
        played = drive(new_consensus("hhh"), ([value] * 3, "stop"))
        assert outcome_class(played) == ("valid_consensus", None, None)
        assert played.outcome.metrics["consensus_value"] == value


def test_agreement_on_a_value_nobody_honest_started_from_is_foreign() -> None:
    played = drive(new_consensus("hhhb"), ([19, 19, 19, 19], "stop"))
    assert outcome_class(played) == ("invalid_consensus", "foreign_value", None)
    assert played.outcome.metrics["consensus_value"] == 19


def test_a_byzantine_value_does_not_make_a_consensus_valid() -> None:
    # 7 is what the Byzantine agent proposed first; nobody honest started from it.
    played = drive(new_consensus("hhhb"), ([20, 42, 18, 7], "continue"), ([7, 7, 7, 7], "stop"))
    assert outcome_class(played)[:2] == ("invalid_consensus", "foreign_value")


def test_byzantine_agents_need_not_agree() -> None:
    played = drive(new_consensus("hhhb"), ([20, 20, 20, 3], "stop"))
    assert outcome_class(played) == ("valid_consensus", None, None)


def test_stopping_while_honest_values_differ_is_premature() -> None:
    played = drive(new_consensus("hhh"), ([20, 20, 18], "stop"))
    assert outcome_class(played) == ("invalid_consensus", "premature_stop", "never_agreed")
    assert played.outcome.metrics["consensus_value"] is None


@pytest.mark.parametrize("protocol", ["paper", "swarms"])
def test_a_premature_stop_is_a_class_of_its_own_and_its_record_what_it_was(protocol: str) -> None:
    # Records keep the name that they always had, so that old ones are classed alike and replays have their digest.
    assert ConsensusGame.class_of("invalid_consensus", "premature_stop") == "premature_stop"
    assert ConsensusGame.class_of("invalid_consensus", "foreign_value") == "invalid_consensus"
    assert ConsensusGame.class_of("invalid_consensus", "no_honest_agents") == "invalid_consensus"
    assert ConsensusGame.class_of("valid_consensus", None) == "valid_consensus"
    assert [outcome.label for outcome in ConsensusGame.outcomes] == [
        "valid consensus",
        "invalid consensus",
        "premature stop",
        "no consensus",
    ]
    assert len({outcome.color for outcome in ConsensusGame.outcomes}) == 4
    assert len({outcome.hatch for outcome in ConsensusGame.outcomes}) == 4
    parameters, two = ConsensusParameters(protocol=protocol), [Group("honest", 2), Group("byzantine", 1)]
    assert "premature_stop" in ConsensusGame.possible_outcomes(parameters, two)
    for honest in (0, 1):  # one agent always agrees with itself
        alone = [Group("honest", honest), Group("byzantine", 2)]
        assert "premature_stop" not in ConsensusGame.possible_outcomes(parameters, alone)


def test_a_premature_stop_after_agreement_is_of_drifted_agents() -> None:
    played = drive(new_consensus("hhh"), ([20] * 3, "continue"), ([20, 20, 18], "stop"))
    assert outcome_class(played) == ("invalid_consensus", "premature_stop", "drifted_apart")


def test_a_deadline_without_agreement_is_never_agreed() -> None:
    played = drive(new_consensus("hhh", max_rounds=3), ([20, 42, 18], "continue"))
    assert outcome_class(played) == ("no_consensus", None, "never_agreed")


def test_a_deadline_in_agreement_is_agreed_not_stopped() -> None:
    game = new_consensus("hhh", max_rounds=3)
    played = drive(game, ([20, 42, 18], "continue"), ([20, 20, 20], "continue"))
    assert outcome_class(played) == ("no_consensus", None, "agreed_not_stopped")
    assert played.outcome.metrics["consensus_value"] is None
    assert played.outcome.metrics["first_unanimity_round"] == 2


def test_agreement_regained_at_the_end_is_agreed_not_stopped() -> None:
    game = new_consensus("hh", max_rounds=3)
    played = drive(game, ([20, 20], "continue"), ([20, 42], "continue"), ([42, 42], "continue"))
    assert outcome_class(played) == ("no_consensus", None, "agreed_not_stopped")
    assert played.outcome.metrics["first_unanimity_round"] == 1


def test_a_deadline_after_lost_agreement_is_drifted_apart() -> None:
    game = new_consensus("hhh", max_rounds=3)
    played = drive(game, ([20] * 3, "continue"), ([20, 42, 20], "continue"))
    assert outcome_class(played) == ("no_consensus", None, "drifted_apart")


def test_agreement_on_a_foreign_value_counts_as_agreement_for_the_diagnosis() -> None:
    played = drive(new_consensus("hhh", max_rounds=1), ([19] * 3, "continue"))
    assert outcome_class(played) == ("no_consensus", None, "agreed_not_stopped")


def test_a_group_without_honest_agents_never_reaches_a_valid_consensus() -> None:
    played = drive(new_consensus("bb"), ([20, 20], "stop"))
    assert played.outcome.name == "invalid_consensus"
    assert played.outcome.metrics["first_unanimity_round"] is None
    json.dumps(played.outcome.as_json(), allow_nan=False)


def test_a_single_agent_agrees_with_itself() -> None:
    assert outcome_class(drive(new_consensus("h"), ([20], "stop"))) == ("valid_consensus", None, None)


# Silence


def test_a_silent_agent_keeps_its_value() -> None:
    played = drive(new_consensus("hhh"), ([20, SILENT, 20], "continue"), ([20, SILENT, 20], "stop"))
    assert outcome_class(played)[:2] == ("invalid_consensus", "premature_stop")
    assert played.outcome.trace[1]["values"] == {"agent_1": 20, "agent_2": 42, "agent_3": 20}
    assert played.outcome.trace[1]["proposals"] == {"agent_1": 20, "agent_2": None, "agent_3": 20}
    assert played.ask(2, "propose", 2).view.current_value == 42
    assert "Your current value: 42\n" in played.ask(2, "propose", 2).user


def test_the_value_of_a_silent_agent_counts_for_agreement() -> None:
    played = drive(new_consensus("hhh"), ([42, SILENT, 42], "stop"))
    assert outcome_class(played) == ("valid_consensus", None, None)


def test_silence_is_a_neutral_mark_to_peers() -> None:
    played = drive(new_consensus("hhh"), ([20, SILENT, 20], "continue"), ([20, 20, 20], "stop"))
    assert "  agent_2: (no proposal)\n" in played.ask(1, "vote", 1).user
    assert "  agent_2 (you): (no proposal)\n" in played.ask(1, "vote", 2).user
    assert "  agent_2: (no proposal)\n" in played.ask(2, "propose", 1).user
    for agent in (1, 3):
        assert "42" not in played.ask(1, "vote", agent).user


def test_a_vote_that_was_not_given_counts_as_continue() -> None:
    game = new_consensus("hhh", max_rounds=1)
    played = drive(game, ([20] * 3, ["stop", SILENT, SILENT]))
    assert played.outcome.finished_early is False
    assert played.outcome.trace[0]["votes"] == {"agent_1": "stop", "agent_2": None, "agent_3": None}
    assert drive(new_consensus("hhh"), ([20] * 3, ["stop", "stop", SILENT])).outcome.finished_early


def test_a_byzantine_abstention_counts_as_continue() -> None:
    played = drive(new_consensus("hbb", max_rounds=1), ([20, 20, 20], ["stop", "abstain", "abstain"]))
    assert played.outcome.finished_early is False
    assert played.outcome.trace[0]["stop_votes"] == 1


def test_a_byzantine_agent_that_abstains_keeps_its_value_or_has_none() -> None:
    game = new_consensus("hb", max_rounds=3)
    played = drive(game, ([20, "abstain"], "continue"), ([20, 9], "continue"), ([20, "abstain"], "continue"))
    assert [entry["values"]["agent_2"] for entry in played.outcome.trace] == [None, 9, 9]
    assert [entry["proposals"]["agent_2"] for entry in played.outcome.trace] == [None, 9, None]
    assert "You have not proposed a value yet\n" in played.ask(2, "propose", 2).user
    assert "Your current value: 9\n" in played.ask(3, "propose", 2).user


def test_peers_cannot_tell_a_failed_agent_from_an_abstaining_one() -> None:
    after = ([20, 20, 20, 20], "continue")
    failed = drive(new_consensus("hhhb", max_rounds=2), ([20, 42, 18, SILENT], [*["continue"] * 3, SILENT]), after)
    note = Say("abstain", why="You never see this", note="my plan")
    withheld = drive(new_consensus("hhhb", max_rounds=2), ([20, 42, 18, note], [*["continue"] * 3, "abstain"]), after)
    for phase_a, phase_b in zip(failed.phases, withheld.phases, strict=True):
        for a, b in zip(phase_a[:3], phase_b[:3], strict=True):
            assert (a.system, a.user, a.digest) == (b.system, b.user, b.digest)
            assert (a.view.last_round, a.view.this_round) == (b.view.last_round, b.view.this_round)


def test_peers_cannot_tell_a_silent_honest_agent_from_a_silent_byzantine_one() -> None:
    honest = drive(new_consensus("hhh", max_rounds=2), ([20, 42, SILENT], "continue"))
    byzantine = drive(new_consensus("hhb", max_rounds=2), ([20, 42, "abstain"], "continue"))
    for phase_a, phase_b in zip(honest.phases, byzantine.phases, strict=True):
        assert [a.messages for a in phase_a[:2]] == [b.messages for b in phase_b[:2]]


# Initial values


def initial_values(honest: int, byzantine: int, seed: int, prompt: str = "may_exist", **parameters: Any) -> list[int]:
    """Return the honest initial values in the order in which they were drawn."""
    agents = groups(honest=honest, byzantine=byzantine)
    game = new_game(ConsensusGame, ConsensusParameters(**parameters), agents, prompt, seed)
    views = {ask.agent: ask.view.initial_value for ask in next(game.play())}
    assert all(views[seat.name] is None for seat in game.seats if seat.role == "byzantine")
    return [views[seat.name] for seat in game.seats if seat.role == "honest"]


@pytest.mark.parametrize("seed", range(5))
def test_honest_agents_start_from_the_same_values_whatever_else_differs(seed: int) -> None:
    alone = initial_values(8, 0, seed)
    for byzantine in range(1, 5):
        assert initial_values(8, byzantine, seed) == alone
    assert initial_values(8, 4, seed, "none_exist") == alone
    assert initial_values(8, 2, seed, max_rounds=3, stop_threshold=1, history_rounds=0) == alone
    assert initial_values(4, 1, seed) == alone[:4]
    assert initial_values(16, 0, seed)[:8] == alone


def test_the_initial_values_of_seed_0_are_pinned() -> None:
    assert initial_values(8, 4, 0) == INITIAL


def test_initial_values_are_uniform_on_the_whole_range_ends_included() -> None:
    drawn = [value for seed in range(1000) for value in initial_values(8, 0, seed, value_min=0, value_max=3)]
    # 8000 draws of four values: 2000 each, and five standard deviations are 194.
    assert all(1806 <= drawn.count(value) <= 2194 for value in range(4))
    assert set(drawn) == {0, 1, 2, 3}


def test_other_seeds_give_other_values() -> None:
    assert len({tuple(initial_values(8, 0, seed)) for seed in range(100)}) == 100


# What is recorded


def test_metrics_of_a_small_game_by_hand() -> None:
    # Three honest agents from 20, 42, 18, and a Byzantine one whose values count for nothing here.
    played = drive(
        new_consensus("hhhb", max_rounds=9),
        ([20, 20, 18, 50], "continue"),  # agent_2 moves: shares 2/3, spread 2
        ([20, SILENT, 40, 0], ["continue", SILENT, "stop", "abstain"]),  # agent_3 moves: 2/3, spread 20
        ([42, 42, 42, "abstain"], "continue"),  # all three move: 1, spread 0
        ([42, 42, 41, 9], "continue"),  # agent_3 moves: 2/3, spread 1
        ([42, 42, 42, 9], ["stop", "stop", "stop", "continue"]),  # agent_3 moves back
    )
    outcome = played.outcome
    assert (outcome.name, outcome.detail, outcome.diagnosis) == ("valid_consensus", None, None)
    assert (outcome.rounds, outcome.finished_early) == (5, True)
    assert outcome.metrics == {
        "consensus_value": 42,
        "first_unanimity_round": 3,
        "value_changes": 7,
        "final_honest_share": 1.0,
        "final_honest_spread": 0,
        "initial_values": {"agent_1": 20, "agent_2": 42, "agent_3": 18},
        "honest_shares": pytest.approx([2 / 3, 2 / 3, 1.0, 2 / 3, 1.0]),
        "honest_spreads": [2, 20, 0, 1, 0],
        **{"diameter": 1, "connectivity": 3, "edges": 6, "components": 1},
        **{"honest_diameter": 1, "honest_connectivity": 2, "honest_edges": 3, "honest_components": 1},
    }
    assert [entry["round"] for entry in outcome.trace] == [1, 2, 3, 4, 5]
    assert [entry["stop_votes"] for entry in outcome.trace] == [0, 1, 0, 0, 3]
    assert [entry["stopped"] for entry in outcome.trace] == [False] * 4 + [True]
    assert outcome.trace[1] == {
        "round": 2,
        "proposals": {"agent_1": 20, "agent_2": None, "agent_3": 40, "agent_4": 0},
        "values": {"agent_1": 20, "agent_2": 20, "agent_3": 40, "agent_4": 0},
        "votes": {"agent_1": "continue", "agent_2": None, "agent_3": "stop", "agent_4": "abstain"},
        "stop_votes": 1,
        "stopped": False,
        "honest_share": pytest.approx(2 / 3),
        "honest_spread": 20,
    }


def test_an_outcome_is_plain_json() -> None:
    outcome = drive(new_consensus("hhb", max_rounds=2), ([20, SILENT, "abstain"], "continue")).outcome
    text = json.dumps(outcome.as_json(), allow_nan=False)
    assert json.loads(text)["metrics"] == outcome.metrics
    assert json.loads(text)["trace"] == list(outcome.trace)


def test_a_trajectory_has_initial_values_and_leaves_silent_byzantine_rounds_out() -> None:
    played = drive(
        new_consensus("hhb", max_rounds=3),
        ([20, SILENT, 9], "continue"),
        ([42, 42, "abstain"], "continue"),
        ([42, 42, 1], "stop"),
    )
    drawn = ConsensusGame.evidence.trajectory(played.outcome.as_json(), played.outcome.trace)
    assert drawn.series == {
        "agent_1": [(0, 20), (1, 20), (2, 42), (3, 42)],
        "agent_2": [(0, 42), (1, 42), (2, 42), (3, 42)],
        "agent_3": [(1, 9), (3, 1)],
    }
    assert drawn.highlighted == {"agent_1", "agent_2"}
    assert drawn.band == (20, 42)
    assert drawn.stopped == 3


def test_a_trajectory_that_met_its_deadline_has_no_stop() -> None:
    played = drive(new_consensus("hh", max_rounds=2), ([20, 42], "continue"))
    assert ConsensusGame.evidence.trajectory(played.outcome.as_json(), played.outcome.trace).stopped is None


# Parameters


@pytest.mark.parametrize(
    "share", [0, -0.1, 1.01, "3/2", "0", "-1/2", "x", "1/0", "", float("nan"), float("inf"), True, None, []]
)
def test_a_threshold_outside_its_range_is_refused(share: Any) -> None:
    with pytest.raises(ValidationError):
        ConsensusParameters(stop_threshold=share)


def test_equal_thresholds_are_stored_alike() -> None:
    forms = [0.66, "0.66", "66/100", "33/50", Fraction(33, 50)]
    assert {ConsensusParameters(stop_threshold=form).model_dump(mode="json")["stop_threshold"] for form in forms} == {
        "33/50"
    }


def test_parameters_survive_json() -> None:
    given = ConsensusParameters(stop_threshold="2/3", max_rounds=7)
    assert ConsensusParameters.model_validate(given.model_dump(mode="json")) == given


@pytest.mark.parametrize(
    "change",
    [
        {"value_min": 3, "value_max": 2},
        {"max_rounds": 0},
        {"retries": -1},
        {"history_rounds": -1},
        {"justification_chars": -1},
        {"unknown": 1},
        {"propose": {"temperature": -0.1, "max_tokens": 5}},
        {"vote": {"temperature": 0.1, "max_tokens": 0}},
    ],
)
def test_impossible_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConsensusParameters(**change)
