"""The real workflow on a study with another name."""

import shutil
from pathlib import Path

import pytest

from parley import paths
from support.workflows import jobs, snakemake

pytestmark = [
    pytest.mark.promise("Another name of a study plays nothing again."),
    pytest.mark.slow,
]

STAGES = {"all": 1, "summarize": 1, "figures": 1, "report": 1, "view": 1, "total": 5}


@pytest.mark.usefixtures("played")
def test_a_study_that_was_renamed_as_the_guide_says_plays_nothing_again() -> None:
    for old, new in (
        (Path("small.yaml"), Path("other.yaml")),
        (paths.results("small"), paths.results("other")),
        (paths.LOGS / "small", paths.LOGS / "other"),
    ):
        old.rename(new)
    shutil.rmtree(paths.table("other", "conditions", ".csv").parent)
    planned = snakemake("--dry-run", "--config", "study=other.yaml")
    assert jobs(planned.stdout + planned.stderr) == STAGES
