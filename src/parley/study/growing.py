"""Seeds that grow until an interval is narrow enough: how many a condition has, as decided so far.

What decides is `parley.analysis.precision`; here a study reads what was decided, so that each of its jobs, and whoever
looks at its results, sees an ordinary study with that many seeds.
"""

import json
import os
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from parley import paths
from parley.files import read_regular, write_atomically
from parley.text.yamlfile import FileModel

_MAX_BYTES = 10_000_000
_Number = Annotated[int, Field(strict=True, ge=1, le=10_000)]


class Until(FileModel):
    """How precise is precise enough: about the width alone, never about a p value."""

    outcome: str = Field(description="An outcome of the game.")
    width: float = Field(gt=0.0, lt=1.0, description="Widest 95% Wilson interval of its rate that is narrow enough.")


class GrowingSeeds(BaseModel):
    """Seeds 0, 1, ... of each condition: `start` at first, `by` more at a time, until it is precise enough or `to`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    start: _Number = Field(alias="from", description="Seeds that every condition gets.")
    by: _Number = Field(description="Seeds that are added at a time.")
    to: _Number = Field(description="Most seeds of a condition.")
    until: Until = Field(description="When a condition has enough.")

    @model_validator(mode="after")
    def _in_order(self) -> "GrowingSeeds":
        if self.to < self.start:
            raise ValueError(f"to is {self.to}, which is below from ({self.start}); raise it")
        return self

    def next_after(self, number: int) -> int:
        """Return the number of seeds that follows `number`."""
        return min(self.to, number + self.by)

    def step(self, number: int) -> int:
        """Return the smallest number of seeds, of those that can be, that is at least `number`."""
        steps = max(0, -(-(number - self.start) // self.by))
        return min(self.to, self.start + steps * self.by)


def decided(study: str) -> Mapping[str, int]:
    """Return the numbers of seeds that were decided, by the place of each condition (path and spec); none if none."""
    try:
        found = json.loads(read_regular(paths.seeds(study), _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return {place: n for place, n in found.items() if type(n) is int} if isinstance(found, dict) else {}


def decide(study: str, numbers: Mapping[str, int]) -> None:
    """Write what is decided; raises RecordError if the disk refuses."""
    text = json.dumps(dict(numbers), indent=1) + "\n"
    write_atomically(paths.seeds(study), methodcaller("write", text.encode()))


def on_disk(folder: Path) -> int:
    """Return the number of seeds, from 0 on, that the records in a folder are of: one more than the largest."""
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    numbers = [name.removeprefix("seed=").removesuffix(".parquet") for name in names if paths.is_record(folder / name)]
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
