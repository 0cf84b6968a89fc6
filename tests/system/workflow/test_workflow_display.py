"""The display of real runs: in a terminal (a pty), in a pipe, with what fails, and from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.answering import SERVED
from support.commands import in_terminal
from support.preloaded import preloaded_environment, programs
from support.workflows import CORES, PROFILE, SNAKEMAKE, snakemake, write

pytestmark = [
    pytest.mark.promise("A run shows a display in a terminal and lines in a pipe, and ends clean."),
    pytest.mark.slow,
]

RUN = ("--config", "study=small.yaml")
STATUS = [sys.executable, "-m", "parley.cli", "status", "small.yaml", "--watch"]
SMALL = {"model": "majority", "n": [3, 4], "prompt": "may_exist"}


def plain(text: str) -> str:
    """Return what was written without colors; where the cursor went back to draw again a line begins."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")


def clean(text: str) -> bool:
    """Whether the cursor can be seen at the end, and the screen is the one that was there before."""
    hidden, seen = text.rfind("\x1b[?25l"), text.rfind("\x1b[?25h")
    return seen >= hidden and "\x1b[?1049" not in text


def test_a_run_in_a_terminal_is_drawn_and_ends_clean(folder: Path) -> None:
    write(folder, grids=[SMALL])
    command = [str(programs() / "snakemake"), *SNAKEMAKE[3:], *PROFILE, *CORES, *RUN]
    status, written = in_terminal(command, preloaded_environment())
    assert status == 0, written
    shown = plain(written)
    assert clean(written)
    assert "Select jobs" not in shown
    last = shown[shown.rfind("small: ") :]
    assert "4 of 4 simulations" in last
    assert "✓ tables   ✓ figures   ✓ report" in last
    for line in shown.split("\n"):
        if "simulations" in line:
            assert len(line) <= 80


def test_a_run_in_a_pipe_has_lines_and_a_watch_from_elsewhere_ends_with_it(folder: Path) -> None:
    question = {"name": "size", "outcome": "valid_consensus", "compare": "n", "smallest": 0.5}
    write(folder, grids=[SMALL], questions=[question])
    watching = subprocess.Popen(STATUS, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    assert watching.stdout.readline() == "small: 0 of 4 simulations, 4 to do; nothing is played now\n"
    result = snakemake(*RUN)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert "\x1b" not in result.stderr
    assert lines[-3].startswith("small: 4 of 4 simulations")
    assert "valid consensus is as often with 4 agents as with 3" in lines[-2]
    assert lines[-1] == "Report: results/small/report/report.html"
    assert "Finished jobid" not in result.stderr
    assert snakemake(*RUN).stderr.splitlines()[-2:] == lines[-2:]  # also where nothing is to do
    out, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert out.splitlines()[-1].startswith("small: 4 of 4 simulations")


def test_ctrl_c_leaves_the_terminal_clean(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    source = {"url": "http://127.0.0.1:9/v1", "served": SERVED}  # nobody listens there
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": {"source": source}}}))
    grid = {"model": "theirs", "n": 3, "prompt": "may_exist"}
    Path("small.yaml").write_text(yaml.safe_dump({"game": "consensus", "seeds": 1, "grids": [grid]}))
    status, written = in_terminal([*SNAKEMAKE, *PROFILE, *CORES, *RUN], interrupt_at="cannot be reached")
    assert status == 1, written
    assert clean(written)
    assert "Traceback" not in written
