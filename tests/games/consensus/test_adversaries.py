"""The scripted adversaries: what each does in both phases, by hand-made views and in whole games."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Group, Outcome, new_game
from parley.games.consensus.adversaries import ADVERSARIES
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ByzantineVote, ConsensusParameters, HonestVote, proposal_model
from parley.games.consensus.policies import SCRIPTED
from parley.games.consensus.state import ConsensusView
from parley.play.runner import play
from parley.policies.kinds import ChosenPolicy, ScriptedPolicy
from parley.policies.parsing import parse_reply
from support.playing import Say, drive, new_consensus

KINDS = {**SCRIPTED, **ADVERSARIES}
NEEDED: dict[str, dict[str, Any]] = {"crash": {"round": 3}}


def chosen(name: str, **given: Any) -> ChosenPolicy:
    kind = KINDS[name]
    return ChosenPolicy(kind, kind.Parameters(**{**NEEDED.get(name, {}), **given}))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def view(phase: str = "propose", **changes: Any) -> Any:
    """Return what Byzantine agent_1 sees in round 2 of a game over 0 to 50, whose messages reach `neighbors`."""
    seen = {
        "phase": phase,
        "agent": "agent_1",
        "role": "byzantine",
        "round": 2,
        "value_min": 0,
        "value_max": 50,
        "initial_value": None,
        "current_value": 9,
        "last_round": {},
        "this_round": {},
        "neighbors": ("agent_2", "agent_3", "agent_4"),
        "system": "",
    }
    return SimpleNamespace(**{**seen, **changes})


def proposals(*values: int | None) -> dict[str, int | None]:
    return {f"agent_{i + 1}": value for i, value in enumerate(values)}


def reply(name: str, seen: Any, seed: int = 0, **given: Any) -> Mapping[str, Any]:
    policy = chosen(name, **given)
    assert policy.kind.rule is not None
    return policy.kind.rule(policy.parameters)(seen, rng(seed))


def value(name: str, seen: Any, **given: Any) -> Any:
    return reply(name, seen, **given)["value"]


def vote(name: str, *this_round: int | None, number: int = 2, **given: Any) -> Any:
    return reply(name, view("vote", this_round=proposals(*this_round), round=number), **given)["decision"]


# Proposals


@pytest.mark.parametrize(
    ("last", "proposed"),
    [
        (proposals(None, 10, 10, 40), 50),
        (proposals(None, 40, 40, 10), 0),
        (proposals(50, 10, 40, 10), 50),
        (proposals(0, 25, None), 0),  # both ends are as far: the smallest
        (proposals(0, 30, 10), 50),  # a tie: away from the smaller
        (proposals(44, None, None), 9),  # no other spoke: its own value
        ({}, 9),
    ],
)
def test_opposite_is_as_far_as_can_be_from_what_most_others_proposed(
    last: dict[str, int | None], proposed: int
) -> None:
    assert value("opposite", view(last_round=last)) == proposed


def test_opposite_does_not_count_its_own_proposal() -> None:
    assert value("opposite", view(last_round=proposals(0, 50))) == 0


def test_oscillate_alternates_between_its_two_values() -> None:
    assert [value("oscillate", view(round=n)) for n in (1, 2, 3, 4)] == [0, 50, 0, 50]
    assert [value("oscillate", view(round=n), odd=7, even=8) for n in (1, 2, 3)] == [7, 8, 7]


def test_mimic_then_defect_plays_majority_until_the_others_agree() -> None:
    assert value("mimic_then_defect", view(last_round=proposals(3, 3, 40, 40))) == 3
    assert value("mimic_then_defect", view(last_round=proposals(3, 40, 40, 40))) == 0
    assert value("mimic_then_defect", view(last_round=proposals(None, 7, None, 7))) == 50


def test_mimic_then_defect_defects_after_its_round_whatever_it_sees() -> None:
    divided = proposals(3, 3, 40, 41)
    played = [value("mimic_then_defect", view(last_round=divided, round=n), after=4) for n in (3, 4, 5, 6)]
    assert played == [3, 3, 50, 50]  # 3 leads among the others too: the smallest of three that tie


def test_mimic_then_defect_mimics_again_when_the_others_disagree() -> None:
    assert value("mimic_then_defect", view(last_round=proposals(50, 7, 7), current_value=50)) == 50
    assert value("mimic_then_defect", view(last_round=proposals(50, 7, 8), current_value=50)) == 7


def test_silent_abstains_from_values_and_votes() -> None:
    assert value("silent", view(last_round=proposals(3, 3))) == "abstain"
    assert vote("silent", 3, 3) == "abstain"


def test_crash_is_majority_before_its_round_and_silent_from_then_on() -> None:
    for phase in ("propose", "vote"):
        for this in ((3, 3), (3, 4)):
            seen = [
                view(phase, last_round=proposals(8, 8, 1), this_round=proposals(*this), round=n) for n in range(1, 7)
            ]
            played = [reply("crash", v, round=4) for v in seen]
            assert played[:3] == [reply("majority", v) for v in seen[:3]]
            assert played[3:] == [reply("silent", v) for v in seen[3:]]


def test_stubborn_proposes_the_value_that_it_is_given() -> None:
    assert value("stubborn", view(last_round=proposals(3, 3, 3)), value=41) == 41
    assert value("stubborn", view(last_round=proposals(3, 3, 3))) == 9


# Equivocation


def test_equivocate_tells_every_other_peer_another_value() -> None:
    said = reply("equivocate", view())
    assert said["peer_values"] == {"agent_2": 0, "agent_3": 50, "agent_4": 0}
    assert said["value"] == 0


def test_equivocate_tells_the_first_half_of_its_peers_another_value() -> None:
    peers = tuple(f"agent_{n}" for n in (2, 3, 10, 11))
    said = reply("equivocate", view(neighbors=peers), split="halves", low=7, high=8)
    assert said["peer_values"] == {"agent_2": 7, "agent_3": 7, "agent_10": 8, "agent_11": 8}
    assert said["value"] == 7
    assert list(reply("equivocate", view(), split="halves")["peer_values"].values()) == [0, 0, 50]


def test_equivocate_without_peers_tells_nobody() -> None:
    assert reply("equivocate", view(neighbors=()))["peer_values"] == {}


def test_equivocate_is_beyond_the_paper_and_needs_a_network_that_carries_it() -> None:
    kind = ADVERSARIES["equivocate"]
    assert (kind.beyond, kind.needs) == ("equivocates", "equivocation")
    assert "equivocation: true" in chosen("equivocate").misfit(SimpleNamespace(value_min=0, value_max=50))
    able = SimpleNamespace(value_min=0, value_max=50, equivocation=True)
    assert chosen("equivocate").misfit(able) == ""
    assert [k.name for k in KINDS.values() if k.beyond or k.needs] == ["equivocate"]


def test_equivocate_with_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="choose two values"):
        chosen("equivocate", low=4, high=4)


# Votes


@pytest.mark.parametrize("name", ["opposite", "oscillate", "equivocate"])
def test_adversaries_vote_continue_whatever_they_see_unless_they_are_told_otherwise(name: str) -> None:
    for this in ((7, 7, 7), (7, 8), (None, None)):
        assert vote(name, *this) == "continue"
        for told in ("stop", "continue", "abstain"):
            assert vote(name, *this, vote=told) == told
    assert (vote(name, 7, 7, vote="honest"), vote(name, 7, 8, vote="honest")) == ("stop", "continue")


def test_mimic_then_defect_keeps_the_others_from_stopping_on_what_they_agree_on() -> None:
    assert vote("majority", 7, 7, 7) == "stop"
    assert vote("mimic_then_defect", 7, 7, 7) == "continue"
    assert vote("mimic_then_defect", 7, 7, 7, vote="abstain") == "abstain"
    assert vote("mimic_then_defect", 7, 7, 8, vote="abstain") == "continue"  # like majority
    assert vote("mimic_then_defect", 7, 7, 8, vote="stop", after=1) == "stop"


def test_stubborn_votes_as_it_is_told() -> None:
    assert [vote("stubborn", 7, 8, vote=told) for told in ("honest", "stop", "continue")] == [
        "continue",
        "stop",
        "continue",
    ]
    assert [vote("stubborn", 7, 7, vote=told) for told in ("honest", "stop", "continue")] == [
        "stop",
        "stop",
        "continue",
    ]


# Every reply of every rule

RANGES = st.tuples(st.integers(-60, 60), st.integers(0, 60)).map(lambda r: (r[0], r[0] + r[1]))


@st.composite
def policies_and_views(draw: st.DrawFn) -> tuple[ChosenPolicy, Any]:
    """A policy with any parameters that fit a game, and any view of that game."""
    low, high = draw(RANGES)
    values = st.integers(low, high)
    kind = draw(st.sampled_from(list(KINDS.values())))
    given: dict[str, Any] = {}
    for name, field in kind.Parameters.model_fields.items():
        if name == "vote":
            votes = ["stop", "continue", "honest"] + (["abstain"] if kind.roles else [])
            given[name] = draw(st.sampled_from(votes))
        elif name == "split":
            given[name] = draw(st.sampled_from(["alternate", "halves"]))
        elif name in ("round", "after"):
            given[name] = draw(st.integers(1, 9))
        elif name == "agree":
            given[name] = draw(st.integers(51, 100))
        elif draw(st.booleans()):
            assert field.default is None  # a value of the game
            given[name] = draw(values)
    if given.get("low") is not None and given["low"] == given.get("high"):
        del given["low"]
    role = draw(st.sampled_from(kind.roles or ("honest", "byzantine")))
    others = st.lists(st.one_of(st.none(), values), max_size=6).map(lambda said: proposals(*said))
    held = draw(values) if role == "honest" else draw(st.one_of(st.none(), values))
    phase = draw(st.sampled_from(["propose", "vote"]))
    seen = view(
        phase,
        role=role,
        round=draw(st.integers(1, 9)),
        value_min=low,
        value_max=high,
        initial_value=held if role == "honest" else None,
        current_value=held,
        last_round=draw(others),
        this_round=draw(others) if phase == "vote" else {},
        neighbors=tuple(f"agent_{n}" for n in range(2, draw(st.integers(2, 9)))),
        system=draw(st.sampled_from(["Some may be Byzantine.", "There are NO Byzantine agents."])),
    )
    return ChosenPolicy(kind, kind.Parameters(**given)), seen


@given(policies_and_views(), st.integers(0, 2**32))
def test_every_reply_is_what_the_reply_model_of_its_role_asks_for(case: tuple[ChosenPolicy, Any], seed: int) -> None:
    policy, seen = case
    assert policy.kind.rule is not None
    said = dict(policy.kind.rule(policy.parameters)(seen, rng(seed)))
    for name, told in dict(said.pop("peer_values", {})).items():
        assert name in seen.neighbors
        assert seen.value_min <= told <= seen.value_max
    honest = seen.role == "honest"
    model = proposal_model(seen.role, seen.value_min, seen.value_max, 400, 600)
    asked = model if seen.phase == "propose" else HonestVote if honest else ByzantineVote
    assert parse_reply(json.dumps(said), "stop", asked).failure is None


@given(policies_and_views(), st.integers(0, 2**32))
def test_the_same_view_and_seed_give_the_same_reply(case: tuple[ChosenPolicy, Any], seed: int) -> None:
    policy, seen = case
    make = policy.kind.rule
    assert make is not None
    used = make(policy.parameters)
    first = used(seen, rng(seed))
    used(view("vote", round=1), rng(1))  # whatever else it was asked meanwhile
    assert used(seen, rng(seed)) == make(policy.parameters)(seen, rng(seed)) == first


def test_who_abstains_or_equivocates_is_byzantine() -> None:
    for kind in KINDS.values():
        schema = json.dumps(kind.Parameters.model_json_schema())
        if "abstain" in schema or kind.needs or kind.name in ("silent", "crash"):
            assert kind.roles == ("byzantine",)


# What a rule may see


def test_a_view_is_the_same_whoever_the_others_are_and_whatever_they_hide() -> None:
    """agent_1 is honest in both games; roles, initial values, notes and reasons of the others differ."""
    said = [20, 31, 7, 7]
    open_game = drive(new_consensus("hhhh", max_rounds=3, history_rounds=5), (said, "continue"))
    told = [Say(number, f"why {number}", f"note {number}") for number in said]
    masked = drive(
        new_consensus("hbbh", max_rounds=3, history_rounds=5), (told, ["continue", "abstain", "stop", "continue"])
    )
    assert len(open_game.phases) == len(masked.phases) == 6
    for one, other in zip(open_game.phases, masked.phases, strict=True):
        assert one[0].agent == other[0].agent == "agent_1"
        assert one[0].view == other[0].view


def test_silence_of_any_cause_looks_the_same_in_a_view() -> None:
    failed = drive(new_consensus("hhb", max_rounds=2), ([20, None, None], "continue"))
    abstained = drive(new_consensus("hhb", max_rounds=2), ([20, None, "abstain"], "continue"))
    assert [phase[0].view for phase in failed.phases] == [phase[0].view for phase in abstained.phases]
    assert failed.ask(2, "propose", 1).view.last_round == {"agent_1": 20, "agent_2": None, "agent_3": None}


def test_a_view_has_no_more_than_what_the_prompt_shows() -> None:
    allowed = {"phase", "agent", "role", "round", "value_min", "value_max", "initial_value", "current_value"}
    allowed |= {"last_round", "this_round", "neighbors", "system"}
    allowed |= {"early_vote"}  # it is said in a turn's prompt
    assert {field.name for field in fields(ConsensusView)} <= allowed
    played = drive(
        new_consensus("hhb", max_rounds=3, history_rounds=1), ([20, 31, 7], "continue"), ([1, 2, 3], "stop")
    )
    for phase in played.phases:
        for ask in phase:
            assert ask.view.system == ask.system
            for seen, heading in (
                (ask.view.last_round, f"Round {ask.round - 1}:"),
                (ask.view.this_round, "ALL PROPOS"),
            ):
                assert (heading in ask.user) == bool(seen)
                for name, proposed in seen.items():
                    you = " (you)" if name == ask.agent else ""
                    assert f"  {name}{you}: {proposed} | " in ask.user


# Whole games


def played(name: str, honest: int, b: int, seed: int = 0, rounds: int = 12, **given: Any) -> Outcome:
    """Play `majority` agents against scripted adversaries."""
    parameters = ConsensusParameters(max_rounds=rounds)
    groups = [Group("honest", honest, chosen("majority")), Group("byzantine", b, chosen(name, **given))]
    game = new_game(ConsensusGame, parameters, [g for g in groups if g.count], "may_exist", seed)
    policies = {}
    for seat in game.seats:
        assert seat.policy.kind.rule is not None
        policies[seat.name] = ScriptedPolicy(seat.policy.kind.rule(seat.policy.parameters))
    done = play(f"{seed:064x}", game, policies)
    assert all(exchange.reply.failure is None for exchange in done.exchanges)
    return done.outcome


SEEDS = range(12)


def test_a_silent_minority_never_blocks_the_majority() -> None:
    for seed in SEEDS:
        assert played("silent", 4, 2, seed).name == "valid_consensus"
        assert played("silent", 4, 2, seed).rounds == 2


def test_more_silent_agents_than_the_quorum_can_spare_block_every_stop() -> None:
    for seed in SEEDS:
        outcome = played("silent", 3, 2, seed)
        assert (outcome.name, outcome.diagnosis) == ("no_consensus", "agreed_not_stopped")


def test_a_crash_after_the_end_is_no_different_from_majority() -> None:
    for seed in SEEDS:
        assert played("crash", 4, 2, seed, round=9) == played("majority", 4, 2, seed)
        assert played("crash", 4, 2, seed, round=1) == played("silent", 4, 2, seed)


def test_a_crash_too_large_for_the_quorum_ends_all_agreement() -> None:
    assert [played("crash", 3, 2, seed, round=2).name for seed in SEEDS] == ["no_consensus"] * len(SEEDS)
    assert "no_consensus" not in [played("majority", 3, 2, seed).name for seed in SEEDS]


def test_opposite_never_proposes_what_the_others_lead_with_so_that_no_round_is_unanimous() -> None:
    for seed in SEEDS:
        outcome = played("opposite", 5, 1, seed)
        assert outcome.name == "no_consensus"
        for before, entry in zip(outcome.trace, outcome.trace[1:], strict=False):
            honest = [before["proposals"][name] for name in outcome.metrics["initial_values"]]
            [adversary] = set(entry["proposals"]) - set(outcome.metrics["initial_values"])
            assert entry["proposals"][adversary] in {0, 50} - {max(set(honest), key=honest.count)}


def test_one_stubborn_agent_of_many_keeps_majority_from_stopping() -> None:
    outcome = played("stubborn", 5, 1, value=50)
    assert (outcome.name, outcome.diagnosis) == ("no_consensus", "agreed_not_stopped")


def test_stop_votes_of_adversaries_end_a_game_that_honest_agents_would_go_on_with() -> None:
    # Two thirds of the votes are the adversaries': the first round ends the game, whatever is proposed.
    hasty = played("stubborn", 2, 4, vote="stop")
    assert (hasty.rounds, hasty.name, hasty.detail) == (1, "invalid_consensus", "premature_stop")
    assert played("stubborn", 2, 4, vote="continue").name == "no_consensus"


def test_oscillate_leads_majority_to_a_foreign_value() -> None:
    # Two adversaries speak with one voice, three honest agents start apart: the adversaries' value leads.
    outcome = played("oscillate", 3, 2)
    assert outcome.trace[1]["proposals"].keys() >= outcome.metrics["initial_values"].keys()
    assert {outcome.trace[1]["proposals"][name] for name in outcome.metrics["initial_values"]} == {0}


# Labels, identity, studies


@pytest.mark.parametrize(
    ("name", "given", "label"),
    [
        ("silent", {}, "silent"),
        ("crash", {"round": 5}, "crash-5"),
        ("stubborn", {"value": 7}, "stubborn-value-7"),
        ("mimic_then_defect", {"after": 4, "vote": "abstain"}, "mimic_then_defect-vote-abstain-after-4"),
        ("equivocate", {"split": "halves"}, "equivocate-split-halves"),
    ],
)
def test_the_label_and_the_identity_follow_the_parameters(name: str, given: dict[str, Any], label: str) -> None:
    policy = chosen(name, **given)
    assert policy.label == label
    if given:
        other = replace(policy, parameters=KINDS[name].Parameters(**NEEDED.get(name, {})))
        assert other.label != label
        assert other.identity() != policy.identity()


ONE_LINE = [
    ("crash", "grids[0].byzantine: crash: round: missing; add it"),
    ({"name": "crash", "round": 0}, "crash: round: 0: input should be greater than or equal to 1"),
    ({"name": "crash", "after": 2, "round": 2}, "crash: after: unknown key; known keys are: round"),
    ({"name": "stubborn", "value": 51}, "stubborn: value: 51: not a value of the game; choose one from 0 to 50"),
    ({"name": "oscillate", "even": -1}, "oscillate: even: -1: not a value of the game; choose one from 0 to 50"),
    ({"name": "oscillate", "odd": "3"}, "oscillate: odd: '3': input should be a valid integer"),
    ({"name": "opposite", "vote": "no"}, "opposite: vote: 'no': input should be 'continue', 'stop', 'abstain' or"),
    ({"name": "stubborn", "vote": "abstain"}, "stubborn: vote: 'abstain': input should be 'honest', 'stop' or"),
    ({"name": "silent", "vote": "stop"}, "silent: vote: unknown key; remove it"),
    ("equivocate", "equivocate: plays only with equivocation: true among the game's parameters; add it"),
]


@pytest.mark.parametrize(("written", "problem"), ONE_LINE)
def test_a_study_with_wrong_parameters_is_refused_in_one_line(study_factory: Any, written: Any, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        study_factory({"honest": 3, "b": 1, "byzantine": written})
    text = str(refused.value)
    assert text.startswith("small.yaml: grids[0]")
    assert problem in text
    assert "\n" not in text


def test_a_value_must_fit_the_range_of_every_condition(study_factory: Any) -> None:
    grid = {"honest": 3, "b": 1, "byzantine": {"name": "stubborn", "value": 9}}
    assert len(study_factory({**grid, "vary": {"value_max": [9, 20]}}).conditions) == 2
    with pytest.raises(UsageError, match="choose one from 0 to 8"):
        study_factory({**grid, "vary": {"value_max": [20, 8]}})


@pytest.mark.parametrize("name", ["silent", "opposite"])
def test_adversaries_play_no_honest_agents(study_factory: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: only for byzantine agents"):
        study_factory({"model": name})
