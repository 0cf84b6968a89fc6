"""What was said in a simulation, as a game tells it: what the ledger signs and chains."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Utterance:
    """What one agent said in one round; `content` is plain JSON: strings, integers, lists, mappings, None."""

    round: int
    agent: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Session:
    """Agents who spoke about one subject until they agreed or gave up.

    `agents` took part, in order; `subject` and `parameters` (plain JSON) say what it was about and by which rules,
    `verdict` (plain JSON) what came of it. Rounds count on from one session of a simulation to the next.
    """

    subject: Mapping[str, Any]
    agents: tuple[str, ...]
    parameters: Mapping[str, Any]
    utterances: tuple[Utterance, ...]
    agreed: bool
    verdict: Mapping[str, Any]
