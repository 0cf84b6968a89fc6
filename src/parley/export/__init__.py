"""Results for elsewhere: logs of inspect_ai, or the whole study in one folder, as the `export` command writes them."""

import logging
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from parley import paths
from parley.errors import MissingRecordError, RecordError, UsageError
from parley.export.folder import write_folder
from parley.files import make_folder, require_done, temporary_name
from parley.play.record_store import part_of_tables, played_part, read_records, usable_part
from parley.study import Study
from parley.study.frozen import planned_report

Format = Literal["inspect", "folder"]
_log = logging.getLogger(__name__)


def export(study: Study, form: Format, out: Path | None = None, license_note: str = "") -> Path:
    """Write the results of a study for elsewhere; return the folder, `out` or results/STUDY/exports/FORMAT.

    `license_note` is the license of the results, an SPDX identifier, a URL or words.
    The folder appears whole or not at all. Raises UsageError if it exists, if inspect_ai is not installed, or if the
    study does not stand by itself; RecordError if the study has no results yet.
    """
    if form == "inspect" and find_spec("inspect_ai") is None:
        raise UsageError(
            "--format inspect needs inspect_ai, which is not installed; run make exports, or: pip install inspect-ai"
        )
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
        _write(study, form, temporary, license_note)
        os.rename(temporary, out)
    except OSError as error:
        raise RecordError(f"{out}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out


def _write(study: Study, form: Format, folder: Path, license_note: str) -> None:
    if form == "inspect":
        from parley.export.inspect_logs import write_logs  # its library may not be installed

        part = played_part(study)  # a log of what is there helps while the rest plays
        if part.shortfall:
            _log.warning("%s: %s", study.name, part.shortfall)
        write_logs(part, folder)
        return
    named = paths.study_command(study.file)
    study = part_of_tables(study)
    for stage, plan in (("figures", study.plan), ("report", planned_report(study))):
        require_done(study.name, stage, plan, f"{stage} {named}")
    records = read_records(usable_part(study))
    write_folder(records, study, license_note, folder)
