"""Means of shares by condition and place, such as a round or a threshold: what the tables of these are made of."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from parley.analysis.stats import wilson_of_mean
from parley.study import Study


class Averages:
    """The shares that simulations have at places, added up by condition."""

    def __init__(self, study: Study) -> None:
        self._axes = list(study.conditions[0].axes)
        self._conditions = study.conditions
        # Condition, then name and place -> number of values, and their sum.
        self._sums: dict[str, dict[tuple[str, Any], list[float]]] = {
            condition.path: defaultdict(lambda: [0, 0.0]) for condition in study.conditions
        }

    def add(self, condition: str, series: Mapping[str, Iterable[tuple[Any, float]]]) -> None:
        """Add one simulation of the condition with this path: by name, its (place, share in [0, 1]) points.

        Places are of one kind that can be sorted, such as numbers or names. One share at most counts for each name
        and place; NaN is none.
        """
        for name, points in series.items():
            for place, share in dict(points).items():
                if not math.isnan(share):
                    known = self._sums[condition][name, place]
                    known[0] += 1
                    known[1] += share

    @property
    def names(self) -> list[str]:
        """The names of all shares, in the order in which they came."""
        return list(dict.fromkeys(name for sums in self._sums.values() for name, _ in sums))

    def table(self, names: Iterable[str], name_column: str, place_column: str) -> pd.DataFrame:
        """Return a row per condition, one of `names` and place: axes, n, the mean in [0, 1] and its Wilson limits."""
        wanted = list(names)
        rows = [
            [*condition.axes.values(), name, place, *sums[name, place]]
            for condition in self._conditions
            for sums in [self._sums[condition.path]]
            for name in wanted
            for place in sorted(place for found, place in sums if found == name)
        ]
        table = pd.DataFrame(rows, columns=[*self._axes, name_column, place_column, "simulations", "mean"])
        table["mean"] = table["mean"].astype(float) / table["simulations"].astype(float)
        limits = wilson_of_mean(table["mean"].to_numpy(), table["simulations"].to_numpy(dtype=float))
        return table.assign(low=limits[0], high=limits[1])
