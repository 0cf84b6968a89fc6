"""What a study may set in the consensus game with `protocol: swarms`; `protocol.py` says what it does."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from parley.identity import digest
from parley.text import one_line

# What a study that does not say otherwise gets: the published code's.
SWARMS_DEFAULTS: Mapping[str, Any] = {
    "max_rounds": 10,
    "stop_threshold": "2/3",
    "history_rounds": 3,
    "task": "Agree on a confidence score from 0 to 50 for a deployment decision.",
}

NAMES, MISSING_VALUE, EARLY_VOTE = LEAKS = "names", "missing_value", "early_vote"


class Leaks(tuple[str, ...]):
    """The leaks of the published code that are there, in alphabetical order."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """As an axis' value: `none`, or the names with `+` between them."""
        return "+".join(self) or "none"


def _leaks(value: Any) -> Leaks:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) and name in LEAKS for name in given):
        raise ValueError(f"must be a list of some of: {', '.join(LEAKS)}")
    if len(set(given)) < len(given):
        raise ValueError("a leak is repeated; list it once")
    return Leaks(sorted(given))


LeakList = Annotated[
    Leaks,
    PlainValidator(_leaks),
    PlainSerializer(list, return_type=list),
    WithJsonSchema({"type": "array", "items": {"enum": list(LEAKS)}, "uniqueItems": True}),
]


class _Task(str):
    __slots__ = ()

    @property
    def label(self) -> str:
        """As an axis' value: its last two words; the beginning of its hash where these have no plain letters."""
        words = re.sub(r"[^a-z0-9]+", "-", " ".join(self.lower().split()[-2:])).strip("-")
        return words or f"task-{digest(str(self))[:6]}"

    @property
    def label_tells_all(self) -> bool:
        """Other tasks may be called the same."""
        return False


def _task(value: str) -> str:
    if value != one_line(value):
        raise ValueError("must be one line of printable text, with single spaces")
    return _Task(value)


Task = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_task)]
