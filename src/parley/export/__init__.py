"""Results in the formats of other tools: logs of inspect_ai, Croissant, RO-Crate.

The `export` command writes those of a study, in a folder of their own.
"""

import logging
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from parley import paths
from parley.errors import MissingRecordError, RecordError, UsageError
from parley.export.about import about
from parley.files import make_folder, require_done, temporary_name
from parley.play.record_store import read_records, usable_part, without
from parley.study import Study

FORMATS = {"inspect": "inspect_ai", "croissant": "mlcroissant", "ro-crate": "rocrate"}  # and what writes each
Format = Literal["inspect", "croissant", "ro-crate"]
_log = logging.getLogger(__name__)


def export(study: Study, form: Format, out: Path | None = None, license_note: str = "", author: str = "") -> Path:
    """Write the results of a study for another tool; return the folder, `out` or results/STUDY/exports/FORMAT.

    `license_note` is the license of the results, an SPDX identifier, a URL or words; `author` is who made them.
    The folder appears whole or not at all. Raises UsageError if it exists, if the library that writes the format is
    not installed, or if there is no Snakefile that a crate could hold; RecordError if the study has no results yet.
    """
    if find_spec(FORMATS[form]) is None:
        raise UsageError(f"--format {form} needs {FORMATS[form]}, which is not installed; run: make exports")
    if form == "ro-crate" and not (paths.CHECKOUT / paths.SNAKEFILE).is_file():
        raise UsageError("--format ro-crate: no Snakefile here, which the crate holds; run it in a checkout of Parley")
    out = out or paths.export(study.name, form)
    if os.path.lexists(out):  # a link to nothing, too: no folder could take its place
        raise UsageError(f"{out}: exists already; remove it, or give another folder with --output")
    if not any(simulation.record(study.name).exists() for simulation in study.simulations()):
        raise MissingRecordError(
            f"{study.name}: no results yet in {paths.results(study.name)}; run: parley run "
            f"{paths.study_command(study.file)}"
        )
    temporary = temporary_name(out)
    try:
        make_folder(temporary)
        _write(study, form, temporary, license_note, author)
        os.rename(temporary, out)
    except OSError as error:
        raise RecordError(f"{out}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out


def _write(study: Study, form: Format, folder: Path, license_note: str, author: str) -> None:
    # Each format imports a library of its own, which may not be installed.
    if form == "inspect":
        from parley.export.inspect_logs import write_logs

        write_logs(_played(study), folder)
        return
    require_done(study.name, "tables", study.plan, f"summarize {paths.study_command(study.file)}")
    records = read_records(usable_part(study))
    known = about(records, license_note, author)
    if form == "croissant":
        from parley.export.croissant import write_croissant

        write_croissant(records, known, folder)
    else:
        from parley.export.ro_crate import write_crate

        write_crate(records, known, folder)


def _played(study: Study) -> Study:
    """Return a study with the simulations that have a record: a log of what is there helps while the rest plays."""
    records = [simulation.record(study.name) for simulation in study.simulations()]
    missing = {record for record in records if not record.exists()}
    if missing:
        _log.warning("%s: %d of %s not played yet; the rest is exported", study.name, len(missing), len(records))
    return without(study, missing)
