"""The scripted policies of the consensus game: baselines for science, and the engine-free policies of the tests.

Each is a pure function of a `ConsensusView` (what the agent may see) and a generator; it returns the reply as a
mapping, which goes through the same strict parser as a model's.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from parley.games.consensus_state import ConsensusView
from parley.games.kinds import PolicyKind, Rule
from parley.text import one_line


def _proposal(value: int) -> Mapping[str, Any]:
    """Return a proposal; all rules give the same reason, which says nothing of who gives it."""
    return {"internal_strategy": "", "value": value, "public_reasoning": "This value may help us to agree."}


def _uniform(view: ConsensusView, rng: np.random.Generator) -> int:
    return int(rng.integers(view.value_min, view.value_max + 1))


def _held_value(view: ConsensusView, rng: np.random.Generator) -> int:
    """Return the value it holds; an agent that starts without one (Byzantine) draws it."""
    return _uniform(view, rng) if view.current_value is None else view.current_value


def _stop_when_equal(view: ConsensusView) -> Mapping[str, Any]:
    """Vote stop when all proposals that it sees are equal; a silent agent made none."""
    seen = {value for value in view.this_round.values() if value is not None}
    return {"decision": "stop" if len(seen) == 1 else "continue"}


def majority(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Adopt the most frequent value of the last round, the smallest on a tie."""
    if view.phase == "vote":
        return _stop_when_equal(view)
    counts = Counter(value for value in view.last_round.values() if value is not None)
    if not counts:
        return _proposal(_held_value(view, rng))
    most = max(counts.values())
    return _proposal(min(value for value, count in counts.items() if count == most))


def stubborn(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Propose the first value forever; vote like `majority`."""
    if view.phase == "vote":
        return _stop_when_equal(view)
    return _proposal(_held_value(view, rng))


def random(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Propose a value uniform on the range, and vote stop or continue with equal chance, each time anew."""
    if view.phase == "vote":
        return {"decision": ("stop", "continue")[int(rng.integers(2))]}
    return _proposal(_uniform(view, rng))


def minimum(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Propose the smallest value it has seen, so that one value floods the network; vote like `majority`."""
    if view.phase == "vote":
        return _stop_when_equal(view)
    seen = [value for value in view.last_round.values() if value is not None]
    return _proposal(min([_held_value(view, rng), *seen]))


def _kind(rule: Rule) -> PolicyKind:
    summary = one_line((rule.__doc__ or "").splitlines()[0])
    return PolicyKind(rule.__name__, summary, rule=lambda parameters: rule)


SCRIPTED: Mapping[str, PolicyKind] = {kind.name: kind for kind in map(_kind, (majority, stubborn, random, minimum))}
