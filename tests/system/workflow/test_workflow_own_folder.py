"""A study in a folder of its own, with what it names beside it; commands are started elsewhere."""

import os
from contextlib import chdir
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.api import load
from parley.games.registry import game_class
from parley.study.own_prompts import write_templates
from support.commands import Parley, one_line_error
from support.workflows import OWN_CODE, snakemake

GRID = {"n": 3, "prompt": ["may_exist", "mine"]}
STUDY = {
    "game": "consensus",
    "parameters": {"max_rounds": 2},
    "prompts": {"mine": "prompts/mine"},
    "grids": [{"model": ["majority", "mine_agent:Keeps"], **GRID}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study and what it names; the working directory is another one."""
    home = tmp_path / "my studies" / "watched"
    home.mkdir(parents=True)
    (home / "watched.yaml").write_text(yaml.safe_dump(STUDY))
    (home / "mine_agent.py").write_text(OWN_CODE)
    write_templates(game_class("consensus"), "may_exist", home / "prompts/mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return home


@pytest.mark.promise(
    "A study may lie in a folder of its own, with its prompts, policies and problems; its results lie beside it, "
    "wherever a command is started."
)
@pytest.mark.slow
def test_results_lie_beside_the_study_wherever_a_command_is_started(home: Path, parley: Parley) -> None:
    ran = snakemake("--config", f"study={os.path.relpath(home)}/watched.yaml")
    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in Path().iterdir()} <= {".snakemake"}
    with chdir(home):
        assert "Nothing to be done" in snakemake("--dry-run", "--config", "study=watched").stdout
    summarized = parley("summarize", f"{home}/watched.yaml")
    assert "4 simulations in 4 conditions" in summarized.out
    assert len(load(home / "watched.yaml").results().records) == 4
    with chdir(home):
        assert paths.report("watched").exists()
        Path("mine_agent.py").write_text(OWN_CODE.replace("7", "8"))
    planned = parley("expand", f"{home}/watched.yaml", "--paths").out.splitlines()
    assert sorted(Path(record).exists() for record in planned) == [False, False, True, True]  # who changed plays anew


def test_studies_with_results_in_two_places_are_not_read_together(home: Path, parley: Parley) -> None:
    Path("watched.yaml").write_text((home / "watched.yaml").read_text().replace("mine", "none"))
    (Path() / "prompts").symlink_to(home / "prompts")
    error = one_line_error(parley("plan", home / "watched.yaml", "--from", "watched.yaml"), 2)
    assert str(home) in error
