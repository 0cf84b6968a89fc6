"""What every game is given: its parameters, and who plays it. With the types that parameters of games share."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from typing_extensions import TypeVar

from parley.games.network import Complete, Topology
from parley.policies import ReplyFormat
from parley.policies.kinds import BY_MODEL, ChosenPolicy
from parley.policies.reply_text import AS_WRITTEN, Reading
from parley.text.yamlfile import ByModel, StrictModel

# What many parameters are: a number that may be 0, one that may not, and a probability.
Count = Annotated[int, Field(ge=0, le=10_000)]
Positive = Annotated[int, Field(ge=1, le=10_000)]
Chance = Annotated[float, Field(ge=0, le=1)]


def newer_field(*, default: Any, description: str, **bounds: Any) -> Any:
    """Return the field of a parameter that older identities do not have: with its default it is left out of them."""
    return Field(default=default, description=description, exclude_if=lambda value: bool(value == default), **bounds)


def as_tuple(value: Any) -> Any:
    """Return what a study lists, or names alone, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def in_order(words: Sequence[str], listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return some of `words` in their order, so that the same ones are the same value however they are listed."""
    if len(set(listed)) < len(listed):
        raise ValueError("one is repeated; list it once")
    return tuple(sorted(listed, key=words.index))


def share_of(flags: Collection[bool]) -> float | None:
    """Return the share of those that are true; None of nobody."""
    return sum(flags) / len(flags) if flags else None


def held_at_last(held: Sequence[bool]) -> int:
    """Return for how many rounds up to the last one something held: 0 if it did not in the last."""
    return next((k for k, has in enumerate(reversed(held)) if not has), len(held))


# The roles that games share: who keeps to the rules, and who may break them.
HONEST = "honest"
BYZANTINE = "byzantine"
ROLES = (HONEST, BYZANTINE)


class Summary(StrictModel):
    """What prompts tell of the rounds before: as the papers have it."""

    kind: Literal["summary"] = "summary"
    label: ClassVar[str] = "summary"


_CHAT_TOKENS = 4000


class Chat(StrictModel):
    """Besides, what the agent was asked before and replied, as turns of the chat."""

    kind: Literal["chat"] = "chat"
    tokens: int = Field(
        default=_CHAT_TOKENS,
        ge=1,
        le=10_000_000,
        description="About how many tokens of earlier questions and replies are sent, of four bytes each: the latest.",
    )

    @property
    def label(self) -> str:
        """A readable name for paths and tables."""
        return self.kind if self.tokens == _CHAT_TOKENS else f"{self.kind}-{self.tokens}"


class GameParameters(StrictModel):
    """Parameters that every game has; each game adds its own."""

    retries: int = Field(
        default=3, ge=0, le=20, description="How often an unusable reply is asked for again, with a new seed."
    )
    topology: Topology = Field(
        default=Complete(), description="Who hears whom: a name, or a kind with its parameters. Drawn for each seed."
    )
    reply_format: ReplyFormat = newer_field(
        default="json",
        description="How language models reply: in JSON; in free text with labeled lines (text); or freely first, and "
        "then in JSON (two_steps).",
    )
    memory: Annotated[Summary | Chat, ByModel("memory", alone=Literal["summary", "chat"])] = newer_field(
        default=Summary(),
        description="What a language model knows of its past: what prompts say of earlier rounds (summary); besides, "
        "its earlier questions and replies, as turns of the chat (chat).",
    )

    seat: Literal["hub", "spoke", "any"] | None = newer_field(
        default=None,
        description="Where Byzantine agents sit: hub or spoke of a star, or any. Who is the hub is then drawn for "
        "each seed, too. Without it that is the first agent.",
    )
    replaces_honest: bool = newer_field(
        default=False,
        description="Whether Byzantine agents take the seats of listed honest agents, who do not play then, not "
        "seats of their own. Agent k is the k-th that is listed. Needs seat.",
    )

    @property
    def longest(self) -> int | None:
        """Rounds of the longest possible game; None if nothing bounds them."""
        return None

    def format_for(self, seat: "Seat") -> ReplyFormat:
        """Return how a seat replies: a language model in the study's format, a rule or the user's own code in JSON."""
        return self.reply_format if seat.policy.kind.asks_model else "json"


# The parameters of one game; `Game` alone stands for a game of any.
P = TypeVar("P", bound=GameParameters, default=Any)


@dataclass(frozen=True, slots=True)
class Seat:
    """One agent as the game knows it; `group` counts the study's groups."""

    name: str
    role: str
    policy: ChosenPolicy = BY_MODEL
    group: int = 0
    reading: Reading = AS_WRITTEN
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Agents of one role that are played alike; `prompt` is their own, None for that of the game."""

    role: str
    count: int
    policy: ChosenPolicy = BY_MODEL
    reading: Reading = AS_WRITTEN
    prompt: str | None = None


# Shares are written as a number or as a fraction, and compared exactly.
# Short, so that nobody's exponent makes an integer of a billion digits.
_SHARE = re.compile(r"-?\d{1,9}(\.\d{1,40})?(e-\d{1,2})?|-?\d{1,9}\s*/\s*0*[1-9]\d{0,8}")


def _exact_share(value: Any) -> Fraction:
    """Read 0.66, "0.66" or "2/3" as the exact number that is written there."""
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    if isinstance(value, bool) or not _SHARE.fullmatch(text):
        raise ValueError("must be a number or a fraction like '2/3'")
    return Fraction(text)


_READ = BeforeValidator(_exact_share)
_WRITTEN = PlainSerializer(str, return_type=str)


def _schema(lowest: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "number", lowest: 0, "maximum": 1}, {"type": "string"}]})


# A share in (0, 1], and one in [0, 1].
Share = Annotated[Fraction, _READ, Field(gt=0, le=1), _WRITTEN, _schema("exclusiveMinimum")]
ShareOrNone = Annotated[Fraction, _READ, Field(ge=0, le=1), _WRITTEN, _schema("minimum")]
