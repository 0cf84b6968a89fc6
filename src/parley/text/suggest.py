"""What an error says of a misspelled name: the one that was meant, if it is close to one, and those there are."""

import difflib
from collections.abc import Iterable

from parley.text import one_line

_MAX = 300  # characters of a list


def meant(written: object, known: Iterable[str], close_by: float = 0.6) -> str | None:
    """Return which of `known` was meant, in any case; None if none is close, from 0 to 1."""
    by_lower = {name.lower(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(str(written)[:200].lower(), by_lower, n=1, cutoff=close_by)
    return by_lower[close[0]] if close else None


def choose(written: object, known: Iterable[str], installed: Iterable[str] = ()) -> str:
    """Return the remedy for a value that is none of `known`: "did you mean 'x'? choose one of: x, y"."""
    names, others = list(known), list(installed)
    close = meant(written, [*names, *others])
    remedy = f"choose one of: {one_line(', '.join(names), _MAX)}" if names else "there is none"
    if others:
        remedy += f", or of those installed: {one_line(', '.join(others), _MAX)}"
    return f"did you mean {close!r}? {remedy}" if close else remedy
