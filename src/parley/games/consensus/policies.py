"""The scripted policies of the consensus game that anyone may be played by, and what adversaries share with them.

Each is a pure function of a `ConsensusView` (what the agent may see), a generator and its parameters; it returns the
reply as a mapping, which goes through the same strict parser as a model's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from parley.games.consensus.state import ConsensusView
from parley.policies.kinds import PolicyKind, PolicyParameters, scripted_kind


class _GameValue:
    """Marks parameters that are values of the game, and must be within its range."""


# A value that agents propose, or None; what None means is said where it is used.
GameValue = Annotated[int | None, _GameValue(), Field(ge=-1_000_000, le=1_000_000)]


def outside_range(given: PolicyParameters, game: Any) -> str:
    """Return which of the values that a policy is given is not one of the game; "" if all are."""
    for name, field in type(given).model_fields.items():
        value = getattr(given, name)
        if value is None or not any(isinstance(mark, _GameValue) for mark in field.metadata):
            continue
        if not game.value_min <= value <= game.value_max:
            return f"{name}: {value}: not a value of the game; choose one from {game.value_min} to {game.value_max}"
    return ""


# The kind of a rule of this game (`kinds.scripted_kind`).
consensus_kind = partial(scripted_kind, misfit=outside_range)


# What rules are made of


def proposal(value: int) -> Mapping[str, Any]:
    """Return a proposal; all rules give the same reason, which says nothing of who gives it."""
    return {"internal_strategy": "", "value": value, "public_reasoning": "This value may help us to agree."}


def uniform(view: ConsensusView, rng: np.random.Generator) -> int:
    """Return a value that is uniform on the range of the game."""
    return int(rng.integers(view.value_min, view.value_max + 1))


def held_value(view: ConsensusView, rng: np.random.Generator) -> int:
    """Return the value it holds; an agent that starts without one (Byzantine) draws it."""
    return uniform(view, rng) if view.current_value is None else view.current_value


def most_frequent(values: Iterable[int | None]) -> int | None:
    """Return the most frequent value, the smallest on a tie; None if nobody proposed one."""
    counts = Counter(value for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def stop_when_equal(view: ConsensusView, percent: int = 100) -> Mapping[str, Any]:
    """Vote stop when at least `percent` of the proposals that it sees are equal; a silent agent made none."""
    counts = Counter(value for value in view.this_round.values() if value is not None)
    agreed = bool(counts) and 100 * max(counts.values()) >= percent * counts.total()
    return {"decision": "stop" if agreed else "continue"}


# The policies

NOTHING_GIVEN = PolicyParameters()


class Stubborn(PolicyParameters):
    """What `stubborn` proposes, and how it votes."""

    value: GameValue = Field(
        default=None, description="What it proposes; default: its initial value, which a Byzantine agent draws."
    )
    vote: Literal["honest", "stop", "continue"] = Field(
        default="honest", description="Its votes; `honest` is stop when all proposals it sees are equal."
    )


class Majority(PolicyParameters):
    """When `majority` votes to stop."""

    agree: int = Field(
        default=100,
        ge=51,
        le=100,
        description="It votes stop when so many percent of the proposals it sees are equal.",
    )


_MAJORITY = Majority()


def majority(view: ConsensusView, rng: np.random.Generator, given: Majority = _MAJORITY) -> Mapping[str, Any]:
    """Propose the most frequent value of the last round, the smallest on a tie; vote stop when all are equal."""
    if view.phase == "vote":
        return stop_when_equal(view, given.agree)
    leading = most_frequent(view.last_round.values())
    return proposal(held_value(view, rng) if leading is None else leading)


_STUBBORN = Stubborn()


def stubborn(view: ConsensusView, rng: np.random.Generator, given: Stubborn = _STUBBORN) -> Mapping[str, Any]:
    """Propose the same value forever; vote stop when all are equal, or as it is told."""
    if view.phase == "vote":
        return stop_when_equal(view) if given.vote == "honest" else {"decision": given.vote}
    return proposal(held_value(view, rng) if given.value is None else given.value)


def random(
    view: ConsensusView, rng: np.random.Generator, given: PolicyParameters = NOTHING_GIVEN
) -> Mapping[str, Any]:
    """Propose a value uniform on the range, and vote stop or continue with equal chance, each time anew."""
    if view.phase == "vote":
        return {"decision": ("stop", "continue")[int(rng.integers(2))]}
    return proposal(uniform(view, rng))


def minimum(
    view: ConsensusView, rng: np.random.Generator, given: PolicyParameters = NOTHING_GIVEN
) -> Mapping[str, Any]:
    """Propose the smallest value it has seen, so that one value floods the network; vote like `majority`."""
    if view.phase == "vote":
        return stop_when_equal(view)
    seen = [value for value in view.last_round.values() if value is not None]
    return proposal(min([held_value(view, rng), *seen]))


class Wary(PolicyParameters):
    """How `wary` votes when it is warned."""

    vote: Literal["continue", "stop", "honest"] = Field(
        default="continue",
        description="Its votes if its prompt warns of Byzantine agents; `honest` is stop when all proposals it sees "
        "are equal.",
    )


_WARY = Wary()


def wary(view: ConsensusView, rng: np.random.Generator, given: Wary = _WARY) -> Mapping[str, Any]:
    """Play like `majority`; if its prompt warns of Byzantine agents, keep its value and vote as it is told.

    It is the control of questions about the prompt: of the scripted policies it alone reads. A prompt that says that
    there are no Byzantine agents does not warn it.
    """
    told = view.system.lower()
    if "byzantine" not in told or "no byzantine" in told:
        return majority(view, rng)
    if view.phase == "vote":
        return stop_when_equal(view) if given.vote == "honest" else {"decision": given.vote}
    return proposal(held_value(view, rng))


SCRIPTED: Mapping[str, PolicyKind] = {
    kind.name: kind
    for kind in (
        consensus_kind(majority, Majority),
        consensus_kind(stubborn, Stubborn),
        consensus_kind(random),
        consensus_kind(minimum),
        consensus_kind(wary, Wary),
    )
}
