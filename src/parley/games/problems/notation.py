"""Ways to write the same number, brought into one before it is read: LaTeX, quotes, dashes, powers, calculations.

Each rule rewrites only what has one meaning; anything else is left for the reader, which then does not read it.
"""

import re

_WORDS = {
    **{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9},
    **{"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16},
    **{"seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50},
    **{"sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90},
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
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


def plainly(text: str) -> str:
    """Return a text with its numbers written in the usual way."""
    text = text.strip()
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    return text.strip()


def without_words(text: str) -> tuple[str, set[int]]:
    """Return a text without the number words in parentheses after its numerals ("18 (eighteen)"), and their values."""
    values: set[int] = set()

    def take(found: re.Match[str]) -> str:
        value = _worth(found[1])
        if value is None:
            return found[0]
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
        elif word in _SCALES:
            total, part = total + max(part, 1) * _SCALES[word], 0
        elif word != "and":
            return None
    return total + part
