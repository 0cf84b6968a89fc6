"""Axes: what a parameter's value is called in paths and tables, and what a user may write for it."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter, ValidationError

from parley.games.base import Game
from parley.text.yamlfile import plain


def axis_value(value: Any) -> Any:
    """Return a parameter's value as it stands in a path and in the tables; a label is what it is called there.

    What is returned is text or a number for all values that can be an axis.
    """
    value = getattr(value, "label", value)
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    if isinstance(value, bool):  # as YAML writes it
        return str(value).lower()
    if isinstance(value, Fraction):  # always text, so that an axis that mixes 1/2 and 2/3 has one type
        exact = str(float(value))
        return exact if Fraction(exact) == value else f"{value.numerator}_{value.denominator}"
    return value


def axes_text(axes: Mapping[str, Any]) -> str:
    """Return axes with their values for people: `model=majority, n=4`."""
    return ", ".join(f"{axis}={value}" for axis, value in axes.items())


def axis_names(game: type[Game], axis: str, text: str) -> set[str]:
    """Return what the value of an axis may be called in a path if a user writes `text` for it.

    `text` is that name, or the value as it stands in a study: `0.80`, `2/3`, `True`, `{kind: erdos_renyi, p: 0.5}`.
    """
    given = plain(text)
    names = {text, str(axis_value(given))}
    if axis in game.Parameters.model_fields:
        try:
            value = TypeAdapter(game.Parameters.model_fields[axis].rebuild_annotation()).validate_python(given)
        except ValidationError:  # no condition can have it
            return names
        names.add(str(axis_value(value)))
    return names
