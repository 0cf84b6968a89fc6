"""What a calibration found: a row per arm, kept beside the results, printed, and shown in reports."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parley import paths
from parley.analysis.stats import paired_difference, wilson_interval
from parley.calibration.arms import STYLES, Arm, all_arms, prompts_digest, questions
from parley.engine.models import ModelEntry
from parley.errors import RecordError
from parley.files import read_regular
from parley.games.problems.sources import Arithmetic
from parley.identity import digest
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, count_degenerate
from parley.play.record_content import times
from parley.play.runner import Exchange
from parley.policies import REPLY_FORMATS
from parley.study import Study
from parley.study.frozen import frozen_state

FORMAT = 1
_MAX_BYTES = 100_000_000
_REPORT_PLAN = "PARLEY_REPORT_PLAN"
HEADER = (
    *("arm", "right", "accuracy", "minus plain", "unreadable", *DEGENERATE_CLASSES),
    *("tokens in", "tokens out", "seconds"),
)


def identity_of(entry: ModelEntry) -> dict[str, Any]:
    """Return what a calibration is of: the model, the grammar that holds its replies, and all prompts and shapes."""
    every = all_arms(STYLES, REPLY_FORMATS)
    prompts = prompts_digest(questions(Arithmetic(), 1)[0], every)
    return {"model": entry.identity(), "grammar": entry.grammar_name, "prompts": prompts}


def arm_row(
    arm: Arm, right: Sequence[bool], plain: Sequence[bool], readable: Sequence[bool], said: Sequence[Exchange]
) -> dict[str, Any]:
    """Return what came of one arm, as JSON values, from its answers and those of the plain arm, question by question.

    Shares and their limits are in [0, 1]; the difference to plain has Tango's for pairs. Tokens are means for one
    question, `said` has all attempts, `seconds` is from the first question to the last reply.
    """
    n, x, y = len(right), np.array(plain, dtype=bool), np.array(right, dtype=bool)
    low, high = wilson_interval(int(y.sum()), n)
    pairs = [int(found.sum()) for found in (x & y, x & ~y, ~x & y, ~x & ~y)]
    limits = [float(limit) for limit in paired_difference(*pairs)]
    counts = count_degenerate(said)
    return {
        "arm": arm.name,
        "questions": n,
        "right": int(y.sum()),
        "accuracy": [float(y.mean()), low, high],
        "difference": None if arm.reply_format is None else [float(y.mean() - x.mean()), *limits],
        "unreadable": 1 - sum(readable) / n,
        "degenerate": {name: counts[name] / counts[ASKED] for name in DEGENERATE_CLASSES},
        "prompt_tokens": sum(x.entry.prompt_tokens or 0 for x in said) / n,
        "completion_tokens": sum(x.entry.completion_tokens or 0 for x in said) / n,
        "seconds": times(x.entry for x in said)["wall_seconds"],
    }


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return one row of the table under HEADER, as text; differences to plain are in percentage points."""
    share, low, high = (100 * part for part in row["accuracy"])
    difference = "-"
    if row["difference"] is not None:
        change, least, most = (100 * part for part in row["difference"])
        difference = f"{change:+.1f} [{least:+.1f}, {most:+.1f}]"
    return [
        row["arm"],
        f"{row['right']} of {row['questions']}",
        f"{share:.1f}% [{low:.1f}, {high:.1f}]",
        difference,
        f"{row['unreadable']:.1%}",
        *(f"{row['degenerate'][name]:.1%}" for name in DEGENERATE_CLASSES),
        *(f"{row[name]:.0f}" for name in ("prompt_tokens", "completion_tokens", "seconds")),
    ]


def read_calibration(path: Path) -> dict[str, Any] | None:
    """Return what a file says; None if it is no calibration. Raises RecordError if it is damaged."""
    try:
        found = json.loads(read_regular(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise RecordError(f"{path}: cut short or not JSON; delete it and run: parley calibrate") from None
    if not isinstance(found, dict) or found.get("calibration") != FORMAT:
        return None
    try:
        _ = found["identity"], found["number"] + 0, found["problems_label"] + "", [cells(row) for row in found["arms"]]
    except (LookupError, TypeError, ValueError):
        raise RecordError(f"{path}: damaged; delete it and run: parley calibrate") from None
    return found


def _files() -> list[Path]:
    return sorted(Path().glob(str(paths.calibration("*", "*", ".json"))))


def calibrations_of(entry: ModelEntry) -> list[dict[str, Any]]:
    """Return the calibrations of a model as it is now, whatever it was called; those of the most questions first."""
    read = [one for path in _files() if (one := read_calibration(path)) is not None]
    identity = identity_of(entry) if read else {}
    found = [one for one in read if one["identity"] == identity]
    return sorted(found, key=lambda one: (-one["number"], one["problems_label"]))


def calibration_tables(study: Study) -> list[dict[str, Any]]:
    """Return, for the report, each model that the study asks with the tables of its calibrations, as text."""
    names = sorted({name for condition in study.conditions for name in condition.models})
    return [
        {
            "model": name,
            "tables": [
                {
                    "title": f"{one['number']} questions of {one['problems_label']}",
                    "rows": [cells(row) for row in one["arms"]],
                }
                for one in calibrations_of(study.models[name])
            ],
        }
        for name in names
    ]


def report_plan(study: Study) -> str:
    """Return the hash over what a report is made of: simulations, calibrations of the models, what was frozen.

    Without the last two it is the study's plan.
    """
    names = sorted({name for condition in study.conditions for name in condition.models})
    found = [one for name in names for one in calibrations_of(study.models[name])]
    frozen = [frozen_state(study)] if paths.frozen(study.file).exists() else []
    return digest([study.plan, found, *frozen])[:8] if found or frozen else study.plan


def planned_report(study: Study, new: bool) -> str:
    """Return the `report_plan` of this run of the workflow, which a `new` run makes for all of its jobs.

    What is calibrated meanwhile is in the report of the next run. Outside of a run it is the plan of now.
    """
    if new:
        os.environ[_REPORT_PLAN] = f"{study.plan} {report_plan(study)}"
    of, _, plan = os.environ.get(_REPORT_PLAN, "").partition(" ")
    return plan if of == study.plan else report_plan(study)


def key_of(identity: Mapping[str, Any], problems: Mapping[str, Any], number: int) -> str:
    """Return what names the files of a calibration."""
    return digest([FORMAT, identity, problems, number])[:12]
