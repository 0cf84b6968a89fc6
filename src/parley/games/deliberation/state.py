"""What the deliberation game keeps of its agents, and what one of them may see as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from parley.games.parameters import HONEST, Seat
from parley.games.problems.problem import Problem

# The normal form of an answer: a number or a selection of cards as text, or policies. Equal answers are equal values.
Value = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one agent said in one turn.

    `value` is None where nothing could be read: then `said` is what stood there, or the agent was `silent`.
    """

    agent: str
    value: Value | None
    said: str = ""
    argument: str = ""
    silent: bool = False
    policies: tuple[str, ...] = ()  # as they were named, of an answer with policies
    unknown: int = 0  # policies among them that nobody may choose


@dataclass(frozen=True, slots=True)
class DeliberationView:
    """What one agent may see when it is asked, as data.

    `own` is its last answer and `heard` are those of others that it gets, by name; None for an answer that could not
    be read. `target` is the wrong answer that Byzantine agents are told to push, None for honest ones.

    `problem` knows the right answer, which no prompt has: scripted honest agents stand for agents of a known skill,
    and scripted adversaries must know it to be wrong on purpose.
    """

    phase: str
    agent: str
    role: str
    turn: int
    problem: Problem
    own: Value | None
    heard: Mapping[str, Value | None]
    target: Value | None


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent of a panel: its seat, and whether it answers first by chain of thought."""

    seat: Seat
    by_chain_of_thought: bool

    @property
    def name(self) -> str:
        """Its name, as the others know it."""
        return self.seat.name

    @property
    def honest(self) -> bool:
        """Whether it is honest."""
        return self.seat.role == HONEST


class Verdict(TypedDict):
    """What a deliberation came to: what was agreed on, or why it hung (`detail`)."""

    levels: NotRequired[Mapping[str, str]]
    agreed: bool
    value: str | list[str] | None
    detail: str | None


class Round(TypedDict):
    """One turn of one deliberation, by name, as the trace has it."""

    round: int  # counted on from one deliberation on the problem to the next
    session: int
    turn: int
    answers: Mapping[str, Value | None]
    said: Mapping[str, Mapping[str, Any] | None]  # None of an agent that was silent
    heard: Mapping[str, list[str]]
    measures: Mapping[str, float | None]
    subject: NotRequired[Mapping[str, Any]]  # in the first turn of each: the problem, and by which rules
    rules: NotRequired[Mapping[str, Any]]
    levels: NotRequired[Mapping[str, str]]  # among policies: the share of honest agents that support each
    verdict: NotRequired[Verdict]  # in the last turn of each
