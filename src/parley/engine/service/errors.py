"""What the error of a service means: it answers the question, it will pass, or it will not.

By status, `error.code`, `error.type`, then words, in this order; docs/how-to/services.md has the table. The forms and
words are those of the services' documents and of public bug reports, each named where it is looked for.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from parley.engine.service.fetch import Response
from parley.policies import NO_SCHEMA, PROMPT_TOO_LONG

# What it can raise to look into JSON of another shape than the one asked for, or nested too deep.
NOT_AS_ASKED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
READ_CHARS = 2_000  # characters of what a service says: a prompt may be quoted in it
# Time-outs and conflicts of load on the way, rate limits, errors of a server that may be another one next time; 498
# is Groq's for no capacity.
_PASSING = frozenset((408, 409, 425, 429, 498, 500, 502, 503, 504, *range(520, 530)))
# No answer to a question: keys, addresses, money, and what passes.
_NO_ANSWER = frozenset((401, 402, 404, 405, 408, 409, 425, 429))
# OpenAI, Azure, OpenRouter and Cerebras (`context_length_exceeded`), llama.cpp, Anthropic.
_CONTEXT_CODES = re.compile(r"context_length_exceeded|exceed_context_size_error|request_too_large", re.IGNORECASE)
_CONTEXT = re.compile(
    r"maximum (?:context|model|prompt) length|maximum (?:context|input) (?:size|tokens)|"  # vLLM, OpenAI, Mistral, xAI
    r"(?:prompt|input|message)s? (?:is|are) too long|too large for model with|"  # Anthropic, Bedrock; Mistral
    r"(?:exceeds?|exceeding|longer than|larger than|over) .{0,60}(?:context|model (?:token )?limit|token limit)|"
    r"exceeds? the (?:maximum number of tokens|configured limit)|"  # Gemini, GPT-5
    r"\btokens? \+ .{0,40}max_new_tokens|input length .{0,40}exceed|"  # TGI and Together
    r"context length of only|"  # LM Studio
    r"reduce the length of the (?:messages|prompt|input)|range of input length|too many (?:input )?tokens",
    re.IGNORECASE | re.DOTALL,
)
# OpenAI and Azure, DashScope and others; the words of DeepSeek ("Content Exists Risk"), OpenRouter (403), Gemini.
_FILTER_CODES = re.compile(
    r"content_?filter|content_policy|ResponsibleAIPolicy|invalid_prompt|data_?inspection|moderation", re.IGNORECASE
)
_FILTER = re.compile(
    r"content (?:management|filter|polic|exists risk)|usage polic|safety (?:system|filter|polic|setting)|"
    r"\bflagged\b|inappropriate content|prohibited content",
    re.IGNORECASE,
)
# The model did not do it: Groq's codes, and the words of llama.cpp (#27279).
_SCHEMA_CODES = re.compile(r"json_validate_failed|tool_use_failed|output_parse_failed", re.IGNORECASE)
_SCHEMA = re.compile(r"output (?:that )?does not match the expected|failed to parse input at pos", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient_(?:quota|balance|funds)|billing", re.IGNORECASE)


@dataclass(frozen=True)
class ServiceError:
    """What a service said in place of a reply; `message` as it came, `param` the key that it named."""

    status: int
    code: str = ""  # `error.code` and `error.type`
    message: str = ""
    param: str = ""

    @property
    def answers(self) -> str | None:
        """The finish reason of the reply that it stands for: no other try would have another; None for no reply."""
        if not 400 <= self.status <= 500 or self.status in _NO_ANSWER:
            return None
        words = self.message[:READ_CHARS]
        if _FILTER_CODES.search(self.code) or (_FILTER.search(words) and not _CONTEXT_CODES.search(self.code)):
            return "content_filter"
        if self.status == 403 or "rate_limit" in self.code:  # Groq says 413 of a limit by the minute
            return None
        if _CONTEXT_CODES.search(self.code) or _CONTEXT.search(words):
            return PROMPT_TOO_LONG
        return NO_SCHEMA if _SCHEMA_CODES.search(self.code) or _SCHEMA.search(words) else None

    @property
    def passes(self) -> bool:
        """Whether another try may be answered; no money left does not pass."""
        return self.status in _PASSING and not _QUOTA.search(self.code)


def error_of(response: Response) -> ServiceError | None:
    """Return the error that an answer is; None for one that is none, whatever else it is.

    With status 200 it is one if it holds an error and no choice, or a choice that ended with one (OpenRouter).
    """
    status = response.status_code
    try:
        body = response.json()
    except NOT_AS_ASKED:
        body = None
    if isinstance(body, list) and len(body) == 1:  # Gemini
        body = body[0]
    body = body if isinstance(body, Mapping) else {}
    found: Any = body.get("error")
    if status == 200:
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        failed = choice.get("finish_reason") == "error"
        if not failed and (choice or not (found or choices == [])):
            return None
        found = found or choice.get("error") or (None if failed else "no choice, and no reason")
    elif not found:  # Mistral and FastAPI
        found = body if "message" in body else body.get("detail") or response.text
    error = found if isinstance(found, Mapping) else {"message": found}
    raw = _inner(error, "metadata").get("raw")  # OpenRouter: what its provider said
    codes = [error.get("code"), error.get("type"), error.get("status"), _inner(error, "innererror").get("code")]
    with suppress(*NOT_AS_ASKED):
        codes += [json.loads(str(raw))["error"].get(name) for name in ("code", "type")]
    message = " ".join(str(part) for part in (error.get("message"), raw) if part)
    if status == 200:  # what passed between
        status = code if isinstance(code := error.get("code"), int) and 400 <= code < 600 else 502
    return ServiceError(status, " ".join(map(str, filter(None, codes))), message, str(error.get("param") or ""))


def _inner(error: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping inside an error (Azure's `innererror`, OpenRouter's `metadata`); empty if there is none."""
    found = error.get(name)
    return found if isinstance(found, Mapping) else {}
