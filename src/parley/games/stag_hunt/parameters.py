"""What a study may set in the stag hunt, and the shapes of its replies.

Payoffs, unanimity, four players and the one word are the paper's (appendix A). The copy at hand says nothing of the
rest: those defaults are Parley's.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, TypedDict

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)

from parley.games.network import Complete
from parley.games.parameters import Count, GameParameters, Positive, Share, newer_field
from parley.policies import Sampling
from parley.policies.reply_text import ReplyModel
from parley.text import one_line

STAG: Final = "Hunt Stag"
HARE: Final = "Hunt Hare"
Action = Literal["Hunt Stag", "Hunt Hare"]

YOU = "you"  # what a player is called in its own prompts and view
_BLANK = frozenset("\u115f\u1160\u3164\uffa0")  # letters that print nothing


class HuntRound(TypedDict):
    """What everyone did in one round, by name, as the trace has it.

    A word is None where none was broadcast or the text was not one word; an action is None where no reply could be
    used: such a player hunts nothing.
    """

    round: int
    words: Mapping[str, str | None]  # empty without cheap talk
    not_words: Mapping[str, str]  # texts that are not one word
    actions: Mapping[str, Action | None]
    points: Mapping[str, int]
    hunters: int
    success: bool
    measures: Mapping[str, float | None]
    neighbors: NotRequired[Mapping[str, list[str]]]  # in round 1, where not everyone sees everyone
    excluded: NotRequired[bool]  # from the statistics; only of such rounds, which only the published rules have


@dataclass(frozen=True, slots=True)
class SeenRound:
    """What one player sees of an earlier round, by the names it knows; `points` are its own, None where not shown."""

    number: int
    words: Mapping[str, str | None]
    actions: Mapping[str, Action | None]
    points: int | None


@dataclass(frozen=True, slots=True)
class StagHuntView:
    """What one player may see when it is asked, as data.

    It is `you`; those it sees are `player_1`, `player_2`, ... for it alone, without gaps, so that no name tells of a
    player that it does not see. `words` are those of this round, empty while words are asked for. `needed` and the
    points `stag`, `alone` and `hare` are the rules'.
    """

    phase: str
    role: str
    round: int
    words: Mapping[str, str | None]
    history: tuple[SeenRound, ...]
    cheap_talk: bool
    cooperative_words: tuple[str, ...]
    needed: int = 0  # stag hunters that a successful hunt needs
    stag: int = 0
    alone: int = 0
    hare: int = 0
    published: bool = False  # whether the reply has the form of the published prompts


def counted(rounds: Sequence[HuntRound]) -> list[HuntRound]:
    """Return the rounds that are not excluded from the statistics."""
    return [each for each in rounds if not each.get("excluded")]


def one_word(text: str) -> str | None:
    """Return the word that `text` is, cleaned; None if it is not one.

    What stands around it is no part of it: white space, hidden characters, quotes, punctuation, signs. One word has
    letters with their marks, digits, ' and -, one letter or digit at least, and at most LONGEST_WORD characters.
    """
    word = unicodedata.normalize("NFC", one_line(text))
    inside = [place for place, c in enumerate(word) if unicodedata.category(c)[0] not in "PSZ"]
    word = word[inside[0] : inside[-1] + 1] if inside else ""
    kinds = [unicodedata.category(c) for c in word]
    fits = all(kind[0] in "LM" or kind == "Nd" or c in "'-" for kind, c in zip(kinds, word, strict=True))
    has_letter = any(kind[0] == "L" or kind == "Nd" for kind in kinds)
    return word if fits and has_letter and not _BLANK & {*word} and len(word) <= LONGEST_WORD else None


ALL = "all"
LONGEST_WORD = 30  # characters
LONGEST_TEXT = 200  # characters of what stands for a word in the published form of a reply
PUBLISHED = "published"
# What a study with `rules: published` gets that does not say otherwise (sections 3.1 and 3.3, appendices A and C).
_GREEDY: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 512}
_PUBLISHED_DEFAULTS: Mapping[str, Any] = {
    "rounds": 5,
    "retries": 0,  # the repeated question says what was wrong, so it is one of its own
    "show_points": True,
    "reasoning_chars": 10_000,
    "signal": _GREEDY,
    "act": _GREEDY,
}
_SILENT: Mapping[str, Any] = {
    **dict.fromkeys(("count_told", "links_told", "nudge", "payoff_note"), False),
    "hides": "words+actions",
}
_TOLD: Mapping[str, Any] = {**_SILENT, "count_told": True, "links_told": True}
_EXPLICIT: Mapping[str, Mapping[str, Any]] = {
    "parley": {"payoff_note": True},
    PUBLISHED: {"nudge": True, "hides": "words_when_acting"},
}
# What `disclosure` sets of the switches, by the rules.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    rules: {"none": {**_SILENT, "count_told": True}, "silent": _SILENT, "explicit": {**_TOLD, **explicit}}
    for rules, explicit in _EXPLICIT.items()
}
HARE_WORD = "hare"  # what scripted players say who will hunt it

# Words that promise to hunt the stag; compared without regard to case.
COOPERATIVE_WORDS = (
    *("stag", "stags", "hunt-stag", "huntstag", "cooperate", "cooperation", "together", "trust", "unity", "united"),
    *("team", "teamwork", "all-in", "coordinate", "coordination", "agree", "agreed", "yes"),
)


def _as_text(value: Any) -> Any:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not re.fullmatch("all|[1-9][0-9]{0,3}|10000", text):
        raise ValueError("must be all, or a number from 1 to 10,000")
    return text


# Text also where it is a number, so that an axis that mixes both has one type.
_Needed = Annotated[
    str,
    BeforeValidator(_as_text, json_schema_input_type=Literal["all"] | Annotated[int, Field(ge=1, le=10_000)]),
]


def _word(value: str) -> str:
    word = one_word(value)
    if word is None:
        raise ValueError(f"is not one word of at most {LONGEST_WORD} letters, digits, ' and -")
    return word


Word = Annotated[str, AfterValidator(_word)]


def _compared(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words in the form in which they are compared, and spoken, so that the same list is the same value."""
    folded = tuple(dict.fromkeys(_word(word.casefold()) for word in words))
    if HARE_WORD in folded:
        raise ValueError(f"{HARE_WORD} announces the hare (policy always_hare), and promises no stag; remove it")
    return folded


_Words = Annotated[tuple[Word, ...], Field(strict=False, min_length=1, max_length=200), AfterValidator(_compared)]
_Points = Annotated[int, Field(ge=0, le=1_000_000)]


class StagHuntParameters(GameParameters):
    """Fixed parameters of the stag hunt."""

    rules: Literal["parley", "published"] = newer_field(
        default="parley",
        description="Parley's prompts, or those of the paper's appendix A, word for word, with other defaults: 5 "
        "rounds, temperature 0, 512 tokens, points shown; an unusable reply is asked for once more, and if that fails "
        "the round is excluded from the statistics. Other payoffs, `needed` or no cheap talk change the words that "
        "print them, and no others.",
    )
    rounds: Positive = Field(default=10, description="Rounds; all are played.")
    cheap_talk: bool = Field(
        default=True, description="Whether each player broadcasts a word before it acts; without it is the baseline."
    )
    stag: _Points = Field(default=10, description="Points of each stag hunter when the hunt succeeds.")
    alone: _Points = Field(default=0, description="Points of a stag hunter when it fails.")
    hare: _Points = Field(default=3, description="Points of a hare hunter.")
    needed: _Needed = Field(
        default=ALL, description="Stag hunters that a successful hunt needs: `all` players, or this number of them."
    )
    disclosure: Literal["none", "silent", "explicit"] = Field(
        default="none",
        description="What prompts say of who sees whom: nothing, where all see all (none); nothing, and the number of "
        "players is left out too (silent); a section on it (explicit).",
    )
    count_told: bool | None = Field(
        default=None,
        description="Whether prompts tell the number of players. This and the next four: default as `disclosure` has "
        "it; anything else needs `rules: published`.",
    )
    links_told: bool | None = Field(default=None, description="Whether prompts tell who sees whom.")
    nudge: bool | None = Field(
        default=None,
        description="Whether players who act are told to think of what unseen players might have said.",
    )
    hides: Literal["words_when_acting", "words+actions"] | None = Field(
        default=None,
        description="What players who are not linked do not see of each other: words and actions (in both phases), or "
        "words alone and only in the action phase.",
    )
    payoff_note: bool | None = Field(
        default=None, description="Whether prompts say that payoffs count the actions of unseen players, too."
    )
    history_rounds: Count | None = Field(default=None, description="Earlier rounds that a prompt shows; default: all.")
    show_points: bool = Field(
        default=False,
        description="Whether a player's history has its own points, which tell of players that it does not see.",
    )
    cooperative_words: _Words = Field(
        default=COOPERATIVE_WORDS, description="Words that count as a promise to hunt the stag, whatever their case."
    )
    archetype_threshold: Share = Field(
        default=Fraction(4, 5),
        description="Share t of stag actions after a betrayal, in [1/2, 1], from which a player is "
        "cooperation-persistent; up to 1 - t it is defection-prone.",
    )
    reasoning_chars: Positive = Field(default=600, description="Longest reasoning.")
    signal: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=300), description="Words.")
    act: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=300), description="Actions.")

    @property
    def longest(self) -> int:
        """Rounds of the longest possible game."""
        return self.rounds

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        filled = {**_PUBLISHED_DEFAULTS, **given} if given.get("rules") == PUBLISHED else dict(given)
        presets = PRESETS.get(str(filled.get("rules", "parley")), {})
        preset = presets.get(str(filled.get("disclosure", "none")), _SILENT)
        return {**filled, **{name: value for name, value in preset.items() if filled.get(name) is None}}

    @model_serializer(mode="wrap")
    def _without_presets(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the switches that are as `disclosure` has them: identities are older than they are."""
        preset = PRESETS[self.rules][self.disclosure]
        return {name: value for name, value in handler(self).items() if name not in preset or value != preset[name]}

    @model_validator(mode="after")
    def _fits_together(self) -> "StagHuntParameters":
        if not self.alone <= self.hare <= self.stag or not self.stag:
            raise ValueError(
                f"payoffs alone {self.alone}, hare {self.hare}, stag {self.stag}: must not fall in this order, and "
                "stag must be above 0"
            )
        if self.archetype_threshold < Fraction(1, 2):
            raise ValueError("archetype_threshold must be 1/2 at least, or a player would be of both archetypes")
        preset = PRESETS[self.rules][self.disclosure]
        others = [name for name, value in preset.items() if getattr(self, name) != value]
        if self.disclosure == "none" and not others and not isinstance(self.topology, Complete):
            raise ValueError(
                f"topology {self.topology.label} hides players from each other; set disclosure: silent or explicit"
            )
        if self.rules != PUBLISHED and others:
            raise ValueError(f"{others[0]}: needs rules: {PUBLISHED}; remove it, or choose another disclosure")
        if self.rules == PUBLISHED and self.reply_format != "json":
            raise ValueError(
                f"rules: {PUBLISHED}: its prompts are for reply_format: json, not {self.reply_format}; remove it"
            )
        about_words = self.links_told or self.nudge or self.hides != "words+actions"
        if self.rules == PUBLISHED and about_words and not self.cheap_talk:
            raise ValueError(
                f"rules: {PUBLISHED}: links_told, nudge and hides are about words, and cheap_talk: false has none; "
                "set disclosure: none or silent, without them"
            )
        return self

    def hunters_needed(self, n: int) -> int:
        """Return how many of `n` players must hunt the stag for a hunt to succeed."""
        return n if self.needed == ALL else int(self.needed)

    def points(self, actions: Mapping[str, Action | None]) -> dict[str, int]:
        """Return what each player gets for the actions of all."""
        success = list(actions.values()).count(STAG) >= self.hunters_needed(len(actions))
        worth: Mapping[Action | None, int] = {STAG: self.stag if success else self.alone, HARE: self.hare, None: 0}
        return {name: worth[action] for name, action in actions.items()}


class _StagHuntReply(ReplyModel):
    free: ClassVar[str] = "reasoning"


# Letters of the large scripts and digits: all of them are one word to every reader, and no form of them is another.
_LETTERS = (
    r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03a3-\u03c9\u0400-\u0481\u048a-\u052f"
    r"\u05d0-\u05ea\u0620-\u064a\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
)
WORD_PATTERN = rf"^[{_LETTERS}][{_LETTERS}'-]{{0,{LONGEST_WORD - 1}}}$"


# It has no white space and none of JSON's own signs. The schema, which goes with the request, allows less, so that
# engines that follow it let a model write nothing but what can be read as one word.
_Word = Annotated[str, Field(pattern=rf'^[^\s"\\]{{1,{LONGEST_WORD}}}$', json_schema_extra={"pattern": WORD_PATTERN})]


class _Communicate(ReplyModel):
    type: Literal["communicate"]
    word: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]


class _Choice(ReplyModel):
    choice: Action


@cache
def hunt_model(phase: str, reasoning_chars: int, published: bool = False) -> type[BaseModel]:
    """Return the model of a word or an action, flat or in the form that the `published` prompts ask for (A.1, A.2)."""
    flat: dict[str, Any] = {"word": (_Word, ...)} if phase == "signal" else {"action": (Action, ...)}
    nested: dict[str, Any] = {"action": (_Communicate if phase == "signal" else _Choice, ...)}
    reasoning: Any = (Annotated[str, Field(max_length=reasoning_chars)], ...)
    name = f"{'Published' if published else ''}{phase.title()}"
    return create_model(name, __base__=_StagHuntReply, reasoning=reasoning, **(nested if published else flat))
