"""What answers an ask: a language model, a scripted rule, code of the user's own; and how replies are read.

This is the contract between games and whatever answers for an agent: an ask, the text that comes back, a parsed reply.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import BaseModel, Field

from parley.identity import digest
from parley.text import one_line, without_folders
from parley.text.yamlfile import StrictModel

FailureClass = Literal[
    "invalid_json",
    "out_of_range",
    "length",
    "refused",
    "prompt_too_long",
    "thought_only",
    "thought_cut_off",
    "tool_call",
    "no_tool_call",
    "white_space",
]
FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)

# Why a reply ended that is larger than any that could be used; the most characters for each token that it may have.
TOO_LARGE, TOKEN_BYTES = "too_large", 256
# Finish reasons of Parley's own, for what has a class of its own; of the last one the text is what was made.
PROMPT_TOO_LONG, THOUGHT_ONLY, THOUGHT_CUT_OFF, TOOL_CALL, NO_TOOL_CALL, WHITE_SPACE, NO_SCHEMA = (
    *("prompt_too_long", "thought_only", "thought_cut_off", "tool_call", "no_tool_call", "white_space"),
    "no_schema",
)

GIVEN, CHANGED = "parent", "change"  # of a fork: a reply of the recorded game, and one that the change gave
FIRST_STEP = "_think"  # what the phase of the first of two steps is called besides
# How a study asks for replies. An ask's own format may also be the first of two steps: "free".
ReplyFormat = Literal["json", "text", "two_steps"]


class Sampling(StrictModel):
    """How one phase is sampled."""

    temperature: float = Field(ge=0.0, le=2.0, description="Sampling temperature; 0 is greedy.")
    max_tokens: int = Field(ge=1, le=32_768, description="Longest reply, in tokens.")


@dataclass(frozen=True)
class Ask:
    """One question to one agent.

    `view` is what the agent may see, as data, for scripted policies. With `two_steps` the reply is `free` first, and
    `follow_up` asks for the rest. `earlier` are messages between the system prompt and `user`, as role and text.
    """

    agent: str
    role: str
    round: int
    phase: str
    system: str
    user: str
    reply_model: type[BaseModel]
    sampling: Sampling
    view: Any = field(compare=False)
    reply_format: Literal[ReplyFormat, "free"] = "json"
    follow_up: str = ""
    earlier: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages, in OpenAI's form."""
        said = [("system", self.system), *self.earlier, ("user", self.user)]
        return [{"role": role, "content": text} for role, text in said]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is asked: the messages, how they are sampled, and the format if it is not JSON."""
        asked: list[Any] = [self.system, self.user, self.sampling.model_dump()]
        if self.earlier or self.reply_format != "json":
            asked += [self.reply_format, self.earlier]
        return digest(asked)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, after all retries: a parsed value, or the class of the failure; how long it took; its text."""

    value: BaseModel | None
    failure: FailureClass | None = None
    detail: str | None = None
    milliseconds: int = field(default=0, compare=False)
    text: str = field(default="", compare=False)


_Count = Annotated[int, Field(ge=0, lt=2**63)]  # where it is read from a file


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one request, or of many: of its prompt (those from a cache included) and of its reply."""

    prompt: _Count = 0
    completion: _Count = 0
    cached: _Count = 0  # of the prompt

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)

    @property
    def total(self) -> int:
        """All of them."""
        return self.prompt + self.completion


BYTES_PER_TOKEN = 4  # about what English prompts have


def estimated_tokens(prompt_bytes: int, max_tokens: int) -> int:
    """Return about how many tokens a request will use."""
    return prompt_bytes // BYTES_PER_TOKEN + max_tokens


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply as it came; counts and names are None where nobody said them.

    `finish_reason` is OpenAI's ("stop", "length", "content_filter"). Completion tokens have the reasoning in them.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    seconds: float | None = None
    served_model: str | None = None  # what answered, by the service's own word
    system_fingerprint: str | None = None  # the same of how it is set up
    reasoning: str | None = None  # what the model wrote before its reply; no agent sees it
    reasoning_tokens: int | None = None  # of the completion's
    given: str | None = None  # where nobody was asked: GIVEN or CHANGED


@dataclass
class Request:
    """One request to a model, as it left; `reply` is None before it came, and of one that failed."""

    ask: Ask
    seed: int | None
    reply: Completion | None = None


# The requests that code of the user's own has made so far to answer the ask of this task.
requests_made: ContextVar[list[Request]] = ContextVar("parley_requests_made")


class Policy(Protocol):
    """Answers one ask. The seed is all the randomness that it may use."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply to `ask`; raises EngineError if there can be none."""
        ...


def token_count(tokens: object) -> int | None:
    """Return a number of tokens that a record can hold; an engine may say anything in its place."""
    return tokens if type(tokens) is int and 0 <= tokens < 2**31 else None


def said_name(name: object) -> str | None:
    """Return a name as a record can hold it, None for none: of a path, which may name a person, the last part."""
    return (without_folders(one_line(name[:10_000], 200)) or None) if isinstance(name, str) else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply says that it used; None for what it does not say. The completion has the reasoning in it."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None  # of the prompt
    reasoning: int | None = None  # of the completion


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return what OpenAI's `usage` says; raises AttributeError or TypeError if it is none.

    Some services count reasoning beside the tokens of the completion (xAI, Google): the total tells.
    """
    details = [usage.get(f"{part}_tokens_details") for part in ("prompt", "completion")]
    of_prompt, of_completion = (found if isinstance(found, Mapping) else {} for found in details)
    prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    reasoning = token_count(of_completion.get("reasoning_tokens"))
    if completion is not None and reasoning:
        total = token_count(usage.get("total_tokens"))
        if reasoning > completion or (prompt is not None and total == prompt + completion + reasoning):
            completion = token_count(completion + reasoning)
    return Usage(prompt, completion, token_count(of_prompt.get("cached_tokens")), reasoning)
