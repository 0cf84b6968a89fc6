"""Simulations with known rates whose conditions share seeds, as rows of the table of simulations."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import scipy

from parley.analysis.stats import Floats

VALID = "valid_consensus"
AXES = ["model", "n", "b", "prompt"]


def condition(letters: Iterable[str], first: int = 0, **axes: Any) -> list[dict[str, Any]]:
    """Return simulations of one condition, y for a valid consensus and n for none, of seeds from `first` on."""
    return [
        {"model": "a", "n": 4, "b": 0, "prompt": "p", **axes, "seed": seed}
        | {"outcome": VALID if letter == "y" else "no_consensus"}
        for seed, letter in enumerate(letters, first)
    ]


class Drawn:
    """Conditions that are drawn one after the other: simulations of a seed share a normal number.

    `alike` is the correlation between simulations of a seed, on the scale of normal numbers.
    """

    def __init__(self, random: np.random.Generator, seeds: int, alike: float) -> None:
        self._random, self._alike = random, alike
        self._shared: Floats = random.normal(size=seeds)
        self._rows: list[dict[str, Any]] = []

    def play(self, rate: float, seeds: int | None = None, **axes: Any) -> None:
        """Add a condition that ends well at this rate."""
        shared = self._shared[:seeds]
        level = np.sqrt(self._alike) * shared + np.sqrt(1 - self._alike) * self._random.normal(size=shared.size)
        well = level < scipy.stats.norm.ppf(rate)
        self._rows += condition(("y" if each else "n" for each in well), **axes)

    @property
    def rows(self) -> pd.DataFrame:
        """All simulations."""
        return pd.DataFrame(self._rows)
