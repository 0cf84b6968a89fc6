"""What the stag hunt keeps of a round, what one player may see of it, and what counts as one word."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

from parley.text import one_line

STAG: Final = "Hunt Stag"
HARE: Final = "Hunt Hare"
Action = Literal["Hunt Stag", "Hunt Hare"]

YOU = "you"  # what a player is called in its own prompts and view
_BLANK = frozenset("\u115f\u1160\u3164\uffa0")  # letters that print nothing


class Round(TypedDict):
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
class Seen:
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
    history: tuple[Seen, ...]
    cheap_talk: bool
    cooperative_words: tuple[str, ...]
    needed: int = 0  # stag hunters that a successful hunt needs
    stag: int = 0
    alone: int = 0
    hare: int = 0
    published: bool = False  # whether the reply has the form of the published prompts


def counted(rounds: Sequence[Round]) -> list[Round]:
    """Return the rounds that are not excluded from the statistics."""
    return [each for each in rounds if not each.get("excluded")]


def one_word(text: str, longest: int) -> str | None:
    """Return the word that `text` is, cleaned; None if it is not one.

    What stands around it is no part of it: white space, hidden characters, quotes, punctuation, signs. One word has
    letters with their marks, digits, ' and -, one letter or digit at least, and at most `longest` characters.
    """
    word = unicodedata.normalize("NFC", one_line(text))
    inside = [place for place, c in enumerate(word) if unicodedata.category(c)[0] not in "PSZ"]
    word = word[inside[0] : inside[-1] + 1] if inside else ""
    kinds = [unicodedata.category(c) for c in word]
    fits = all(kind[0] in "LM" or kind == "Nd" or c in "'-" for kind, c in zip(kinds, word, strict=True))
    has_letter = any(kind[0] == "L" or kind == "Nd" for kind in kinds)
    return word if fits and has_letter and not _BLANK & {*word} and len(word) <= longest else None


def same_word(one: str, other: str) -> bool:
    """Whether two words are the same but for their case."""
    return one.casefold() == other.casefold()
