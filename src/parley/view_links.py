"""Addresses of the explorer's views of a study, for marks in figures and rows of the report: what a number is made of.

They are relative: figures and the report lie in folders beside that of the explorer.
"""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

_PAGE = "../view/index.html#/"

Axes = Mapping[str, object]  # a value for each axis that is to be fixed


def simulations_link(axes: Axes, outcome: str | None = None) -> str:
    """Return the address of the list of simulations that have these values of axes, and ended so if `outcome` says."""
    return _address("", _fixed("axis", axes) | ({} if outcome is None else {"outcome": outcome}))


def pairs_link(a: Axes, b: Axes, outcome: str, other: str | None = None) -> str:
    """Return the address of the pairs of two conditions that differ in an outcome, an indicator or a quantity.

    If another one is looked at in the second condition, `other` names it.
    """
    two = {} if other in (None, outcome) else {"outcome.b": other}
    return _address("pairs", _fixed("a", a) | _fixed("b", b) | {"outcome": outcome} | two)


def single_link(simulation: str) -> str:
    """Return the address of one simulation, by its id."""
    return _address(f"game/{quote(simulation, safe='')}", {})


def _fixed(prefix: str, axes: Axes) -> dict[str, str]:
    return {f"{prefix}.{axis}": str(value) for axis, value in axes.items()}


def _address(view: str, chosen: Mapping[str, str]) -> str:
    return f"{_PAGE}{view}" + (f"?{urlencode(chosen, quote_via=quote)}" if chosen else "")
