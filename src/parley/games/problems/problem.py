"""One problem: its question, its right answer if it has one, and when two answers are the same."""

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from parley.games.problems.cards import is_card, matching_cards, normal_cards, read_cards
from parley.games.problems.numbers import read_number
from parley.policies.own_code import first_problem

MATCHING = "nfkc-casefold-v1"  # raised whenever the normal form of any text changes
MAX_CHARACTERS = 1_000  # of the text of a policy

# A list's bullet or number, quotes, and emphasis. "3 branches" and "-5 degrees" begin with no bullet.
_LEADING = re.compile(r"(?:[-–—+]\s+|[*•·‣◦▪#>\"'`“”„‘’«»]+\s*|\(?(?:\d{1,3}|[a-z])[.)]\s+|\(\d{1,3}\)\s*)")
_TRAILING = re.compile(r"[\s.,;:!?*\"'`“”‘’«»]+$")
_SPACES = re.compile(r"\s+")


def normal_policy(text: str) -> str:
    """Return the normal form of a policy's text; "" for one of nothing but marks, or of more than 1,000 characters.

    Unicode NFKC, casefold, white space collapsed, then without leading bullets, list numbers and quotes, and without
    trailing punctuation. The normal form of a normal form is itself. Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return ""
    while True:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        found = _SPACES.sub(" ", folded).strip()
        found = _TRAILING.sub("", found)
        if bullet := _LEADING.match(found):
            found = found[bullet.end() :]
        if found == text:
            fits = len(found) <= MAX_CHARACTERS  # NFKC makes some characters longer
            return found if fits and any(map(str.isalnum, found)) else ""
        text = found


Kind = Literal["number", "cards", "policies"]
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, config={"extra": "forbid"})
class Problem:
    """What a group deliberates; raises ValueError if its parts do not fit together.

    `question` is clean text, as agents are shown it. `answer` is the right answer in normal form, None for policies,
    among which none is right. `options` are the cards, or the policies as written, and empty for a number.
    """

    id: _Text
    kind: Kind
    question: _Text
    answer: str | None
    options: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> "Problem":
        if self.definitive != (self.answer is not None):
            raise ValueError("numbers and cards need an answer, policies have none")
        normal = self.options if self.definitive else [normal_policy(option) for option in self.options]
        enough = not normal if self.kind == "number" else len(normal) >= 2
        if "" in normal or len(set(normal)) < len(normal) or not enough:
            raise ValueError("the options must be at least two, and different ones; a number has none")
        if self.kind == "cards" and not all(map(is_card, self.options)):
            raise ValueError("the options must be cards")
        if self.answer is not None and self.read(self.answer) != self.answer:
            raise ValueError(f"the answer is not in normal form: {self.answer[:60]!r}")
        return self

    @property
    def definitive(self) -> bool:
        """Whether there is a right answer."""
        return self.kind != "policies"

    def read(self, text: str) -> str | None:
        """Return the normal form of what an agent wrote, or None if it cannot be read. Never raises.

        Of a number: an exact fraction; of cards: a selection; of policies: one of those offered.
        """
        return read_answer(self.kind, self.options, text)

    def read_policies(self, texts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the offered policies among `texts`, in normal form, sorted, each once; None if there is none.

        A text that is none of the offered policies is dropped: `unknown` counts those. Never raises.
        """
        found = {normal_policy(text) for text in texts} & self._policies()
        return tuple(sorted(found)) or None

    def unknown(self, texts: Sequence[str]) -> int:
        """Return how many of `texts` are none of the offered policies; every text counts."""
        offered = self._policies()
        return sum(normal_policy(text) not in offered for text in texts)

    def wrong(self, rng: np.random.Generator) -> str:
        """Return a plausible wrong answer in normal form; of policies, where none is wrong, one of them.

        A number: a near miss. Cards: what the rule names (the matching bias), or any other selection if that is right.
        """
        if self.kind == "policies":
            return _draw(sorted(self._policies()), rng)
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

    def _policies(self) -> set[str]:
        return _normal(self.options) if self.kind == "policies" else set()

    def _other_selections(self) -> list[str]:
        sizes = range(1, len(self.options) + 1)
        every = [normal_cards(chosen) for size in sizes for chosen in combinations(self.options, size)]
        return [selection for selection in every if selection != self.answer]


_JSON = TypeAdapter(Problem)


def read_answer(kind: Kind, options: Sequence[str], text: str) -> str | None:
    """Return the normal form of an answer to a problem of this kind, as `Problem.read` does."""
    if kind == "number":
        return read_number(text)
    if kind == "cards":
        return read_cards(text, options)
    found = normal_policy(text)
    return found if found in _normal(options) else None


def _normal(options: Sequence[str]) -> set[str]:
    return {normal_policy(option) for option in options}


def _draw(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


def _near_misses(answer: Fraction) -> list[str]:
    """Return answers that a slip leads to: off by one or ten, a step left out or made twice; of the same sign."""
    missed = {answer + step for step in (-10, -2, -1, 1, 2, 10)} | {answer * 2, answer / 2}
    likely = [value for value in missed if value != answer and (value < 0) == (answer < 0)]
    whole = [value for value in likely if value.denominator <= answer.denominator]
    # An answer as long as the reader allows has a sum that is longer.
    return [text for value in sorted(whole) if (text := str(value)) and read_number(text) == text]
