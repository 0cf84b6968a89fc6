"""The hung set: which problems were given up, and by whom (Definitions XI.2 and XI.7)."""

from collections.abc import Collection, Iterator, Sequence
from math import comb

import numpy as np


class HungSet:
    """The problems that hung, with every set of agents that hung them."""

    def __init__(self) -> None:
        self._by_problem: dict[str, set[frozenset[str]]] = {}

    def add(self, problem: str, agents: Collection[str]) -> None:
        """Enter a problem that these agents could not agree on; raises ValueError if they might not have tried."""
        if not self.admits(problem, agents):
            raise ValueError(f"{problem} was deliberated again by the agents that hung it")
        self._by_problem.setdefault(problem, set()).add(frozenset(agents))

    def admits(self, problem: str, agents: Collection[str]) -> bool:
        """Return whether these agents may deliberate on the problem: it never hung, or it hung with other sets."""
        return frozenset(agents) not in self._by_problem.get(problem, set())


class Panels:
    """Draws who deliberates: sets of `size` of the agents, one of them honest at least, with equal chances."""

    def __init__(self, names: Sequence[str], honest: Collection[str], size: int, rng: np.random.Generator) -> None:
        self._names = names
        self._honest = frozenset(honest)
        self._size = size
        self._rng = rng

    def next(self, problem: str, hung: HungSet) -> tuple[str, ...]:
        """Return another panel that may deliberate on the problem, in the agents' order.

        There must be one: `panels` counts them.
        """
        if self._size == len(self._names):
            return tuple(self._names)
        return next(panel for panel in self._drawn() if hung.admits(problem, panel) and self._honest & {*panel})

    def _drawn(self) -> Iterator[tuple[str, ...]]:
        while True:
            places = self._rng.choice(len(self._names), self._size, replace=False)
            yield tuple(self._names[place] for place in sorted(places))


def panels(honest: int, byzantine: int, size: int) -> int:
    """Return how many sets of `size` agents there are with at least one honest one."""
    return comb(honest + byzantine, size) - comb(byzantine, size)
