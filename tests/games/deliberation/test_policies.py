"""The scripted agents of the deliberation game: how often they do what, and what comes of many of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from parley.games.deliberation.parameters import DeliberationView, Value
from parley.games.deliberation.policies import POLICIES
from parley.games.problems.problem import Problem
from parley.policies.kinds import ChosenPolicy
from support.playing import EIGHTEEN

pytestmark = pytest.mark.promise("Scripted solvers are right, conform and recognize by their chances.")


def chosen(name: str, **given: Any) -> ChosenPolicy:
    return ChosenPolicy(POLICIES[name], POLICIES[name].Parameters(**given))


def view(
    turn: int = 1, own: Value | None = "17", problem: Problem = EIGHTEEN, **heard: Value | None
) -> DeliberationView:
    return DeliberationView("reflect" if turn else "initial", "agent_9", "honest", turn, problem, own, heard, "3")


def said(name: str, seen: DeliberationView, seed: int = 0, **given: Any) -> Mapping[str, Any]:
    policy = chosen(name, **given)
    assert policy.kind.rule is not None
    return policy.rule(seen, np.random.default_rng(seed))


def share(seen: DeliberationView, answer: str, **given: Any) -> float:
    return sum(said("solver", seen, seed, **given)["answer"] == answer for seed in range(1000)) / 1000


def test_a_solver_is_right_conforms_and_recognizes_by_its_chances() -> None:
    first, against, heard = view(0, None), view(a="20", b="20", c="17"), view(a="20", b="20", c="18")
    assert said("solver", first, accuracy=1)["answer"] == said("solver", view(own=None), accuracy=1)["answer"] == "18"
    assert said("solver", first, accuracy=0)["answer"] != "18"
    assert share(first, "18", accuracy=0.7) == pytest.approx(0.7, abs=0.05)
    assert share(against, "20", conformity=0.3) == pytest.approx(0.3, abs=0.05)
    assert share(heard, "18", conformity=0, recognize=0.4) == pytest.approx(0.4, abs=0.05)
    assert said("solver", heard, conformity=1, recognize=1)["answer"] == "18"
    for seen, given in (
        (against, {"conformity": 0}),
        (view(a="20", b="18"), {"conformity": 1}),  # a tie leads nobody
        (view(a="20"), {"conformity": 0, "recognize": 1}),  # it must hear the right one
    ):
        assert said("solver", seen, **given)["answer"] == "17", given
