"""What the consensus game keeps of its agents, what they say, and what one of them may see as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from parley.games.parameters import HONEST, Seat


@dataclass(frozen=True, slots=True)
class ConsensusView:
    """What one agent may see when it is asked, as data.

    `last_round` and `this_round` map names of agents to their proposals, or None where one was silent;
    `this_round` is empty in the propose phase. Both hold the agent and its neighbors, no others. In a turn of the
    swarms protocol they are what was public a round ago, and what is public now.
    """

    phase: str
    agent: str
    role: str
    round: int
    value_min: int
    value_max: int
    initial_value: int | None
    current_value: int | None
    last_round: Mapping[str, int | None]
    this_round: Mapping[str, int | None]
    neighbors: tuple[str, ...] = ()  # whom it hears, and who hears it
    early_vote: bool = False  # of a turn: whether its vote is about what is public now
    system: str = ""  # its system prompt, as a language model gets it


@dataclass
class Agent:
    """One agent while a game is played."""

    seat: Seat
    initial_value: int | None
    current_value: int | None
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one agent told the others in one round; `value` is None when it was silent.

    `peer_values` are the peers that were told another value, or None, each with what it was told.
    """

    agent: str
    value: int | None
    justification: str = ""
    peer_values: Mapping[str, int | None] = field(default_factory=dict)


class Round(TypedDict):
    """What happened in one round, by name, as the trace has it."""

    round: int
    proposals: Mapping[str, int | None]
    values: Mapping[str, int | None]  # what each agent holds after it
    votes: Mapping[str, str | None]
    stop_votes: int
    stopped: bool
    honest_share: float | None  # of the honest agents, that holds their most frequent value
    honest_spread: int | None  # of their values
    neighbors: NotRequired[Mapping[str, list[str]]]  # in round 1, where not everyone hears everyone
    sent: NotRequired[Mapping[str, Mapping[str, int | None]]]  # by agent, which peers were told another value
