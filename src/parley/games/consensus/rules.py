"""What scripted policies of the consensus game are made of: values, proposals, votes, and how adversaries vote."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from parley.games.consensus.parameters import ConsensusView, Value
from parley.policies.kinds import PolicyParameters

Fields = Mapping[str, Any]  # of a reply


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


REASON = "This value may help us to agree."  # all rules give it: it says nothing of who gives it
ABSTENTION: Fields = {"internal_strategy": "", "value": "abstain", "public_reasoning": ""}


def proposal(value: Value, text: str = REASON) -> Fields:
    """Return a proposal, with what a protocol has to say beside the value."""
    return {"internal_strategy": "", "value": value, "public_reasoning": text}


def uniform(view: ConsensusView, rng: np.random.Generator) -> int:
    """Return a value that is uniform on the range of the game."""
    return int(rng.integers(view.value_min, view.value_max + 1))


def held_value(view: ConsensusView, rng: np.random.Generator) -> Value:
    """Return the value it holds; an agent that starts without one (Byzantine) draws it."""
    return uniform(view, rng) if view.current_value is None else view.current_value


def most_frequent(values: Iterable[Value | None]) -> Value | None:
    """Return the most frequent value, the smallest on a tie; None if nobody proposed one."""
    counts = Counter(value for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def stop_when_equal(view: ConsensusView, percent: int = 100) -> Fields:
    """Vote stop when at least `percent` of the proposals that it sees are equal; a silent agent made none."""
    counts = Counter(value for value in view.this_round.values() if value is not None)
    agreed = bool(counts) and 100 * max(counts.values()) >= percent * counts.total()
    return {"decision": "stop" if agreed else "continue"}


def vote(view: ConsensusView, given: Any) -> Fields:
    """Vote as the policy's parameter `vote` says; `honest` is stop when all proposals it sees are equal."""
    return stop_when_equal(view) if given.vote == "honest" else {"decision": given.vote}


VOTES = "Its votes; `honest` is stop when all proposals it sees are equal."


Vote = Literal["continue", "stop", "abstain", "honest"]


class Adversary(PolicyParameters):
    """How an adversary votes."""

    vote: Vote = Field(default="continue", description=VOTES)
