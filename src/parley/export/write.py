"""The `export` command: a study's results in the format of another tool, in a folder of their own."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeVar

from parley import paths
from parley.errors import MissingRecordError, RecordError, UsageError
from parley.files import make_folder, temporary_name
from parley.play.usable import without
from parley.study import Study
from parley.text import counted

FORMATS = {"inspect": "inspect_ai", "croissant": "mlcroissant", "ro-crate": "rocrate"}  # and what writes each
Format = Literal["inspect", "croissant", "ro-crate"]
TELL_SECONDS = 5.0
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Terms:
    """What an author says of the results: a license (an SPDX identifier, a URL or words) and who made them."""

    license: str = ""
    author: str = ""


def export(study: Study, form: Format, out: Path | None = None, terms: Terms = Terms()) -> Path:  # noqa: B008
    """Write the results of a study for another tool; return the folder, `out` or results/STUDY/exports/FORMAT.

    The folder appears whole or not at all. Raises UsageError if it exists, or if the library that writes the format is
    not installed, and RecordError if the study has no results yet.
    """
    if find_spec(FORMATS[form]) is None:
        raise UsageError(f"--to {form} needs {FORMATS[form]}, which is not installed; pip install 'parley[{form}]'")
    out = out or paths.export(study.name, form)
    if out.exists():
        raise UsageError(f"{out}: exists already; remove it, or give another folder with --out")
    played = _played(study)
    temporary = temporary_name(out)
    try:
        make_folder(temporary)
        if form == "inspect":
            from parley.export.inspect_logs import write_logs

            write_logs(played, temporary)
        elif form == "croissant":
            from parley.export.croissant import write_croissant

            write_croissant(played, temporary, terms)
        else:
            from parley.export.ro_crate import write_crate

            write_crate(played, temporary, terms)
        os.rename(temporary, out)
    except OSError as error:
        raise RecordError(f"{out}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out


def _played(study: Study) -> Study:
    """Return a study with the simulations that have a record; raises RecordError if none has."""
    records = [simulation.record(study.name) for simulation in study.simulations()]
    missing = {record for record in records if not record.exists()}
    if len(missing) == len(records):
        raise MissingRecordError(
            f"{study.name}: no results yet in {paths.results(study.name)}; run: snakemake --cores all --config "
            f"study={study.name}"
        )
    if missing:
        _log.warning("%s: %d of %s not played yet; the rest is exported", study.name, len(missing), len(records))
    return without(study, missing)


def told(items: Iterable[_T], total: int, what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[_T]:
    """Yield the items, and say every few seconds how many of them are done."""
    last = clock()
    for number, item in enumerate(items):
        if clock() - last >= TELL_SECONDS:
            last = clock()
            _log.info("%d of %s", number, counted(total, what))
        yield item
