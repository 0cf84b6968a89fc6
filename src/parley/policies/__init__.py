"""Policies answer asks: a language model, a scripted rule, or the record of an earlier play."""

import json
from dataclasses import dataclass
from typing import Protocol

from parley.engine.terms import Tokens
from parley.games.base import Ask
from parley.text import one_line, without_folders


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply as it came, before it is parsed.

    `finish_reason` is OpenAI's ("stop", "length", "content_filter"). Token counts are None where nobody counted, and
    `seconds` is None for a reply that has just come. `served_model` is what OpenAI's API calls model; it and
    `system_fingerprint` are None where nobody said.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    seconds: float | None = None
    served_model: str | None = None  # what answered, by the service's own word
    system_fingerprint: str | None = None  # the same of how it is set up


class Policy(Protocol):
    """Answers one ask. The seed is all the randomness that it may use."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply to `ask`; raises EngineError if there can be none."""
        ...


def token_count(tokens: object) -> int | None:
    """Return a number of tokens that a record can hold; an engine may say anything in its place."""
    return tokens if type(tokens) is int and 0 <= tokens < 2**31 else None


def said_name(name: object) -> str | None:
    """Return a name as a record can hold it, None for none: a line of at most 200 characters, of a path the last part.

    A service may call its model by the folder it is in, which can name a person.
    """
    return (without_folders(one_line(name[:10_000], 200)) or None) if isinstance(name, str) else None


def used_tokens(content: bytes) -> Tokens | None:
    """Return what a chat completion, as it came, says that it used; None if it does not say."""
    try:
        usage = json.loads(content)["usage"]
        prompt, completion = token_count(usage["prompt_tokens"]), token_count(usage["completion_tokens"])
        cached = token_count((usage.get("prompt_tokens_details") or {}).get("cached_tokens"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return None if prompt is None or completion is None else Tokens(prompt, completion, cached or 0)
