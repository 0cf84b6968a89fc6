"""`parley stage`: what a study's stage of DVC depends on and makes."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths, trust
from parley.games.registry import game_class
from parley.study.own_prompts import write_templates
from support import REPOSITORY
from support.commands import Parley, one_line_error
from support.workflows import OWN_CODE

pytestmark = pytest.mark.slow


def stages() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of DVC, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("DVC_GLOBAL_CONFIG_DIR", "DVC_SYSTEM_CONFIG_DIR", "DVC_SITE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / ".dvc" / name))
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], check=True)
    return tmp_path


@pytest.fixture
def checkout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of Parley, as far as it has a stage."""
    monkeypatch.setattr(paths, "CHECKOUT", folder.resolve())
    for name in ("dvc.yaml", ".gitignore"):
        shutil.copy(REPOSITORY / name, name)
    shutil.copytree(REPOSITORY / "config", "config")
    return folder


def test_the_shipped_file_has_the_stage_of_the_demo_alone_as_it_is_written(checkout: Path, parley: Parley) -> None:
    shipped = Path("dvc.yaml").read_text()
    assert list(stages()) == ["demo"]
    assert parley("stage", "demo").status == 0
    assert Path("dvc.yaml").read_text() == shipped


def test_a_stage_is_for_a_cluster_or_goes_when_it_is_asked(checkout: Path, parley: Parley) -> None:
    for name in ("paper", "deliberation"):
        assert parley("stage", name, "--profile", "slurm").status == 0
    assert stages()["paper"]["cmd"] == "parley run paper --profile slurm"
    made = {name: stages()[name]["outs"] for name in stages()}
    assert "results/deliberation/ledger" in made["deliberation"]
    assert "results/paper/ledger" not in made["paper"]
    assert {"results/paper/simulations": {"persist": True}} in made["paper"]
    listed = yaml.safe_load(Path("dvc.yaml").read_text())["params"]  # what `dvc params diff` shows
    assert {f"config/{name}.yaml" for name in ("demo", "models", "paper", "deliberation")} == {*listed}
    for name in ("paper", "deliberation"):
        assert parley("stage", name, "--remove").status == 0
    assert Path("dvc.yaml").read_text() == (REPOSITORY / "dvc.yaml").read_text()  # comments have their place
    assert "'paper'" in one_line_error(parley("stage", "paper", "--remove"), 2)


@pytest.mark.promise("The stage that `parley stage` writes depends on all that a study names of its own.")
def test_a_stage_depends_on_all_that_a_study_names_of_its_own(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_templates(game_class("consensus"), "may_exist", Path("prompts/mine"))
    Path("keeps.py").write_text(OWN_CODE)
    far = tmp_path_factory.mktemp("far")
    (far / "far_agent.py").write_text(OWN_CODE.replace("Keeps", "Far"))
    monkeypatch.syspath_prepend(far)
    monkeypatch.setattr(trust, "_plugins", lambda: {"far_agent:Far"})
    grid = {"model": ["keeps:Keeps", "far_agent:Far"], "n": 3, "prompt": "mine"}
    study = {"game": "consensus", "prompts": {"mine": "prompts/mine"}, "grids": [grid]}
    Path("mine.yaml").write_text(yaml.safe_dump(study))
    ran = parley("stage", "mine")
    assert ran.status == 0, ran.err
    assert stages()["mine"]["deps"] == ["keeps.py", "mine.yaml", "prompts/mine"]
    assert "far_agent.py" in ran.out
    # What a study names later is there when it is called again.
    shutil.copy(REPOSITORY / "config" / "models.yaml", "models.yaml")
    Path("mine.frozen.md").write_text("Frozen.\n")
    grid["model"] = "majority"
    Path("mine.yaml").write_text(yaml.safe_dump(study))
    assert parley("stage", "mine").status == 0
    assert stages()["mine"]["deps"] == ["mine.frozen.md", "mine.yaml", "models.yaml", "prompts/mine"]
    assert yaml.safe_load(Path("dvc.yaml").read_text())["params"] == ["models.yaml", "mine.yaml"]


def test_a_folder_without_dvc_is_told_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parley: Parley
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        yaml.safe_dump({"game": "consensus", "grids": [{"model": "majority", "n": 3, "prompt": "may_exist"}]})
    )
    assert "dvc init" in one_line_error(parley("stage", "mine"), 2)
