"""Where the report's links lead: simulations in the explorer, and files to download; only to what is there."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley import paths
from parley.paths import pairs_link, simulations_link
from parley.study import Study
from parley.study.comparisons import Comparison

_BOTH = " -> "  # between the two values of an axis in a row of contrasts


class Links:
    """Addresses in the explorer of one study; all are "" where it has none and none is planned."""

    def __init__(self, study: Study, planned: bool = False) -> None:
        self.axes = study.axes
        self._first = study.first_time
        self.there = planned or paths.view_page(paths.view(study.name)).is_file()
        self.start = simulations_link({}) if self.there else ""

    def simulations(self, values: Sequence[Any], outcome: str | None = None) -> str:
        """Return the address of the simulations of a condition, by the values of its axes."""
        return simulations_link(dict(zip(self.axes, values, strict=True)) | self._first, outcome) if self.there else ""

    def contrast(self, row: Mapping[Any, Any]) -> str:
        """Return the address of the pairs that differ, of a row of the table `contrasts`; "" if it has none."""
        if not self.there or not row["pairs"]:
            return ""
        one: dict[str, Any] = {}
        other: dict[str, Any] = {}
        for axis in self.axes:
            first, _, second = str(row[axis]).partition(_BOTH)
            both = (row["from"], row["to"]) if axis == row["axis"] else (first, second or first)
            one[axis], other[axis] = both
        looked_at = (row["from"], row["to"]) if row["kind"] == "comparison" else (row["what"],)
        return pairs_link(one | self._first, other | self._first, *looked_at)

    def question(self, comparison: Comparison) -> list[tuple[str, str]]:
        """Return the address of the pairs that differ in each stratum of a question, with what tells it apart."""
        if not self.there:
            return []
        strata = comparison.strata
        apart = [axis for axis in self.axes if len({str(second.axes[axis]) for _, second in strata}) > 1]
        return [
            (
                ", ".join(f"{axis}={second.axes[axis]}" for axis in apart),
                pairs_link({**first.axes, **self._first}, {**second.axes, **self._first}, *comparison.outcomes),
            )
            for first, second in strata
        ]


def downloads(report: Path, files: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the kind and the address of those files that are there, relative to the report; of several, the name."""
    there = [file for file in files if file.is_file()]
    kinds = [file.suffix.removeprefix(".").upper() for file in there]
    return [
        (f"{kind} ({file.stem})" if kinds.count(kind) > 1 else kind, os.path.relpath(file, report.parent))
        for kind, file in zip(kinds, there, strict=True)
    ]
