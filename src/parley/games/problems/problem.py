"""One problem: its question, its right answer if it has one, and when two answers are the same; the card problem."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from parley.games.problems.numbers import MAX_CHARACTERS, Reading, read_as, read_number
from parley.policies.own_code import first_problem

if TYPE_CHECKING:
    import numpy as np

MATCHING = "nfkc-casefold-v1"  # raised whenever the normal form of any text changes

# A list's bullet or number, quotes, and emphasis. "3 branches" and "-5 degrees" begin with no bullet.
_LEADING = re.compile(r"(?:[-–—+]\s+|[*•·‣◦▪#>\"'`“”„‘’«»]+\s*|\(?(?:\d{1,3}|[a-z])[.)]\s+|\(\d{1,3}\)\s*)")
_TRAILING = re.compile(r"[\s.,;:!?*\"'`“”‘’«»]+$")
_SPACES = re.compile(r"\s+")
MAX_CARDS = 10  # whose selections, one of which is drawn as a wrong answer, are not too many


def normal_policy(text: str) -> str:
    """Return the normal form of a policy's text; "" for nothing but marks, or more than 1,000 characters.

    Unicode NFKC, casefold, single spaces, without bullets, numbers, quotes and punctuation at its ends. Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return ""
    while True:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        normal = _SPACES.sub(" ", folded).strip()
        normal = _TRAILING.sub("", normal)
        if bullet := _LEADING.match(normal):
            normal = normal[bullet.end() :]
        if normal == text:
            fits = len(normal) <= MAX_CHARACTERS  # NFKC makes some characters longer
            return normal if fits and any(map(str.isalnum, normal)) else ""
        text = normal


Kind = Literal["number", "cards", "choice", "policies"]
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, config={"extra": "forbid"})
class Problem:
    """What a group deliberates; raises ValueError if its parts do not fit together.

    `question` is clean text, as agents are shown it. `answer` is the right answer in normal form, None for policies,
    among which none is right; of a choice it is a letter. `options` are the cards, or the choices or policies as
    written, and empty for a number. `facts` belong to the problem, too, but an agent may hold only some of them;
    `shared` are other facts, which all hold.
    """

    id: _Text
    kind: Kind
    question: Annotated[str, Field(min_length=1, max_length=10_000)]
    answer: str | None
    options: tuple[str, ...] = ()
    facts: tuple[_Text, ...] = Field(default=(), exclude_if=lambda facts: not facts)  # identities are older than these
    shared: tuple[_Text, ...] = Field(default=(), exclude_if=lambda facts: not facts)

    @model_validator(mode="after")
    def _fits_together(self) -> "Problem":
        if self.definitive != (self.answer is not None):
            raise ValueError("numbers, cards and choices need an answer that can be read, policies have none")
        texts = self.kind in ("choice", "policies")
        normal = [normal_policy(option) for option in self.options] if texts else self.options
        enough = not normal if self.kind == "number" else len(normal) >= 2
        if "" in normal or len(set(normal)) < len(normal) or not enough:
            raise ValueError("the options must be at least two, and different ones; a number has none")
        if self.kind == "cards" and not (all(map(is_card, self.options)) and len(self.options) <= MAX_CARDS):
            raise ValueError(f"the options must be cards, at most {MAX_CARDS}")
        if self.answer is not None and self.read(self.answer) != self.answer:
            raise ValueError(f"the answer is not in normal form: {self.answer[:60]!r}")
        return self

    @property
    def definitive(self) -> bool:
        """Whether there is a right answer."""
        return self.kind != "policies"

    def read(self, text: str) -> str | None:
        """Return the normal form of what an agent wrote, or None if it cannot be read. Never raises."""
        return read_answer(self.kind, self.options, text)

    def read_policies(self, texts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the offered policies among `texts`, in normal form, sorted, each once; None if there is none."""
        policies = {normal_policy(text) for text in texts} & _normal(self.options)
        return tuple(sorted(policies)) or None

    def unknown(self, texts: Sequence[str]) -> int:
        """Return how many of `texts` are none of the offered policies; every text counts."""
        offered = _normal(self.options)
        return sum(normal_policy(text) not in offered for text in texts)

    def wrong(self, rng: "np.random.Generator") -> str:
        """Return a plausible wrong answer: a near miss, what the card rule names, another choice, or any policy."""
        if self.kind == "policies":
            return _draw(sorted(_normal(self.options)), rng)
        if self.kind == "choice":
            return _draw([letter for letter in letters(self.options) if letter != self.answer], rng)
        if self.kind == "cards":
            usual = matching_cards(self.options)
            return usual if usual and usual != self.answer else _draw(self._other_selections(), rng)
        assert self.answer is not None
        return _draw(_near_misses(Fraction(self.answer)), rng)

    def as_json(self) -> dict[str, Any]:
        """Return the problem as plain JSON values."""
        return _JSON.dump_python(self, mode="json")  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, value: Any) -> "Problem":
        """Return the problem that `as_json` gave; raises ValueError for anything else."""
        try:
            return _JSON.validate_python(value)
        except ValidationError as error:
            raise ValueError(f"no problem: {first_problem(error)}") from None

    def _other_selections(self) -> list[str]:
        sizes = range(1, len(self.options) + 1)
        every = [normal_cards(chosen) for size in sizes for chosen in combinations(self.options, size)]
        return [selection for selection in every if selection != self.answer]


_JSON = TypeAdapter(Problem)


def read_answer(
    kind: Kind, options: Sequence[str], text: str, argument: str = "", reading: Reading = "exact"
) -> str | None:
    """Return the normal form of an answer to a problem of this kind; `reading` says how numbers are read."""
    if kind == "number":
        return read_as(reading, text, argument)
    if kind == "cards":
        return read_cards(text, options)
    if kind == "choice":
        return read_choice(text, options)
    policy = normal_policy(text)
    return policy if policy in _normal(options) else None


# `B`, `(b)`, `B.` and `B) the text of the choice`.
_CHOICE = re.compile(r"[*(\s]*([A-Za-z])[*)\s]*(?:[.:)]\s*|\s+|$)(.*)", re.DOTALL)


def letters(options: Sequence[str]) -> str:
    """Return the letters of choices, in their order: A is the first one's."""
    return ascii_uppercase[: len(options)]


def is_letter(option: str, options: Sequence[str]) -> bool:
    """Whether a choice could be taken for the letter of one of these, such as `b` or `(B)`."""
    match = _CHOICE.fullmatch(option.strip().casefold())
    return match is not None and match[1].upper() in letters(options) and not normal_policy(match[2])


def read_choice(text: str, options: Sequence[str]) -> str | None:
    """Return the letter of the choice that `text` names, by its letter, its text, or both; None if it names none.

    Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    plain = {
        " ".join(option.split()).casefold(): letter for option, letter in zip(options, ascii_uppercase, strict=False)
    }
    if (written := " ".join(text.split()).casefold()) in plain:
        return plain[written]
    named = {normal_policy(option): letter for option, letter in zip(options, ascii_uppercase, strict=False)}
    if not (match := _CHOICE.fullmatch(text.strip())):
        return named.get(normal_policy(text))
    letter, rest = match[1].upper(), normal_policy(match[2])
    return letter if letter in letters(options) and (not rest or named.get(rest) == letter) else None


def _normal(options: Sequence[str]) -> set[str]:
    return {normal_policy(option) for option in options}


def _draw(choices: Sequence[str], rng: "np.random.Generator") -> str:
    return choices[int(rng.integers(len(choices)))]


def _near_misses(answer: Fraction) -> list[str]:
    """Return answers that a slip leads to: off by one or ten, a step left out or made twice; of the same sign."""
    missed = {answer + step for step in (-10, -2, -1, 1, 2, 10)} | {answer * 2, answer / 2}
    likely = [value for value in missed if value != answer and (value < 0) == (answer < 0)]
    whole = [value for value in likely if value.denominator <= answer.denominator]
    # An answer as long as the reader allows has a sum that is longer.
    return [text for value in sorted(whole) if (text := str(value)) and read_number(text) == text]


# The Wason card problem: its question, its answer, and how a selection of cards is read


VOWELS = "AEIOU"
RULE = "All cards with a vowel on one side have an even number on the other side."

# Y is a vowel to some and a consonant to others.
_CARD = re.compile(r"[A-XZ]|0|[1-9][0-9]{0,2}")
_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_LISTING = re.compile(r"[\s,;:/&+()\[\]{}\"'`*|.!-]*")  # what stands between the cards of a bare list
_NUMBER_NOT_CARD = re.compile(r"\d[.,]\d{3,}|\d\.\d|\d+\s*cards?\b", re.IGNORECASE)
_LATEX = re.compile(r"\$?\\(?:boxed|text|mathrm|mathbf)\{([^{}]*)\}\$?")
# Words that turn a selection into another one, or into several.
_OTHER_WORDS = re.compile(
    r"\b(?:or|not|no|none|nor|neither|never|without|except|excluding|instead|rather|but|unless|every|all|both|any|"
    r"cannot|ignore|skip|leave)\b|n['’]t\b",
    re.IGNORECASE,
)

# Words that name no card, and change no selection: others may.
_PLAIN_WORDS = re.compile(
    r"the|and|cards?|turn(?:ed|ing)?|over|must|be|is|are|answers?|my|our|we|you|to|should|need(?:s|ed)?|have|has|"
    r"flip(?:ped)?|check(?:ed)?|choose|chosen|chose|select(?:ed|ion)?|pick(?:ed)?|only|just|these|those|that|which|this|"
    r"so|therefore|thus|hence|then|they|it|test(?:ed)?|look|at|with|of|in|order|would|will|can|show(?:s|ing|n)?|"
    r"labell?ed|marked|final|correct|right|please",
    re.IGNORECASE,
)


def is_card(text: str) -> bool:
    """Whether `text` can be the visible side of a card: a capital letter but Y, or a number of up to three digits."""
    return _CARD.fullmatch(text) is not None


def question(cards: Sequence[str]) -> str:
    """Return the problem with these cards, as agents are shown it."""
    return (
        "Each card has a letter on one side and a number on the other side. "
        f"The visible sides of {len(cards)} cards are: {', '.join(cards)}. "
        f'Rule: "{RULE}" '
        "Which cards must be turned over to find out whether the rule is true? Select all of them and no others."
    )


def right_cards(cards: Sequence[str]) -> str:
    """Return the right selection, in normal form: the vowels and the odd numbers; "" if there are none."""
    return normal_cards(card for card in cards if card in VOWELS or (card.isdigit() and int(card) % 2))


def matching_cards(cards: Sequence[str]) -> str:
    """Return the selection of the matching bias (Wason 1966): what the rule names, vowels and even numbers."""
    return normal_cards(card for card in cards if card in VOWELS or (card.isdigit() and int(card) % 2 == 0))


def normal_cards(cards: Iterable[str]) -> str:
    """Return a selection in normal form: each card once, sorted as text, with commas."""
    return ",".join(sorted(set(cards)))


def read_cards(text: str, cards: Sequence[str]) -> str | None:
    """Return the selection that `text` states, in normal form ("7,A"), or None if it states none or several.

    A bare list of cards (in any order, with separators, "and", brackets, or glued: "7A") may be in lower case. If
    there is any other word, only capitals that stand alone and numbers are cards; then an "A" that begins a sentence,
    an "I" before a word, and a small letter that could be cards make it unreadable, and so do "not", "or" and the
    like. A card that is not among `cards` makes it unreadable in both. Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    plain = _LATEX.sub(r" \1 ", unicodedata.normalize("NFKC", text).replace("’", "'"))
    tokens = _TOKEN.findall(plain)
    if _NUMBER_NOT_CARD.search(plain) or _OTHER_WORDS.search(plain):
        return None
    bare = _bare(plain, tokens, set(cards))
    selected = _among_words(plain, set(cards)) if bare is None else bare
    return normal_cards(selected) if selected and selected <= set(cards) else None


def _bare(plain: str, tokens: Sequence[str], cards: set[str]) -> set[str] | None:
    """Return the cards of a text that has nothing but cards; None if it has other words."""
    named: set[str] = set()
    for token in tokens:
        if token.upper() in cards:
            named.add(token.upper())
        elif len(token) > 1 and token.isupper() and set(token) <= cards:  # glued: "AK"
            named |= set(token)
        elif token.lower() != "and":
            return None
    return named if _LISTING.fullmatch(_TOKEN.sub("", plain)) else None


def _among_words(plain: str, cards: set[str]) -> set[str]:
    """Return the cards, of the set or not, that a text with other words names; the empty set if that is unclear."""
    named: set[str] = set()
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if len(token) > 1 and not token.isdigit() and not token.isupper() and not _PLAIN_WORDS.fullmatch(token):
            return set()  # it may name a card: "A and four", "the vowel", "the first one"
        after = plain[match.end() : match.end() + 1]
        glued = after.isalnum() or plain[max(0, match.start() - 1) : match.start()].isalnum()
        if token.isdigit():
            if glued:  # 7th, x2
                return set()
            named.add(token)
        elif len(token) > 1:
            if token.isupper() and set(token) <= cards:  # "AK", which is no word
                return set()
        elif token.upper() in cards:
            if _is_word(plain, match) if token.isupper() else not _is_article(plain, match):
                return set()
            if token.isupper():
                named.add(token)
        elif token.isupper() and not (token in "AI" and _is_word(plain, match)):
            named.add(token)  # a card that is not there
    return named


def _is_article(plain: str, match: re.Match[str]) -> bool:
    """Whether a small letter is the word "a": one that stands before another word and is not listed."""
    if match[0] != "a":
        return plain[match.start() - 1 : match.start()] == "'"  # it's
    return re.match(r"\s+(?!and\b)[^\W\d_]{2,}", plain[match.end() :]) is not None and not re.search(
        r"(?:[,;&+:]|\band|\bcards?|\bover)\s*$", plain[: match.start()], re.IGNORECASE
    )


def _is_word(plain: str, match: re.Match[str]) -> bool:
    """Whether a capital A or I may be the English word: before a small one, an A only where a sentence begins."""
    if match[0] not in "AI" or not re.match(r"(?:\s+(?!and\b)|')[a-z]", plain[match.end() :]):
        return False
    return match[0] == "I" or re.search(r"(?:^|[.!?:\n])\W*$", plain[: match.start()]) is not None
