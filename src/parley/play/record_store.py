"""The records of a study that can be used, and the table of all axes by `spec`.

What is damaged is named and left out, and the rest goes on. A record that is not there is another matter: the study is
not finished.
"""

import json
import logging
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.errors import MissingRecordError, RecordError
from parley.files import forget_done, mark_done, marks_done, open_regular, read_regular, sha256, write_atomically
from parley.forked import forked_map
from parley.identity import canonical_json, digest
from parley.play.parquet import packed_array
from parley.play.pausing import paused_lines
from parley.play.record import Summary, read_summary
from parley.play.record_content import outcome_problem
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import counted

_log = logging.getLogger(__name__)

_MAX_NAMED = 20
_PIECE = 250  # records that a process reads at once
_MAX_MARK_BYTES = 100_000_000
_FORMS = (".parquet", ".csv")  # of a table
_OF_CONDITIONS = b"parley.conditions"
_TYPED = 2  # how the table of conditions is written; another number makes it anew
_OWN_COLUMNS = ("spec", "repeat", "players", "identity")


@dataclass(frozen=True)
class UsableRecords:
    """The simulations of a study whose records can be used, with their summaries; the others by what is wrong."""

    study: Study  # with these simulations alone
    by_path: Mapping[Path, Summary]
    left_out: Mapping[Path, str]

    @cached_property
    def simulations(self) -> Sequence[Simulation]:
        """Those whose records can be used, in the study's order."""
        return list(self.study.simulations())

    @cached_property
    def summaries(self) -> Sequence[Summary]:
        """What the records of these say."""
        return [self.by_path[each.record(self.study.name)] for each in self.simulations]

    @cached_property
    def shown(self) -> "UsableRecords":
        """Those of `Study.shown`; what is left out stays. Raises RecordError for none."""
        first = self.study.shown
        if not first.conditions:
            again = f"run: parley run {paths.study_command(self.study.file)}"
            raise RecordError(f"{self.study.name}: only repeats can be used, and no first game of theirs; {again}")
        return self if first is self.study else replace(self, study=first)

    def without(self, problems: Mapping[Path, str]) -> "UsableRecords":
        """Leave out more of them, and warn of each; raises RecordError if none is left."""
        if len(problems) == len(self.simulations):
            raise RecordError(next(iter(problems.values())))
        for problem in problems.values():
            _log.warning("left out: %s", problem)
        return replace(self, study=without(self.study, problems), left_out={**self.left_out, **problems})


_AGAIN = "do what is said of each, and run the study again"


def read_records(study: Study, processes: int = 1) -> UsableRecords:
    """Return the records of a study that can be used, and warn of those that cannot.

    So many processes read them. Raises RecordError naming the records if some are missing, or if none can be used.
    """
    usable: dict[Path, Summary] = {}
    missing: list[str] = []
    left_out: dict[Path, str] = {}
    # By condition: what is alike in the records of one is kept once for each piece.
    wanted = [Simulation(condition, seed) for condition in study.conditions for seed in condition.seeds]
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
    if missing or not usable:
        problems = [*missing, *left_out.values()]
        named = ", ".join(problem.split(": ")[0] for problem in problems[1:4])
        raise RecordError(problems[0] + (f" (and {len(problems) - 1:,} more: {named})" if named else ""))
    for problem in list(left_out.values())[:_MAX_NAMED]:
        _log.warning("left out: %s", problem)
    if left_out:
        _log.warning("left out: %d of %s; %s", len(left_out), counted(len(wanted), "record"), _AGAIN)
    return UsableRecords(without(study, left_out), usable, left_out)


def _read_piece(study: str, simulations: Sequence[Simulation]) -> list[Summary | RecordError]:
    """Return the summaries of some records, or why they cannot be used; what is alike in them is one object."""
    known: dict[str, Any] = {}

    def shared(content: Mapping[str, Any]) -> dict[str, Any]:
        return {sys.intern(key): known.setdefault(repr(value), value) for key, value in content.items()}

    read: list[Summary | RecordError] = []
    for simulation in simulations:
        try:
            summary = read_own(simulation.record(study), simulation)
        except RecordError as error:
            read.append(error)
        else:
            outcome = {**shared(summary.outcome), "metrics": shared(summary.outcome["metrics"])}
            parts = (summary.simulation, summary.telemetry, summary.provenance)
            own, telemetry, provenance = (shared(part) for part in parts)
            read.append(replace(summary, simulation=own, outcome=outcome, telemetry=telemetry, provenance=provenance))
    return read


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


# What is there of a study


def played_part(study: Study) -> Study:
    """Return a study with the simulations that have a record, which may be damaged; raises RecordError for none."""
    missing = {path for each in study.simulations() if not (path := each.record(study.name)).exists()}
    part = _part_without(study, missing)
    if not part.conditions:
        number = counted(len(missing), "simulation")
        said = "; ".join([f"none of its {number} is played", *paused_lines(study)])
        raise RecordError(f"{study.name}: {said}; run: parley run {paths.study_command(study.file)}")
    return part


def part_of_tables(study: Study) -> Study:
    """Return a study with the simulations that its tables are of, or leave out as damaged.

    Raises RecordError unless tables were made for the study as it is now, and are as they were made.
    """
    whole = paths.stamp(study.name, "tables", study.plan)
    for mark in [whole] if whole.exists() else marks_done(study.name, "tables"):
        part = _part_without(study, {paths.root() / path for path in _read_mark(mark).get("missing", ())})
        if part.conditions and paths.stamp(study.name, "tables", part.plan) == mark:
            if changed := changed_table(part):
                raise RecordError(f"{changed}: is not as it was made; run: {_summarize(study)}")
            return part
    raise RecordError(f"{whole.parent}: not made for the study as it is now; run: {_summarize(study)}")


def _part_without(study: Study, missing: Collection[Path]) -> Study:
    part = without(study, missing)
    return part if part is study else replace(part, part_of=study)


def _summarize(study: Study) -> str:
    return f"parley summarize {paths.study_command(study.file)}"


# What the paths of records do not say


def write_conditions(study: Study) -> None:
    """Write the table of the conditions of a study, for plain readers to join on `spec`, unless it is there.

    A row per condition: its spec and identity, all axes, `repeat` where seeds are played again, what plays, and every
    parameter that is no axis. Lists and mappings are JSON text. Raises RecordError if the disk refuses.
    """
    path = paths.conditions(study.name)
    key = digest([_TYPED, *([condition.name, condition.folder] for condition in study.conditions)]).encode()
    with suppress(OSError, pa.ArrowException), open_regular(path) as file:  # none, or none of ours
        if (pq.read_schema(file).metadata or {}).get(_OF_CONDITIONS) == key:
            return
    table = conditions_table(study).replace_schema_metadata({_OF_CONDITIONS: key})
    write_atomically(path, lambda file: pq.write_table(table, file))


def conditions_table(study: Study) -> pa.Table:
    """Return that table; a parameter has the type that it has in all studies of the game, whatever its values."""
    rows = [_condition_row(condition) for condition in study.conditions]
    names = dict.fromkeys(name for row in rows for name in row)
    known = study.game.Parameters.model_json_schema()["properties"]
    schemas = {name: known.get(name.removeprefix("parameter.")) for name in names if name not in study.axes}
    return pa.table({name: _column([row.get(name) for row in rows], schemas.get(name)) for name in names})


def _condition_row(condition: Condition) -> dict[str, Any]:
    groups = [{"role": g.role, "count": g.count, "player": g.player.label} for g in condition.groups]
    parameters = condition.parameters.model_dump(mode="json", exclude=set(condition.axes))
    return {
        "spec": condition.spec,
        **condition.all_axes,
        **{f"parameter.{name}" if name in _OWN_COLUMNS else name: value for name, value in parameters.items()},
        "players": canonical_json(groups),
        "identity": condition.identity,
    }


def _column(values: list[Any], schema: Mapping[str, Any] | None) -> pa.Array:
    """Return a column: of a parameter of the type that its JSON schema names, so that studies have the same one.

    Without a schema that is of its values. What is of no plain type is JSON text.
    """
    kinds = {_KINDS.get(type(value), "") for value in values}
    if schema is not None:
        kinds = {str(part.get("type")) for part in schema.get("anyOf", [schema])}
    kinds -= {"null"}
    if len(kinds) == 1 and (plain := _PLAIN.get(*kinds)) is not None:
        return packed_array(values, plain)
    texts = [value if value is None or isinstance(value, str) else canonical_json(value) for value in values]
    return packed_array(texts, pa.string())


_KINDS: Mapping[type, str] = {type(None): "null", bool: "boolean", int: "integer", float: "number"}
_PLAIN = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


# What the mark of the tables remembers


def mark_tables(study: Study, names: Iterable[str], left_out: Mapping[Path, str], made_by: Mapping[str, Any]) -> None:
    """Mark these tables of a study as made without some records, and of records that were made so (JSON values).

    The mark has the plan of what is played: that of a part is not the one that a run waits for.
    """
    problems = {str(path): problem for path, problem in left_out.items()}
    digests = {f"{name}{end}": sha256(paths.table(study.name, name, end)) for name in names for end in _FORMS}
    there = {each.record(study.name) for each in study.simulations()}
    records = (each.record(study.name) for each in study.whole.simulations())
    missing = [str(path.relative_to(paths.root())) for path in records if path not in there]
    told = {"left_out": problems, "sha256": digests, "made_by": made_by, "missing": missing}
    mark_done(study.name, "tables", study.plan, told)


def mark_of_tables(study: Study) -> Mapping[str, Any]:
    """Return what the mark of a study's tables tells; nothing if they are not made."""
    return _read_mark(paths.stamp(study.name, "tables", study.plan))


def _read_mark(path: Path) -> Mapping[str, Any]:
    try:
        mark = json.loads(read_regular(path, _MAX_MARK_BYTES))
    except (OSError, ValueError):
        return {}
    parts = [mark.get(key, {}) for key in ("left_out", "sha256", "made_by")] if isinstance(mark, dict) else [None]
    return mark if all(isinstance(part, dict) for part in parts) else {}


def left_out_of_tables(study: Study) -> dict[Path, str]:
    """Return the records that the tables of a study were made without, and why; none if they are not made."""
    return {paths.root() / path: problem for path, problem in dict(mark_of_tables(study).get("left_out", {})).items()}


def changed_table(study: Study) -> Path | None:
    """Return a table of a study that is not as it was made, or is gone; None if they all are."""
    made = mark_of_tables(study).get("sha256", {}).items()
    by_path = {paths.table(study.name, Path(name).stem, Path(name).suffix or ".parquet"): sha for name, sha in made}
    return next((path for path, sha in by_path.items() if not path.is_file() or sha256(path) != sha), None)


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
    if any(_is_usable(each, study) for each in study.simulations() if each.record(study.name) in left_out):
        for stage in ("tables", "ledger", "figures", "report", "view"):
            forget_done(study.name, stage)
        return None
    first = next(iter(left_out.values()))
    return f"the tables leave out {counted(len(left_out), 'damaged record')}: {first}; {_AGAIN}"


def _is_usable(simulation: Simulation, study: Study) -> bool:
    with suppress(RecordError):
        read_own(simulation.record(study.name), simulation)
        return True
    return False
