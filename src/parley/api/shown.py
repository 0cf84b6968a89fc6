"""How objects show themselves: at most three lines in a terminal, a small table in a notebook.

Names and titles may come from anyone: they are cleaned, and escaped in HTML.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape

from parley.text import one_line

_WIDEST = 110  # characters


class Shown(ABC):
    """Something that shows a few facts of itself: the first in the heading."""

    @abstractmethod
    def _facts(self) -> Mapping[str, str]:
        """Return up to three facts by their names."""

    def __repr__(self) -> str:
        (kind, name), *others = _cleaned(self._facts()).items()
        lines = [f"{kind} {name}", *(f"  {key}: {value}" if key else f"  {value}" for key, value in others)]
        return "\n".join(line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..." for line in lines)

    def _repr_html_(self) -> str:
        (kind, name), *others = _cleaned(self._facts()).items()
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in others)
        heading = f'<tr><th colspan="2">{escape(kind)} {escape(name)}</th></tr>'
        return f'<table class="parley">{heading}{rows}</table>'


def _cleaned(facts: Mapping[str, str]) -> dict[str, str]:
    return {one_line(key, 100): one_line(value, 500) for key, value in facts.items()}
