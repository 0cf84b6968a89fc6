"""What a study may set in the deliberation game, and the shapes of its replies.

The paper ("Achieving Unanimous Consensus Through Multi-Agent Deliberation", sections V, VI, XI) fixes neither prompts
nor numbers beyond agents and turns; each default here says what it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict

from pydantic import BaseModel, Field, create_model, model_validator

from parley.games.network import Complete, Topology
from parley.games.parameters import Count, GameParameters, Positive, Share, ShareOrNone, newer_field
from parley.games.problems.numbers import Reading
from parley.games.problems.problem import Kind, Problem, letters
from parley.games.problems.sources import Arithmetic, ProblemSource
from parley.policies import ReplyFormat, Sampling
from parley.policies.reply_text import ReplyModel
from parley.text import one_line

IN_TURN = "in_turn"  # of `order`
TALK = "talk"  # the phase of messages
ANOTHER_PROBLEM = "another_problem"  # of `hears`, and of the phase in which agents answer it


class DeliberationParameters(GameParameters):
    """Fixed parameters of the deliberation game."""

    problems: ProblemSource = Field(
        default=Arithmetic(), description="What is deliberated on: seed s gets problem s of this source."
    )
    turns: int = Field(default=2, ge=0, le=1_000, description="Turns of reflection after the initial round (T).")
    cot_share: ShareOrNone = Field(
        default=Fraction(1, 2),
        description="Share of the agents that answer first by chain of thought; the rest answer zero-shot.",
    )
    facts: Literal["dealt", "all"] = newer_field(
        default="dealt",
        description="Who knows the facts of a problem that has some: each is dealt to one agent, in turn (dealt), or "
        "to all (all).",
    )
    hears: Literal["all", "neighbor", "nobody", "another_problem"] = Field(
        default="all",
        description="Whose last answers an agent gets: all others'; one other's, the next one each turn (neighbor); "
        "nobody's; or, in their place, what all others answered to another problem (a placebo).",
    )
    order: Literal["at_once", "in_turn"] = newer_field(
        default="at_once",
        description="How agents speak in a turn of reflection: all at once, hearing answers of the turn before; or "
        "one after the other (in_turn), each hearing those who spoke before it as they have just answered.",
    )
    talk: int = newer_field(
        default=0,
        ge=0,
        le=100,
        description="Rounds of messages between two answers (`turns: 1`). Agents then hear these, and no "
        "answers; with `order: in_turn` they speak in turn in the first round, and at once in the others.",
    )
    topology: Topology = Field(
        default=Complete(),
        description="The links over which answers spread: an agent hears whom gossip reaches; the ledger counts it.",
    )
    stop_when_unanimous: bool = Field(
        default=True, description="Whether unanimity ends a deliberation at once, or is judged after the last turn."
    )
    time_limit: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Seconds of answering after which it is hung: the slowest reply of each turn (all, in_turn), "
        "added up. Then results hang on the engine's speed.",
    )
    fewest_honest: Count = Field(
        default=0,
        description="It is hung once fewer honest agents than this give an answer that can be read (Definition XI.7).",
    )
    theta: Share = Field(
        default=Fraction(2, 3),
        description="Share of honest agents, in (0, 1], that must support a policy to accept it (θ; prioritized "
        "problems).",
    )
    panel_size: Positive | None = Field(
        default=None, description="How many of the agents deliberate at a time; default: all."
    )
    redeliberations: int = Field(
        default=0,
        ge=0,
        le=100,
        description="How often a hung problem is deliberated again, each time by another set of agents "
        "(Definition XI.2).",
    )
    reply_format: ReplyFormat = Field(
        default="two_steps",
        description="How language models reply: in JSON; in free text with labeled lines (text); or freely first, and "
        "then in JSON (two_steps), but for answers that come before their argument, which are JSON. A small model "
        "that reasons inside of JSON loses half of its right answers (docs/explanation/reply-formats.md).",
    )
    reading: Reading = newer_field(
        default="exact",
        description="How the number of an answer is read: the one that the answer states (exact); what the answer "
        "begins with (strict), or the last number of the argument and the answer (flexible), as lm-evaluation-harness "
        "reads GSM8K.",
    )
    argument_chars: Positive = Field(
        default=2_500, description="Longest argument in JSON: as long as 600 tokens. One in free text is never cut."
    )
    answer_chars: int = Field(
        default=60, ge=1, le=1_000, description="Longest answer; policies may always be named in full."
    )
    shown_chars: Count = Field(
        default=2_500,
        description="An argument is cut to so many characters where others are shown it, and marked as cut. An agent "
        "gets its own whole.",
    )
    initial: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=600), description="First answers.")
    reflect: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=600), description="Later answers.")

    @property
    def longest(self) -> int:
        """Rounds of the longest possible game: all turns of all panels."""
        return self.session_rounds * (self.redeliberations + 1)

    @property
    def session_rounds(self) -> int:
        """Rounds of a panel: those of answers, and those of messages before them."""
        return 1 + self.turns * (1 + self.talk)

    @property
    def definitive(self) -> bool:
        """Whether the problems have a right answer; among policies none is right."""
        return self.problems.problem_kind != "policies"

    @model_validator(mode="after")
    def _fits_together(self) -> "DeliberationParameters":
        if self.hears in ("nobody", ANOTHER_PROBLEM) and not self.definitive:
            raise ValueError(f"hears: {self.hears} needs problems with a right answer; policies have none")
        if self.talk and self.turns != 1:
            raise ValueError("talk: is between a first answer and a last one; set turns: 1, or remove it")
        if self.talk and (self.hears in ("nobody", ANOTHER_PROBLEM) or not self.definitive):
            raise ValueError("talk: needs agents that hear others, and problems with a right answer; remove it")
        if self.redeliberations and self.panel_size is None:
            raise ValueError(
                "redeliberations needs a panel_size below the number of agents: a hung problem goes to another set "
                "of them"
            )
        return self


class _DeliberationReply(ReplyModel):
    free: ClassVar[str] = "argument"
    labels: ClassVar[Mapping[str, str]] = {"policies": "Policy"}


@cache
def message_model(most: int) -> type[BaseModel]:
    """Return the model of a message of at most so many characters."""
    text = Annotated[str, Field(max_length=most)]
    return create_model("Message", __base__=_DeliberationReply, argument=(text, ...))


@cache
def reply_model(
    style: str, kind: Kind, options: tuple[str, ...], answer_chars: int, argument_chars: int
) -> type[BaseModel]:
    """Return the model of an answer: a value and an argument (Definition XI.3), or policies and one (XI.4).

    A `zero_shot` answer comes before its argument, any other after it. The schema allows what the `kind` of problem,
    with its `options`, can have as an answer; the model itself allows any text of `answer_chars`, and each policy.
    """
    if kind == "policies":
        longest = max([answer_chars, *map(len, options)])  # each policy can be named in full
        offered = {"items": {"type": "string", "enum": [one_line(option) for option in options]}, "minItems": 1}
        policy = Annotated[str, Field(max_length=longest)]
        listed = Annotated[list[policy], Field(max_length=len(options), json_schema_extra=offered)]
        answer: dict[str, Any] = {"policies": (listed, ...)}
    else:
        hint = answer_pattern(kind, options, answer_chars)
        extra: dict[str, Any] = {} if hint is None else {"pattern": hint}
        answer = {"answer": (Annotated[str, Field(max_length=answer_chars, json_schema_extra=extra)], ...)}
    argument: dict[str, Any] = {"argument": (Annotated[str, Field(max_length=argument_chars)], ...)}
    fields = {**answer, **argument} if style == "zero_shot" else {**argument, **answer}
    return create_model("Answer", __base__=_DeliberationReply, **fields)


def answer_pattern(kind: Kind, options: tuple[str, ...], answer_chars: int) -> str | None:
    """Return the pattern of the answers of so many characters that can be read; None if there is no room."""
    if kind == "number":
        return _number_pattern(answer_chars - len("-$"))
    if kind == "choice":
        return f"^[{letters(options)}]$"
    card = f"({'|'.join(options)})"
    longest = len(options) * (max(map(len, options)) + len(", "))
    return f"^{card}(, {card}){{0,{len(options) - 1}}}$" if answer_chars >= longest else None


def _number_pattern(room: int) -> str | None:
    """Return the pattern of numbers that have, besides sign and currency, at most `room` characters."""

    def decimals(taken: int) -> str:
        most = min(6, room - taken - 1)
        return rf"(\.[0-9]{{1,{most}}})?" if most > 0 else ""

    if room < len("1,000"):
        return None
    digits, groups, part = min(12, room), min(3, (room - 3) // 4), min(9, (room - 1) // 2)
    plain = rf"[0-9]{{1,{digits}}}{decimals(digits)}"
    grouped = rf"[1-9][0-9]{{0,2}}(,[0-9]{{3}}){{1,{groups}}}{decimals(3 + 4 * groups)}"
    fraction = rf"[0-9]{{1,{part}}}/[1-9][0-9]{{0,{part - 1}}}"
    return rf"^-?\$?({plain}|{grouped}|{fraction})$" if groups else rf"^-?\$?({plain}|{fraction})$"


# The normal form of an answer: a number or a selection of cards as text, or policies. Equal answers are equal values.
Value = str | tuple[str, ...]


def as_value(value: Value | list[str] | None) -> Value | None:
    """Return an answer of a trace, which may be JSON, in normal form."""
    return tuple(value) if isinstance(value, list) else value


def value_text(value: Value) -> str:
    """Return an answer in normal form as one line."""
    return value if isinstance(value, str) else "; ".join(value)


class Said(TypedDict):
    """What one agent said in one turn; of an answer with policies they are as it named them, too."""

    answer: str
    argument: str
    policies: NotRequired[list[str]]
    unknown: NotRequired[int]  # policies among them that nobody may choose


@dataclass(frozen=True, slots=True)
class DeliberationView:
    """What one agent may see when it is asked, as data.

    `own` is its last answer and `heard` are those of others that it gets, by name; None for an answer that could not
    be read. Where agents talk, both are what the last message is, if it is an answer and nothing else. `target` is the
    wrong answer that Byzantine agents are told to push, None for honest ones.

    `problem` knows the right answer, which no prompt has: scripted honest agents stand for agents of a known skill,
    and scripted adversaries must know it to be wrong on purpose. `facts` are those of the problem that the agent was
    dealt, and those that stand word for word in the last arguments that it gets, its own among them.
    """

    phase: str
    agent: str
    role: str
    turn: int
    problem: Problem
    own: Value | None
    heard: Mapping[str, Value | None]
    target: Value | None
    facts: tuple[str, ...] = ()


class Verdict(TypedDict):
    """What a deliberation came to: what was agreed on, or why it hung (`detail`)."""

    levels: NotRequired[Mapping[str, str]]
    agreed: bool
    value: str | list[str] | None
    detail: str | None


class DeliberationTurn(TypedDict):
    """One turn of one deliberation, by name, as the trace has it."""

    round: int  # counted on from one deliberation on the problem to the next
    session: int
    turn: int
    answers: Mapping[str, Value | None]
    said: Mapping[str, Said | None]  # None of an agent that was silent
    heard: Mapping[str, list[str]]  # whose last answers each agent got
    talk: NotRequired[Sequence[Mapping[str, str | None]]]  # by round, what each agent said before it answered
    in_turn: NotRequired[bool]  # whether one spoke after the other, so that some heard answers of this same turn
    measures: Mapping[str, float | None]
    subject: NotRequired[Mapping[str, Any]]  # in the first turn of each: the problem, and by which rules
    rules: NotRequired[Mapping[str, Any]]
    facts: NotRequired[Mapping[str, list[str]]]  # there too: by agent, the facts of the problem that it was dealt
    levels: NotRequired[Mapping[str, str]]  # among policies: the share of honest agents that support each
    another_problem: NotRequired[Mapping[str, Any]]  # in the first turn of each: it, and what was answered to it
    verdict: NotRequired[Verdict]  # in the last turn of each


def values_of(entry: DeliberationTurn, names: Sequence[str]) -> list[Value | None]:
    """Return the answers of some agents in a turn, as they were read."""
    return [as_value(entry["answers"][name]) for name in names]
