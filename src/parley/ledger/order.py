"""Which deliberation may follow which, and who may speak when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from parley.identity import digest


class Said(Protocol):
    """What the order of utterances depends on."""

    @property
    def round(self) -> int: ...  # noqa: D102

    @property
    def agent(self) -> str: ...  # noqa: D102


@dataclass
class Order:
    """The deliberations so far, of which those of one simulation stand side by side.

    A problem that was agreed on is not deliberated again, and one that hung only by another set of agents
    (Definition XI.2). The deliberations of a simulation are about one subject.
    """

    height: int = 0  # of the next block
    _finished: dict[str, int] = field(default_factory=dict)  # a simulation's id -> its last block
    _simulation: str = ""
    _next_session: int = 0
    _subject: str = ""
    _agreed: bool = False
    _hung: dict[frozenset[str], int] = field(default_factory=dict)  # agents -> the block that they hung

    def add(self, simulation: str, session: int, subject: Any, agents: Sequence[str], agreed: bool) -> None:
        """Take one more; raises ValueError in a few words if it may not follow."""
        if simulation != self._simulation:
            self._begin(simulation, subject)
        if session != self._next_session:
            raise ValueError(f"session {session} of its simulation, where session {self._next_session} should follow")
        if digest(subject) != self._subject:
            raise ValueError(f"about another subject than block {self.height - 1}, of the same simulation")
        if self._agreed:
            raise ValueError(f"deliberated again after agreement (block {self.height - 1})")
        group = frozenset(agents)
        if group in self._hung:
            raise ValueError(f"deliberated again by the agents that hung it (block {self._hung[group]})")
        if not agreed:
            self._hung[group] = self.height
        self._agreed = agreed
        self._next_session += 1
        self._finished[simulation] = self.height
        self.height += 1

    def _begin(self, simulation: str, subject: Any) -> None:
        if simulation in self._finished:
            raise ValueError(f"of a simulation that ended with block {self._finished[simulation]}")
        self._simulation, self._subject = simulation, digest(subject)
        self._next_session, self._agreed = 0, False
        self._hung = {}


def misplaced(utterances: Sequence[Said]) -> tuple[int, str] | None:
    """Return the first utterance that is out of place, and why: rounds go on, and each agent speaks once in one."""
    spoken: set[str] = set()
    for index, said in enumerate(utterances):
        before = utterances[index - 1].round if index else said.round
        if said.round < before:
            return index, f"goes back from round {before}"
        if said.round > before:
            spoken = set()
        if said.agent in spoken:
            return index, "speaks twice in this round"
        spoken.add(said.agent)
    return None
