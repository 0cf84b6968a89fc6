"""What lies under the results of a study at paths that the study as it is now does not have.

A path names the axes and the spec of a condition, and both follow from the study file: a new axis, or another name of
a model, moves the path of a simulation and changes nothing else of it. Its id stays, and records and journals have it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from parley import paths
from parley.condition import Condition, Simulation
from parley.errors import RecordError
from parley.journal import journal_id
from parley.record import read_description
from parley.study import Study

_NAME = re.compile(r"seed=(0|[1-9][0-9]{0,8})(\.parquet|\.jsonl)")
_SPEC = re.compile(r"spec=[0-9a-f]{8}")


@dataclass
class Place:
    """The files of one condition, by seed: records, their second names, and journals."""

    folder: str  # axis=value/.../spec=hash, below the folders of records and of journals
    records: dict[int, Path] = field(default_factory=dict)
    kept: dict[int, Path] = field(default_factory=dict)
    journals: dict[int, Path] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the finished simulations."""
        return sorted({*self.records, *self.kept})


class Survey:
    """One walk over the records and journals of a study; nothing is read before it is asked for."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.planned = {f"{c.path}/spec={c.spec}": c for c in study.conditions}
        self.places: dict[str, Place] = {}
        for root, is_journals in ((paths.simulations(study.name), False), (paths.journals(study.name), True)):
            for path in walk(root):
                self._add(path, root, is_journals)
        self._ids: dict[int, dict[str, list[Condition]]] = {}
        self._described: dict[str, Mapping[str, Any] | None] = {}

    def _add(self, path: Path, root: Path, is_journals: bool) -> None:
        name = _NAME.fullmatch(path.name)
        if name is None or not _SPEC.fullmatch(path.parent.name):
            return
        folder = path.parent.relative_to(root).as_posix()
        place = self.places.setdefault(folder, Place(folder))
        if name[2] == ".jsonl":
            if is_journals:
                place.journals[int(name[1])] = path
        else:
            (place.kept if is_journals else place.records)[int(name[1])] = path

    @cached_property
    def former(self) -> list[Place]:
        """The places that no condition of the study has, by name."""
        return [self.places[folder] for folder in sorted(set(self.places) - set(self.planned))]

    def is_finished(self, simulation: Simulation) -> bool:
        """Whether a simulation of the study has its record, under one of its two names."""
        place = self.places.get(f"{simulation.condition.path}/spec={simulation.condition.spec}")
        return place is not None and (simulation.seed in place.records or simulation.seed in place.kept)

    def missing(self) -> Iterator[Simulation]:
        """Yield the simulations of the study that have no record at their path."""
        return (simulation for simulation in self.study.simulations() if not self.is_finished(simulation))

    def conditions_of(self, identity: str, seed: int) -> list[Condition]:
        """Return the conditions that a simulation belongs to by its id, whether or not they have this seed.

        There may be several: two entries of models.yaml may be the same but for their names.
        """
        if seed not in self._ids:
            found: dict[str, list[Condition]] = {}
            for condition in self.study.conditions:
                found.setdefault(Simulation(condition, seed).id, []).append(condition)
            self._ids[seed] = found
        return self._ids[seed].get(identity, [])

    def match(self, place: Place) -> list[Condition]:
        """Return the conditions that a former place belongs to; none for those of a former configuration.

        One file that can be read tells it: all files of a folder are of one condition.
        """
        if (described := self.described(place)) is not None:
            return self.conditions_of(described["id"], described["seed"])
        for seed, path in place.journals.items():
            if (identity := journal_id(path)) is not None:
                return self.conditions_of(identity, seed)
        return []

    def described(self, place: Place) -> Mapping[str, Any] | None:
        """Return what the first record of a place that can be read says of its simulation; None if there is none."""
        if place.folder not in self._described:
            files = [*place.records.values(), *place.kept.values()]
            readable = (found for path in files if (found := description(path)) is not None)
            self._described[place.folder] = next(readable, None)
        return self._described[place.folder]


def walk(root: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder itself, in order; links to folders are not followed."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (Path(folder, name) for name in sorted([*names, *links]))


def description(path: Path) -> Mapping[str, Any] | None:
    """Return what a record says of its simulation; None if it is no record that can be read."""
    try:
        return read_description(path)
    except RecordError:
        return None
