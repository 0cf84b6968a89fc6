"""What DVC compares between commits: a small JSON file per condition, and the outcomes of all as one tidy table.

`dvc metrics show` prints a row per file, so a file per condition makes a table of conditions.
"""

import json
import math
import shutil
from operator import methodcaller
from typing import Any

import pandas as pd

from parley import paths
from parley.files import write_atomically
from parley.games.base import Game
from parley.study import Study

_LIMITS = ("rate", "low", "high")


def write_metrics(study: Study, conditions: pd.DataFrame) -> None:
    """Write a JSON file per condition of `study`; those of former conditions go.

    `conditions` is the table of conditions, a row for each in the study's order. Raises RecordError if the disk
    refuses.
    """
    shutil.rmtree(paths.metrics(study.name), ignore_errors=True)
    for condition, (_, row) in zip(study.conditions, conditions.iterrows(), strict=True):
        text = json.dumps(condition_metrics(row, study.game), indent=1, allow_nan=False) + "\n"
        write_atomically(paths.metric(study.name, condition.path), methodcaller("write", text.encode()))


def condition_metrics(row: Any, game: type[Game]) -> dict[str, Any]:
    """Return the number of simulations of one condition, each outcome's rate and limits, and the failed reply rate.

    All rates are in [0, 1]; the last is missing (None) where nothing was asked.
    """
    failed = float(row["failed_reply_rate"])
    return {
        "simulations": int(row["simulations"]),
        **{o.name: {part: float(row[f"{o.name}_{part}"]) for part in _LIMITS} for o in game.outcomes},
        "failed_reply_rate": None if math.isnan(failed) else failed,
    }


def outcome_table(study: Study, conditions: pd.DataFrame) -> pd.DataFrame:
    """Return a row per condition and outcome: axes, `simulations`, `count`, `rate` and its limits `low`, `high`.

    Plots are drawn from it: a tidy table needs no knowledge of the game's outcomes.
    """
    rows = []
    for condition, (_, row) in zip(study.conditions, conditions.iterrows(), strict=True):
        of = {"condition": condition.path.replace("/", ", "), **condition.axes}
        for outcome in study.game.outcomes:
            values = {part: row[f"{outcome.name}_{part}"] for part in ("count", *_LIMITS)}
            rows.append({**of, "outcome": outcome.name, "simulations": row["simulations"], **values})
    return pd.DataFrame(rows)
