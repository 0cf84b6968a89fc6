"""Policies answer asks: a language model, a scripted rule, or the record of an earlier play."""

from dataclasses import dataclass
from typing import Protocol

from parley.games.base import Ask


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply as it came, before it is parsed.

    `finish_reason` is OpenAI's ("stop", "length", "content_filter"). Token counts are None where nobody counted.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class Policy(Protocol):
    """Answers one ask. The seed is all the randomness that it may use."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply to `ask`; raises EngineError if there can be none."""
        ...
