"""The `figures` stage: draws every figure of a study's game, as PNG, SVG and PDF, from the tables and a few records.

No game is known here: what is drawn follows from the game's figure specs and outcome classes and from the study's
axes. Conditions are never pooled: an axis that varies becomes a panel, a line or a place along x. The same tables
give the same bytes.
"""

import gc
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from parley import paths
from parley.analysis import tables
from parley.figures.page import FORMATS, text_about, write
from parley.figures.style import Look, own_style
from parley.files import keep_only, write_atomically
from parley.forked import forked_map
from parley.games.evidence import FigureSpec
from parley.games.figure_kinds import KINDS
from parley.play.record_store import usable_part
from parley.study import Study

Drawn = tuple[list[Path], str]  # the files of a figure, and the notes below it


def figures(study: Study, processes: int = 1, look: Look | None = None) -> list[Path]:
    """Draw all figures of `study` in so many processes, and return their paths: each page as PNG, SVG and PDF.

    The last path is that of the list of all figures with their pages and captions. With a `look` other than the
    default, all of it goes to a folder of its own. Raises RecordError if the tables or a record are missing, or the
    disk refuses.
    """
    drawn, look = usable_part(study).shown, look or Look()
    listed = paths.figure_list(study.name, printed=look != Look())
    gc.freeze()  # what is there stays: looking for garbage among it took a twelfth of the time
    written = list(forked_map(lambda spec: _written(drawn, spec, look, listed.parent), study.figures, processes))
    content = []
    wide: list[Path] = []
    if look == Look() and drawn.main_figure is not None:  # for the head of the report
        wide, _ = _written(drawn, drawn.main_figure, Look("wide"), listed.parent)
    for spec, (files, notes) in zip(study.figures, written, strict=True):
        pages = [path.stem for path in files if path.suffix == ".svg"]
        about = {"name": spec.name, "title": spec.title, "caption": spec.caption}
        of_wide = {"wide": [path.stem for path in wide]} if wide and spec == study.main_figure else {}
        content.append({**about, "notes": notes, "pages": pages, **of_wide})
    _write_text(listed, json.dumps(content, indent=1))
    files = [*(path for files, _ in written for path in files), *wide, listed]
    keep_only(files, paths.listing(listed.parent))
    return files


def _written(study: Study, spec: FigureSpec, look: Look, folder: Path) -> Drawn:
    """Draw one figure and return its files and notes; for a paper its caption lies beside it.

    As wide as a page of a browser it is an SVG alone, with a name of its own.
    """
    name, suffixes = (f"{spec.name}-wide", [".svg"]) if look.width == "wide" else (spec.name, FORMATS)

    def path_of(suffix: str, page: int = 1) -> Path:
        return folder / paths.figure(study.name, name, suffix, page).name

    with own_style(look):
        drawn = draw(study, spec, partial(tables.read_table, study.name))
        files = write(drawn, path_of, suffixes)
    notes = text_about(drawn[0])
    if look.for_paper:
        caption = " ".join([f"{spec.title}.", spec.caption, notes])
        _write_text(path_of(".txt"), caption)
        files.append(path_of(".txt"))
    return files, notes


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(f"{text}\n".encode()))


def draw(study: Study, spec: FigureSpec, table: Callable[[str], pd.DataFrame]) -> list[Figure]:
    """Return the pages of a figure of `study`; `table` returns a table by its name. Call it within `own_style`."""
    kind = KINDS[spec.kind]
    module, function = kind.draw.split(":")
    names = () if kind.single else spec.tables  # single simulations are drawn from their records
    shown = pd.DataFrame([condition.axes for condition in study.shown_in(spec)], columns=study.axes)
    of = [table(name).merge(shown) if name == "conditions" else table(name) for name in names]
    drawn: list[Figure] = getattr(import_module(f"parley.figures.{module}"), function)(study, spec, *of)
    return drawn
