"""The real workflow on a study with a new axis, or another name."""

import shutil
from pathlib import Path

import pytest

from parley import paths
from support.workflows import jobs, snakemake, write

pytestmark = [
    pytest.mark.promise("A new axis, or another name of a study, plays nothing again."),
    pytest.mark.slow,
]

GRID = {"model": "majority", "n": [3, 4], "b": [0, 1], "prompt": "may_exist"}


STAGES = {"all": 1, "summarize": 1, "figures": 1, "report": 1, "view": 1, "total": 5}


@pytest.mark.usefixtures("played")
def test_a_new_axis_plays_nothing_again(folder: Path) -> None:
    write(folder, grids=[GRID | {"byzantine": ["random"]}])
    planned = snakemake("--dry-run", "--config", "study=small.yaml")
    assert jobs(planned.stdout + planned.stderr) == STAGES


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
