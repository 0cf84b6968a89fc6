"""Data frames of the attempts and rounds of simulations, from their records; and which condition somebody means."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from parley.errors import RecordError, UsageError
from parley.play.record import read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.play.record_store import read_own
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import one_line

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
SimulationPaths = Sequence[tuple[Simulation, Path]]  # simulations, and where their records are


def one_condition(study: Study, axes: Mapping[str, Any]) -> Condition:
    """Return the one condition with these values; raises UsageError if there is none, or several."""
    fitting = study.fitting(axes)
    if len(fitting) == 1:
        return fitting[0]
    differing = [axis for axis in fitting[0].axes if len({condition.axes[axis] for condition in fitting}) > 1]
    raise UsageError(f"{study.name}: {len(fitting)} conditions fit; choose one by: {', '.join(differing)}")


def attempt_frame(simulations: SimulationPaths) -> pd.DataFrame:
    """Return a row per attempt of some simulations: the axes, `spec`, and the columns of their records.

    Texts are categories. Records that cannot be used are left out with a warning; raises RecordError if none can be.
    """

    def read(simulation: Simulation, path: Path) -> pa.Table:
        summary, rows = read_attempts(path, SCHEMA.names)
        if summary.simulation.get("id") != simulation.id:
            raise RecordError(f"{path}: holds another simulation; move it away")
        return rows

    return attempts_of(_each(simulations, read))


def attempts_of(read: Sequence[tuple[Simulation, pa.Table]]) -> pd.DataFrame:
    """Return the frame of `attempt_frame` from the rows of some simulations."""
    about = pd.DataFrame([{**simulation.condition.axes, "spec": simulation.condition.spec} for simulation, _ in read])
    about = about.astype({name: "category" for name in about if about[name].dtype.kind not in "iuf"})
    frame = about.loc[about.index.repeat([table.num_rows for _, table in read])].reset_index(drop=True)
    stored = [name for name in SCHEMA.names if name not in about]
    rows = pa.concat_tables([_with_texts_once(table.select(stored)) for _, table in read])
    stored_rows: pd.DataFrame = rows.unify_dictionaries().to_pandas()
    return pd.concat([frame, stored_rows], axis=1)


def _with_texts_once(rows: pa.Table) -> pa.Table:
    """Return rows with their texts in dictionaries, whose places have 32 bits: a large frame has many texts."""
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {field.name: field.type for field in rows.schema}
    texts = {name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_dictionary(kind)}
    return rows.cast(pa.schema([(name, text if name in texts else kind) for name, kind in kinds.items()]))


def round_frame(simulations: SimulationPaths) -> pd.DataFrame:
    """Return a row per simulation and round: the axes, `seed`, `outcome`, `round`, the game's measures, `spec`, `id`.

    A measure is missing (NaN) in rounds that have none. Damaged records are left out as in `attempt_frame`.
    """
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
        for simulation, (outcome, numbers, series) in _each(simulations, _rounds)
        for number in numbers
    ]
    return pd.DataFrame(rows)


def _rounds(simulation: Simulation, path: Path) -> tuple[str, Iterable[int], dict[str, dict[int, float]]]:
    game, outcome = simulation.condition.game, read_own(path, simulation).outcome
    measured = game.evidence.series(outcome, read_trace(path)) if game.evidence.measures else {}
    series = {measure.name: dict(measured.get(measure.name, ())) for measure in game.evidence.measures}
    own = outcome["rounds"] if game.evidence.round_name == "round" else 0
    last = max([own, *(number for points in series.values() for number in points)])
    return game.class_of(outcome["name"], outcome["detail"]), range(1, last + 1), series


def _each(simulations: SimulationPaths, read: Callable[[Simulation, Path], _T]) -> list[tuple[Simulation, _T]]:
    """Return what is read of each record; skip unusable records, and raise if none is left."""
    done: list[tuple[Simulation, _T]] = []
    problem = RecordError("no records")
    for simulation, path in simulations:
        try:
            done.append((simulation, read(simulation, path)))
        except RecordError as error:
            problem = error
            _log.warning("left out: %s", one_line(str(error)))
    if not done:
        raise problem
    return done
