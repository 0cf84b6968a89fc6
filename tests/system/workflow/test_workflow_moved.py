"""The real workflow on a study with a new axis, or another name."""

import shutil
from pathlib import Path

import pytest

from parley import paths
from parley.play.record import peek_summary
from support.workflows import jobs, snakemake, write

pytestmark = [
    pytest.mark.promise("A new axis, or another name of a study, plays nothing again."),
    pytest.mark.slow,
]

GRID = {"model": "majority", "n": [3, 4], "b": [0, 1], "prompt": "may_exist"}


def contents(study: str) -> dict[str, bytes]:
    return {
        peek_summary(path).simulation["id"]: path.read_bytes()
        for path in sorted(paths.simulations(study).rglob("*.parquet"))
    }


@pytest.mark.usefixtures("played")
def test_a_new_axis_plays_nothing_again(folder: Path) -> None:
    write(folder, grids=[GRID | {"byzantine": ["random"]}])
    planned = snakemake("--dry-run", "--config", "study=small.yaml")
    found = jobs(planned.stdout + planned.stderr)
    assert found == {"all": 1, "summarize": 1, "figures": 1, "report": 1, "view": 1, "total": 5}


@pytest.mark.usefixtures("played")
def test_a_study_that_was_renamed_as_the_guide_says_plays_nothing_again() -> None:
    records = contents("small")
    for old, new in (
        (Path("small.yaml"), Path("other.yaml")),
        (paths.results("small"), paths.results("other")),
        (paths.logs("small"), paths.logs("other")),
    ):
        old.rename(new)
    shutil.rmtree(paths.table("other", "conditions", ".csv").parent)
    result = snakemake("--config", "study=other.yaml")
    assert result.returncode == 0, result.stderr
    assert "simulate" not in result.stdout + result.stderr
    assert contents("other") == records
    manifest = paths.table("other", "manifest", ".csv").read_text()
    assert "results/other" in manifest
    assert "results/small" not in manifest
