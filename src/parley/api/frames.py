"""Data frames of attempts and of rounds, read from records: only the columns and the records that are asked for."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from parley.errors import RecordError, UsageError
from parley.games.base import Game
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.play.usable import read_own
from parley.study.condition import Condition, Simulation
from parley.text import one_line
from parley.text.suggest import choose

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
Found = Sequence[tuple[Simulation, Path]]  # simulations, and where their records are
_THREADS = 4
_KNOWN = ("id", "simulation_seed")  # columns of a record that need not be read


def attempt_columns(axes: Sequence[str]) -> list[str]:
    """Return the columns of `attempt_frame` for a study with these axes."""
    return [*axes, "spec", *(name for name in SCHEMA.names if name not in axes)]


def attempt_frame(found: Found, columns: Sequence[str] | None, told: set[Path] | None = None) -> pd.DataFrame:
    """Return a row per attempt of some simulations: the axes, `spec`, and the columns of their records.

    Only these `columns` are unpacked, if any are given. Texts are categories: a prompt that stands in a hundred rows
    is kept once. Records that cannot be used are left out with a warning, unless they are among those `told`, which
    they become; raises RecordError if none can be used.
    """
    stored = _stored(found[0][0].condition, columns)
    return attempts_of(_each(found, lambda simulation, path: _attempts(simulation, path, stored), told), columns)


def _stored(condition: Condition, columns: Sequence[str] | None) -> list[str]:
    """Return which of the columns are read from records; the others are known."""
    wanted = check_columns(columns, attempt_columns(list(condition.axes)))
    return [name for name in wanted if name in SCHEMA.names and name not in (*condition.axes, *_KNOWN)]


def attempts_of(read: Sequence[tuple[Simulation, pa.Table]], columns: Sequence[str] | None) -> pd.DataFrame:
    """Return the frame of `attempt_frame` from the rows of some simulations, which have the columns that it needs."""
    condition = read[0][0].condition
    wanted, stored = check_columns(columns, attempt_columns(list(condition.axes))), _stored(condition, columns)
    counts = [table.num_rows for _, table in read]
    simulations = [simulation for simulation, _ in read]
    rows = np.repeat(np.arange(len(read)), counts)
    tables = [_with_texts_once(table.select(stored)) for _, table in read]
    whole = pa.concat_tables(tables).unify_dictionaries().to_pandas() if stored else None
    return pd.DataFrame(
        {
            name: whole[name] if whole is not None and name in stored else _repeated(simulations, rows, name)
            for name in wanted
        },
        copy=False,
    )


def _attempts(simulation: Simulation, path: Path, names: Sequence[str]) -> pa.Table:
    summary, rows = read_attempts(path, names or ["round"])  # a column at least, for the number of rows
    if summary.simulation.get("id") != simulation.id:
        raise RecordError(f"{path}: holds another simulation; move it away")
    return rows


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


def _repeated(simulations: Sequence[Simulation], rows: npt.NDArray[np.int64], name: str) -> Any:
    """Return what is the same in all rows of a simulation, as a column."""
    of: dict[str, Callable[[Simulation], Any]] = {
        "spec": lambda simulation: simulation.condition.spec,
        "id": lambda simulation: simulation.id,
        "simulation_seed": lambda simulation: simulation.seed,
    }
    value = of[name] if name in of else lambda simulation: simulation.condition.axes[name]
    values = pd.Series([value(simulation) for simulation in simulations])
    if values.dtype.kind not in "iuf":
        values = values.astype("category")
    return values.iloc[rows].reset_index(drop=True)


def round_columns(axes: Sequence[str], game: type[Game]) -> list[str]:
    """Return the columns of `round_frame` for a study with these axes."""
    return [*axes, "seed", "outcome", "round", *(measure.name for measure in game.evidence.measures), "spec", "id"]


def round_frame(found: Found, columns: Sequence[str] | None, told: set[Path] | None = None) -> pd.DataFrame:
    """Return a row per simulation and round: the axes, `seed`, `outcome`, `round`, the game's measures, `spec`, `id`.

    A measure is missing (NaN) in rounds that have none. Where a game has other rounds, such as the turns of a
    deliberation, they are these. Damaged records are left out as in `attempt_frame`; raises RecordError if all are.
    """
    game, axes = found[0][0].condition.game, list(found[0][0].condition.axes)
    wanted = check_columns(columns, round_columns(axes, game))
    read = _each(found, _rounds, told)
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
    """Return the outcome of a simulation, the numbers of its rounds, and its measures by round."""
    game, outcome = simulation.condition.game, read_own(path, simulation).outcome
    found = game.evidence.series(outcome, read_trace(path)) if game.evidence.measures else {}
    series = {measure.name: dict(found.get(measure.name, ())) for measure in game.evidence.measures}
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
    found: Found, read: Callable[[Simulation, Path], _T], told: set[Path] | None = None
) -> list[tuple[Simulation, _T]]:
    """Return what is read of each record; one that cannot be used is left out, and raised if it is the last hope."""

    def tried(place: tuple[Simulation, Path]) -> _T | RecordError:
        try:
            return read(*place)
        except RecordError as error:
            return error

    done: list[tuple[Simulation, _T]] = []
    problems: list[RecordError] = []
    told = set() if told is None else told
    with ThreadPoolExecutor(_THREADS) as threads:  # one waits for the disk or unpacks while another works
        for (simulation, path), result in zip(found, threads.map(tried, found), strict=True):
            if isinstance(result, RecordError):
                problems.append(result)
                if path not in told:
                    _log.warning("left out: %s", one_line(str(result)))
                told.add(path)
            else:
                done.append((simulation, result))
    if not done:
        raise problems[0]
    return done
