"""The scripted policies of the consensus game: what each proposes and votes, view by view."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from parley.errors import UsageError
from parley.games.consensus.parameters import ConsensusView
from parley.games.consensus.policies import POLICIES
from parley.policies.kinds import ChosenPolicy
from support.studies import StudyFactory, refused

pytestmark = pytest.mark.promise("Scripted policies of the consensus game propose and vote by their rules.")

KINDS = {name: kind for name, kind in POLICIES.items() if kind.rule}
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
    return policy.rule(seen, np.random.default_rng(seed))


# A policy and its parameters, what was proposed in the last round (agent_1 first), its proposals in rounds 2, 3 and 4.
PROPOSALS: list[tuple[str, dict[str, Any], tuple[int | None, ...], list[Any]]] = [
    ("majority", {}, (3, 7, 7), [7] * 3),
    ("majority", {}, (7, 3, 3, 7), [3] * 3),  # a tie: the smallest
    ("majority", {}, (None, 8, None), [8] * 3),  # the silent do not count
    ("majority", {}, (None, None), [9] * 3),  # nobody spoke: its own value
    ("minimum", {}, (9, 12, 4), [4] * 3),
    ("stubborn", {}, (3, 3, 3), [9] * 3),
    ("stubborn", {"value": 41}, (3, 3, 3), [41] * 3),
    ("opposite", {}, (None, 10, 10, 40), [50] * 3),
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


def test_who_starts_without_a_value_draws_it_and_random_draws_anew_each_time() -> None:
    first = reply("stubborn", view(current_value=None), 5)["value"]
    assert reply("stubborn", view(current_value=first), 6)["value"] == first
    drawn = [reply("stubborn", view(current_value=None, value_max=5), seed)["value"] for seed in range(100)]
    assert set(drawn) == set(range(6))
    values = [reply("random", view(value_min=-2, value_max=2), seed)["value"] for seed in range(200)]
    assert set(values) == {-2, -1, 0, 1, 2}


MISTAKES: list[tuple[Any, tuple[str, ...]]] = [
    ("crash", ("crash: round: missing",)),
    ("equivocate", ("equivocate", "equivocation: true")),
]


def test_a_study_with_wrong_parameters_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    for written, parts in MISTAKES:
        grid = {"honest": 3, "b": 1, "byzantine": written}
        refused(partial(study_factory, grid), r"small\.yaml: grids\[0\]", *parts)


def test_a_value_must_fit_the_range_of_every_condition(study_factory: StudyFactory) -> None:
    grid = {"honest": 3, "b": 1, "byzantine": {"name": "stubborn", "value": 9}}
    assert len(study_factory({**grid, "vary": {"value_max": [9, 20]}}).conditions) == 2
    with pytest.raises(UsageError, match=r"stubborn: value: 9: .*choose one from 0 to 8"):
        study_factory({**grid, "vary": {"value_max": [20, 8]}})
