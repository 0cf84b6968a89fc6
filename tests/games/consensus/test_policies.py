"""The scripted policies of the consensus game: what each proposes and votes, view by view."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Outcome
from parley.games.consensus.adversaries import ADVERSARIES
from parley.games.consensus.parameters import ByzantineVote, HonestVote, proposal_model
from parley.games.consensus.policies import SCRIPTED
from parley.games.consensus.state import ConsensusView
from parley.policies.kinds import ChosenPolicy
from parley.policies.parsing import parse_reply
from support.playing import new_consensus
from support.playthrough import by_hand, simulation_of
from support.studies import StudyFactory

KINDS = {**SCRIPTED, **ADVERSARIES}
NEEDED: dict[str, dict[str, Any]] = {"crash": {"round": 3}}


def chosen(name: str, **given: Any) -> ChosenPolicy:
    kind = KINDS[name]
    return ChosenPolicy(kind, kind.Parameters(**{**NEEDED.get(name, {}), **given}))


def view(phase: str = "propose", **changes: Any) -> ConsensusView:
    """Return what agent_1 sees in round 2 of a game over 0 to 50."""
    seen = {"phase": phase, "agent": "agent_1", "role": "honest", "round": 2, "value_min": 0, "value_max": 50}
    seen |= {"initial_value": None, "current_value": 9, "neighbors": ("agent_2", "agent_3", "agent_4")}
    return ConsensusView(**{**seen, "last_round": {}, "this_round": {}, **changes})


def named(*values: int | None) -> dict[str, int | None]:
    return {f"agent_{i + 1}": value for i, value in enumerate(values)}


def reply(name: str, seen: ConsensusView, seed: int = 0, **given: Any) -> Mapping[str, Any]:
    policy = chosen(name, **given)
    assert policy.kind.rule is not None
    return policy.kind.rule(policy.parameters)(seen, np.random.default_rng(seed))


# A policy and its parameters, what was proposed in the last round (agent_1 first), its proposals in rounds 2, 3 and 4.
PROPOSALS: list[tuple[str, dict[str, Any], tuple[int | None, ...], list[Any]]] = [
    ("majority", {}, (3, 7, 7), [7] * 3),
    ("majority", {}, (7, 3, 3, 7), [3] * 3),  # a tie: the smallest
    ("majority", {}, (None, 8, None), [8] * 3),  # the silent do not count
    ("majority", {}, (None, None), [9] * 3),  # nobody spoke: its own value
    ("majority", {}, (), [9] * 3),
    ("minimum", {}, (None, 12, 10), [9] * 3),
    ("minimum", {}, (9, 12, 4), [4] * 3),
    ("stubborn", {}, (3, 3, 3), [9] * 3),
    ("stubborn", {"value": 41}, (3, 3, 3), [41] * 3),
    ("opposite", {}, (None, 10, 10, 40), [50] * 3),
    ("opposite", {}, (None, 40, 40, 10), [0] * 3),
    ("opposite", {}, (0, 25, None), [0] * 3),  # both ends are as far: the smallest
    ("opposite", {}, (0, 30, 10), [50] * 3),  # a tie: away from the smaller
    ("opposite", {}, (0, 50), [0] * 3),  # its own proposal does not count
    ("opposite", {}, (44, None), [9] * 3),  # no other spoke: its own value
    ("oscillate", {}, (3, 3), [50, 0, 50]),
    ("oscillate", {"odd": 7, "even": 8}, (3, 3), [8, 7, 8]),
    ("mimic_then_defect", {}, (3, 3, 40, 40), [3] * 3),
    ("mimic_then_defect", {}, (3, 40, 40, 40), [0] * 3),
    ("mimic_then_defect", {}, (50, 7, 8), [7] * 3),  # it mimics again
    ("mimic_then_defect", {"after": 3}, (3, 3, 40, 41), [3, 3, 50]),
    ("silent", {}, (3, 3), ["abstain"] * 3),
    ("crash", {"round": 3}, (8, 8, 1), [8, "abstain", "abstain"]),
]


def test_each_policy_proposes_by_its_rule() -> None:
    for name, given_, last, proposed in PROPOSALS:
        found = [reply(name, view(last_round=named(*last), round=n), **given_)["value"] for n in (2, 3, 4)]
        assert found == proposed, (name, given_, last)


STOP, GO = "stop", "continue"
# A policy and its parameters, and its votes in round 2 after proposals that are equal, that differ, and none at all.
VOTES: list[tuple[str, dict[str, Any], list[str]]] = [
    *((name, {}, [STOP, GO, GO]) for name in ("majority", "stubborn", "minimum", "wary")),
    ("stubborn", {"vote": STOP}, [STOP] * 3),
    ("stubborn", {"vote": GO}, [GO] * 3),
    *((name, {}, [GO] * 3) for name in ("opposite", "oscillate", "equivocate")),
    *((name, {"vote": "abstain"}, ["abstain"] * 3) for name in ("opposite", "oscillate", "equivocate")),
    *((name, {"vote": "honest"}, [STOP, GO, GO]) for name in ("opposite", "oscillate", "equivocate")),
    ("mimic_then_defect", {}, [GO] * 3),  # no stop on what the others agree on
    ("mimic_then_defect", {"vote": "abstain"}, ["abstain", GO, GO]),  # like majority until it defects
    ("mimic_then_defect", {"vote": STOP, "after": 1}, [STOP] * 3),
    ("silent", {}, ["abstain"] * 3),
    ("crash", {"round": 3}, [STOP, GO, GO]),
    ("crash", {"round": 2}, ["abstain"] * 3),
]


def test_each_policy_votes_by_its_rule() -> None:
    for name, given_, votes in VOTES:
        seen = [view("vote", this_round=named(*this)) for this in ((7, None, 7), (7, 7, 8), (None, None))]
        assert [reply(name, each, **given_)["decision"] for each in seen] == votes, (name, given_)


def test_majority_votes_stop_when_so_many_percent_agree() -> None:
    rows: list[tuple[int, tuple[int | None, ...], str]] = [
        (66, (7, 7, 3), STOP),
        (67, (7, 7, 3), GO),
        (100, (7, 7, 7, None), STOP),  # a silent agent made no proposal
        (75, (7, 7, 7, 3), STOP),
        (51, (None, None), GO),
    ]
    for agree, this, vote in rows:
        assert reply("majority", view("vote", this_round=named(*this)), agree=agree)["decision"] == vote, agree


def test_who_starts_without_a_value_draws_it_and_random_draws_anew_each_time() -> None:
    first = reply("stubborn", view(current_value=None), 5)["value"]
    assert reply("stubborn", view(current_value=first), 6)["value"] == first
    drawn = [reply("stubborn", view(current_value=None, value_max=5), seed)["value"] for seed in range(100)]
    assert set(drawn) == set(range(6))
    values = [reply("random", view(value_min=-2, value_max=2), seed)["value"] for seed in range(200)]
    assert set(values) == {-2, -1, 0, 1, 2}
    votes = [reply("random", view("vote"), seed)["decision"] for seed in range(200)]
    assert 65 <= votes.count(STOP) <= 135
    assert set(votes) == {STOP, GO}


# What `wary` reads


@pytest.mark.parametrize("protocol", ["paper", "swarms"])
def test_wary_is_warned_by_the_prompt_that_a_model_gets(protocol: str) -> None:
    for prompt, warned in (("may_exist", True), ("none_exist", False)):
        for ask in next(new_consensus("hhh", prompt=prompt, protocol=protocol).play()):
            seen = replace(ask.view, phase="propose", last_round=named(3, 3), current_value=9)
            assert reply("wary", seen)["value"] == (9 if warned else 3)
            for vote in (GO, STOP, "honest"):
                voting = replace(seen, phase="vote", this_round=named(7, 7))
                assert reply("wary", voting, vote=vote)["decision"] == (vote if warned and vote == GO else STOP)


# Every reply of every rule


@st.composite
def policies_and_views(draw: st.DrawFn) -> tuple[ChosenPolicy, ConsensusView]:
    """A policy with any parameters that fit a game, and any view of that game."""
    low = draw(st.integers(-60, 60))
    high = low + draw(st.integers(0, 60))
    values = st.integers(low, high)
    kind = draw(st.sampled_from(list(KINDS.values())))
    votes = [STOP, GO, "honest"] + (["abstain"] if kind.roles else [])
    choices: dict[str, Any] = {"vote": st.sampled_from(votes), "split": st.sampled_from(["alternate", "halves"])}
    choices |= {"round": st.integers(1, 9), "after": st.integers(1, 9), "agree": st.integers(51, 100)}
    given_ = {name: draw(choices.get(name, st.none() | values)) for name in kind.Parameters.model_fields}
    if given_.get("low") is not None and given_["low"] == given_.get("high"):
        del given_["low"]
    role = draw(st.sampled_from(kind.roles or ("honest", "byzantine")))
    others = st.lists(st.none() | values, max_size=6).map(lambda said: named(*said))
    held = draw(values if role == "honest" else st.none() | values)
    phase = draw(st.sampled_from(["propose", "vote"]))
    seen = view(
        phase,
        role=role,
        round=draw(st.integers(1, 9)),
        value_min=low,
        value_max=high,
        current_value=held,
        last_round=draw(others),
        this_round=draw(others) if phase == "vote" else {},
        neighbors=tuple(f"agent_{n}" for n in range(2, draw(st.integers(2, 9)))),
        system=draw(st.sampled_from(["Some may be Byzantine.", "There are NO Byzantine agents."])),
    )
    return ChosenPolicy(kind, kind.Parameters(**given_)), seen


@given(policies_and_views(), st.integers(0, 2**32))
def test_every_reply_fits_its_role_and_follows_from_view_and_seed(
    case: tuple[ChosenPolicy, ConsensusView], seed: int
) -> None:
    policy, seen = case
    make = policy.kind.rule
    assert make is not None
    used = make(policy.parameters)
    said = dict(used(seen, np.random.default_rng(seed)))
    used(view("vote", round=1), np.random.default_rng(1))  # whatever else it was asked meanwhile
    for rule in (used, make(policy.parameters)):
        assert rule(seen, np.random.default_rng(seed)) == said
    for name, told in dict(said.pop("peer_values", {})).items():
        assert name in seen.neighbors
        assert seen.value_min <= told <= seen.value_max
    vote = HonestVote if seen.role == "honest" else ByzantineVote
    asked = proposal_model(seen.role, seen.value_min, seen.value_max, 400, 600) if seen.phase == "propose" else vote
    assert parse_reply(json.dumps(said), "stop", asked).failure is None


# Whole games: more are in docs/playthroughs/consensus, and theory is in test_theory.py


def outcome(name: str, seed: int, **given: Any) -> Outcome:
    """Play four agents of `majority` against two adversaries."""
    grid = {"model": "majority", "n": 6, "b": 2, "byzantine": {"name": name, **given}}
    return by_hand(simulation_of("consensus", grid, {"max_rounds": 12}, seed).game()).outcome


@settings(max_examples=8)
@given(st.integers(0, 100))
def test_a_crash_after_the_end_is_majority_and_one_from_the_start_is_silence(seed: int) -> None:
    assert outcome("crash", seed, round=9) == outcome("majority", seed)
    assert outcome("crash", seed, round=1) == outcome("silent", seed)


# Labels, identity, studies


def test_the_label_and_the_identity_follow_the_parameters() -> None:
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("silent", {}, "silent"),
        ("crash", {"round": 5}, "crash-5"),
        ("stubborn", {"value": 7}, "stubborn-value-7"),
        ("mimic_then_defect", {"after": 4, "vote": "abstain"}, "mimic_then_defect-vote-abstain-after-4"),
        ("equivocate", {"split": "halves"}, "equivocate-split-halves"),
    ]
    for name, given_, label in rows:
        policy, plain = chosen(name, **given_), chosen(name)
        assert policy.label == label
        assert (policy.identity() == plain.identity()) == (not given_)


MISTAKES: list[tuple[Any, tuple[str, ...]]] = [
    ("crash", ("crash: round: missing",)),
    ({"name": "crash", "round": 0}, ("crash: round: 0", "1")),
    ({"name": "crash", "after": 2, "round": 2}, ("crash: after", "known keys are: round")),
    ({"name": "stubborn", "value": 51}, ("stubborn: value: 51", "0 to 50")),
    ({"name": "oscillate", "even": -1}, ("oscillate: even: -1", "0 to 50")),
    ({"name": "oscillate", "odd": "3"}, ("oscillate: odd: '3'", "integer")),
    ({"name": "opposite", "vote": "no"}, ("opposite: vote: 'no'", "'continue', 'stop', 'abstain'")),
    ({"name": "stubborn", "vote": "abstain"}, ("stubborn: vote: 'abstain'", "'honest', 'stop'")),
    ({"name": "silent", "vote": "stop"}, ("silent: vote", "remove it")),
    ({"name": "equivocate", "low": 4, "high": 4}, ("low and high are both 4",)),
    ("equivocate", ("equivocate", "equivocation: true")),
]


def test_a_study_with_wrong_parameters_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    for written, parts in MISTAKES:
        with pytest.raises(UsageError) as refused:
            study_factory({"honest": 3, "b": 1, "byzantine": written})
        text = str(refused.value)
        assert text.startswith("small.yaml: grids[0]")
        assert "\n" not in text
        assert all(part in text for part in parts), (text, parts)
    for name in ("silent", "opposite"):
        with pytest.raises(UsageError, match=f"{name}: only for byzantine agents"):
            study_factory({"model": name})


def test_a_value_must_fit_the_range_of_every_condition(study_factory: StudyFactory) -> None:
    grid = {"honest": 3, "b": 1, "byzantine": {"name": "stubborn", "value": 9}}
    assert len(study_factory({**grid, "vary": {"value_max": [9, 20]}}).conditions) == 2
    with pytest.raises(UsageError, match="choose one from 0 to 8"):
        study_factory({**grid, "vary": {"value_max": [20, 8]}})
