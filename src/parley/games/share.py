"""Shares that a study writes as a number or as a fraction, and that are compared exactly."""

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

# Short, so that nobody's exponent makes an integer of a billion digits.
_SHARE = re.compile(r"-?\d{1,9}(\.\d{1,40})?(e-\d{1,2})?|-?\d{1,9}\s*/\s*\d{1,9}")


def _exact_share(value: Any) -> Fraction:
    """Read 0.66, "0.66" or "2/3" as the exact number that is written there."""
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    plain = isinstance(value, int | float | str) and not isinstance(value, bool) and _SHARE.fullmatch(text)
    try:
        if plain:
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise ValueError("must be a number or a fraction like '2/3'")


_READ = BeforeValidator(_exact_share)
_WRITTEN = PlainSerializer(str, return_type=str)

# A share in (0, 1].
Share = Annotated[
    Fraction,
    _READ,
    Field(gt=0, le=1),
    _WRITTEN,
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"type": "string"}]}),
]
# A share in [0, 1].
ShareOrNone = Annotated[
    Fraction,
    _READ,
    Field(ge=0, le=1),
    _WRITTEN,
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string"}]}),
]
