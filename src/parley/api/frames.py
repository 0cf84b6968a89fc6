"""Which simulations somebody means by values of axes and seeds, and data frames of their attempts and rounds.

Only the columns and the records that are asked for are read.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from parley.errors import RecordError, UsageError
from parley.games.base import Game
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.play.record_store import read_own
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import choose, one_line

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
SimulationPaths = Sequence[tuple[Simulation, Path]]  # simulations, and where their records are
_THREADS = 4
_KNOWN = ("id", "simulation_seed")  # columns of a record that need not be read

SEED = "seed"  # beside the axes
_MAX_VALUES = 60  # characters of the values of an axis in an error


def one_condition(study: Study, axes: Mapping[str, Any]) -> Condition:
    """Return the one condition with these values; raises UsageError if there is none, or several."""
    fitting = study.fitting(axes)
    if len(fitting) == 1:
        return fitting[0]
    left = {axis: list(dict.fromkeys(condition.axes[axis] for condition in fitting)) for axis in fitting[0].axes}
    choices = "; ".join(
        f"{axis} ({one_line(', '.join(map(str, values)), _MAX_VALUES)})"
        for axis, values in left.items()
        if len(values) > 1
    )
    if not axes:
        raise UsageError(f"{study.name} has {len(fitting)} conditions; choose one by: {choices}")
    raise UsageError(f"{study.name}: {len(fitting)} conditions have {values_text(axes)}; add a value of: {choices}")


def values_text(chosen: Mapping[str, Any]) -> str:
    """Return what is chosen as an error names it: "b=1, seed=3"."""
    return ", ".join(f"{axis}={one_line(str(value), _MAX_VALUES)}" for axis, value in chosen.items())


def selection(study: Study, chosen: Mapping[str, Any]) -> dict[str, set[Any]]:
    """Return the values that are meant of each axis in `chosen`, and of `seed`; of the others any will do.

    Raises UsageError if no condition has them, or for what is no seed.
    """
    axes = {key: values for key, values in chosen.items() if key != SEED}
    allowed: dict[str, set[Any]] = {
        axis: {condition.axes[axis] for value in listed(values) for condition in study.fitting({axis: value})}
        for axis, values in axes.items()
    }
    if not any(_has(condition.axes, allowed) for condition in study.conditions):
        raise UsageError(f"{study.name}: no condition has {values_text(axes)}; `study.conditions` lists them")
    if SEED in chosen:
        allowed[SEED] = set(listed(chosen[SEED]))
        if wrong := [seed for seed in allowed[SEED] if not is_seed(seed)]:
            raise UsageError(f"seed={one_line(str(wrong[0]), 40)}: give a whole number from 0, or a list of them")
    return allowed


def among(simulations: Iterable[Simulation], allowed: Mapping[str, set[Any]]) -> list[Simulation]:
    """Return those of a `selection`."""
    return [each for each in simulations if _has({**each.condition.axes, SEED: each.seed}, allowed)]


def _has(values: Mapping[str, Any], allowed: Mapping[str, set[Any]]) -> bool:
    return all(values[key] in of_key for key, of_key in allowed.items())


def is_seed(value: Any) -> bool:
    """Whether a value can be the seed of a simulation; also a number of NumPy's, as data frames have."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def listed(values: Any) -> list[Any]:
    """Return the values of a list, a tuple, a set or a range; anything else is one value."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping) else [values]


def attempt_columns(axes: Sequence[str]) -> list[str]:
    """Return the columns of `attempt_frame` for a study with these axes."""
    return [*axes, "spec", *(name for name in SCHEMA.names if name not in axes)]


def attempt_frame(simulations: SimulationPaths, columns: Sequence[str] | None, reported: set[Path]) -> pd.DataFrame:
    """Return a row per attempt of some simulations: the axes, `spec`, and the columns of their records.

    Texts are categories. Records that cannot be used are left out with a warning, unless already `reported`; raises
    RecordError if none can be used.
    """
    axes = list(simulations[0][0].condition.axes)
    stored = _stored(axes, check_columns(columns, attempt_columns(axes)))

    def read(simulation: Simulation, path: Path) -> pa.Table:
        summary, rows = read_attempts(path, stored or ["round"])  # a column at least, for the number of rows
        if summary.simulation.get("id") != simulation.id:
            raise RecordError(f"{path}: holds another simulation; move it away")
        return rows

    return attempts_of(_each(simulations, read, reported), columns)


def _stored(axes: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return which of the columns are read from records; the others are known."""
    return [name for name in wanted if name in SCHEMA.names and name not in (*axes, *_KNOWN)]


def attempts_of(read: Sequence[tuple[Simulation, pa.Table]], columns: Sequence[str] | None) -> pd.DataFrame:
    """Return the frame of `attempt_frame` from the rows of some simulations, which have the columns that it needs."""
    axes = list(read[0][0].condition.axes)
    wanted = check_columns(columns, attempt_columns(axes))
    stored = _stored(axes, wanted)
    about = pd.DataFrame(
        [{**s.condition.axes, "spec": s.condition.spec, "id": s.id, "simulation_seed": s.seed} for s, _ in read]
    )
    about = about.astype({name: "category" for name in about if about[name].dtype.kind not in "iuf"})
    frame = about.loc[about.index.repeat([table.num_rows for _, table in read])].reset_index(drop=True)
    if stored:
        tables = [_with_texts_once(table.select(stored)) for _, table in read]
        frame = pd.concat([frame, pa.concat_tables(tables).unify_dictionaries().to_pandas()], axis=1)
    return frame[wanted]


def _with_texts_once(rows: pa.Table) -> pa.Table:
    """Return rows with their texts in dictionaries, whose places have 32 bits: a large frame has many texts."""
    for place, column in enumerate(rows.columns):
        kind = column.type
        if pa.types.is_dictionary(kind) and kind.index_type != pa.int32():
            rows = rows.set_column(
                place, rows.column_names[place], column.cast(pa.dictionary(pa.int32(), pa.string()))
            )
        elif pa.types.is_string(kind):
            rows = rows.set_column(place, rows.column_names[place], column.dictionary_encode())
    return rows


def round_columns(axes: Sequence[str], game: type[Game]) -> list[str]:
    """Return the columns of `round_frame` for a study with these axes."""
    return [*axes, "seed", "outcome", "round", *(measure.name for measure in game.evidence.measures), "spec", "id"]


def round_frame(simulations: SimulationPaths, columns: Sequence[str] | None, reported: set[Path]) -> pd.DataFrame:
    """Return a row per simulation and round: the axes, `seed`, `outcome`, `round`, the game's measures, `spec`, `id`.

    A measure is missing (NaN) in rounds that have none. Damaged records are left out as in `attempt_frame`.
    """
    game, axes = simulations[0][0].condition.game, list(simulations[0][0].condition.axes)
    wanted = check_columns(columns, round_columns(axes, game))
    read = _each(simulations, _rounds, reported)
    rows = [
        {
            **simulation.condition.axes,
            "seed": simulation.seed,
            "outcome": outcome,
            "round": number,
            **{name: points.get(number, np.nan) for name, points in series.items()},
            "spec": simulation.condition.spec,
            "id": simulation.id,
        }
        for simulation, (outcome, numbers, series) in read
        for number in numbers
    ]
    return pd.DataFrame(rows, columns=round_columns(axes, game))[wanted]


def _rounds(simulation: Simulation, path: Path) -> tuple[str, Iterable[int], dict[str, dict[int, float]]]:
    game, outcome = simulation.condition.game, read_own(path, simulation).outcome
    measured = game.evidence.series(outcome, read_trace(path)) if game.evidence.measures else {}
    series = {measure.name: dict(measured.get(measure.name, ())) for measure in game.evidence.measures}
    own = outcome["rounds"] if game.evidence.round_name == "round" else 0
    last = max([own, *(number for points in series.values() for number in points)])
    return game.class_of(outcome["name"], outcome["detail"]), range(1, last + 1), series


def check_columns(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the columns that are asked for, all that are `known` for None; raises UsageError for another one."""
    if columns is None:
        return list(known)
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise UsageError(f"columns={one_line(repr(columns), 60)}: give a list of names")
    for name in columns:
        if name not in known:
            raise UsageError(f"columns: {one_line(str(name), 60)!r}: no such column; {choose(name, known)}")
    return list(columns)


def _each(
    simulations: SimulationPaths, read: Callable[[Simulation, Path], _T], reported: set[Path]
) -> list[tuple[Simulation, _T]]:
    """Return what is read of each record; skip unusable records, and raise if none is left."""

    def tried(place: tuple[Simulation, Path]) -> _T | RecordError:
        try:
            return read(*place)
        except RecordError as error:
            return error

    done: list[tuple[Simulation, _T]] = []
    problems: list[RecordError] = []
    with ThreadPoolExecutor(_THREADS) as threads:  # one waits for the disk or unpacks while another works
        for (simulation, path), result in zip(simulations, threads.map(tried, simulations), strict=True):
            if isinstance(result, RecordError):
                problems.append(result)
                if path not in reported:
                    _log.warning("left out: %s", one_line(str(result)))
                reported.add(path)
            else:
                done.append((simulation, result))
    if not done:
        raise problems[0]
    return done
