import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parley.games.consensus.parameters import ByzantineVote, HonestVote, proposal_model
from parley.games.consensus.policies import Majority, Wary, majority, random, stubborn, wary
from parley.games.consensus.state import ConsensusView
from parley.policies.parsing import parse_reply
from support.playing import RULES, new_consensus


def view(phase: str = "propose", current: int | None = 9, **changes: Any) -> ConsensusView:
    fields: dict[str, Any] = {
        "phase": phase,
        "agent": "agent_1",
        "role": "honest",
        "round": 2,
        "value_min": 0,
        "value_max": 50,
        "initial_value": current,
        "current_value": current,
        "last_round": {},
        "this_round": {},
    }
    return ConsensusView(**{**fields, **changes})


def proposals(*values: int | None) -> dict[str, int | None]:
    return {f"agent_{i + 1}": value for i, value in enumerate(values)}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("last", "adopted"),
    [
        (proposals(3, 7, 7), 7),
        (proposals(7, 3, 3, 7), 3),  # a tie: the smallest
        (proposals(5, 4, 3), 3),
        (proposals(None, 8, None), 8),  # the silent do not count
        (proposals(None, None), 9),  # nobody spoke: its own value
        ({}, 9),  # the first round
    ],
)
def test_majority_adopts_the_most_frequent_value(last: dict[str, int | None], adopted: int) -> None:
    assert majority(view(last_round=last), rng())["value"] == adopted


@pytest.mark.parametrize("rule", [majority, stubborn])
@pytest.mark.parametrize(
    ("this", "decision"),
    [
        (proposals(7, 7, 7), "stop"),
        (proposals(7), "stop"),
        (proposals(7, 7, 8), "continue"),
        (proposals(7, None, 7), "stop"),  # equal are all that it sees
        (proposals(None, None), "continue"),
    ],
)
def test_votes_stop_when_all_seen_proposals_are_equal(rule: Any, this: dict[str, int | None], decision: str) -> None:
    assert rule(view("vote", this_round=this), rng())["decision"] == decision


def test_stubborn_keeps_its_value_whatever_others_say() -> None:
    assert stubborn(view(last_round=proposals(3, 3, 3)), rng())["value"] == 9


def test_a_stubborn_byzantine_agent_keeps_the_value_that_it_drew() -> None:
    first = stubborn(view(current=None), rng(5))["value"]
    assert 0 <= first <= 50
    assert stubborn(view(current=first), rng(6))["value"] == first


def test_random_draws_anew_from_the_whole_range() -> None:
    generator = rng()
    values = {random(view(value_min=-2, value_max=2), generator)["value"] for _ in range(200)}
    assert values == {-2, -1, 0, 1, 2}


def test_random_votes_both_ways() -> None:
    generator = rng()
    votes = [random(view("vote"), generator)["decision"] for _ in range(200)]
    assert 65 <= votes.count("stop") <= 135
    assert set(votes) == {"stop", "continue"}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_take_all_their_randomness_from_the_generator(rule: Any) -> None:
    for v in (view(current=None), view("vote", this_round=proposals(1, 2))):
        assert [rule(v, rng(s)) for s in range(20)] == [rule(v, rng(s)) for s in range(20)]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("role", ["honest", "byzantine"])
def test_replies_of_rules_pass_the_strict_parser(rule: Any, role: str) -> None:
    current = 9 if role == "honest" else None
    model = proposal_model(role, 0, 50, 400, 600)
    assert parse_reply(json.dumps(rule(view(current=current), rng())), "stop", model).failure is None
    vote = HonestVote if role == "honest" else ByzantineVote
    assert parse_reply(json.dumps(rule(view("vote"), rng())), "stop", vote).failure is None


@pytest.mark.parametrize("protocol", ["paper", "swarms"])
@pytest.mark.parametrize(("prompt", "warned"), [("may_exist", True), ("none_exist", False)])
def test_wary_is_warned_by_the_prompt_that_a_model_gets(protocol: str, prompt: str, warned: bool) -> None:
    game = new_consensus("hhh", prompt=prompt, protocol=protocol)
    for ask in next(game.play()):
        assert ask.view.system == ask.system
        seen = replace(ask.view, phase="propose", last_round=proposals(3, 3), current_value=9)
        assert wary(seen, rng())["value"] == (9 if warned else 3)


@pytest.mark.parametrize(
    ("system", "given", "decision"),
    [
        ("The network MAY contain Byzantine agents.", "continue", "continue"),
        ("The network MAY contain Byzantine agents.", "stop", "stop"),
        ("The network MAY contain Byzantine agents.", "honest", "stop"),
        ("There are NO Byzantine agents.", "continue", "stop"),  # all equal: like majority
        ("Agree on a value.", "continue", "stop"),
    ],
)
def test_wary_votes_as_it_is_told_if_it_is_warned(system: str, given: Any, decision: str) -> None:
    seen = view("vote", this_round=proposals(7, 7), system=system)
    assert wary(seen, rng(), Wary(vote=given))["decision"] == decision


def test_the_first_view_holds_nothing_of_others() -> None:
    ask = next(new_consensus("hhb").play())[0]
    assert ask.view.last_round == {}
    assert ask.view.this_round == {}
    assert (ask.view.agent, ask.view.role, ask.view.initial_value) == ("agent_1", "honest", 20)


def test_majority_votes_stop_when_so_many_percent_agree() -> None:
    def vote(agree: int, *values: int | None) -> str:
        seen = {f"agent_{i + 1}": value for i, value in enumerate(values)}
        seen_by = view(phase="vote", this_round=seen)
        return str(majority(seen_by, np.random.default_rng(0), Majority(agree=agree))["decision"])

    assert vote(66, 7, 7, 3) == "stop"
    assert vote(67, 7, 7, 3) == "continue"
    assert vote(100, 7, 7, 7, None) == "stop"  # a silent agent made no proposal
    assert vote(75, 7, 7, 7, 3) == "stop"
    assert vote(51, None, None) == "continue"
