"""The real workflow: a report is made again once its model is calibrated, and nothing else is."""

from pathlib import Path

import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.calibration.run import calibrate
from parley.files import mark_done, write_atomically
from parley.games.problems.sources import Arithmetic
from parley.report.explorer.selection import select
from parley.report.explorer.site import write_view
from parley.report.page import report
from parley.study import Study
from support.answering import record_with_model, standing_in
from support.replies import answering
from support.studies import StudyFactory
from support.workflows import jobs, snakemake

pytestmark = [pytest.mark.promise("A new calibration makes the report again, and nothing else."), pytest.mark.slow]


def finish(study: Study) -> None:
    """Bring a study to its end without an engine; its figures are empty."""
    for simulation in study.simulations():
        record_with_model(simulation)
    summarize(study)
    for figure in study.figures:
        for suffix in (".png", ".svg", ".pdf"):
            write_atomically(paths.figure(study.name, figure.name, suffix), lambda file: file.write(b"<svg/>"))
    write_atomically(paths.figure_list(study.name), lambda file: file.write(b"[]"))
    report(study)
    write_view(select(study, {}, 10, journals=False), paths.view(study.name))
    for stage in ("figures", "report", "view"):
        mark_done(study.name, stage, study.plan)


def test_a_new_calibration_makes_the_report_anew(study_factory: StudyFactory, tmp_path: Path) -> None:
    study = study_factory({"model": "tiny", "n": 3}, parameters={"max_rounds": 1})
    finish(study)
    command = ("--config", "study=small.yaml")
    planned = snakemake("--dry-run", *command)
    assert "Nothing to be done" in planned.stdout + planned.stderr
    with standing_in(tmp_path, answering()) as (endpoint, _):
        calibrate("tiny", study.models_file, Arithmetic(), 4, [], endpoint, 5.0)
    planned = snakemake("--dry-run", *command)
    assert jobs(planned.stdout + planned.stderr) == {"report": 1, "all": 1, "total": 2}
    done = snakemake(*command)
    assert done.returncode == 0, done.stderr
    assert "tiny, 4 questions of arithmetic" in paths.report("small").read_text()
    planned = snakemake("--dry-run", *command)
    assert "Nothing to be done" in planned.stdout + planned.stderr
