"""The records of a study that can be used, and the table of all axes by `spec`.

What is damaged is named and left out, and the rest goes on. A record that is not there is another matter: the study is
not finished.
"""

import json
import logging
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.errors import MissingRecordError, RecordError, UsageError
from parley.files import forget_done, mark_done, read_regular, sha256, write_atomically
from parley.forked import forked_map
from parley.identity import canonical_json, digest
from parley.play.degenerate import paused_lines
from parley.play.parquet import packed_array
from parley.play.record import Summary, read_summary
from parley.play.record_content import outcome_problem
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.study.study import Unfinished
from parley.text import counted

_log = logging.getLogger(__name__)

_MAX_NAMED = 20
_PIECE = 250  # records that a process reads at once
_MAX_MARK_BYTES = 100_000_000
_OF_CONDITIONS = b"parley.conditions"
_OWN_COLUMNS = ("spec", "repeat", "players", "identity")


@dataclass(frozen=True)
class UsableRecords:
    """The simulations of a study whose records can be used, with their summaries; the others by what is wrong."""

    study: Study  # with these simulations alone
    simulations: Sequence[Simulation]
    summaries: Sequence[Summary]
    left_out: Mapping[Path, str]

    @cached_property
    def first_repeat(self) -> "UsableRecords":
        """Those of `Study.first_repeat`; what is left out stays."""
        first = self.study.first_repeat
        return self if first is self.study else _usable(first, self._by_path, self.left_out)

    def without(self, problems: Mapping[Path, str], strict: bool = False) -> "UsableRecords":
        """Leave out more of them, and warn of each; raises RecordError if none is left, or if `strict`."""
        if strict or len(problems) == len(self.simulations):
            raise RecordError(next(iter(problems.values())))
        for problem in problems.values():
            _log.warning("left out: %s", problem)
        return _usable(without(self.study, problems), self._by_path, {**self.left_out, **problems})

    @property
    def _by_path(self) -> Mapping[Path, Summary]:
        records = (simulation.record(self.study.name) for simulation in self.simulations)
        return dict(zip(records, self.summaries, strict=True))

    def notes(self) -> Iterator[str]:
        """Yield a line for each record that is left out, and what to do."""
        for problem in list(self.left_out.values())[:_MAX_NAMED]:
            yield f"left out: {problem}"
        if len(self.left_out) > _MAX_NAMED:
            yield f"left out: {len(self.left_out) - _MAX_NAMED} more"
        if self.left_out:
            number = len(self.left_out)
            yield f"left out: {number:,} of {counted(number + len(self.summaries), 'record')}; {_AGAIN}"


_AGAIN = "delete the named files and run the study again"


def _usable(study: Study, by_path: Mapping[Path, Summary], left_out: Mapping[Path, str]) -> UsableRecords:
    """Return the records of a study that has no others, in its order: tables have a row per condition as they come."""
    simulations = list(study.simulations())
    return UsableRecords(study, simulations, [by_path[each.record(study.name)] for each in simulations], left_out)


def read_records(
    study: Study, strict: bool = False, reported: Collection[Path] = (), processes: int = 1
) -> UsableRecords:
    """Return the records of a study that can be used, and warn of each that cannot and is not among those `reported`.

    So many processes read them. Raises RecordError naming the records if some are missing, if none can be used, or,
    with `strict`, if any cannot.
    """
    usable: dict[Path, Summary] = {}
    missing: list[str] = []
    left_out: dict[Path, str] = {}
    wanted = list(study.simulations())
    pieces = [wanted[at : at + _PIECE] for at in range(0, len(wanted), _PIECE)]
    read = chain.from_iterable(forked_map(partial(_read_piece, study.name), pieces, processes))
    for simulation, found in zip(wanted, read, strict=True):
        path = simulation.record(study.name)
        if isinstance(found, Summary):
            usable[path] = found
        elif isinstance(found, MissingRecordError):
            missing.append(str(found))
        else:
            left_out[path] = str(found)
    if missing or not usable or (strict and left_out):
        problems = [*missing, *left_out.values()]
        named = paths.study_command(study.file)
        if len(missing) == len(wanted):
            raise RecordError(
                f"{study.name}: none of its {counted(len(wanted), 'simulation')} is played; run: parley run {named}"
            )
        more = f" (and {len(problems) - 1:,} more: {_names(problems[1:])})" if len(problems) > 1 else ""
        there = f"; what is there so far: parley report {named} --unfinished" if missing and usable else ""
        raise RecordError(problems[0] + more + there)
    records = _usable(without(study, left_out), usable, left_out)
    news = {path: problem for path, problem in left_out.items() if path not in reported}
    for note in replace(records, left_out=news).notes():
        _log.warning("%s", note)
    return records


def _read_piece(study: str, simulations: Sequence[Simulation]) -> list[Summary | RecordError]:
    """Return the summaries of some records, or why they cannot be used; what is alike in them is one object."""
    known: dict[str, Any] = {}

    def shared(content: Mapping[str, Any]) -> dict[str, Any]:
        return {sys.intern(key): known.setdefault(repr(value), value) for key, value in content.items()}

    found: list[Summary | RecordError] = []
    for simulation in simulations:
        try:
            summary = read_own(simulation.record(study), simulation)
        except RecordError as error:
            found.append(error)
        else:
            outcome = {**shared(summary.outcome), "metrics": shared(summary.outcome["metrics"])}
            parts = (summary.simulation, summary.telemetry, summary.provenance)
            own, telemetry, provenance = (shared(part) for part in parts)
            found.append(replace(summary, simulation=own, outcome=outcome, telemetry=telemetry, provenance=provenance))
    return found


def read_own(path: Path, simulation: Simulation) -> Summary:
    """Return the summary of the record of a simulation; raises RecordError, also if it is not of a game of it."""
    summary = read_summary(path)
    require_own(path, simulation, summary)
    return summary


def require_own(path: Path, simulation: Simulation, summary: Summary) -> None:
    """Raise RecordError unless a record is of a simulation, and its outcome one that a game of it can have."""
    if summary.simulation["id"] != simulation.id:
        raise RecordError(f"{path}: holds another simulation; move it away")
    if problem := outcome_problem(simulation.condition, summary.outcome):
        raise RecordError(impossible_outcome_text(path, problem))


def impossible_outcome_text(path: Path, problem: str) -> str:
    """Return in a line that a record is of no game that can be played."""
    return f"{path}: its outcome or trace is of no game ({problem}); delete it and run the study again"


def without(study: Study, left_out: Collection[Path]) -> Study:
    """Return a study without the simulations of some records; conditions of which nothing is left go, too."""
    if not left_out:
        return study

    def seeds(condition: Condition) -> tuple[int, ...]:
        of = (Simulation(condition, seed) for seed in condition.seeds)
        return tuple(simulation.seed for simulation in of if simulation.record(study.name) not in left_out)

    kept = [(condition, seeds(condition)) for condition in study.conditions]
    return replace(study, conditions=tuple(replace(condition, seeds=own) for condition, own in kept if own))


def _names(problems: Sequence[str]) -> str:
    shown = ", ".join(problem.split(": ")[0] for problem in problems[:3])
    return shown + (", ..." if len(problems) > 3 else "")


# What is counted of a study before it is finished: whole seeds, and where what is made of them lies


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
    there = ((simulation.record(study.name), simulation) for simulation in study.simulations())
    damaged = {path for path, simulation in there if path not in missing and not _is_usable(path, simulation)}
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
        played = len(shards) - len(missing)
        why = "nothing is played yet" if not played else "no seed is finished in all conditions that are begun"
        why = "; ".join([why, *paused_lines(study.name)])
        raise RecordError(
            f"{study.name}: {played} of {counted(len(shards), 'simulation')} are played: {why}; "
            f"games can be read as they are played: parley view {paths.study_command(study.file)} --serve"
        )
    known = Unfinished(study, number, len(left - missing), under_way, len(damaged))
    return replace(without(study, left), unfinished=known)


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


# What the paths of records do not say


def write_conditions(study: Study) -> None:
    """Write the table of the conditions of a study, for plain readers to join on `spec`, unless it is there.

    A row per condition: its spec and identity, all axes, `repeat` where seeds are played again, what plays, and every
    parameter that is no axis. Lists and mappings are JSON text. Raises RecordError if the disk refuses.
    """
    path = paths.conditions(study.name)
    key = digest([[condition.name, condition.folder] for condition in study.conditions]).encode()
    with suppress(OSError, pa.ArrowException):  # none, or none of ours
        if (pq.read_schema(path).metadata or {}).get(_OF_CONDITIONS) == key:
            return
    rows = [_condition_row(condition) for condition in study.conditions]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [_plain([row.get(name) for row in rows]) for name in names]
    table = pa.Table.from_arrays(columns, list(names)).replace_schema_metadata({_OF_CONDITIONS: key})
    write_atomically(path, lambda file: pq.write_table(table, file))


def _condition_row(condition: Condition) -> dict[str, Any]:
    groups = [{"role": g.role, "count": g.count, "player": g.player.label} for g in condition.groups]
    parameters = condition.parameters.model_dump(mode="json", exclude=set(condition.axes))
    return {
        "spec": condition.spec,
        **condition.axes,
        **({} if condition.repeat is None else {"repeat": condition.repeat}),
        **{f"parameter.{name}" if name in _OWN_COLUMNS else name: value for name, value in parameters.items()},
        "players": canonical_json(groups),
        "identity": condition.identity,
    }


def _plain(values: list[Any]) -> pa.Array:
    """Return a column: its values as they are where all are of one plain type, else as JSON text."""
    kinds = {type(value) for value in values if value is not None}
    for plain, kind in (({int}, pa.int64()), ({int, float}, pa.float64()), ({bool}, pa.bool_())):
        if kinds and kinds <= plain:
            return packed_array(values, kind)
    texts = [value if value is None or isinstance(value, str) else canonical_json(value) for value in values]
    return packed_array(texts, pa.string())


# What the mark of the tables remembers


def mark_tables(study: Study, names: Iterable[str], left_out: Mapping[Path, str], made_by: Mapping[str, Any]) -> None:
    """Mark these tables of a study as made without some records, and of records that were made so (JSON values)."""
    problems = {str(path): problem for path, problem in left_out.items()}
    digests = {name: sha256(paths.table(study.name, name, ".parquet")) for name in names}
    mark_done(study.name, "tables", study.plan, {"left_out": problems, "sha256": digests, "made_by": made_by})


def mark_of_tables(study: Study) -> Mapping[str, Any]:
    """Return what the mark of a study's tables tells; nothing if they are not made."""
    try:
        mark = json.loads(read_regular(paths.stamp(study.name, "tables", study.plan), _MAX_MARK_BYTES))
    except (OSError, ValueError):
        return {}
    parts = [mark.get(key, {}) for key in ("left_out", "sha256", "made_by")] if isinstance(mark, dict) else [None]
    return mark if all(isinstance(part, dict) for part in parts) else {}


def left_out_of_tables(study: Study) -> dict[Path, str]:
    """Return the records that the tables of a study were made without, and why; none if they are not made."""
    return {paths.root() / path: problem for path, problem in dict(mark_of_tables(study).get("left_out", {})).items()}


def changed_table(study: Study) -> Path | None:
    """Return a table of a study that is not as it was made, or is gone; None if they all are."""
    for name, made in mark_of_tables(study).get("sha256", {}).items():
        path = paths.table(study.name, name, ".parquet")
        if not path.is_file() or sha256(path) != made:
            return path
    return None


def tables_are_current(study: Study) -> bool:
    """Whether the tables of a study were made from all of its records that can be used, and both are still there."""
    if not paths.stamp(study.name, "tables", study.plan).exists() or changed_table(study):
        return False
    left_out = left_out_of_tables(study)
    for simulation in study.simulations():
        record = simulation.record(study.name)
        if not (record.exists() if record not in left_out else not _is_usable(record, simulation)):
            return False
    return True


def usable_part(study: Study) -> Study:
    """Return a study with the simulations that its tables were made from."""
    return without(study, left_out_of_tables(study))


def recall_left_out(study: Study) -> str | None:
    """Return a line that names what the tables of a study leave out; None for nothing.

    Where one of these records can be used now, neither the tables nor what is made from them count as made.
    """
    left_out = left_out_of_tables(study)
    if not left_out:
        return None
    own = {simulation.record(study.name): simulation for simulation in study.simulations()}
    if any(path not in own or _is_usable(path, own[path]) for path in left_out):
        for stage in ("tables", "ledger", "figures", "report", "view"):
            forget_done(study.name, stage)
        return None
    named = ", ".join(map(str, list(left_out)[:3])) + (", ..." if len(left_out) > 3 else "")
    return f"the tables leave out {counted(len(left_out), 'damaged record')} ({named}); {_AGAIN}"


def _is_usable(path: Path, simulation: Simulation) -> bool:
    try:
        read_own(path, simulation)
    except RecordError:
        return False
    return True
