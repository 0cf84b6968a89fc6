"""Makes help texts and docstrings readable as reStructuredText: examples as code, `words` as literals."""

import re
from typing import Any

_WORD = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LABEL = re.compile(r"^Examples?:\s+")


def literals(lines: list[str]) -> None:
    """Make `words` in single backticks literals, in place."""
    lines[:] = [_WORD.sub(r"``\1``", line) for line in lines]


def as_rst(app: Any, context: Any, lines: list[str]) -> None:
    """Change the lines that sphinx-click made of a help text, in place.

    Lines whose breaks are kept (`| ...`) are examples; all are put into one block of code.
    """
    changed: list[str] = []
    for line in lines:
        if not line.startswith("| "):
            changed.append(_WORD.sub(r"``\1``", line))
            continue
        code = line[2:]
        if not changed or not changed[-1].startswith("    "):
            changed += ["Examples::" if _LABEL.match(code) else "::", ""]
        changed.append("    " + _LABEL.sub("", code).strip())
    lines[:] = changed
