"""The scripted adversaries of the consensus game: Byzantine agents whose behavior is known exactly.

Each is a pure function of what the agent may see in this phase, of a generator and of its parameters: they keep no
state of their own, so that a game goes on from its journal as it was. What each does in both phases, and which of them
the paper's threat model allows, is told in docs/reference/adversaries.md.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parley.games.consensus.policies import (
    GameValue,
    consensus_kind,
    held_value,
    majority,
    most_frequent,
    proposal,
    stop_when_equal,
)
from parley.games.consensus.state import ConsensusView
from parley.games.parameters import BYZANTINE
from parley.policies.kinds import PolicyKind, PolicyParameters

_Vote = Literal["continue", "stop", "abstain", "honest"]


class Adversary(PolicyParameters):
    """How an adversary votes."""

    vote: _Vote = Field(
        default="continue", description="Its votes; `honest` is stop when all proposals it sees are equal."
    )


class Oscillate(Adversary):
    """The two values between which it goes to and fro."""

    odd: GameValue = Field(default=None, description="Its value in odd rounds; default: the smallest of the game.")
    even: GameValue = Field(default=None, description="Its value in even rounds; default: the largest of the game.")


class MimicThenDefect(Adversary):
    """When it defects."""

    vote: _Vote = Field(
        default="continue", description="Its votes once it defects; until then it votes like `majority`."
    )
    after: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="After this round it defects whatever it sees; default: only while the others agree.",
    )


class Crash(PolicyParameters):
    """When it falls silent."""

    round: int = Field(ge=1, le=10_000, description="The first round in which it is silent.")


class Equivocate(Adversary):
    """What it tells whom."""

    low: GameValue = Field(default=None, description="What some peers are told; default: the smallest of the game.")
    high: GameValue = Field(default=None, description="What the others are told; default: the largest of the game.")
    split: Literal["alternate", "halves"] = Field(
        default="alternate",
        description="Who is told `low`: every other one of its peers, or the first half of them.",
    )

    @model_validator(mode="after")
    def _differ(self) -> "Equivocate":
        if self.low is not None and self.low == self.high:
            raise ValueError(f"low and high are both {self.low}; choose two values")
        return self


def _others(view: ConsensusView, seen: Mapping[str, int | None]) -> Iterator[int]:
    """Yield what the others proposed, as far as it sees them."""
    return (value for name, value in seen.items() if name != view.agent and value is not None)


def _farthest(view: ConsensusView, value: int) -> int:
    """Return the end of the range that is farther from `value`; the smallest value if both are as far."""
    return view.value_min if value - view.value_min >= view.value_max - value else view.value_max


def _against_most(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    leading = most_frequent(_others(view, view.last_round))
    return proposal(held_value(view, rng) if leading is None else _farthest(view, leading))


def _vote(view: ConsensusView, given: Adversary) -> Mapping[str, Any]:
    return stop_when_equal(view) if given.vote == "honest" else {"decision": given.vote}


def opposite(view: ConsensusView, rng: np.random.Generator, given: Adversary) -> Mapping[str, Any]:
    """Propose the end of the range that is farther from what most others proposed last."""
    return _vote(view, given) if view.phase == "vote" else _against_most(view, rng)


def oscillate(view: ConsensusView, rng: np.random.Generator, given: Oscillate) -> Mapping[str, Any]:
    """Propose one value in odd rounds, another one in even rounds."""
    if view.phase == "vote":
        return _vote(view, given)
    odd = view.value_min if given.odd is None else given.odd
    even = view.value_max if given.even is None else given.even
    return proposal(odd if view.round % 2 else even)


def mimic_then_defect(view: ConsensusView, rng: np.random.Generator, given: MimicThenDefect) -> Mapping[str, Any]:
    """Play like `majority` until the others agree, or a round is over; then propose what is farthest from them."""
    voting = view.phase == "vote"
    agreed = len(set(_others(view, view.this_round if voting else view.last_round))) == 1
    if not agreed and (given.after is None or view.round <= given.after):
        return majority(view, rng)
    return _vote(view, given) if voting else _against_most(view, rng)


def silent(view: ConsensusView, rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Abstain in every round, from a value and from the vote."""
    if view.phase == "vote":
        return {"decision": "abstain"}
    return {"internal_strategy": "", "value": "abstain", "public_reasoning": ""}


def crash(view: ConsensusView, rng: np.random.Generator, given: Crash) -> Mapping[str, Any]:
    """Play like `majority`, and abstain from a round on, from a value and from the vote."""
    return silent(view, rng, given) if view.round >= given.round else majority(view, rng)


def equivocate(view: Any, rng: np.random.Generator, given: Equivocate) -> Mapping[str, Any]:
    """Tell some of its peers one value and the others another, in the same round."""
    # `view` is a ConsensusView of a game that carries a message per recipient: it has `neighbors`, the names of the
    # peers that receive what the agent says.
    if view.phase == "vote":
        return _vote(view, given)
    low = view.value_min if given.low is None else given.low
    high = view.value_max if given.high is None else given.high
    half = (len(view.neighbors) + 1) // 2
    told_low = [place % 2 == 0 if given.split == "alternate" else place < half for place in range(len(view.neighbors))]
    told = {name: low if is_low else high for name, is_low in zip(view.neighbors, told_low, strict=True)}
    return {**proposal(low), "peer_values": told}


_BYZANTINE = (BYZANTINE,)

ADVERSARIES: Mapping[str, PolicyKind] = {
    kind.name: kind
    for kind in (
        consensus_kind(opposite, Adversary, _BYZANTINE),
        consensus_kind(oscillate, Oscillate, _BYZANTINE),
        consensus_kind(mimic_then_defect, MimicThenDefect, _BYZANTINE),
        consensus_kind(silent, roles=_BYZANTINE),
        consensus_kind(crash, Crash, _BYZANTINE),
        consensus_kind(equivocate, Equivocate, _BYZANTINE, beyond="equivocates", needs="equivocation"),
    )
}
