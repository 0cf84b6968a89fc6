"""Tables, figures, explorer and report of a study that is not played to its end, in a folder of their own."""

from pathlib import Path

from parley import paths
from parley.analysis.summarize import summarize
from parley.figures.make import figures
from parley.play.unfinished import unfinished_part
from parley.report.page import report
from parley.report.view.chosen import MOST, chosen
from parley.report.view.folder import write_view
from parley.study import Study


def report_unfinished(study: Study) -> Path:
    """Make all of it from the seeds that are finished, and return the report; what was there of an earlier look goes.

    Nothing that belongs to the finished study is touched. Raises UsageError if the study is finished, RecordError if
    no seed is.
    """
    with unfinished_part(study) as part:
        summarize(part)
        figures(part)
        write_view(chosen(study, {}, MOST, journals=False), paths.view(study.name))
        return report(part)
