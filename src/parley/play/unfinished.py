"""What is counted of a study before it is finished: whole seeds, and where what is made of them lies."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from parley import paths
from parley.errors import RecordError, UsageError
from parley.play.pausing import paused_lines
from parley.play.record_store import read_own, without
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.study import Unfinished
from parley.text import counted


def finished_part(study: Study) -> Study:
    """Return a study with the simulations alone that count before all are played.

    Those are all of a condition that is finished. Of the others that are begun, a seed counts where all of them that
    the same models play have finished it: what one model plays does not wait for another. Games of a shard that is
    under way do not count, unless no shard of these models is finished; nor does the seed of a damaged record. That
    itself stays in the part: who reads it names it. Raises UsageError if nothing is missing, RecordError if nothing
    counts.
    """
    shards = study.shards()
    missing = {record for record in shards if not record.exists()}
    if not missing:
        raise UsageError(
            f"{study.name}: all of its {counted(len(shards), 'simulation')} are played; leave --unfinished out"
        )
    open_shards = {shards[record] for record in missing}
    damaged = _damaged(study, missing)
    unusable = missing | damaged
    models: dict[str, list[_OfCondition]] = defaultdict(list)
    for condition in study.conditions:
        records = {seed: Simulation(condition, seed).record(study.name) for seed in condition.seeds}
        if not missing.isdisjoint(records.values()):
            models[condition.engine].append(records)
    left: set[Path] = set()
    under_way = False
    for conditions in models.values():
        closed = _whole_seeds(conditions, lambda record: shards[record] not in open_shards and record not in damaged)
        found = closed or _whole_seeds(conditions, lambda record: record not in unusable)
        under_way |= bool(found) and not closed
        left |= {record for records in conditions for record in records.values()} - found
    left -= damaged
    number = len(shards) - len(left) - len(damaged)
    if not number:
        there = len(shards) - len(missing)
        why = "nothing is played yet" if not there else "no seed is finished in all conditions that are begun"
        why = "; ".join([why, *paused_lines(study.name)])
        raise RecordError(
            f"{study.name}: {there} of {counted(len(shards), 'simulation')} are played: {why}; "
            f"games can be read as they are played: parley view {paths.study_command(study.file)} --serve"
        )
    known = Unfinished(study, number, len(left - missing), under_way, len(damaged))
    return replace(without(study, left), unfinished=known)


def _damaged(study: Study, missing: Collection[Path]) -> set[Path]:
    """Return the records that are there and cannot be used."""
    found = set()
    for simulation in study.simulations():
        path = simulation.record(study.name)
        if path not in missing:
            try:
                read_own(path, simulation)
            except RecordError:
                found.add(path)
    return found


_OfCondition = Mapping[int, Path]  # its records by seed


def _whole_seeds(conditions: Sequence[_OfCondition], is_there: Callable[[Path], bool]) -> set[Path]:
    """Return the records of the seeds that are there in all of the conditions of which anything is."""
    seeds: dict[int, list[Path]] = defaultdict(list)
    for records in conditions:
        if any(map(is_there, records.values())):
            for seed, record in records.items():
                seeds[seed].append(record)
    return {record for of in seeds.values() if all(map(is_there, of)) for record in of}


def require_finished(study: Study) -> None:
    """Raise RecordError if simulations are missing: one line that says how many there are, and how to look at them."""
    records = [simulation.record(study.name) for simulation in study.simulations()]
    there = sum(record.exists() for record in records)
    if there < len(records):
        named = paths.study_command(study.file)
        look = f", or look at these: parley report {named} --unfinished" if there else ""
        raise RecordError(
            f"{study.name}: {there} of {counted(len(records), 'simulation')} are played; run it to its end{look}"
        )


@contextmanager
def unfinished_part(study: Study) -> Iterator[Study]:
    """Within it, what is made of the part that it gives (see `finished_part`) lies in a folder of its own, emptied."""
    part = finished_part(study)
    forget_unfinished(study.name)
    with paths.of_unfinished():
        yield part


def forget_unfinished(study: str) -> None:
    """Remove what was made of a study before it was finished: it is out of date."""
    shutil.rmtree(paths.unfinished(study), ignore_errors=True)
