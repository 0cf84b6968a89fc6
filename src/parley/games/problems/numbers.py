"""Numbers as people write them, read as exact fractions; what could mean two things is not read at all.

Conventions, where usage differs: a comma groups thousands and a point starts the decimals (so `1,234` is 1234, `1.234`
is less than two, and `1,23` and `1.234,50` are unreadable); `50%` is 50, since a percent sign is a unit here; number
words are unreadable, but for the scale after a numeral (`3 million`) and what it says (`18 (eighteen)`); full-width
digits count as digits. Of a calculation the result is read (`9 * 2 = 18`), and none is done here (`9 * 2`).
"""

import re
import unicodedata
from fractions import Fraction
from typing import Literal

_WORDS = {
    **{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9},
    **{"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16},
    **{"seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50},
    **{"sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90},
}
_WORD_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_IN_WORDS = re.compile(r"(?<=[0-9.])\s*\(([a-z][a-z -]*)\)", re.IGNORECASE)

_NUMERAL = r"(?:[$€£¥₹][ ]?)?[0-9][0-9,]*(?:\.[0-9]+)?"
_OPERATION = r"\s*(?:[-+*/×÷·−]|x\b|times\b|plus\b|minus\b)\s*"
# What comes before the `=` of a calculation, if that states a number.
_CALCULATION = re.compile(
    rf"(?<![\w.,)\]+*/×÷^-])-?[(\[]*{_NUMERAL}[)\]]*(?:{_OPERATION}[(\[]*{_NUMERAL}[)\]]*)+"
    r"\s*=\s*(?=[-(\[]*[$€£¥₹]?[ ]?[.0-9])"
)
_RULES = [
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=[0-9])\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (re.compile(r"\\div(?![a-z])"), "/"),
    (re.compile(r"(?<![\w'])'([^'\n]*)'(?![\w'])"), r" \1 "),
    (
        re.compile(
            r"(?<![\w.,)^])([0-9]+(?:\.[0-9]+)?)\s*[x×*]\s*10\s*\^\s*(?:\{(-?[0-9]{1,3})\}|(-?[0-9]{1,3}))(?![\w.{])"
        ),
        r"\1e\2\3",
    ),
    # An em dash, or one with spaces around it, beside a word: punctuation. Before a number that begins: a minus sign.
    (re.compile(r"(?<=[^\W\d_])(?:\s*—\s*|\s+[–‒]\s+)|(?:\s*—\s*|\s+[–‒]\s+)(?=[^\W\d_])"), "; "),
    (re.compile(r"(^|[:=(]\s*)(?:[–‒‑]|-[ ])(?=[$€£¥₹]?[.0-9])"), r"\1-"),
    (_CALCULATION, ""),
]


def without_words(text: str) -> tuple[str, set[int]]:
    """Return a text without the number words in parentheses after its numerals ("18 (eighteen)"), and their values."""
    values: set[int] = set()

    def take(words: re.Match[str]) -> str:
        value = _worth(words[1])
        if value is None:
            return words[0]
        values.add(value)
        return ""

    return _IN_WORDS.sub(take, text), values


def _worth(words: str) -> int | None:
    """Return what number words add up to ("one hundred and five"); None if another word is among them."""
    total = part = 0
    for word in re.split(r"[ -]+", words.lower()):
        if word in _WORDS:
            part += _WORDS[word]
        elif word == "hundred":
            part = max(part, 1) * 100
        elif word in _WORD_SCALES:
            total, part = total + max(part, 1) * _WORD_SCALES[word], 0
        elif word != "and":
            return None
    return total + part


MAX_CHARACTERS = 1_000  # of a text that is looked at
MAX_DIGITS = 40  # of a numerator or denominator: beyond it nobody answers, and arithmetic gets slow
_MAX_EXPONENT = 30

_CHARACTERS = str.maketrans(
    {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u3000", " ")
    | dict.fromkeys("\u2212\ufe63\uff0d", "-")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad")  # print nothing: dropped
    | {"\uff0c": ",", "\uff0e": ".", "\uff0b": "+", "\uff0f": "/", "\u2044": "/", "\uff05": "%", "\uff04": "$"}
    | {"\u2019": "'", "\u2018": "'", "\ufe60": ","}
)
_VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5"}
_VULGAR |= {"⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}

_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_UNITS = (
    "kg|g|mg|km|m2|cm|mm|ml|cl|dl|l|lbs?|oz|ft|in|inch|inches|yd|yds|mi|miles?|mph|kmh|hrs?|h|mins?|secs?|s|"
    "dollars?|cents?|usd|eur|gbp|percent|pct"
)

# A sign counts only where nothing before it could make it a dash or an operation.
_NUMBER = re.compile(
    rf"""
    (?:(?<![\w.,'/^)\]+-])(?P<sign>[+-]|(?:minus|negative)[ ]))?
    (?P<currency>(?:US|A|C|NZ|S)?[$€£¥₹](?:[ ]|(?P<inner_sign>[+-]))?)?
    (?:
        (?P<whole>[0-9]+)[ ](?P<over>[0-9]+)/(?P<under>[0-9]+)
      | (?P<numerator>[0-9]+)[ ]?/[ ]?(?P<denominator>[0-9]+)
      | (?P<grouped>[1-9][0-9]{{0,2}}(?P<mark>[, '])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?![0-9])(?:\.[0-9]+)?)
      | (?P<plain>(?:[0-9]+(?:\.[0-9]+|\.(?![0-9]))?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?)
    )
    (?:[ ]?(?P<scale>hundred|thousand|million|billion|trillion)\b)?
    (?:[ ]?(?:{_UNITS}|m(?=[/^23])|(?<=[ ])(?P<meters>(?-i:m))(?!\w))(?:\^?[23])?(?!\w))?
    (?:/(?:{_UNITS}|day|week|month|year|hour|minute|second|person|item|each)\b)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
# What may not touch a number: it would be part of something else (x2, 1_000, 12:30, 3^2, 3-5, 5th, 3/4/2024, a#b).
_BEFORE = re.compile(r"[\w.,'/^]$|[0-9)\]][:*×÷=]$|[+-]\s*$")
_AFTER = re.compile(r"[\w/^+-]|[.,':*×÷=][0-9]|[ ]?[$€£¥₹]?[ ]?(?:[kKmMbB](?![/^])|bn|mn|tn)\b|[ ][0-9]")
_DASH_AT_NUMBER = re.compile(r"[–—‒‑]\s*[$€£¥₹]?[.0-9]|[0-9][–—‒‑]")  # a sign, a range, or a dash
# What stands between a number and itself where it is stated again; never `*`, `and`, or a unit alone.
_RESTATED = re.compile(
    r"^[^()]*\s\(|=|[.;:!?]\s|\n|\b(?:is|are|so|thus|hence|therefore|answer|equals?|namely|i\.e|that)\b", re.IGNORECASE
)
# Words and signs that make of a number something else than an answer: bounds, guesses, denials, alternatives, parts.
_OTHER_WORDS = re.compile(
    r"\b(?:not|never|neither|nor|or|about|around|approx(?:imately)?|roughly|almost|nearly|circa|between|"
    r"(?:less|more|fewer|greater|other|rather)\s+than|at\s+(?:least|most)|up\s+to|cannot|"
    r"hal(?:f|ves)|quarters?|thirds?|fourths?|fifths?|tenths?|hundredths?|thousandths?|dozens?|"
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|"
    r"ninety|twice|thrice|double|triple|point|plus|below|no|false|wrong|incorrect|"
    r"lakhs?|crores?|minus|negative|squared|cubed|infinity|nan)\b|n't\b|hundred|thousand|(?:m|b|tr)illion|[<>≤≥≠±~≈√∞]|\\[dt]?frac|\\sqrt",
    re.IGNORECASE,
)


def read_number(text: str) -> str | None:
    """Return the one number that `text` states as the text of an exact fraction ("18", "-7/2"), or None.

    Units, currencies and a sentence around it are skipped ("The answer is $1,234.50."). A text without a numeral, with
    two different numbers, with one that can be read in two ways, or with the same one twice that is not just stated
    again ("12 * 12", "2 hours 2 minutes") is None; so is one of more than 1,000 characters or of more than 40 digits.
    Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    plain = _plain(text)
    if plain is None:
        return None
    plain, words = without_words(plain)
    values: set[Fraction] = set()
    rest: list[str] = []
    end = 0
    for numeral in _NUMBER.finditer(plain):
        value = _value(numeral)
        touched = _BEFORE.search(plain, max(0, numeral.start() - 4), numeral.start()) or _AFTER.match(
            plain, numeral.end()
        )
        if value is None or touched:
            return None
        gap = plain[end : numeral.start()]
        if rest and not _RESTATED.search(gap):
            return None
        values.add(value)
        rest.append(gap)
        end = numeral.end()
    rest.append(plain[end:])
    if len(values) != 1 or _OTHER_WORDS.search(" # ".join(rest)):
        return None
    number = values.pop()
    return str(number) if words <= {number} else None


def _plain(text: str) -> str | None:
    """Return the text with one spelling of digits, spaces, signs and fractions; None if it has other numerals."""
    for sign, fraction in _VULGAR.items():
        if sign in text:
            text = re.sub(rf"(?<=[0-9]) ?{sign}", f" {fraction}", text).replace(sign, fraction)
    text = re.sub("(?<=[a-zA-Z])[²³]", lambda power: "^2" if power[0] == "²" else "^3", text)
    text = text.translate(_CHARACTERS).strip()
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    text = text.strip()
    foreign = any(not c.isascii() and unicodedata.category(c) in ("Nd", "Nl", "No", "Cf") for c in text)
    return None if foreign or _DASH_AT_NUMBER.search(text) else text


def _value(numeral: re.Match[str]) -> Fraction | None:
    """Return what one match of `_NUMBER` is worth; None if it is too large, or no number after all."""
    part = numeral.groupdict()
    if (part["sign"] and part["inner_sign"]) or (part["currency"] and part["meters"]):
        return None
    if part["whole"]:
        over, under = int(part["over"]), int(part["under"])
        if over >= under:
            return None
        value = int(part["whole"]) + Fraction(over, under)
    elif part["numerator"]:
        if not int(part["denominator"]):
            return None
        value = Fraction(int(part["numerator"]), int(part["denominator"]))
    elif part["grouped"]:
        value = Fraction(part["grouped"].replace(part["mark"], ""))
    else:
        if part["exponent"] and (len(part["exponent"]) > 4 or abs(int(part["exponent"])) > _MAX_EXPONENT):
            return None
        body, _, _ = part["plain"].lower().partition("e")
        value = Fraction(body.rstrip(".")) * Fraction(10) ** int(part["exponent"] or 0)
    value *= _SCALES[part["scale"].lower()] if part["scale"] else 1
    if (part["sign"] or part["inner_sign"] or "+").strip().lower() in ("-", "minus", "negative"):
        value = -value
    return value if max(abs(value.numerator), value.denominator) < 10**MAX_DIGITS else None


# As lm-evaluation-harness reads them


Reading = Literal["exact", "strict", "flexible"]

_MARK = "#### "
_STRICT = re.compile(r"-?[0-9.,]+")  # after the mark
FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")  # the last one
_IGNORED = re.compile(r"[,$]|\.$")
_HARNESS_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def read_as(reading: Reading, answer: str, argument: str) -> str | None:
    """Return the number that a reply gives, as the text of an exact fraction, or None. Never raises.

    The one that the answer states (`exact`), what it begins with (`strict`), or the last anywhere (`flexible`).
    """
    if reading == "exact":
        return read_number(answer)
    if reading == "strict":
        stated = _STRICT.match(answer.rpartition(_MARK)[2].strip())
        return None if stated is None else as_fraction(stated[0])
    every = FLEXIBLE.findall(f"{argument}\n{answer}")
    return as_fraction(every[-1]) if every else None


def as_fraction(text: str) -> str | None:
    """Return what the harness compares, without `,`, `$` and a period at the end, as a number."""
    text = _IGNORED.sub("", text)
    if len(text) > MAX_DIGITS or not _HARNESS_NUMBER.fullmatch(text):
        return None
    return str(Fraction(text.removesuffix(".")))
