"""What DVC compares between commits: a small JSON file per condition.

`dvc metrics show` prints a row per file, so a file per condition makes a table of conditions.
"""

import json
import math
import shutil
from operator import methodcaller
from typing import Any

import pandas as pd

from parley import paths
from parley.analysis.conditions import RATE
from parley.files import write_atomically
from parley.games.base import Game
from parley.study import Study

_LIMITS = ("rate", "low", "high")


def write_metrics(study: Study, conditions: pd.DataFrame, rates: pd.DataFrame) -> None:
    """Write a JSON file per condition of `study`; those of former conditions go.

    `conditions` is the table of conditions, a row for each in the study's order, and `rates` that of the indicators,
    as many rows for each as the game has. Raises RecordError if the disk refuses.
    """
    number = len(study.game.evidence.indicators)
    shutil.rmtree(paths.metrics(study.name), ignore_errors=True)
    for place, (condition, (_, row)) in enumerate(zip(study.conditions, conditions.iterrows(), strict=True)):
        metrics = condition_metrics(row, study.game, rates.iloc[place * number : (place + 1) * number])
        text = json.dumps(metrics, indent=1, allow_nan=False) + "\n"
        write_atomically(paths.metric(study.name, condition.name), methodcaller("write", text.encode()))


def write_empty_metrics(study: Study, played: Study) -> None:
    """Write the file of each condition of `study` that `played` has nothing of; raises as `write_metrics`."""
    left = {condition.name for condition in played.conditions}
    for condition in study.conditions:
        if condition.name not in left:
            write_atomically(paths.metric(study.name, condition.name), methodcaller("write", b'{"simulations": 0}\n'))


def condition_metrics(row: Any, game: type[Game], rates: pd.DataFrame) -> dict[str, Any]:
    """Return the number of simulations of one condition, rates and limits, and the rates of failed replies.

    Where models are asked, the rate of degenerate replies, too.

    Rates are those of each outcome, and under `indicators` of each indicator of the game, from its rows in `rates`.
    All are in [0, 1]; missing (None) are those of nothing: the condition cannot have the outcome, no simulation has an
    answer, or nothing was asked.
    """
    metrics: dict[str, Any] = {
        "simulations": int(row["simulations"]),
        **{o.name: {part: _number(row[f"{o.name}_{part}"]) for part in _LIMITS} for o in game.outcomes},
        "failed_reply_rate": _number(row["failed_reply_rate"]),
        **({RATE: _number(row[RATE])} if RATE in row else {}),
    }
    if game.evidence.indicators:
        metrics["indicators"] = {
            rate["indicator"]: {part: _number(rate[part]) for part in _LIMITS} for _, rate in rates.iterrows()
        }
    return metrics


def _number(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)
