"""What the consensus game keeps of its agents, and what one of them may see as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.games.base import HONEST, Seat


@dataclass(frozen=True, slots=True)
class ConsensusView:
    """What one agent may see when it is asked, as data.

    `last_round` and `this_round` map names of agents to their proposals, or None where one was silent;
    `this_round` is empty in the propose phase. Both hold the agent and its neighbors, no others.
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
