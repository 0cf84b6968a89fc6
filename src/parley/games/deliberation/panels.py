"""Who deliberates, where not all agents do at a time."""

from collections.abc import Collection, Sequence

import numpy as np


class Panels:
    """Draws who deliberates: sets of `size` of the agents, one of them honest at least, with equal chances.

    None is drawn twice: a problem that hung goes to another set (Definition XI.2).
    """

    def __init__(self, names: Sequence[str], honest: Collection[str], size: int, rng: np.random.Generator) -> None:
        self._names = names
        self._honest = frozenset(honest)
        self._size = size
        self._rng = rng
        self._drawn: set[frozenset[str]] = set()

    def next(self) -> tuple[str, ...]:
        """Return another panel, in the agents' order; there must be one."""
        if self._size == len(self._names):
            return tuple(self._names)
        while True:
            places = self._rng.choice(len(self._names), self._size, replace=False)
            panel = tuple(self._names[place] for place in sorted(places))
            if self._honest.intersection(panel) and frozenset(panel) not in self._drawn:
                self._drawn.add(frozenset(panel))
                return panel
