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
from parley.errors import RecordError
from parley.identity import canonical_json
from parley.play.record import peek_summary
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text.yamlfile import is_slug

_NAME = re.compile(r"seed=(0|[1-9][0-9]{0,8})(\.parquet|\.jsonl)")
_SPEC = re.compile(r"spec=[0-9a-f]{8}")
_OF_ONE = ("id", "seed", "material")  # what tells the simulations of a condition apart
_MAX_TRIED = 20  # records of one configuration that are of no simulation: those after them are not either


@dataclass
class Configuration:
    """What the records of one condition, as it was when they were played, have in common."""

    described: Mapping[str, Any]
    conditions: list[Condition] = field(default_factory=list)  # of the study as it is now; none if it changed
    tried: int = 0  # records that are of no simulation of the study


@dataclass(frozen=True)
class Described:
    """What a record says it is."""

    id: str
    seed: int
    configuration: Configuration


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
        self.planned = {c.place: c for c in study.conditions}
        self.places: dict[str, Place] = {}
        for root, is_journals in ((paths.simulations(study.name), False), (paths.journals(study.name), True)):
            for path in walk(root):
                self._add(path, root, is_journals)
        self._ids: dict[int, dict[str, list[Condition]]] = {}
        self._configurations: dict[str, Configuration] = {}
        self._described: dict[Path, Described | None] = {}

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
        place = self.places.get(simulation.condition.place)
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

    def former_name(self) -> str | None:
        """Return the name of results that may be of this study, whose file had another name; None if there are none.

        Looked for only if the study has no results. One record tells it, of results whose study file is gone: from
        config/ and from the folder of this one.
        """
        if self.places or not paths.RESULTS.is_dir():
            return None
        for folder in sorted(paths.RESULTS.iterdir()):
            name = folder.name
            files = [self.study.file.with_name(f"{name}{suffix}") for suffix in (".yaml", ".yml")]
            if not is_slug(name) or any(file.exists() for file in (paths.study_file(name), *files)):
                continue
            record = next((path for path in walk(paths.simulations(name)) if paths.is_record(path)), None)
            described = None if record is None else self.read(record)
            if described is not None and described.configuration.conditions:
                return name
        return None

    def read(self, path: Path) -> Described | None:
        """Return what a record says it is; None for what cannot be read. Each file is read once."""
        if path not in self._described:
            self._described[path] = self._read(path)
        return self._described[path]

    def was_read(self, path: Path) -> bool:
        """Whether `read` knows a file already."""
        return path in self._described

    def _read(self, path: Path) -> Described | None:
        try:
            found = peek_summary(path).simulation
            common = {key: value for key, value in found.items() if key not in _OF_ONE}
            name = canonical_json(common)
        except (RecordError, ValueError, RecursionError):
            return None
        configuration = self._configurations.setdefault(name, Configuration(common))
        if not configuration.conditions and configuration.tried < _MAX_TRIED:
            configuration.conditions = self.conditions_of(found["id"], found["seed"])
            configuration.tried += 1
        return Described(found["id"], found["seed"], configuration)


def is_place(path: Path) -> bool:
    """Whether a path ends as that of a record or a journal of a simulation does."""
    return _NAME.fullmatch(path.name) is not None and _SPEC.fullmatch(path.parent.name) is not None


def walk(root: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder itself, in order; links to folders are not followed."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (Path(folder, name) for name in sorted([*names, *links]))
