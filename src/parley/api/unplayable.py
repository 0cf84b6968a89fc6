"""Studies that are looked at where they may not be playable: without weights, or without an entry of a model."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parley import paths
from parley.engine.models import ModelEntry, recorded_entry
from parley.errors import RecordError, UsageError
from parley.play.former import walk
from parley.play.record import peek_summary
from parley.study import Study, load_study


def load_to_read(study: str, root: Path, models_file: Path | None) -> Study:
    """Return a study in the folder `root`; what its models were is taken from its records where no entry tells it.

    Raises UsageError for a mistake in a file, or for a model that neither an entry nor a record describes.
    """
    with paths.rooted(root):
        found = _load(paths.study_file(study), models_file)
        for condition in found.conditions:
            condition.identity, condition.spec  # noqa: B018  # kept from here on: files that they hash lie in `root`
        return found


def _load(file: Path, models_file: Path | None) -> Study:
    try:
        return load_study(file, models_file, needs_weights=False)
    except UsageError:
        recorded = _recorded_entries(file.stem)
        if not recorded:
            raise
    return load_study(file, models_file, recorded, needs_weights=False)


def _recorded_entries(study: str) -> Mapping[str, ModelEntry]:
    """Return the models of a study's records by name, as the newest record of each that can be read describes them."""
    found: dict[str, tuple[str, ModelEntry]] = {}
    for record in _one_of_each_condition(study):
        try:
            summary = peek_summary(record)
            groups: Any = summary.simulation["groups"]
            entries = {g["model_name"]: recorded_entry(g["model"], g.get("grammar")) for g in groups if "model" in g}
            ended = str(summary.provenance.get("ended", ""))
        except (RecordError, ValidationError, LookupError, TypeError, AttributeError):
            continue
        for name, entry in entries.items():
            if isinstance(name, str) and (name not in found or found[name][0] < ended):
                found[name] = ended, entry
    return {name: entry for name, (_, entry) in found.items()}


def _one_of_each_condition(study: str) -> Iterator[Path]:
    """Yield the first record of each condition, those of former configurations too."""
    seen = set()
    for path in walk(paths.simulations(study)):
        if paths.is_record(path) and path.parent not in seen:
            seen.add(path.parent)
            yield path
