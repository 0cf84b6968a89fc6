"""The `report` stage: one HTML page of a study: the question and the answer, figures, tables, methods, provenance.

Links lead to files beside it. The same records, files and commits give the same bytes.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from parley import paths
from parley.analysis import tables
from parley.analysis.made_by import answered_as, read_made_by
from parley.analysis.questions import all_pairs
from parley.analysis.registration import with_registration
from parley.columns import table_names
from parley.errors import RecordError
from parley.files import read_regular, write_atomically
from parley.games.figure_kinds import KINDS
from parley.play.record_store import left_out_of_tables, usable_part
from parley.report import methods, overview
from parley.report.answers import largest_differences
from parley.report.boxes import boxes
from parley.report.html import downloads, page
from parley.report.sections import all_tables
from parley.report.warned import warnings
from parley.study import Study
from parley.study.frozen import frozen_state

_ENDS = (".csv", ".parquet")  # of the files of a table


def report(study: Study) -> Path:
    """Write the report of `study` and return its path.

    Raises RecordError if a table or a figure is missing, or if the disk refuses.
    """
    made = _tables(study)
    made_by, left_out = read_made_by(study), left_out_of_tables(study)
    path, by = paths.report(study.name), study.axes
    html = page(
        "report/report.html",
        title=study.title,
        study=study,
        played=overview.played_sentences(study, made["simulations"]),
        achieved=overview.achieved_sentences(made["achievable"], study),
        talking=[
            *overview.talking_sentences(made["equal_cost"], by),
            *overview.votes_sentences(made["votes"], made["conformity"], by),
        ],
        made_by=lambda stage: f"parley {stage} {paths.study_argument(study.file)}",
        frozen=frozen_state(study.whole),
        boxes=boxes(study, made, all_pairs(made["simulations"], study)),
        differences=largest_differences(made["contrasts"], by, study.game),
        warned=list(warnings(study, made, made_by, left_out)),
        figures=list(_figures(study)),
        files=lambda *names: downloads(path, [paths.table(study.name, name, end) for name in names for end in _ENDS]),
        tables=all_tables(usable_part(study), made),
        all_names=table_names(),
        methods=methods.methods(study, made_by, made),
        facts=methods.facts(study),
        parameters=methods.parameters(study, by),
        models=methods.models_used(study, answered_as(study, made_by.answered)),
        provenance=methods.provenance(made_by),
    )
    write_atomically(path, lambda file: file.write(html.encode()))
    return path


def methods_text(study: Study) -> str:
    """Return the methods of `study` to paste; raises RecordError as `report` does."""
    return "\n\n".join(methods.methods(study, read_made_by(study), _tables(study)))


def _tables(study: Study) -> dict[str, pd.DataFrame]:
    made = {name: tables.read_table(study.name, name) for name in _SHOWN}
    questions = with_registration(made["questions"], made["simulations"], study)  # by what is frozen now
    return made | {"questions": questions}


_SHOWN = (
    *("simulations", "conditions", "rates", "quantities", "questions", "contrasts", "paper", "forks", "reactions"),
    *("achievable", "regret", "equal_cost", "votes", "conformity"),
)


def _figures(study: Study) -> Iterator[dict[str, Any]]:
    listed = paths.figure(study.name, "figures", ".json")
    known: dict[str, Any] = {}
    with suppress(OSError, ValueError, LookupError, TypeError):  # a part of the figures may be made by hand
        known = {each["name"]: each for each in json.loads(read_regular(listed))}
    for spec in study.figures:
        listing = known.get(spec.name, {})
        tables = [paths.table(study.name, table, ".csv") for table in spec.tables]
        yield {
            "id": f"figure-{spec.name}",
            "title": spec.title,
            "caption": spec.caption,
            "notes": listing.get("notes", ""),
            "reading": KINDS[spec.kind].reading,
            "pages": [_page(study, name, tables) for name in listing.get("pages", [spec.name])],
            "wide": [_uri(study, name) for name in listing.get("wide", [])],
        }


def _page(study: Study, name: str, tables: Sequence[Path]) -> dict[str, Any]:
    files = [paths.figure(study.name, name, suffix) for suffix in (".svg", ".pdf", ".png")]
    return {"uri": _uri(study, name), "files": downloads(paths.report(study.name), [*files, *tables])}


def _uri(study: Study, name: str) -> Markup:
    path = paths.figure(study.name, name, ".svg")
    try:
        svg = read_regular(path)
    except OSError:
        raise RecordError(f"{path}: no such figure; run: parley figures") from None
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii"))
