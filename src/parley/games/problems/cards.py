"""The Wason card problem: its question, its answer, and how a selection of cards is read."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

VOWELS = "AEIOU"
MAX_CHARACTERS = 1_000  # of a text that is looked at
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
    found = _among_words(plain, set(cards)) if bare is None else bare
    return normal_cards(found) if found and found <= set(cards) else None


def _bare(plain: str, tokens: Sequence[str], cards: set[str]) -> set[str] | None:
    """Return the cards of a text that has nothing but cards; None if it has other words."""
    found: set[str] = set()
    for token in tokens:
        if token.upper() in cards:
            found.add(token.upper())
        elif len(token) > 1 and token.isupper() and set(token) <= cards:  # glued: "AK"
            found |= set(token)
        elif token.lower() != "and":
            return None
    return found if _LISTING.fullmatch(_TOKEN.sub("", plain)) else None


def _among_words(plain: str, cards: set[str]) -> set[str]:
    """Return the cards, of the set or not, that a text with other words names; the empty set if that is unclear."""
    found: set[str] = set()
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if len(token) > 1 and not token.isdigit() and not token.isupper() and not _PLAIN_WORDS.fullmatch(token):
            return set()  # it may name a card: "A and four", "the vowel", "the first one"
        after = plain[match.end() : match.end() + 1]
        glued = after.isalnum() or plain[max(0, match.start() - 1) : match.start()].isalnum()
        if token.isdigit():
            if glued:  # 7th, x2
                return set()
            found.add(token)
        elif len(token) > 1:
            if token.isupper() and set(token) <= cards:  # "AK", which is no word
                return set()
        elif token.upper() in cards:
            if _is_word(plain, match) if token.isupper() else not _is_article(plain, match):
                return set()
            if token.isupper():
                found.add(token)
        elif token.isupper() and not (token in "AI" and _is_word(plain, match)):
            found.add(token)  # a card that is not there
    return found


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
