"""How a number is read out of a reply: ours, or as lm-evaluation-harness reads GSM8K (its tasks gsm8k and gsm8k_cot).

The harness reads one free text. Our replies have an argument and an answer apart, so the answer stands for what comes
after the harness's mark (`#### ` or `The answer is `), and a reply is its argument and then its answer.
"""

import re
from fractions import Fraction
from typing import Literal, get_args

from parley.games.problems.numbers import MAX_DIGITS, read_number

Reading = Literal["exact", "strict", "flexible"]
READINGS: tuple[Reading, ...] = get_args(Reading)
OF_THE_HARNESS: tuple[Reading, ...] = ("strict", "flexible")

_MARK = "#### "
_STRICT = re.compile(r"-?[0-9.,]+")  # after the mark
_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")  # the last one
_IGNORED = re.compile(r"[,$]|\.$")
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def read_as(reading: Reading, answer: str, argument: str = "") -> str | None:
    """Return the number that a reply gives, as the text of an exact fraction, or None. Never raises.

    `exact` is the one number that the answer states (`read_number`). `strict` is what the answer begins with, whatever
    comes after it. `flexible` is the last number of the argument and the answer, wherever it stands.
    """
    if reading == "exact":
        return read_number(answer)
    if reading == "strict":
        found = _STRICT.match(answer.rpartition(_MARK)[2].strip())
        return None if found is None else _normal(found[0])
    every = _FLEXIBLE.findall(f"{argument}\n{answer}")
    return _normal(every[-1]) if every else None


def _normal(text: str) -> str | None:
    """Return what the harness compares, without `,`, `$` and a period at the end, as a number."""
    text = _IGNORED.sub("", text)
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    return str(Fraction(text.removesuffix(".")))
