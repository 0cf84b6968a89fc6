"""Several studies of one game on one page: their outcomes beside each other, and what differs between them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from parley import __version__, paths
from parley.analysis import tables
from parley.analysis.conditions import outcomes_of
from parley.analysis.made_by import kept
from parley.analysis.stats import CONFIDENCE
from parley.errors import UsageError
from parley.files import write_atomically
from parley.play.record_store import left_out_of_tables
from parley.report.html import Links, page
from parley.report.methods import facts, models_used, parameters, provenance
from parley.report.overview import bar, legend, study_sentence
from parley.report.sections import rate_text
from parley.study import Study
from parley.study.condition import axes_text


def compare(studies: Sequence[Study], path: Path | None = None) -> Path:
    """Write one page that sets studies beside each other, and return its path: beside the first one's report.

    Raises UsageError unless they are at least two studies of one game with names of their own, RecordError if a table
    or a record is missing, or the disk refuses.
    """
    _check(studies)
    path = path or paths.compared([study.name for study in studies])
    made = {study.name: tables.read_table(study.name, "conditions") for study in studies}
    outcomes = outcomes_of(pd.concat(made.values(), ignore_index=True), studies[0].game)
    differing, alike = _differences(studies, made)
    html = page(
        "report/compare.html",
        "report",
        title=f"{', '.join(study.name for study in studies[:-1])} and {studies[-1].name} compared",
        studies=[
            {
                "name": study.name,
                "title": study.title,
                "sentence": study_sentence(study, int(made[study.name]["simulations"].sum())),
                "report": os.path.relpath(paths.report(study.name), path.parent)
                if paths.report(study.name).is_file()
                else "",
            }
            for study in studies
        ],
        outcomes=[outcome.label for outcome in outcomes],
        legend=legend(outcomes),
        rows=_rows(studies, made, outcomes, path),
        differing=differing,
        same=[(name, values[0]) for name, values in alike],
        confidence=f"{CONFIDENCE:.0%}",
        command=f"parley report --compare {' '.join(paths.study_argument(study.file) for study in studies)}",
        version=__version__,
    )
    write_atomically(path, lambda file: file.write(html.encode()))
    return path


def _check(studies: Sequence[Study]) -> None:
    names = [study.name for study in studies]
    if len(set(names)) < max(2, len(names)):
        raise UsageError("--compare: name at least two studies, each once: parley report --compare demo other")
    for study in studies[1:]:
        if study.game.name != studies[0].game.name:
            raise UsageError(
                f"--compare: {studies[0].name} is of the game {studies[0].game.name}, {study.name} of "
                f"{study.game.name}; choose studies of one game"
            )


def _rows(
    studies: Sequence[Study], made: Mapping[str, pd.DataFrame], outcomes: Sequence[Any], path: Path
) -> list[dict[str, Any]]:
    axes = list(dict.fromkeys(axis for study in studies for axis in study.axes))
    shared = pd.concat(made.values(), ignore_index=True).reindex(columns=axes)
    varying = [axis for axis in axes if shared[axis].nunique(dropna=False) > 1]
    groups: dict[str, list[dict[str, Any]]] = {}
    for study in studies:
        links, folder = Links(study), os.path.relpath(paths.report(study.name).parent, path.parent)
        for row in made[study.name].to_dict("records"):
            label = axes_text({axis: row[axis] for axis in varying if axis in row}) or "all simulations"
            found = [links.simulations([row[axis] for axis in study.axes], o.name) for o in outcomes]
            addresses = [f"{folder}/{address}" if address else "" for address in found]
            cells = [rate_text(row, outcome.name) for outcome in outcomes]
            of_study = {"study": study.name, "simulations": row["simulations"], "cells": cells}
            groups.setdefault(label, []).append({**of_study, **bar(row, outcomes, addresses)})
    rows = [{"label": label, "studies": together} for label, together in groups.items()]
    return sorted(rows, key=lambda row: len(row["studies"]) == 1)  # what only one of them has comes last


def _differences(
    studies: Sequence[Study], made: Mapping[str, pd.DataFrame]
) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    described = [_described(study, made[study.name]) for study in studies]
    names = dict.fromkeys(name for each in described for name in each)
    rows = [(name, [each.get(name, "-") for each in described]) for name in names]
    return [row for row in rows if len(set(row[1])) > 1], [row for row in rows if len(set(row[1])) == 1]


def _described(study: Study, conditions: pd.DataFrame) -> dict[str, str]:
    axes = {
        f"axis {axis}": ", ".join(dict.fromkeys(str(condition.axes[axis]) for condition in study.conditions))
        for axis in study.axes
    }
    about = {
        name: value
        for name, value in facts(study, conditions, left_out_of_tables(study))
        if name not in ("Study", "Study file")
    }
    made = {name: "; ".join(values) for name, values in provenance(kept(study))}
    return {
        **about,
        **axes,
        **{f"parameter {name}": value for name, value in parameters(study, study.axes)},
        **{f"model {name}": value for name, value in models_used(study, {})},
        **made,
    }
