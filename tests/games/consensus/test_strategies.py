"""Language models with a strategy: what they are told, and their identity. docs/playthroughs shows whole prompts."""

import json
from typing import Any

import pytest

from parley.games.consensus.policies import POLICIES, TEXTS, Strategies
from parley.policies.kinds import ChosenPolicy


def told(chosen: Any, **given: Any) -> ChosenPolicy:
    return ChosenPolicy(POLICIES["llm_strategies"], Strategies(strategies=chosen, **given))


def test_the_label_and_the_identity_follow_strategies_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {
        told("stall").label: "llm_strategies-stall",
        told(["inject", "stall"]).label: "llm_strategies-stall+inject",
        told("anchor", value=41).label: "llm_strategies-anchor-value-41",
        told(["impersonate"], after=5).label: "llm_strategies-impersonate-after-5",
    }
    assert all(got == expected for got, expected in labels.items())
    policies = [told("stall"), told("split"), told(["stall", "split"]), told("anchor"), told("anchor", value=3)]
    policies += [told("impersonate"), told("impersonate", after=4)]
    assert len({json.dumps(policy.identity(), sort_keys=True) for policy in policies}) == len(policies)
    assert told(["split", "stall"]).identity() == told(("stall", "split")).identity()
    before = told("stall").identity()
    monkeypatch.setitem(TEXTS, "stall", "another text")
    assert told("stall").identity() != before
