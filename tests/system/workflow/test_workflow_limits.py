"""A study larger than what is shown of it: every limit of what is shown is lowered, and a whole run passes it."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from parley import paths
from support.preloaded import preloaded_environment, programs
from support.workflows import CORES, PROFILE, SNAKEMAKE, write

pytestmark = pytest.mark.slow

LOWERED = {
    "parley.report.explorer.selection:MOST": 9,  # simulations in the explorer
    "parley.report.explorer.selection:_PART_BYTES": 20_000,  # of a data file
    "parley.report.explorer.game:_LONGEST": 5,  # characters in a cell
    "parley.report.overview:_MAX_LINES": 1,
    "parley.report.html:MAX_AXES": 1,
    "parley.report.answers:MAX_DIFFERENCES": 1,
    "parley.report.sections:MAX_CONTRASTS": 2,
    "parley.analysis.traces:_ROWS": 40,  # of a piece that is read at once
    "parley.analysis.pairs:MAX_VALUES": 2,
    "parley.figures.trajectories:MAX_PANELS": 1,
    "parley.figures.page:_MOST_TEXT": 2,
    "parley.figures.common:MAX_LINES": 1,
    "parley.figures.map:_ROWS": 2,
    "parley.figures.curves:_MAX_FACED": 1,
    "parley.figures.curves:_MAX_MARKS": 1,
    "parley.figures.curves:_MAX_TICKS": 1,
    "parley.figures.page:MAX_PAGES": 1,
}
PARLEY = """\
#!{python}
from importlib import import_module
for name, value in {lowered}.items():
    module, _, limit = name.partition(":")
    setattr(import_module(module), limit, value)
from parley.cli import main
main()
"""


def run(folder: Path, *arguments: str) -> str:
    """Run the workflow, whose jobs call a `parley` with lower limits."""
    program = folder / "bin" / "parley"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PARLEY.format(python=sys.executable, lowered=LOWERED))
    program.chmod(0o755)
    variables = preloaded_environment()
    variables["PATH"] = os.pathsep.join([str(program.parent), variables["PATH"]])
    command = [str(programs() / "snakemake"), *SNAKEMAKE[3:], *PROFILE, *CORES, *arguments]
    command += ["--config", "study=small.yaml"]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.promise("A study beyond every limit of what is shown runs to its end, and then has nothing to do.")
def test_a_study_beyond_every_limit_runs_to_its_end(folder: Path) -> None:
    grid = {
        **{"model": "majority", "n": [3, 4, 5], "b": [0, 1], "prompt": "may_exist"},
        **{"byzantine": ["random", "opposite"], "vary": {"topology": ["ring", "complete"]}},
    }
    study = write(folder, seeds=2, shard_size=8, grids=[grid], parameters={"max_rounds": 4})
    total = sum(len(condition.seeds) for condition in study.conditions)
    run(folder)
    page = paths.view_page(paths.view("small")).read_text()
    assert f"{total - 9:,} of {total} simulations are left out" in page
    assert "--most N" in page
    assert "Nothing to be done" in run(folder, "--dry-run")


def test_every_limit_that_is_lowered_is_there() -> None:
    for name in LOWERED:
        module, _, limit = name.partition(":")
        assert isinstance(getattr(import_module(module), limit), int)
