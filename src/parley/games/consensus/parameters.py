"""What a study may set in the consensus game, and the shapes of its replies (section 3, Figures 5 to 14)."""

import hashlib
import hmac
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    WithJsonSchema,
    create_model,
    model_validator,
)

from parley.games.consensus.filters import NO_FILTER, FilterAsWritten
from parley.games.parameters import (
    BYZANTINE,
    HONEST,
    Count,
    GameParameters,
    Positive,
    Seat,
    Share,
    as_tuple,
    in_order,
    newer_field,
)
from parley.identity import digest
from parley.policies import Sampling
from parley.policies.reply_text import ReplyModel
from parley.text import one_line

Value = int | float  # float with `values: real` alone

PUBLISHED_CODE = "published_code"
# By key and value, what a study gets that does not say otherwise: that of published code.
_DEFAULTS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("protocol", "swarms"): {
        "max_rounds": 10,
        "stop_threshold": "2/3",
        "history_rounds": 3,
        "task": "Agree on a confidence score from 0 to 50 for a deployment decision.",
    },
    ("rules", PUBLISHED_CODE): {"retries": 2, "stop_threshold": "2/3", "history_rounds": 3},
}

Leak = Literal["names", "missing_value", "early_vote"]
NAMES, MISSING_VALUE, EARLY_VOTE = LEAKS = get_args(Leak)


class _Task(str):
    __slots__ = ()

    @property
    def label(self) -> str:
        """As an axis' value: its last two words; the beginning of its hash where these have no plain letters."""
        words = re.sub(r"[^a-z0-9]+", "-", " ".join(self.lower().split()[-2:])).strip("-")
        return words or f"task-{digest(str(self))[:6]}"


def _task(value: str) -> str:
    if value != one_line(value):
        raise ValueError("must be one line of printable text, with single spaces")
    return _Task(value)


Task = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_task)]


TWO_THIRDS = Fraction(2, 3)
# What a way to play knows nothing of.
_GOAL = ("values", "agree_within", "validity")
_UNKNOWN: Mapping[str, tuple[str, ...]] = {
    "protocol: paper": ("turn", "task", "leaks"),
    "protocol: swarms": ("rules", "propose", "vote", "disclose_topology", "equivocation", "filter", *_GOAL),
    f"rules: {PUBLISHED_CODE}": ("equivocation", *_GOAL),
}


class ConsensusParameters(GameParameters):
    """Fixed parameters of the consensus game; docs/reference/consensus.md says whose each default is."""

    filter: FilterAsWritten = newer_field(
        default=NO_FILTER,
        description="What honest agents do not hear of what is said to them: none, {trim: f}, {reputation: f} "
        "or {scored: f}.",
    )
    score: Sampling = newer_field(
        default=Sampling(temperature=0.3, max_tokens=300), description="Scores (filter scored)."
    )
    protocol: Literal["paper", "swarms"] = Field(
        default="paper",
        description="How a round goes: as in the paper, or as in the published Swarms code, whose defaults are other "
        "ones: max_rounds 10, stop_threshold 2/3, history_rounds 3.",
    )
    rules: Literal["paper", "published_code"] = newer_field(
        default="paper",
        description="The paper's text, or what its authors' code does besides: other defaults (retries 2, "
        "stop_threshold 2/3, history_rounds 3), its words and orders in the history, votes and notes, five notes, "
        "history cut at 50 characters, a vote's own round in it, old values sent again.",
    )
    max_rounds: Positive = Field(
        default=50,
        description="Deadline (T_max): rounds whose values may end the game. With protocol swarms, without the leak "
        "early_vote one more is played, whose votes are about the last of them.",
    )
    value_min: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="Smallest value.")
    value_max: int = Field(default=50, ge=-1_000_000, le=1_000_000, description="Largest value.")
    stop_threshold: Share = Field(
        default=Fraction(66, 100),
        description="Share of all agents whose stop votes end the game, in (0, 1]; compared exactly.",
    )
    values: Literal["integer", "real"] = newer_field(
        default="integer",
        description="Whether values are whole numbers, or any numbers of the range (`approximate agreement`).",
    )
    agree_within: float = newer_field(
        default=0.0,
        ge=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="Honest agents agree if their values lie within this distance of each other.",
    )
    validity: Literal["initial", "hull"] = newer_field(
        default="initial",
        description="What may be agreed on: initial values of honest agents (the paper's), or all that lies between "
        "the smallest and the largest of them (`hull`: approximate and resilient consensus).",
    )
    disclose_topology: bool = Field(
        default=False, description="Whether agents are told who their neighbors are; else they are told nothing of it."
    )
    equivocation: bool = Field(
        default=False,
        description="Whether Byzantine agents may send different values to different peers (excluded by the paper).",
    )
    history_rounds: Count = Field(default=1, description="Earlier rounds that a prompt shows.")
    justification_chars: Count = Field(default=200, description="A peer's justification is cut to so many characters.")
    reasoning_chars: Positive = Field(default=600, description="Longest public_reasoning.")
    strategy_chars: Positive = Field(default=400, description="Longest internal_strategy.")
    propose: Sampling = Field(default=Sampling(temperature=0.5, max_tokens=300), description="Proposals.")
    vote: Sampling = Field(default=Sampling(temperature=0.3, max_tokens=200), description="Votes.")

    turn: Sampling = Field(default=Sampling(temperature=0.5, max_tokens=300), description="Turns (swarms).")
    task: Task | None = Field(default=None, description="What is to be agreed on, one line (swarms).")
    leaks: Annotated[tuple[Leak, ...], BeforeValidator(as_tuple), AfterValidator(partial(in_order, sorted(LEAKS)))] = (
        Field(default=(), description="What the published code gives away (swarms): names, missing_value, early_vote.")
    )

    @property
    def goal(self) -> "Goal":
        """What honest agents have to agree on."""
        return Goal(self.values, self.agree_within, self.validity)

    @property
    def longest(self) -> int:
        """Rounds of the longest possible game: one more where votes are about the round before."""
        return self.max_rounds + (self.protocol == "swarms" and EARLY_VOTE not in self.leaks)

    @model_validator(mode="before")
    @classmethod
    def _published(cls, given: Any) -> Any:
        for (key, value), defaults in _DEFAULTS.items() if isinstance(given, dict) else ():
            if given.get(key) == value:
                return {**defaults, **given}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> "ConsensusParameters":
        played = [f"protocol: {self.protocol}", *[f"rules: {self.rules}"] * (self.rules == PUBLISHED_CODE)]
        for way in played:
            for name in _UNKNOWN[way]:
                if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                    raise ValueError(f"{name} has no effect with {way}; remove one of the two")
        if self.protocol == "swarms" and self.task is None:
            raise ValueError("protocol swarms needs a task; remove the key for the published one")
        if self.protocol == "swarms" and EARLY_VOTE not in self.leaks and not self.history_rounds:
            raise ValueError(
                "protocol swarms votes about the round before: add history_rounds, or the leak early_vote"
            )
        if self.value_min > self.value_max:
            raise ValueError(f"value_min {self.value_min} must not be above value_max {self.value_max}")
        return self


@dataclass(frozen=True, slots=True)
class Goal:
    """What honest agents have to agree on: which numbers, how closely, and which of them are valid."""

    values: str = "integer"
    within: float = 0.0
    validity: str = "initial"

    def share(self, held: Sequence[Value]) -> float | None:
        """Return the largest share of `held` that lies within the tolerance, in (0, 1]; None of nothing."""
        ordered = sorted(held)
        counts = (bisect_right(ordered, low + self.within) - bisect_left(ordered, low) for low in ordered)
        return max(counts) / len(held) if held else None

    def agreed(self, held: Sequence[Value]) -> bool:
        """Return whether these values agree, one at least."""
        return bool(held) and max(held) <= min(held) + self.within

    def valid(self, held: Sequence[Value], initial: Sequence[Value]) -> bool:
        """Return whether honest agents that began with `initial` may agree on these values."""
        return in_hull(held, initial) if self.validity == "hull" else set(held) <= set(initial)


THE_PAPERS_GOAL = Goal()


def in_hull(held: Sequence[Value], initial: Sequence[Value]) -> bool:
    """Return whether all of `held` lies between the smallest and the largest of `initial`; both have one at least."""
    return bool(held and initial) and min(initial) <= min(held) and max(held) <= max(initial)


class _ProposalReply(ReplyModel):
    free: ClassVar[str] = "internal_strategy"
    labels: ClassVar[Mapping[str, str]] = {"public_reasoning": "Public"}


class HonestVote(ReplyModel):
    """A vote of an honest agent (Figure 10)."""

    decision: Literal["stop", "continue"]


class ByzantineVote(ReplyModel):
    """A vote of a Byzantine agent, which may abstain (Figure 7)."""

    decision: Literal["stop", "continue", "abstain"]


@cache
def proposal_model(
    role: str,
    value_min: int,
    value_max: int,
    strategy: int,
    reasoning: int,
    peers: tuple[str, ...] | None = None,
    real: bool = False,
) -> type[BaseModel]:
    """Return the model of a proposal (Figures 5, 11, 12); `peers` are those who may get values of their own."""
    value: Any = Annotated[float if real else int, Field(ge=value_min, le=value_max)]
    if role == BYZANTINE:
        value = value | Literal["abstain"]
    by_peer: dict[str, Any] = {}
    if peers is not None:
        by_peer["peer_values"] = (_by_peer(value, peers), Field(default_factory=dict))
    return create_model(
        f"{role.capitalize()}Proposal",
        __base__=_ProposalReply,
        internal_strategy=(Annotated[str, Field(max_length=strategy)], ...),
        value=(value, ...),
        public_reasoning=(Annotated[str, Field(max_length=reasoning)], ...),
        **by_peer,
    )


def _by_peer(value: Any, peers: tuple[str, ...]) -> Any:
    """Return the type of a mapping from some of `peers` to values; its schema lists them, as grammars want it."""

    def known(given: dict[str, Any]) -> dict[str, Any]:
        if unknown := [name for name in given if name not in peers]:
            raise ValueError(f"{unknown[0]} is no peer of this agent")
        return given

    each = TypeAdapter(value).json_schema()
    schema = {"type": "object", "properties": dict.fromkeys(peers, each), "additionalProperties": False}
    return Annotated[dict[str, value], AfterValidator(known), WithJsonSchema(schema)]


@cache
def turn_model(role: str, value_min: int, value_max: int, strategy: int, reasoning: int) -> type[BaseModel]:
    """Return the model of a turn of the swarms protocol: a proposal and a vote in one reply."""
    words: Any = Literal["stop", "continue", "abstain"] if role == BYZANTINE else Literal["stop", "continue"]
    return create_model(
        f"{role.capitalize()}Turn",
        __base__=proposal_model(role, value_min, value_max, strategy, reasoning),
        vote=(words, ...),
    )


@dataclass(frozen=True, slots=True)
class Said:
    """What one agent told another in one round: a value, None if it told none, and the text beside it."""

    value: Value | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs as one agent, and checks what others signed.

    The secret is the game's, so that rules that are asked by agents can sign for their own agent alone, as the model
    of signatures has it (Dolev and Strong, 1983, section 2). A ledger signs what was said with keys of its own.
    """

    agent: str
    _secret: str = field(repr=False, compare=False)

    def sign(self, text: str) -> str:
        """Return the agent's signature of a text: 16 hexadecimal digits."""
        return self._signature(self.agent, text)

    def signed(self, agent: str, text: str, signature: str) -> bool:
        """Return whether `agent` signed this text so."""
        # A hostile signature may be any text, also one that is not Unicode.
        return hmac.compare_digest(self._signature(agent, text).encode(), signature.encode(errors="replace"))

    def _signature(self, agent: str, text: str) -> str:
        mac = hmac.new(self._secret.encode(), f"{agent}\n{text}".encode(), hashlib.sha256)
        return mac.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ConsensusView:
    """What one agent may see when it is asked, as data.

    `last_round` and `this_round` map names of agents to their proposals, or None where one was silent;
    `this_round` is empty in the propose phase. Both hold the agent and its neighbors, no others. In a turn of the
    swarms protocol they are what was public a round ago, and what is public now. `earlier` has all rounds that are
    over, from the first, whatever prompts show of them.
    """

    phase: str
    agent: str
    role: str
    round: int
    value_min: int
    value_max: int
    initial_value: Value | None
    current_value: Value | None
    last_round: Mapping[str, Value | None]
    this_round: Mapping[str, Value | None]
    neighbors: tuple[str, ...] = ()  # whom it hears, and who hears it
    early_vote: bool = False  # of a turn: whether its vote is about what is public now
    prompt: str = ""  # the name of its prompt
    earlier: Sequence[Mapping[str, Said]] = ()  # by round: what it and its neighbors told it
    goal: Goal = THE_PAPERS_GOAL
    signer: Signer | None = None


@dataclass
class Agent:
    """One agent while a game is played."""

    seat: Seat
    initial_value: Value | None
    current_value: Value | None
    notes: list[tuple[int, str]] = field(default_factory=list)
    changes: int = 0

    @property
    def name(self) -> str:
        """Its name, as the others know it."""
        return self.seat.name

    @property
    def honest(self) -> bool:
        """Whether it is honest."""
        return self.seat.role == HONEST


@dataclass(frozen=True)
class Proposal:
    """What one agent told the others in one round, None if silent; `peer_values` are those told something else."""

    agent: str
    value: Value | None
    justification: str = ""
    peer_values: Mapping[str, Value | None] = field(default_factory=dict)

    def said_to(self, name: str) -> Said:
        """Return what one agent hears of it."""
        return Said(self.peer_values.get(name, self.value), self.justification)


class ConsensusRound(TypedDict):
    """What happened in one round, by name, as the trace has it."""

    round: int
    proposals: Mapping[str, Value | None]
    values: Mapping[str, Value | None]  # what each agent holds after it
    votes: Mapping[str, str | None]
    stop_votes: int
    stopped: bool
    honest_share: float | None  # of the honest agents, that holds their most frequent value
    honest_spread: Value | None  # of their values
    neighbors: NotRequired[Mapping[str, list[str]]]  # in round 1, where not everyone hears everyone
    sent: NotRequired[Mapping[str, Mapping[str, Value | None]]]  # by agent, which peers were told another value
    filtered: NotRequired[Mapping[str, Mapping[str, None]]]  # by agent, whose values its filter dropped
