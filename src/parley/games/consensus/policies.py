"""The policies of the consensus game, in one table (`POLICIES`): scripted agents, adversaries, models with strategies.

A scripted one is a pure function of a `ConsensusView` (what the agent may see), a generator and its parameters; what
it returns goes through the same strict parser as a model's reply. docs/reference/adversaries.md says what each does. A
model with strategies is told them, in Parley's own words, after the paper's prompts, which stay word for word.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from parley.games.consensus import agreement
from parley.games.consensus.agreement import (
    ABSTENTION,
    VOTES,
    Adversary,
    Fields,
    GameValue,
    Vote,
    held_value,
    most_frequent,
    outside_range,
    proposal,
    stop_when_equal,
    uniform,
    vote,
)
from parley.games.consensus.filters import BEST, SCORE
from parley.games.consensus.parameters import ConsensusView, Value
from parley.games.consensus.prompts import FOLDER, TURN
from parley.games.parameters import BYZANTINE, Count, Positive, as_tuple, in_order
from parley.games.prompts import Template, fill, text_of
from parley.policies.kinds import LLM, PolicyKind, PolicyParameters, policy_table, scripted_kind

if TYPE_CHECKING:
    import numpy as np

# The policies


class Stubborn(PolicyParameters):
    """What `stubborn` proposes, and how it votes."""

    value: GameValue = Field(
        default=None, description="What it proposes; default: its initial value, which a Byzantine agent draws."
    )
    vote: Literal["honest", "stop", "continue"] = Field(default="honest", description=VOTES)


class Majority(PolicyParameters):
    """When `majority` votes to stop."""

    agree: int = Field(
        default=100,
        ge=51,
        le=100,
        description="It votes stop when so many percent of the proposals it sees are equal.",
    )


def majority(view: ConsensusView, rng: "np.random.Generator", given: Majority) -> Fields:
    """Propose the most frequent value of the last round, the smallest on a tie; vote stop when all are equal."""
    if view.phase == "vote":
        return stop_when_equal(view, given.agree)
    leading = most_frequent(view.last_round.values())
    return proposal(held_value(view, rng) if leading is None else leading)


def stubborn(view: ConsensusView, rng: "np.random.Generator", given: Stubborn) -> Fields:
    """Propose the same value forever; vote stop when all are equal, or as it is told."""
    if view.phase == "vote":
        return vote(view, given)
    return proposal(held_value(view, rng) if given.value is None else given.value)


def random(view: ConsensusView, rng: "np.random.Generator", given: PolicyParameters) -> Fields:
    """Propose a value uniform on the range, and vote stop or continue with equal chance, each time anew."""
    if view.phase == "vote":
        return {"decision": ("stop", "continue")[int(rng.integers(2))]}
    return proposal(uniform(view, rng))


def minimum(view: ConsensusView, rng: "np.random.Generator", given: PolicyParameters) -> Fields:
    """Propose the smallest value it has seen, so that one value floods the network; vote like `majority`."""
    if view.phase == "vote":
        return stop_when_equal(view)
    seen = [value for value in view.last_round.values() if value is not None]
    return proposal(min([held_value(view, rng), *seen]))


class Wary(PolicyParameters):
    """How `wary` votes when it is warned."""

    vote: Literal["continue", "stop", "honest"] = Field(
        default="continue",
        description="Its votes if it is warned of Byzantine agents; `honest` is stop when all proposals it sees "
        "are equal.",
    )


def wary(view: ConsensusView, rng: "np.random.Generator", given: Wary) -> Fields:
    """Play like `majority`; if its prompt is `may_exist`, keep its value and vote as it is told.

    It is the control of questions about the prompt: of the scripted policies it alone knows which it has.
    """
    if view.prompt != "may_exist":
        return majority(view, rng, Majority())
    if view.phase == "vote":
        return vote(view, given)
    return proposal(held_value(view, rng))


# Adversaries


class Oscillate(Adversary):
    """The two values between which it goes to and fro."""

    odd: GameValue = Field(default=None, description="Its value in odd rounds; default: the smallest of the game.")
    even: GameValue = Field(default=None, description="Its value in even rounds; default: the largest of the game.")


class MimicThenDefect(PolicyParameters):
    """When it defects."""

    vote: Vote = Field(
        default="continue", description="Its votes once it defects; until then it votes like `majority`."
    )
    after: Count | None = Field(
        default=None, description="After this round it defects whatever it sees; default: only while the others agree."
    )


class Crash(PolicyParameters):
    """When it falls silent."""

    round: Positive = Field(description="The first round in which it is silent.")


class Equivocate(Adversary):
    """What it tells whom."""

    low: GameValue = Field(default=None, description="What some peers are told; default: the smallest of the game.")
    high: GameValue = Field(default=None, description="What the others are told; default: the largest of the game.")
    split: Literal["alternate", "halves"] = Field(
        default="alternate", description="Who is told `low`: every other one of its peers, or the first half of them."
    )


def _others(view: ConsensusView, seen: Mapping[str, Value | None]) -> Iterator[Value]:
    return (value for name, value in seen.items() if name != view.agent and value is not None)


def opposite(view: ConsensusView, rng: "np.random.Generator", given: PolicyParameters) -> Fields:
    """Propose the end of the range that is farther from what most others did; the smallest if both are as far."""
    leading = most_frequent(_others(view, view.last_round))
    if leading is None:
        return proposal(held_value(view, rng))
    return proposal(min(view.value_min, view.value_max, key=lambda end: -abs(leading - end)))


def oscillate(view: ConsensusView, rng: "np.random.Generator", given: Oscillate) -> Fields:
    """Propose one value in odd rounds, another one in even rounds."""
    odd = view.value_min if given.odd is None else given.odd
    even = view.value_max if given.even is None else given.even
    return proposal(odd if view.round % 2 else even)


def mimic_then_defect(view: ConsensusView, rng: "np.random.Generator", given: MimicThenDefect) -> Fields:
    """Play like `majority` until the others agree, or a round is over; then propose what is farthest from them."""
    voting = view.phase == "vote"
    agreed = len(set(_others(view, view.this_round if voting else view.last_round))) == 1
    if not agreed and (given.after is None or view.round <= given.after):
        return majority(view, rng, Majority())
    return vote(view, given) if voting else opposite(view, rng, given)


def silent(view: ConsensusView, rng: "np.random.Generator", given: PolicyParameters) -> Fields:
    """Abstain in every round, from a value and from the vote."""
    if view.phase == "vote":
        return {"decision": "abstain"}
    return ABSTENTION


def crash(view: ConsensusView, rng: "np.random.Generator", given: Crash) -> Fields:
    """Play like `majority`, and abstain from a round on, from a value and from the vote."""
    return silent(view, rng, given) if view.round >= given.round else majority(view, rng, Majority())


def equivocate(view: ConsensusView, rng: "np.random.Generator", given: Equivocate) -> Fields:
    """Tell some of its peers one value and the others another, in the same round."""
    low = view.value_min if given.low is None else given.low
    high = view.value_max if given.high is None else given.high
    half = (len(view.neighbors) + 1) // 2
    told_low = [place % 2 == 0 if given.split == "alternate" else place < half for place in range(len(view.neighbors))]
    sent = {name: low if is_low else high for name, is_low in zip(view.neighbors, told_low, strict=True)}
    return {**proposal(low), "peer_values": sent}


# Language models as adversaries

Strategy = Literal["stall", "split", "anchor", "impersonate", "inject"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
TEXTS: dict[Strategy, Template] = {name: FOLDER / "strategies" / f"{name}.txt" for name in STRATEGIES}

HEADING = "=== YOUR STRATEGY ==="


class Strategies(PolicyParameters):
    """Which strategies, and what some of them need."""

    strategies: Annotated[
        tuple[Strategy, ...],
        Field(min_length=1),
        BeforeValidator(as_tuple),
        AfterValidator(partial(in_order, STRATEGIES)),
    ] = Field(description="What it is told to do; the order makes no difference.")
    value: GameValue = Field(default=None, description="For `anchor`: the value; default: one that the model chooses.")
    after: Positive = Field(default=3, description="For `impersonate`: the last round before it defects.")


def strategy_instructions(given: Strategies) -> str:
    """Return what follows the paper's Byzantine system prompts: the heading, and the text of each strategy."""
    words = {
        "target": "one value of your choice that no other agent has proposed"
        if given.value is None
        else f"the value {given.value}",
        "after": given.after,
    }
    return "\n".join([HEADING, *(fill(text_of(TEXTS[name]), words) for name in given.strategies)])


# Scores of messages, and turns of the swarms protocol, which the same rules answer: they know proposals and votes


def scores(view: ConsensusView) -> Fields:
    """Score each message by how near its value is to one's own: the best for the same, the worst for the other end."""
    own, width = view.current_value, max(view.value_max - view.value_min, 1)
    return {
        name: BEST - round(BEST * abs(value - (value if own is None else own)) / width)
        for name, value in view.this_round.items()
        if name != view.agent and value is not None
    }


def _voting(view: ConsensusView, value: object) -> ConsensusView:
    """Return the view of a turn from which the vote follows: the values that it is about."""
    if not view.early_vote:
        return replace(view, phase="vote", this_round=view.last_round)
    mine = {view.agent: value} if isinstance(value, int) else {}
    return replace(view, phase="vote", this_round={**view.this_round, **mine})


def _any_phase(view: ConsensusView, rng: "np.random.Generator", given: Any, rule: Callable[..., Fields]) -> Fields:
    """Answer by a rule that knows proposals and votes."""
    if view.phase == SCORE:
        return scores(view)
    if view.phase == "vote" and isinstance(given, Adversary):
        return vote(view, given)
    if view.phase != TURN:
        return rule(view, rng, given)
    made = rule(replace(view, phase="propose"), rng, given)
    voted = _any_phase(_voting(view, made["value"]), rng, given, rule)
    return {**made, "vote": voted["decision"]}


_scripted = partial(scripted_kind, misfit=outside_range)
_adversary = partial(_scripted, roles=(BYZANTINE,))

# A new policy is one entry here; `docs/reference/adversaries.md` says what adversaries do.
_KINDS = (
    LLM,
    _scripted(majority, Majority),
    _scripted(stubborn, Stubborn),
    _scripted(random),
    _scripted(minimum),
    _scripted(wary, Wary),
    PolicyKind(
        name="llm_strategies",
        roles=(BYZANTINE,),
        Parameters=Strategies,
        instructions=strategy_instructions,
        misfit=outside_range,
    ),
    _adversary(opposite, Adversary),
    _adversary(oscillate, Oscillate),
    _adversary(mimic_then_defect, MimicThenDefect),
    _adversary(silent),
    _adversary(crash, Crash),
    _adversary(equivocate, Equivocate, beyond="equivocates", needs="equivocation"),
    *agreement.POLICIES,
)
POLICIES: Mapping[str, PolicyKind] = policy_table(
    *(replace(kind, rule=partial(_any_phase, rule=kind.rule)) if kind.rule else kind for kind in _KINDS)
)
